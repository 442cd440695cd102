"""FedAWE's start points (Xiang et al., NeurIPS 2024): how far the model has moved since each participant received it.

    complete: for each k in S_t a row x_k - w,    x_k = the last model that k received

With local rule `received` a client trains from x_k, and its update is relative to w as everybody's is; weighting
`fedawe` needs the difference. A round's model is sent back to those that took part in it, so x_k = w if k was here in
the round before (no row: it would be zero). A client that was never here starts from the first model of the run, as in
the paper. Participants of one round share one vector; models beyond `ram` bytes lie in temporary files (see `spill`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.marks import CLIENT_NUMBERS
from fedparity.core.protocols import Memory
from fedparity.core.spill import GIGABYTE, SpillFile
from fedparity.core.types import ClientReport, Ids, Rows, Vector
from fedparity.memory.stale import NOBODY, Kept, with_stale


@dataclass(slots=True)
class Models:
    """The model that each client last received, and who is to get the model that this round ends with."""

    received: Kept
    waiting: Ids | None = field(default=None, metadata=CLIENT_NUMBERS)


@dataclass(frozen=True, slots=True)
class Echo(Memory[Models]):
    """Rows that say how far the model has moved since each participant last received it (FedAWE)."""

    ram: int = GIGABYTE
    """Bytes of models held in memory; the rest lies in temporary files."""
    spill: SpillFile = field(
        default_factory=SpillFile, init=False, repr=False, compare=False, metadata={"settable": False}
    )
    goes_with: ClassVar[Mapping[str, str]] = {"weighting": "fedawe", "local": "received"}
    reference: ClassVar[str] = "Xiang et al., Efficient Federated Learning against Heterogeneous Client Unavailability"

    def __post_init__(self) -> None:
        checks.at_least("ram", self.ram, 0)

    def init(self, num_clients: int) -> Models:
        """Nobody received a model."""
        return Models(Kept.empty(num_clients))

    def complete(self, state: Models, round: int, rows: Rows, params: Vector, ledger: Ledger) -> tuple[Rows, Models]:
        """A row x_k - w for each participant that was not here in the round before."""
        models = state.received.kept
        models.setdefault(NOBODY, params)  # what everybody starts from
        if state.waiting is not None:  # what the round before ended with is what this one starts from
            for client in state.waiting.tolist():
                models.pop(client, None)
                models[client] = params
            state.waiting = None
            self.spill.settle(models, self.ram)
        ages = round - ledger.last_completed[rows.clients].astype(np.int64)
        back = ages > 1
        clients = rows.clients[back]
        moved = [models.get(k, models[NOBODY]) - params for k in clients.tolist()]
        return with_stale(rows, state.received, clients, moved, ages[back]), state

    def remember(self, state: Models, reports: Sequence[ClientReport]) -> Models:
        """These get the model that the round ended with, which the next one starts from."""
        for report in reports:
            state.received.sizes[report.client] = report.num_samples
        clients = sorted(r.client for r in reports if r.delta is not None)
        state.waiting = np.array(clients, dtype=np.int64) if clients else state.waiting
        return state
