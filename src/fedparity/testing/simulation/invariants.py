"""What must be true after every step, whatever the world did: held against books of its own, not the coordinator's."""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedparity.core.coordinator import Coordinator
from fedparity.core.errors import FedparityError
from fedparity.core.journal import GENESIS, to_json
from fedparity.core.ledger import Ledger
from fedparity.core.state import State
from fedparity.core.types import Ids, RoundRecord, Vector

LINE = 3000
PER_CLIENT = 200
"""Bytes that a journal line may take, and those for each client."""


class BrokenInvariantError(FedparityError):
    """A simulated system did what none may do; its seed does it again."""


def hold(what: str, *, holds: bool) -> None:
    """Refuse to go on if something is not so."""
    if not holds:
        raise BrokenInvariantError(what)


@dataclass(slots=True)
class Books:
    """What the world knows of the rounds that are safe."""

    most: int
    quota: tuple[int, int] | None
    """Most selections of a client in how many rounds, where the scheduler promises that."""
    chain: str = GENESIS
    rounds: int = 0
    counted: set[tuple[int, int]] = field(default_factory=set)
    """Whose answer to which round was used."""
    recent: deque[Ids] = field(default_factory=deque)
    columns: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = ("online", "selected", "completed", "failed", "late")
        self.columns = {name: np.zeros(self.most, np.int64) for name in names}

    def enter(self, record: RoundRecord) -> None:
        """A round is safe: check it against all before it, and write it down."""
        line = to_json(record).encode()
        size = LINE + PER_CLIENT * len(record.available) + PER_CLIENT * len(record.row_clients)
        hold(f"a journal line has {len(line)} bytes", holds=len(line) <= size)
        self.chain = hashlib.sha256((self.chain + hashlib.sha256(line).hexdigest()).encode()).hexdigest()
        hold(f"round {record.round} follows round {self.rounds - 1}", holds=record.round == self.rounds)
        self.rounds += 1
        answers = [(client, record.round) for client in record.completed.tolist()]
        answers += [*zip(record.late.clients.tolist(), record.late.origins.tolist(), strict=True)]
        hold("an answer counted twice", holds=len({*answers}) == len(answers) and not self.counted & {*answers})
        self.counted |= {*answers}
        for name, clients in (
            ("online", record.available),
            ("selected", record.selected),
            ("completed", record.completed),
            ("failed", np.array([client for client, _ in record.failed], np.int64)),
            ("late", record.late.clients),
        ):
            np.add.at(self.columns[name], clients, 1)
        self._check_quota(record.selected)

    def _check_quota(self, selected: Ids) -> None:
        if self.quota is None:
            return
        most, window = self.quota
        self.recent.append(selected)
        if len(self.recent) > window:
            self.recent.popleft()
        times = np.bincount(np.concatenate([*self.recent]), minlength=1)
        hold(f"a client has {times.max()} slots of {window} rounds; its quota is {most}", holds=times.max() <= most)

    def forget(self, client: int) -> None:
        """The client was erased."""
        for column in self.columns.values():
            column[client] = 0

    def check_ledger(self, ledger: Ledger) -> None:
        """The ledger says what happened, and nothing else."""
        hold("the ledger has another number of rounds", holds=ledger.rounds == self.rounds)
        for name, column in self.columns.items():
            found = getattr(ledger, name)
            found = np.zeros(ledger.num_clients) if found is None else found
            hold(f"the ledger's column {name!r}", holds=np.array_equal(found, column[: ledger.num_clients]))
            hold("a client that is not registered", holds=not column[ledger.num_clients :].any())
        hold("utility is finite", holds=bool(np.isfinite(ledger.utility).all()))


def check_round(  # noqa: PLR0917 - one caller
    coordinator: Coordinator,
    before: Vector,
    state: State,
    record: RoundRecord,
    available: Ids,
    sent: Mapping[tuple[int, int], list[Vector]],
) -> None:
    """What one round may do, given who was there and what was sent."""
    asked = {*record.selected.tolist()}
    hold("somebody was asked who was not there", holds=asked <= {*available.tolist()})
    over = 1.0 if coordinator.over_select == "observed" else coordinator.over_select
    slots = coordinator.cohort + math.ceil(coordinator.cohort * over)
    hold(f"{len(record.selected)} slots, but there are {slots}", holds=len(record.selected) == len(asked) <= slots)
    done, failed = {*record.completed.tolist()}, [client for client, _ in record.failed]
    hold("an asked client neither answered nor failed", holds=done.isdisjoint(failed) or record.abandoned)
    hold("an asked client is missing", holds=(done | {*failed} == asked) or record.abandoned)
    hold("somebody answered who was not asked", holds=done <= asked)
    rows = [*zip(record.row_clients.tolist(), record.row_ages.tolist(), record.row_weights.tolist(), strict=True)]
    for client, age, weight in rows:
        hold("a row of nobody's update", holds=(client, record.round - age) in sent)
        hold("an update older than allowed", holds=age <= coordinator.gate.max_age)
        cap = math.inf if coordinator.gate.max_weight is None else coordinator.gate.max_weight / coordinator.cohort
        hold(f"a weight of {weight}, above its cap {cap}", holds=abs(weight) <= cap * (1 + 1e-12))
    hold("the model is finite", holds=bool(np.isfinite(state.params).all()))
    digest = hashlib.sha256(state.params.tobytes()).hexdigest()
    hold("the record names another model", holds=record.model_sha256 == digest)
    _check_step(before, state.params, rows, record, sent)


def _check_step(
    before: Vector,
    after: Vector,
    rows: list[tuple[int, int, float]],
    record: RoundRecord,
    sent: Mapping[tuple[int, int], list[Vector]],
) -> None:
    """The model moved along the weighted updates that were sent, computed again here; a client may have sent two."""
    if record.abandoned:
        hold("an abandoned round moved the model", holds=before.tobytes() == after.tobytes())
        return
    known = [(weight, sent[client, record.round - age]) for client, age, weight in rows]
    if any(len(updates) > 1 for _, updates in known):
        return  # which of two was used late is the network's choice
    step = sum((weight * updates[0] for weight, updates in known), np.zeros_like(before))
    close = np.allclose(before + step, after, rtol=1e-9, atol=1e-9 * (1 + float(np.abs(step).max(initial=0.0))))
    hold("the model is not where the updates led it", holds=bool(close))
