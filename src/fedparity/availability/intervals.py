"""The plain trace file, version 1: when each device was there, in seconds, as text anybody can write.

    # fedparity-trace 1
    # round_seconds=1800.0                       optional: rounds, round_seconds, work_seconds, start
    client,first_seen_s,last_seen_s              one line a device
    phone-a,0.0,86400.0

    client,start_s,end_s                         one line a time online, [start_s, end_s), in any order
    phone-a,3600.0,7200.0

UTF-8 CSV after the `#` lines, all times on one clock, packed if the name ends in .gz. A replay puts round r at
min(first_seen_s) + start + r round_seconds; each device loops over its own first_seen_s..last_seen_s.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedparity.checks import at_least, not_negative, positive
from fedparity.errors import ConfigError, InputError, unknown
from fedparity.files import write_text
from fedparity.trace import Trace
from fedparity.types import BoolArray, FloatArray, Ids

MAGIC = "# fedparity-trace"
VERSION = "1"
DEVICES = ["client", "first_seen_s", "last_seen_s"]
SESSIONS = ["client", "start_s", "end_s"]
HEADER = ("rounds", "round_seconds", "work_seconds", "start")
ROUND_SECONDS = 1800.0
LONGEST = 1e15
"""Beyond this a float no longer tells one second from the next."""
MOST_ROUNDS = 10_000_000


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
        if np.any(np.lexsort((self.start, self.device)) != np.arange(len(self.device))):
            raise ConfigError("intervals must be sorted by device, then start")
        _check_devices(self)
        _check_intervals(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Intervals:
        """The devices and intervals of a trace file."""
        return _read(Path(path))[0]

    def save(self, path: str | os.PathLike[str], header: Mapping[str, float] | None = None) -> None:
        """Write a trace file, whole or not at all; `header` holds defaults for its replay."""
        header = {} if header is None else header
        for key, value in header.items():
            _check_header(key, value)
        text = io.StringIO(newline="")
        text.write(f"{MAGIC} {VERSION}\n")
        text.writelines(f"# {key}={value!r}\n" for key, value in header.items())
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(DEVICES)
        rows.writerows(zip(self.names, self.first_seen.tolist(), self.last_seen.tolist(), strict=True))
        text.write("\n")
        rows.writerow(SESSIONS)
        names = [self.names[k] for k in self.device.tolist()]
        rows.writerows(zip(names, self.start.tolist(), self.end.tolist(), strict=True))
        write_text(path, text.getvalue())

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
        span = self.last_seen - self.first_seen
        safe = np.where(span > 0, span, 1.0)
        leave = self._leave()
        # Complex numbers sort by real part, then imaginary part: one exact search over (device, start).
        keys = self.device + 1j * self.start
        devices = np.arange(len(self.names))
        epoch = float(self.first_seen.min()) + start
        ids, stays = [], []
        for r in range(rounds):
            into = np.mod(epoch + r * round_seconds - self.first_seen, safe)
            now = self.first_seen + np.where(into < safe, into, 0.0)  # mod of a tiny negative rounds up to the modulus
            near = np.searchsorted(keys, devices + 1j * now, side="right") - 1
            found = np.flatnonzero(near >= 0)
            near = near[found]
            hit = (self.device[near] == found) & (now[found] < self.end[near])
            ids.append(found[hit].astype(np.int32))
            stays.append(now[found[hit]] + work_seconds <= leave[near[hit]])
        numbered = self.names == tuple(map(str, range(len(self.names))))
        return Trace.from_rounds(
            len(self.names), ids, stays if work_seconds > 0 else None, None if numbered else self.names
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


def save_trace(trace: Trace, path: str | os.PathLike[str], round_seconds: float = 1.0) -> None:
    """Write a trace so that `load_trace(path)` gives it back.

    Rounds a..b online are the interval [a, b + 1) round_seconds; a client that does not stay is gone by mid-round.
    """
    positive("round_seconds", round_seconds)
    order = np.argsort(trace.clients, kind="stable")
    client = trace.clients[order].astype(np.int64)
    when = np.repeat(np.arange(trace.num_rounds), trace.sizes())[order]
    stays: BoolArray = np.ones(len(client), np.bool_) if trace.stays is None else trace.stays[order]
    breaks = np.flatnonzero((np.diff(client) != 0) | (np.diff(when) != 1) | ~stays[:-1])
    first = np.append(0, breaks + 1)[: len(client)]
    last = np.append(breaks, len(client) - 1)[: len(client)]
    span = float(trace.num_rounds * round_seconds)
    intervals = Intervals(
        names=trace.names or tuple(map(str, range(trace.num_clients))),
        first_seen=np.zeros(trace.num_clients),
        last_seen=np.full(trace.num_clients, span),
        device=client[first],
        start=when[first] * round_seconds,
        end=(when[last] + np.where(stays[last], 1.0, 0.5)) * round_seconds,
    )
    work = 0.0 if trace.stays is None else 0.75 * round_seconds
    intervals.save(
        path, {"rounds": trace.num_rounds, "round_seconds": float(round_seconds), "work_seconds": float(work)}
    )


def load_trace(
    path: str | os.PathLike[str],
    rounds: int | None = None,
    round_seconds: float | None = None,
    start: float | None = None,
    work_seconds: float | None = None,
) -> Trace:
    """A trace file as rounds; what is not given is taken from its header, else one pass at 1800 s a round."""
    intervals, header = _read(Path(path))
    given = {"rounds": rounds, "round_seconds": round_seconds, "work_seconds": work_seconds, "start": start}
    settings = header | {key: float(value) for key, value in given.items() if value is not None}
    seconds, offset = settings.get("round_seconds", ROUND_SECONDS), settings.get("start", 0.0)
    positive("round_seconds", seconds)
    not_negative("start", offset)
    span = float(intervals.last_seen.max() - intervals.first_seen.min()) - offset
    count = settings.get("rounds", max(1.0, (span / seconds + 1e-9) // 1))
    if count > MOST_ROUNDS:
        raise ConfigError(f"rounds={count:g} must be at most {MOST_ROUNDS}; give fewer rounds or longer ones")
    return intervals.replay(int(count), seconds, offset, settings.get("work_seconds", 0.0))


class _RowError(ConfigError):
    """A row that breaks a rule; whoever read it from a file knows its line."""

    def __init__(self, where: Literal["device", "interval"], row: int, text: str) -> None:
        super().__init__(f"{where} {row}: {text}")
        self.where, self.row, self.text = where, row, text


def _first(bad: BoolArray) -> int | None:
    found = np.flatnonzero(bad)
    return int(found[0]) if len(found) else None


def _check_devices(table: Intervals) -> None:
    if not table.names:
        raise _RowError("device", 0, "no devices; list at least one")
    seen: set[str] = set()
    for k, name in enumerate(table.names):
        if not name or not {"\0", "\r", "\n"}.isdisjoint(name):
            raise _RowError("device", k, f"client {name!r} is not a name; give every device one, on one line")
        if name in seen:
            raise _RowError("device", k, f"client {name!r} is listed twice; keep one line a device")
        seen.add(name)
    first, last = table.first_seen, table.last_seen
    if (row := _first(~((np.abs(first) <= LONGEST) & (np.abs(last) <= LONGEST)))) is not None:
        raise _RowError("device", row, f"times must be finite and within {LONGEST:g} s; correct them")
    if (row := _first(last < first)) is not None:
        raise _RowError("device", row, f"last_seen_s={last[row]} is before first_seen_s={first[row]}; swap them")


def _check_intervals(table: Intervals) -> None:
    device, start, end = table.device, table.start, table.end
    if (row := _first((device < 0) | (device >= len(table.names)))) is not None:
        raise _RowError("interval", row, f"device {device[row]} is not one of the {len(table.names)} listed; list it")
    if (row := _first(~((np.abs(start) <= LONGEST) & (np.abs(end) <= LONGEST)))) is not None:
        raise _RowError("interval", row, f"times must be finite and within {LONGEST:g} s; correct them")
    if (row := _first(end <= start)) is not None:
        raise _RowError("interval", row, f"end_s={end[row]} must be after start_s={start[row]}; swap or drop it")
    first, last = table.first_seen[device], table.last_seen[device]
    if (row := _first((start < first) | (end > last))) is not None:
        raise _RowError(
            "interval",
            row,
            f"{start[row]}..{end[row]} lies outside first_seen_s..last_seen_s={first[row]}..{last[row]} of client "
            f"{table.names[device[row]]!r}; cut the one or widen the other",
        )
    if (row := _first((np.diff(device) == 0) & (start[1:] < end[:-1]))) is not None:
        raise _RowError(
            "interval",
            row + 1,
            f"{start[row + 1]}..{end[row + 1]} overlaps {start[row]}..{end[row]} of the same client "
            f"{table.names[device[row]]!r}; merge them",
        )


def _check_header(key: str, value: float) -> None:
    if key not in HEADER:
        raise unknown("key", key, HEADER)
    if key in ("rounds", "round_seconds"):
        positive(key, value)
    else:
        not_negative(key, value)
    if key == "rounds" and value != int(value):
        raise ConfigError(f"rounds={value} must be a whole number")


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the path") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder; give a trace file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read ({reason}); check the path") from error
    if path.suffix == ".gz":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path}:1: not a whole gzip file ({error}); pack it again or drop .gz") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: not UTF-8 text; save it as UTF-8, or name it .gz if it is packed") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{path}:{line}: not text (a zero byte); give a trace file")
    return text


@dataclass(frozen=True, slots=True)
class _Block:
    """One block of a file: where it begins, then names, two columns of numbers and the line of each row."""

    line: int
    names: list[str]
    values: NDArray[np.float64]
    lines: list[int]


class _Reader:
    """One pass over the lines of a trace file; every complaint names file and line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = io.StringIO(_text(path), newline="")
        self.skipped = 0

    def fault(self, line: int, text: str) -> InputError:
        return InputError(f"{self.path}:{line}: {text}")

    def header(self) -> dict[str, float]:
        magic, _, version = self.lines.readline().rstrip("\r\n").rpartition(" ")
        if magic != MAGIC:
            raise self.fault(1, f"not a trace file; the first line must be '{MAGIC} {VERSION}'")
        if version != VERSION:
            raise self.fault(1, f"version {version!r} is not supported; write version {VERSION}")
        self.skipped, found = 1, dict[str, float]()
        while True:
            here = self.lines.tell()
            line = self.lines.readline()
            if not line.startswith("#"):
                self.lines.seek(here)
                return found
            self.skipped += 1
            key, equals, value = (part.strip() for part in line[1:].partition("="))
            if not equals:
                raise self.fault(self.skipped, f"{line.strip()!r} must be written '# key=value'")
            if key in found:
                raise self.fault(self.skipped, f"key {key!r} is given twice; keep one")
            try:
                found[key] = float(value)
                _check_header(key, found[key])
            except ValueError:
                raise self.fault(self.skipped, f"{key}={value!r} is not a number; write one") from None
            except ConfigError as error:
                raise self.fault(self.skipped, f"{error}; correct or drop the line") from None

    def blocks(self) -> tuple[_Block, _Block]:
        rows = self._rows()
        devices = self._block(rows, DEVICES)
        sessions = self._block(rows, SESSIONS)
        for line, row in rows:
            if row:
                raise self.fault(line, "text after the last block; delete it or the empty line before it")
        return devices, sessions

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        reader, line = csv.reader(self.lines, strict=True), self.skipped
        try:
            for row in reader:
                line = self.skipped + reader.line_num
                yield line, row
        except csv.Error as error:
            raise self.fault(line + 1, f"not CSV ({error}); check its quotes") from error
        self.skipped = line

    def _block(self, rows: Iterator[tuple[int, list[str]]], columns: list[str]) -> _Block:
        wanted = ",".join(columns)
        line, row = next(rows, (self.skipped + 1, ["(the file ends here)"]))
        if row != columns:
            raise self.fault(line, f"{','.join(row)!r} found where the line {wanted!r} must stand; add it")
        begins = line
        names, low, high, lines = list[str](), list[str](), list[str](), list[int]()
        for line, row in rows:
            if not row:
                break
            if len(row) != 3:
                raise self.fault(line, f"{len(row)} columns found; write the 3 of {wanted!r}")
            names.append(row[0])
            low.append(row[1])
            high.append(row[2])
            lines.append(line)
        try:
            values = np.array([list(map(float, low)), list(map(float, high))], dtype=np.float64)
        except ValueError:
            raise self._not_a_number(low, high, lines) from None
        return _Block(begins, names, values, lines)

    def _not_a_number(self, low: list[str], high: list[str], lines: list[int]) -> InputError:
        for line, pair in zip(lines, zip(low, high, strict=True), strict=True):
            for text in pair:
                try:
                    float(text)
                except ValueError:
                    return self.fault(line, f"{text!r} is not a number; write seconds, as in 3600.0")
        return self.fault(lines[0], "a number cannot be read; write seconds, as in 3600.0")


def _read(path: Path) -> tuple[Intervals, dict[str, float]]:
    reader = _Reader(path)
    header = reader.header()
    devices, sessions = reader.blocks()
    index = {name: row for row, name in enumerate(devices.names)}
    for line, name in zip(sessions.lines, sessions.names, strict=True):
        if name not in index:
            raise reader.fault(line, f"unknown client {name!r}; list it in the block {','.join(DEVICES)!r}")
    device = np.array([index[name] for name in sessions.names], dtype=np.int64)
    (first, last), (start, end) = devices.values, sessions.values
    order = np.lexsort((start, device))
    try:
        return Intervals(tuple(devices.names), first, last, device[order], start[order], end[order]), header
    except _RowError as fault:
        if fault.where == "interval":
            line = sessions.lines[int(order[fault.row])]
        else:
            line = devices.lines[fault.row] if devices.lines else devices.line
        raise reader.fault(line, fault.text) from None
