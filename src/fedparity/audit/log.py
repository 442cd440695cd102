"""A participation log: who was there, who was asked, what came of it, round by round, whatever system wrote it.

Clients are numbered by what happened to them, not by their names: a fingerprint of each client's rows gives the order.
So a log that is shuffled or whose clients are renamed has the same numbers everywhere, random ones included.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedparity.audit.fields import FLAGS, NUMBERS
from fedparity.audit.rows import Rows, numbers_of
from fedparity.core.errors import InputError
from fedparity.core.ledger import NEVER, Ledger
from fedparity.core.trace import Trace
from fedparity.core.types import NO_FLOATS, BoolArray, FloatArray, Ids

MOST_ROUNDS = 1_000_000
JUMP = 20
"""A step of the clock this many times the usual one is a jump."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a log: what, how often, and what was done about it."""

    what: str
    count: int
    says: str


@dataclass(frozen=True, slots=True)
class Origin:
    """A file that an audit rests on: its name without folders, its digest, and what it is."""

    name: str
    sha256: str
    role: Literal["log", "clients", "online"] = "log"


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """What a log says, by client number and round number (from 0)."""

    names: tuple[str, ...]
    first: int
    """What the first round is called outside."""
    online: Trace | None
    """Who was there; None: not known."""
    asked: Trace
    ledger: Ledger
    cohort: int
    """Slots per round (m)."""
    slots: int
    """The most that a round used: at least m."""
    groups: tuple[str | None, ...] | None = None
    """Of each client, None: not said; None: the log knows no groups."""
    influence: FloatArray = field(default_factory=lambda: NO_FLOATS)
    accuracy: FloatArray = field(default_factory=lambda: NO_FLOATS)
    """Last known one of each client; empty: not known."""
    known: frozenset[str] = frozenset()
    """Fields that the log has."""
    findings: tuple[Finding, ...] = ()
    assumptions: tuple[str, ...] = ()
    sources: tuple[Origin, ...] = ()
    key: int = 0
    """Start of random numbers: the same for the same log, whatever its order and names."""
    period: tuple[float, float] | None = None
    """First and last time, in seconds."""

    @property
    def num_clients(self) -> int:
        """Registered clients (N)."""
        return len(self.names)

    @property
    def num_rounds(self) -> int:
        """Rounds covered (T)."""
        return self.asked.num_rounds


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """One entry per round and client, by round, then client."""

    round: NDArray[np.int64]
    client: NDArray[np.int64]
    flags: Mapping[str, BoolArray]
    numbers: Mapping[str, FloatArray]


def build_log(
    rows: Rows,
    *,
    sources: Sequence[Origin] = (),
    there: Rows | None = None,
    register: Rows | None = None,
    cohort: int | None = None,
    span: tuple[int, int] | None = None,
) -> Log:
    """A log from its rows; `there` says who was online, `register` who is registered (and in which group)."""
    names = tuple(sorted({*rows.names, *(there.names if there else ()), *(register.names if register else ())}))
    first, last = _span(rows, there, span)
    notes = list(rows.notes)
    findings: list[Finding] = []
    entries = _entries(rows, there, names, first, (notes, findings))
    groups = _groups(rows, register, names)
    order, key = _order(entries, len(names), groups)
    place = np.empty(len(names), np.int64)
    place[order] = np.arange(len(names))
    entries = _renumbered(entries, place, len(names))
    names = tuple(names[k] for k in order.tolist())
    total = last - first + 1
    asked = _trace(entries, entries.flags["selected"], len(names), total)
    online = _trace(entries, entries.flags["available"], len(names), total) if "available" in entries.flags else None
    most = int(asked.sizes().max())
    if not most:
        raise InputError(f"{rows.name}: nobody was ever asked; say who was: a column selected")
    if cohort is None:
        notes.append(f"slots per round are not in the log: {most}, the most that any round asked, is taken (--cohort)")
    elif cohort < most:
        notes.append(
            f"{cohort} slots per round as given (--cohort), though up to {most} clients were asked; gap and"
            " fill are per slot, so that fill can exceed 100 %"
        )
    if register is None and not rows.matrix:
        notes.append("registered are the clients that the log names; those it never names are not counted (--clients)")
    _missing_rounds(entries, total, first, findings, notes)
    times, period = _times(rows, first, last)
    _clock(times, first, findings)
    said = {name for name in FLAGS if name in rows.columns} | ({"available"} if online is not None else set())
    said |= {name for name in NUMBERS if numbers_of(rows, name) is not None} | ({"group"} if groups else set())
    return Log(
        names=names,
        first=first,
        online=online,
        asked=asked,
        ledger=_ledger(entries, len(names), total, online is not None),
        cohort=most if cohort is None else cohort,
        slots=most if cohort is None else max(cohort, most),
        groups=None if groups is None else tuple(groups[k] for k in order.tolist()),
        influence=_influence(entries, len(names), total),
        accuracy=_last(entries, "accuracy", len(names)),
        known=frozenset(said | ({"time"} if period else set())),
        findings=tuple(findings),
        assumptions=tuple(notes),
        sources=tuple(sources),
        key=key,
        period=period,
    )


