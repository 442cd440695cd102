"""The plain trace file, version 1: when each device was there, in seconds, as text anybody can write.

    # fedparity-trace 1
    # round_seconds=1800.0                       optional: rounds, round_seconds, work_seconds, start
    client,first_seen_s,last_seen_s              one line per device
    phone-a,0.0,86400.0

    client,start_s,end_s                         one line per time online, [start_s, end_s), in any order
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

import numpy as np
from numpy.typing import NDArray

from fedparity.core.checks import instance, not_negative, positive
from fedparity.core.errors import ConfigError, InputError, unknown
from fedparity.core.files import write_text
from fedparity.core.trace import Trace
from fedparity.core.types import BoolArray
from fedparity.traces.intervals import Intervals, RowError

MAGIC = "# fedparity-trace"
VERSION = "1"
DEVICES = ["client", "first_seen_s", "last_seen_s"]
SESSIONS = ["client", "start_s", "end_s"]
HEADER = ("rounds", "round_seconds", "work_seconds", "start")
MOST_BYTES = 4 * 2**30
"""Of a file, unpacked."""
MOST_RATIO, SURELY_FINE = 100, 1 << 26
"""A packed file may unpack to this many times its size, or to this many bytes: text packs 5 to 20 times."""


def write_plain(intervals: Intervals, path: str | os.PathLike[str], header: Mapping[str, float]) -> None:
    """Write a trace file, whole or not at all."""
    for key, value in header.items():
        _check_header(key, value)
    text = io.StringIO(newline="")
    text.write(f"{MAGIC} {VERSION}\n")
    text.writelines(f"# {key}={value!r}\n" for key, value in header.items())
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(DEVICES)
    rows.writerows(zip(intervals.names, intervals.first_seen.tolist(), intervals.last_seen.tolist(), strict=True))
    text.write("\n")
    rows.writerow(SESSIONS)
    names = [intervals.names[k] for k in intervals.device.tolist()]
    rows.writerows(zip(names, intervals.start.tolist(), intervals.end.tolist(), strict=True))
    write_text(path, text.getvalue())


def save_trace(trace: Trace, path: str | os.PathLike[str], round_seconds: float = 1.0) -> None:
    """Write a trace so that `load_trace(path)` gives it back.

    Rounds a..b online are the interval [a, b + 1) round_seconds; a client that does not stay is gone by mid-round.
    """
    instance("trace", trace, Trace, "Trace.from_matrix(online) makes one")
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


def _check_header(key: str, value: float) -> None:
    if key not in HEADER:
        raise unknown("key", key, HEADER)
    if key in ("rounds", "round_seconds"):
        positive(key, value)
    else:
        not_negative(key, value)
    if key == "rounds" and value != int(value):
        raise ConfigError(f"rounds={value} must be a whole number")


def read_data(path: Path) -> bytes:
    """The bytes of a file, unpacked if its name ends in .gz; every way to fail is one line with the path."""
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
            data = _unpacked(path, data)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path}:1: not a whole gzip file ({error}); pack it again or drop .gz") from error
    if len(data) > MOST_BYTES:
        raise InputError(f"{path}: more than {MOST_BYTES // 2**30} GiB; split it by device")
    return data


def _unpacked(path: Path, data: bytes) -> bytes:
    """What a packed file holds, unless that is so much more than itself that it can only be meant to fill memory."""
    most = min(MOST_BYTES + 1, max(SURELY_FINE, MOST_RATIO * len(data)))
    parts, size = [], 0
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
        while part := packed.read(1 << 20):
            parts.append(part)
            size += len(part)
            if size > most:
                raise InputError(
                    f"{path}: unpacks to more than {most >> 20} MiB from {len(data)} bytes; unpack it first"
                )
    return b"".join(parts)


def read_text(path: Path, data: bytes | None = None) -> str:
    """The text of a file; `data` are its bytes, if they are at hand."""
    data = read_data(path) if data is None else data
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

    def __init__(self, path: Path, data: bytes | None) -> None:
        self.path = path
        self.lines = io.StringIO(read_text(path, data), newline="")
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
        names, low, high, lines = list[str](), list[float](), list[float](), list[int]()
        for line, row in rows:
            if not row:
                break
            if len(row) != 3:
                raise self.fault(line, f"{len(row)} columns found; write the 3 of {wanted!r}")
            names.append(row[0])
            low.append(self._seconds(line, row[1]))
            high.append(self._seconds(line, row[2]))
            lines.append(line)
        return _Block(begins, names, np.array([low, high], dtype=np.float64), lines)

    def _seconds(self, line: int, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise self.fault(line, f"{text!r} is not a number; write seconds, as in 3600.0") from None


def read_plain(path: str | os.PathLike[str], data: bytes | None = None) -> tuple[Intervals, dict[str, float]]:
    """The devices and intervals of a trace file, and what its header says of a replay."""
    reader = _Reader(Path(path), data)
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
    except RowError as fault:
        if fault.where == "interval":
            line = sessions.lines[int(order[fault.row])]
        else:
            line = devices.lines[fault.row] if devices.lines else devices.line
        raise reader.fault(line, fault.text) from None
