"""What each client got so far, as the server saw it: one column per fact, one row per client.

The ledger is a function of the journal: `Ledger.replay(records)` rebuilds it exactly. `record` updates it in place,
since a copy of a million rows per round would cost more than the round; take `copy()` to keep one. A client costs 60
bytes.

The population may be open: `grown` makes room for clients that registered since, and `since` says when. Before that a
client is absent: it is online in no round, so limits give it none and what is counted per round online does not change.
What is counted per round of the run is counted per round since it registered (`stayed`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.marks import PER_CLIENT
from fedparity.core.types import NO_FLOATS, BoolArray, FloatArray, RoundRecord

A = TypeVar("A", bound=np.generic)
Normaliser: TypeAlias = Literal["availability", "participation", "imputed"]
"""What cumulative utility is compared by: u/pi, u/S, or u with what surrogates credited, undivided."""

NEVER = -1
"""In a `last_*` column: it has not happened."""


FLOATS = ("utility", "surrogate_utility", "loss", "seconds")
COUNTS = ("online", "selected", "completed", "failed", "last_online", "last_selected", "last_completed")
TYPES: dict[str, type] = dict.fromkeys(FLOATS, np.float64) | dict.fromkeys((*COUNTS, "since", "late"), np.int32)
"""What each column holds."""


@dataclass(slots=True)
class Ledger:
    """Per-client columns; `rounds` is how many rounds are recorded."""

    rounds: int
    online: NDArray[np.int32] = field(metadata=PER_CLIENT)
    selected: NDArray[np.int32] = field(metadata=PER_CLIENT)
    completed: NDArray[np.int32] = field(metadata=PER_CLIENT)
    failed: NDArray[np.int32] = field(metadata=PER_CLIENT)
    utility: FloatArray = field(metadata=PER_CLIENT)
    surrogate_utility: FloatArray = field(metadata=PER_CLIENT)
    last_online: NDArray[np.int32] = field(metadata=PER_CLIENT)
    last_selected: NDArray[np.int32] = field(metadata=PER_CLIENT)
    last_completed: NDArray[np.int32] = field(metadata=PER_CLIENT)
    loss: FloatArray = field(metadata=PER_CLIENT)
    """Last known loss on the client's own data, as the utility rule defines it; NaN before the first credit."""
    seconds: FloatArray = field(default_factory=lambda: NO_FLOATS, metadata=PER_CLIENT)
    """What completed work took in all, as far as clients said so."""
    since: NDArray[np.int32] | None = field(default=None, metadata=PER_CLIENT)
    """The round before which each client registered; None: everybody was there from the start."""
    late: NDArray[np.int32] | None = field(default=None, metadata=PER_CLIENT)
    """Updates of each client that came after their round's end and were used in a later one; None: there were none."""

    def __post_init__(self) -> None:
        if not len(self.seconds):  # a state that was saved before there was this column
            self.seconds = np.zeros(len(self.online))

    @classmethod
    def empty(cls, num_clients: int) -> Ledger:
        """Nobody has got anything yet."""
        checks.at_least("clients", num_clients, 1)
        columns: dict[str, Any] = {
            **{name: np.zeros(num_clients, np.int32) for name in ("online", "selected", "completed", "failed")},
            **{name: np.zeros(num_clients) for name in ("utility", "surrogate_utility")},
            **{f"last_{name}": np.full(num_clients, NEVER, np.int32) for name in ("online", "selected", "completed")},
            "loss": np.full(num_clients, np.nan),
        }
        return cls(rounds=0, **columns)

    @classmethod
    def replay(cls, num_clients: int, records: Iterable[RoundRecord]) -> Ledger:
        """The ledger that these records lead to; `num_clients` is how many there were at the start, or at the end."""
        ledger = cls.empty(num_clients)
        checks.instance("records", records, Iterable, "a MethodRun's records, or Journal.records(METHOD)")
        for record in records:
            checks.instance(f"record {ledger.rounds}", record, RoundRecord, "a MethodRun's records are")
            ledger = ledger.then(record)
        return ledger

    def then(self, record: RoundRecord) -> Ledger:
        """The ledger after one more round, clients that registered for it among its rows; this one is used up."""
        if record.totals:
            return self._of_totals(record)
        ledger = self
        if len(record.joined):
            ledger = ledger.grown(int(record.joined[-1]) + 1)
            ledger.since = np.zeros(ledger.num_clients, np.int32) if ledger.since is None else ledger.since
            ledger.since[record.joined] = record.round
        ledger.record(record)
        return ledger

    def totals(self) -> dict[str, list[Any]]:
        """Its columns as a journal line has them (`RoundRecord.totals`); NaN as None."""
        return {
            name: [None if value != value else value for value in column.tolist()]  # noqa: PLR0124 - NaN
            for name, column in self._columns().items()
        }

    @classmethod
    def _of_totals(cls, record: RoundRecord) -> Ledger:
        given = record.totals or {}
        return cls(record.round + 1, **{name: np.array(given[name], TYPES[name]) for name in TYPES if name in given})

    @property
    def num_clients(self) -> int:
        """How many clients are registered."""
        return len(self.online)

    @property
    def nbytes(self) -> int:
        """Memory held by the columns."""
        return sum(column.nbytes for column in self._columns().values())

    def _columns(self) -> dict[str, Any]:
        found = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "rounds"}
        return {name: column for name, column in found.items() if column is not None}

    def grown(self, num_clients: int) -> Ledger:
        """The same with clients added that register now; itself, if there are as many already."""
        if num_clients <= self.num_clients:
            return self
        new = replace(
            Ledger.empty(num_clients),
            rounds=self.rounds,
            since=np.full(num_clients, self.rounds, np.int32),
            late=None if self.late is None else np.zeros(num_clients, np.int32),
        )
        for name, column in ({"since": np.zeros(self.num_clients, np.int32)} | self._columns()).items():
            getattr(new, name)[: self.num_clients] = column
        return new

    def copy(self) -> Ledger:
        """An independent snapshot."""
        return Ledger(self.rounds, **{name: column.copy() for name, column in self._columns().items()})

    def read_only(self) -> Ledger:
        """The same columns, for eyes only."""
        return Ledger(self.rounds, **{name: read_only(column) for name, column in self._columns().items()})

    def __repr__(self) -> str:
        return f"Ledger({self.num_clients} clients, {self.rounds} rounds)"

    def __eq__(self, other: object) -> bool:
        """Equal in every bit of every column (NaN equals NaN)."""
        if not isinstance(other, Ledger):
            return NotImplemented
        mine, theirs = self._columns(), other._columns()
        same = self.rounds == other.rounds and mine.keys() == theirs.keys()
        return same and all(mine[c].tobytes() == theirs[c].tobytes() for c in mine)

    __hash__ = None  # type: ignore[assignment]

    def record(self, record: RoundRecord) -> None:
        """Add one round."""
        for there in (record.available, record.busy):
            self.online[there] += 1
            self.last_online[there] = record.round
        self.selected[record.selected] += 1
        self.last_selected[record.selected] = record.round
        self.completed[record.completed] += 1
        self.last_completed[record.completed] = record.round
        self.utility[record.completed] += record.utility
        self.utility[record.others.clients] += record.others.utility
        self.loss[record.completed] = record.loss
        if len(record.duration):
            self.seconds[record.completed] += np.nan_to_num(record.duration)
        for client, _ in record.failed:
            self.failed[client] += 1
        self.surrogate_utility[record.surrogate.clients] += record.surrogate.utility
        if len(record.late.clients):
            self.late = np.zeros(self.num_clients, np.int32) if self.late is None else self.late
            self.late[record.late.clients] += 1
            self.utility[record.late.clients] += record.late.utility
            self.loss[record.late.clients] = record.late.loss
        self.rounds += 1

    def seen(self) -> BoolArray:
        """Which clients were online at least once."""
        return self.online > 0

    def stayed(self) -> NDArray[np.int64]:
        """Rounds since each client registered, at least 1."""
        since = np.zeros(self.num_clients, np.int64) if self.since is None else self.since.astype(np.int64)
        return np.maximum(self.rounds - since, 1)

    def normalised_utility(self, by: Normaliser = "availability", *, with_surrogates: bool = False) -> FloatArray:
        """Utility of the clients where it is defined: online (or, by participation, selected) at least once.

        availability: u T / online;  participation: u T / selected;  imputed: u + what surrogates credited, for with
        them everybody had T opportunities, real or imputed; who registered later had fewer: per round, times T.
        """
        checks.one_of("by", by, get_args(Normaliser))
        count = self.selected if by == "participation" else self.online
        defined = count > 0
        utility = self.utility + self.surrogate_utility if with_surrogates or by == "imputed" else self.utility
        if by == "imputed":
            share = 1.0 if self.since is None else self.rounds / self.stayed()[defined]
            return np.asarray(utility[defined] * share, dtype=np.float64)
        return np.asarray(utility[defined] * self.rounds / count[defined], dtype=np.float64)

    def fairness_variance(self, by: Normaliser = "availability", *, with_surrogates: bool = False) -> float:
        """V_T, the variance of normalised utility across clients; NaN before anybody was seen."""
        values = self.normalised_utility(by, with_surrogates=with_surrogates)
        return float(values.var()) if len(values) else float("nan")


def read_only(array: NDArray[A]) -> NDArray[A]:
    """The same numbers, which cannot be written through what is returned."""
    view = array.view()
    view.flags.writeable = False
    return view