def _span(rows: Rows, there: Rows | None, given: tuple[int, int] | None) -> tuple[int, int]:
    both = [rows.round, *([there.round] if there is not None else [])]
    first, last = min(int(r.min()) for r in both), max(int(r.max()) for r in both)
    if given is not None:
        if given[0] > first or given[1] < last:
            raise InputError(
                f"{rows.name}: has rounds {first} to {last}, outside --rounds {given[0]}-{given[1]}; widen it"
            )
        first, last = given
    if last - first >= MOST_ROUNDS:
        raise InputError(
            f"{rows.name}: rounds run from {first} to {last}, more than {MOST_ROUNDS}; number them 0, 1, 2, ... "
            "(is that column a time?)"
        )
    return first, last


def _entries(
    rows: Rows, there: Rows | None, names: tuple[str, ...], first: int, said: tuple[list[str], list[Finding]]
) -> _Entries:
    """Rows with the flags that they imply, those of one client and round made one."""
    notes, findings = said
    flags = _asked(rows, notes, findings)
    if "completed" not in flags and "failed" in flags:
        flags["completed"] = flags["selected"] & ~flags["failed"]
        notes.append("whoever was asked and did not fail is taken as used")
    if "available" not in flags and there is None and not flags["selected"].all() and not rows.matrix:
        flags["available"] = np.ones(len(rows.round), np.bool_)
        notes.append("no column says who was online: a row is taken as: this client was there in this round")
    index = {name: i for i, name in enumerate(names)}
    client = np.array([index[name] for name in rows.names], np.int64)[rows.client]
    numbers = {name: column for name in NUMBERS if (column := numbers_of(rows, name)) is not None}
    entries = _merged(_Entries(rows.round - first, client, flags, numbers), len(names), findings)
    entries = entries if there is None else _with_presence(entries, there, index, first)
    return _present_when_asked(entries, findings)


def _asked(rows: Rows, notes: list[str], findings: list[Finding]) -> dict[str, BoolArray]:
    """The flags of a log, with who was asked: as it says, or as its other columns imply."""
    flags = {name: rows.columns[name] == 1 for name in FLAGS if name in rows.columns}
    results = [flags[name] for name in ("completed", "failed") if name in flags]
    if "selected" in flags:
        late = np.logical_or.reduce([*results, np.zeros(len(rows.round), np.bool_)]) & ~flags["selected"]
        if late.any():
            findings.append(Finding("results of clients not asked", int(late.sum()), "counted as asked"))
            flags["selected"] = flags["selected"] | late
    elif len(results) == 2 or ("completed" in flags and "available" in flags):
        flags["selected"] = np.logical_or.reduce(results)
        notes.append("no column says who was asked: those with a result or a failure were")
    elif "available" in flags:
        raise InputError(f"{rows.name}: says who was online but not who was asked; add a column selected (1 or 0)")
    else:
        flags["selected"] = np.ones(len(rows.round), np.bool_)
        notes.append("a row is taken as: this client was asked in this round")
    unsaid = int((rows.columns["available"] == -1).sum()) if "available" in rows.columns and not rows.matrix else 0
    if unsaid:
        findings.append(Finding("cells that do not say whether a client was online", unsaid, "counted as offline"))
    return flags


