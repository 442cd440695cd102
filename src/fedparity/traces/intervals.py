"""When each device was there: names, spans and disjoint intervals in seconds, and their replay as rounds.

A replay puts round r at min(first_seen) + start + r round_seconds; each device loops over its own
first_seen..last_seen, so a span of whole days keeps the time of day. Files are read by `plain` (our own), `flash`,
`fedscale` and `tables`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedparity.core.checks import at_least, is_encodable, not_negative, positive
from fedparity.core.errors import ConfigError
from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import BoolArray, FloatArray, Ids

DAY = 86400.0
ROUND_SECONDS = 1800.0
LONGEST = 1e15
"""Beyond this a float no longer tells one second from the next."""
BLOCK = 1 << 16
"""Devices times rounds that a replay looks up at once: few devices over many rounds would wait for Python otherwise."""


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Devices and the times they were online, sorted by device, then start."""

    names: tuple[str, ...]
    first_seen: FloatArray
    last_seen: FloatArray
    device: Ids
    """The device of each interval, as an index into `names`."""
    start: FloatArray
    end: FloatArray

    def __post_init__(self) -> None:
        if not len(self.names) == len(self.first_seen) == len(self.last_seen):
            raise ConfigError("intervals need a name, a first_seen and a last_seen for each device")
        if not len(self.device) == len(self.start) == len(self.end):
            raise ConfigError("intervals need a device, a start and an end each")
        if np.any((step := np.diff(self.device)) < 0) or np.any((step == 0) & (self.start[1:] < self.start[:-1])):
            raise ConfigError("intervals must be sorted by device, then start")
        _check_devices(self)
        _check_intervals(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Intervals:
        """The devices and intervals of a trace file (`fedparity.traces.plain`)."""
        from fedparity.traces.plain import read_plain

        return read_plain(path)[0]

    def save(self, path: str | os.PathLike[str], header: Mapping[str, float] | None = None) -> None:
        """Write a trace file, whole or not at all; `header` holds defaults for its replay."""
        from fedparity.traces.plain import write_plain

        write_plain(self, path, {} if header is None else header)

    def replay(
        self, rounds: int, round_seconds: float = ROUND_SECONDS, start: float = 0.0, work_seconds: float = 0.0
    ) -> Trace:
        """Who is online at the instant of each round, and who stays online for `work_seconds` from then on.

        Intervals that touch, at the end of a loop and its start too, are one time online.
        """
        at_least("rounds", rounds, 1)
        positive("round_seconds", round_seconds)
        not_negative("start", start)
        not_negative("work_seconds", work_seconds)
        if start + rounds * round_seconds > LONGEST:
            raise ConfigError(
                f"start={start:g} and {rounds} rounds of {round_seconds:g} s reach beyond {LONGEST:g} s; lower them"
            )
        span = self.last_seen - self.first_seen
        safe = np.where(span > 0, span, 1.0)
        leave = self._leave()
        # Complex numbers sort by real part, then imaginary part: one exact search over (device, start).
        keys = self.device + 1j * self.start
        devices = np.arange(len(self.names))
        epoch = float(self.first_seen.min()) + start
        sizes, ids, stays = [], [], []
        block = max(1, BLOCK // len(self.names))
        for first in range(0, rounds, block):
            when = epoch + np.arange(first, min(first + block, rounds))[:, None] * round_seconds
            into = np.mod(when - self.first_seen, safe)
            now = self.first_seen + np.where(into < safe, into, 0.0)  # mod of a tiny negative rounds up to the modulus
            near = np.searchsorted(keys, devices + 1j * now, side="right") - 1
            row, found = np.nonzero(near >= 0)
            near, now = near[row, found], now[row, found]
            hit = (self.device[near] == found) & (now < self.end[near])
            sizes.append(np.bincount(row[hit], minlength=len(when)))
            ids.append(found[hit].astype(np.int32))
            stays.append(now[hit] + work_seconds <= leave[near[hit]])
        numbered = self.names == tuple(map(str, range(len(self.names))))
        return Trace(
            len(self.names),
            np.append(0, np.cumsum(np.concatenate(sizes))).astype(np.int64),
            np.concatenate(ids),
            np.concatenate(stays) if work_seconds > 0 else None,
            None if numbered else self.names,
        )

    def sample(self, n: int, seed: int) -> Intervals:
        """`n` of the devices, each at most once, in their order here."""
        at_least("n", n, 1)
        if n > len(self.names):
            raise ConfigError(f"n={n} but there are {len(self.names)} devices; take fewer, or use resample")
        chosen = np.sort(stream(seed, "trace-sample").choice(len(self.names), n, replace=False))
        return self.pick(chosen)

    def resample(self, n: int, seed: int, *, shift_days: bool = True) -> Intervals:
        """A population of `n` drawn from the devices with replacement; copy c of device x is called `x~c`.

        With `shift_days`, each copy begins its loop at a random day of it, so that copies differ while the time of day
        stays; devices whose span is not a whole number of days, two or more, are copied as they are.
        """
        at_least("n", n, 1)
        rng = stream(seed, "trace-resample")
        chosen = np.sort(rng.integers(0, len(self.names), n))
        copy = np.arange(n) - np.searchsorted(chosen, chosen) + 1
        names = tuple(f"{self.names[k]}~{c}" for k, c in zip(chosen.tolist(), copy.tolist(), strict=True))
        drawn = self.pick(chosen, names)
        span = drawn.last_seen - drawn.first_seen
        days = np.where(span % DAY == 0, span // DAY, 1).astype(np.int64)
        shift = (rng.integers(0, np.maximum(days, 1)) * DAY).astype(np.float64)
        return _turned(drawn, shift) if shift_days else drawn

    def pick(self, chosen: Ids, names: tuple[str, ...] | None = None) -> Intervals:
        """The devices with these numbers, in this order; one taken more than once needs `names`."""
        edges = np.searchsorted(self.device, np.arange(len(self.names) + 1))
        low, count = edges[chosen], np.diff(edges)[chosen]
        after = np.cumsum(count)
        rows = np.arange(after[-1] if len(after) else 0) + np.repeat(low - (after - count), count)
        return Intervals(
            names or tuple(self.names[k] for k in chosen.tolist()),
            self.first_seen[chosen],
            self.last_seen[chosen],
            np.repeat(np.arange(len(chosen)), count),
            self.start[rows],
            self.end[rows],
        )

    def _leave(self) -> FloatArray:
        """Until when a device online in each interval stays online, on the clock of that interval."""
        if not len(self.device):
            return self.end
        breaks = np.flatnonzero((np.diff(self.device) != 0) | (self.start[1:] != self.end[:-1]))
        first = np.append(0, breaks + 1)
        last = np.append(breaks, len(self.device) - 1)
        leave = np.repeat(self.end[last], last - first + 1)
        opening = np.searchsorted(self.device, self.device)  # the first interval of the same device
        wraps = (leave == self.last_seen[self.device]) & (self.start[opening] == self.first_seen[self.device])
        whole = wraps & (leave[opening] == leave)
        more = np.where(whole, np.inf, leave[opening] - self.first_seen[self.device])
        return np.where(wraps, leave + more, leave)


def _turned(table: Intervals, shift: FloatArray) -> Intervals:
    """Each device's loop moved on by `shift` seconds; what crosses its end is cut there."""
    first, last, by = (x[table.device] for x in (table.first_seen, table.last_seen, shift))
    past = table.start + by >= last
    by = by - np.where(past, last - first, 0.0)
    start, end = table.start + by, table.end + by
    cut = np.flatnonzero(end > last)
    device = np.concatenate([table.device, table.device[cut]])
    low = np.concatenate([start, first[cut]])
    high = np.concatenate([np.minimum(end, last), (end - last + first)[cut]])
    order = np.lexsort((low, device))
    return Intervals(table.names, table.first_seen, table.last_seen, device[order], low[order], high[order])


def join(parts: Sequence[Intervals]) -> Intervals:
    """Several populations as one; all must be on the same clock, no device in two of them."""
    if not parts:
        raise ConfigError("nothing to join; give at least one population")
    if len(parts) == 1:
        return parts[0]
    offsets = np.cumsum([0, *(len(part.names) for part in parts)])
    return Intervals(
        tuple(name for part in parts for name in part.names),
        np.concatenate([part.first_seen for part in parts]),
        np.concatenate([part.last_seen for part in parts]),
        np.concatenate([part.device + offset for part, offset in zip(parts, offsets, strict=False)]),
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.end for part in parts]),
    )


class RowError(ConfigError):
    """A row that breaks a rule; whoever read it from a file knows its line."""

    def __init__(self, where: Literal["device", "interval"], row: int, text: str) -> None:
        super().__init__(f"{where} {row}: {text}")
        self.where, self.row, self.text = where, row, text


def _first(bad: BoolArray) -> int | None:
    found = np.flatnonzero(bad)
    return int(found[0]) if len(found) else None


def _check_devices(table: Intervals) -> None:
    if not table.names:
        raise RowError("device", 0, "no devices; list at least one")
    seen: set[str] = set()
    for k, name in enumerate(table.names):
        if not name or not {"\0", "\r", "\n"}.isdisjoint(name) or not is_encodable(name):
            raise RowError("device", k, f"client {name!r} is not a name; give every device one, on one line")
        if name in seen:
            raise RowError("device", k, f"client {name!r} is listed twice; keep one line per device")
        seen.add(name)
    first, last = table.first_seen, table.last_seen
    if (row := _first(~((np.abs(first) <= LONGEST) & (np.abs(last) <= LONGEST)))) is not None:
        raise RowError("device", row, f"times must be finite and within {LONGEST:g} s; correct them")
    if (row := _first(last < first)) is not None:
        raise RowError("device", row, f"last_seen_s={last[row]} is before first_seen_s={first[row]}; swap them")


def _check_intervals(table: Intervals) -> None:
    device, start, end = table.device, table.start, table.end
    if (row := _first((device < 0) | (device >= len(table.names)))) is not None:
        raise RowError("interval", row, f"device {device[row]} is not one of the {len(table.names)} listed; list it")
    if (row := _first(~((np.abs(start) <= LONGEST) & (np.abs(end) <= LONGEST)))) is not None:
        raise RowError("interval", row, f"times must be finite and within {LONGEST:g} s; correct them")
    if (row := _first(end <= start)) is not None:
        raise RowError("interval", row, f"end_s={end[row]} must be after start_s={start[row]}; swap or drop it")
    first, last = table.first_seen[device], table.last_seen[device]
    if (row := _first((start < first) | (end > last))) is not None:
        raise RowError(
            "interval",
            row,
            f"{start[row]}..{end[row]} lies outside first_seen_s..last_seen_s={first[row]}..{last[row]} of client "
            f"{table.names[device[row]]!r}; cut the one or widen the other",
        )
    if (row := _first((np.diff(device) == 0) & (start[1:] < end[:-1]))) is not None:
        raise RowError(
            "interval",
            row + 1,
            f"{start[row + 1]}..{end[row + 1]} overlaps {start[row]}..{end[row]} of the same client "
            f"{table.names[device[row]]!r}; merge them",
        )
