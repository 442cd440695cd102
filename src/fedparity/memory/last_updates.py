"""A memory of everybody's last update: the server side of MIFA, FedVARP, FedStale and FedFV.

    y_k <- delta_k for k in S_t;      complete: a stale row y_k, its age = rounds since k last completed one

own = "keep":    a client that is here has a fresh and a stale row            (FedVARP and FedStale need y_k)
own = "replace": its fresh update takes the place of the stale one            (MIFA, Gu et al., NeurIPS 2021; FedFV)
max_age:         older updates are left out (0: nobody's is used), but kept   (FedFV: max_age = tau)
wait:            no step before everybody was seen once, as MIFA's `fdu` does; those rounds count as rounds. (Its code
                 then trains *all* clients on the first model, which cannot be done where clients come and go.)

Rows say what clients' learning rates were multiplied by when they were made. Updates are kept in float32, N x D x 4
bytes, `ram` of them in memory (see `spill`). How much a row counts is the weighting's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Memory
from fedparity.core.spill import GIGABYTE, SpillFile
from fedparity.core.types import NO_FLOATS, NO_IDS, ClientReport, Rows, Vector
from fedparity.memory.stale import Kept, with_stale

NO_ROWS = Rows(NO_IDS, (), NO_IDS, NO_FLOATS, NO_FLOATS, NO_FLOATS)


@dataclass(frozen=True, slots=True)
class LastUpdates(Memory[Kept]):
    """Everybody's last update takes part in the step, as old as it is (MIFA, FedVARP, FedStale)."""

    own: Literal["keep", "replace"] = "keep"
    """Whether a client that is here also has a row for its last update."""
    max_age: int | None = None
    """Rounds after which an update is forgotten; lower keeps only recent ones; none: never."""
    wait: bool = False
    """Whether no step is taken before every client was seen once (MIFA's `fdu`)."""
    ram: int = GIGABYTE
    """Bytes of updates held in memory; the rest lies in temporary files."""
    spill: SpillFile = field(
        default_factory=SpillFile, init=False, repr=False, compare=False, metadata={"settable": False}
    )
    reference: ClassVar[str] = "Gu et al., Fast Federated Learning in the Presence of Arbitrary Device Unavailability"

    def __post_init__(self) -> None:
        if self.max_age is not None:
            checks.at_least("max_age", self.max_age, 0)
        checks.at_least("ram", self.ram, 0)

    def init(self, num_clients: int) -> Kept:
        """Nobody was seen."""
        return Kept.empty(num_clients)

    def complete(self, state: Kept, round: int, rows: Rows, params: Vector, ledger: Ledger) -> tuple[Rows, Kept]:
        """One stale row for each remembered client."""
        state.rate = rows.rate
        if self.wait and len(state.kept.keys() | set(rows.clients.tolist())) < ledger.num_clients:
            return NO_ROWS, state
        clients = np.array(sorted(state.kept), dtype=np.int64)
        ages = round - ledger.last_completed[clients].astype(np.int64)
        used = np.ones(len(clients), dtype=np.bool_) if self.max_age is None else ages <= self.max_age
        if self.own == "replace":
            used &= ~np.isin(clients, rows.clients)
        chosen = clients[used]
        return with_stale(
            rows, state, chosen, [state.kept[k] for k in chosen.tolist()], ages[used], state.rates[chosen]
        ), state

    def remember(self, state: Kept, reports: Sequence[ClientReport]) -> Kept:
        """Keep this round's updates in place of earlier ones."""
        made = [(r.client, r.delta) for r in reports if r.delta is not None]
        for report in reports:
            state.sizes[report.client] = report.num_samples
            state.losses[report.client] = report.loss_before
            state.rates[report.client] = state.rate
        self.spill.replace(state.kept, made, self.ram)
        return state