def _present_when_asked(entries: _Entries, findings: list[Finding]) -> _Entries:
    """Whoever was asked was there: nobody else can be."""
    if "available" not in entries.flags:
        return entries
    absent = entries.flags["selected"] & ~entries.flags["available"]
    if not absent.any():
        return entries
    says = "counted as online: nobody can be asked who is not there"
    findings.append(Finding("asked while offline", int(absent.sum()), says))
    flags = {**entries.flags, "available": entries.flags["available"] | absent}
    return _Entries(entries.round, entries.client, flags, entries.numbers)


def _with_presence(entries: _Entries, there: Rows, index: Mapping[str, int], first: int) -> _Entries:
    """The same with who was online from a table of its own."""
    flag = there.columns.get("available")
    known = np.ones(len(there.round), np.bool_) if flag is None else flag == 1
    seen = np.array([index[name] for name in there.names], np.int64)[there.client][known]
    client = np.concatenate([entries.client, seen])
    round = np.concatenate([entries.round, there.round[known] - first])
    pad = len(seen)
    flags = {name: np.concatenate([column, np.zeros(pad, np.bool_)]) for name, column in entries.flags.items()}
    flags["available"] = np.concatenate([np.zeros(len(entries.client), np.bool_), np.ones(pad, np.bool_)])
    numbers = {name: np.concatenate([column, np.full(pad, np.nan)]) for name, column in entries.numbers.items()}
    return _merged(_Entries(round, client, flags, numbers), len(index), [])


def _merged(entries: _Entries, clients: int, findings: list[Finding]) -> _Entries:
    """Sorted by round and client, each pair once: flags are joined by or, of numbers the largest counts."""
    keys = entries.round * clients + entries.client
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.append(True, np.diff(keys) > 0)) if len(keys) else np.empty(0, np.int64)
    flags = {name: column[order] for name, column in entries.flags.items()}
    numbers = {name: column[order] for name, column in entries.numbers.items()}
    again = len(keys) - len(starts)
    if again:
        says = "joined: a flag counts if any of them has it, of numbers the largest does"
        findings.append(Finding("rows of the same client and round", again, says))
        flags = {name: np.logical_or.reduceat(column, starts) for name, column in flags.items()}
        numbers = {name: np.fmax.reduceat(column, starts) for name, column in numbers.items()}
        keys = keys[starts]
    return _Entries(keys // clients, keys % clients, flags, numbers)


def _groups(rows: Rows, register: Rows | None, names: tuple[str, ...]) -> list[str | None] | None:
    """The group of each client: that of the register, else the one its rows name."""
    found = {**rows.groups, **(register.groups if register else {})}
    return [found.get(name) for name in names] if found else None


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers spread over 64 bits (the finaliser of SplitMix64)."""
    x = values + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _order(entries: _Entries, clients: int, groups: list[str | None] | None) -> tuple[Ids, int]:
    """Clients by what happened to them, and one number that stands for all of it."""
    print_ = _mixed(entries.round.astype(np.uint64))
    for number, name in enumerate(FLAGS):
        if name in entries.flags:
            print_ = _mixed(print_ ^ (entries.flags[name].astype(np.uint64) << np.uint64(number)))
    for name in NUMBERS:
        if name in entries.numbers:
            print_ = _mixed(print_ ^ np.ascontiguousarray(entries.numbers[name] + 0.0).view(np.uint64))
    whole = np.zeros(clients, np.uint64)
    says = np.logical_or.reduce(list(entries.flags.values()))  # a row for an absent client is as good as none
    np.add.at(whole, entries.client[says], print_[says])  # wraps around, and does not depend on the order of rows
    if groups is not None:
        text = [int.from_bytes(hashlib.sha256((group or "").encode()).digest()[:8], "little") for group in groups]
        whole = _mixed(whole ^ np.array(text, np.uint64))
    order = np.argsort(whole, kind="stable").astype(np.int64)
    return order, int(_mixed(whole).sum(dtype=np.uint64) >> np.uint64(1))


def _renumbered(entries: _Entries, place: Ids, clients: int) -> _Entries:
    return _merged(_Entries(entries.round, place[entries.client], entries.flags, entries.numbers), clients, [])


def _trace(entries: _Entries, mask: BoolArray, clients: int, total: int) -> Trace:
    starts = np.searchsorted(entries.round[mask], np.arange(total + 1))
    return Trace(clients, starts.astype(np.int64), entries.client[mask].astype(np.int32))


def _ledger(entries: _Entries, clients: int, total: int, online_known: bool) -> Ledger:  # noqa: FBT001
    ledger = Ledger.empty(clients)
    selected = entries.flags["selected"]
    completed = entries.flags.get("completed", selected)
    there = entries.flags["available"] if online_known else selected
    for name, mask in (("online", there), ("selected", selected), ("completed", completed)):
        who, when = entries.client[mask], entries.round[mask]
        getattr(ledger, name)[:] = np.bincount(who, minlength=clients)
        last = np.full(clients, NEVER)
        np.maximum.at(last, who, when)
        getattr(ledger, f"last_{name}")[:] = last
    if "failed" in entries.flags:
        ledger.failed[:] = np.bincount(entries.client[entries.flags["failed"]], minlength=clients)
    if "utility" in entries.numbers:  # in the order of rounds, as a ledger adds them
        worth = np.nan_to_num(entries.numbers["utility"])
        ledger.utility[:] = np.bincount(entries.client, weights=worth, minlength=clients)
    loss = _last(entries, "loss", clients)
    if len(loss):
        ledger.loss[:] = loss
    ledger.rounds = total
    return ledger


def _last(entries: _Entries, name: str, clients: int) -> FloatArray:
    """The last known number of each client; empty if the log has none."""
    column = entries.numbers.get(name)
    if column is None:
        return NO_FLOATS
    known = np.isfinite(column)
    found = np.full(clients, np.nan)
    found[entries.client[known]] = column[known]  # by round: the last one stays
    return found


def _influence(entries: _Entries, clients: int, total: int) -> FloatArray:
    """Each client's share of a round's weights, summed over rounds (`metrics.influence`)."""
    column = entries.numbers.get("weight")
    if column is None:
        return NO_FLOATS
    size = np.abs(np.nan_to_num(column))
    sums = np.bincount(entries.round, weights=size, minlength=total)[entries.round]
    share = np.divide(size, sums, out=np.zeros(len(size)), where=sums > 0)
    return np.bincount(entries.client, weights=share, minlength=clients).astype(np.float64)


def _missing_rounds(entries: _Entries, total: int, first: int, findings: list[Finding], notes: list[str]) -> None:
    seen = np.bincount(entries.round, minlength=total) > 0
    gone = np.flatnonzero(~seen)
    if len(gone):
        where = f"the first is {first + int(gone[0])}"
        findings.append(
            Finding("rounds without a row", len(gone), f"{where}; counted as rounds in which nobody was asked")
        )
        notes.append("rounds without a row count as rounds in which nobody was there")


def _times(rows: Rows, first: int, last: int) -> tuple[FloatArray, tuple[float, float] | None]:
    """When each round began (NaN: not said), and the first and last time of all."""
    column = numbers_of(rows, "time")
    if column is None:
        return NO_FLOATS, None
    known = np.isfinite(column)
    starts = np.full(last - first + 1, np.inf)
    np.minimum.at(starts, rows.round[known] - first, column[known])
    return np.where(np.isfinite(starts), starts, np.nan), (float(column[known].min()), float(column[known].max()))


def _clock(times: FloatArray, first: int, findings: list[Finding]) -> None:
    at = np.flatnonzero(np.isfinite(times))
    if len(at) < 3:
        return
    step = np.diff(times[at]) / np.diff(at)
    back, usual = step < 0, float(np.median(np.abs(step)))
    if back.any():
        where = first + int(at[int(np.argmax(back)) + 1])
        findings.append(
            Finding("clock runs backwards", int(back.sum()), f"first at round {where}; rounds keep their numbers")
        )
    far = step > JUMP * usual if usual > 0 else np.zeros(len(step), np.bool_)
    if far.any():
        where = first + int(at[int(np.argmax(far)) + 1])
        says = f"more than {JUMP} times the usual step, first at round {where}"
        findings.append(Finding("clock jumps ahead", int(far.sum()), says))
