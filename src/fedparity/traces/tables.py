"""Intervals as a plain table, with a second table that says when each device was seen.

    client,start_s,end_s                 one line per time ready, in any order; also device, device_id or id for client,
    a,3600,7200                          start and end without _s

    client,first_seen_s,last_seen_s      also first_s, last_s, first, last, first_seen, last_seen
    a,0,86400
    b,,                                  seen at an unknown time, never ready

Further columns are not read; intervals of no length are left out (FLASH has some). A device whose span is not known
gets one of no length at the earliest first_seen: it counts as never ready. Without the second table every device is
taken as seen over the whole days that the intervals cover, and devices that were never ready are missing.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedparity.core.errors import InputError
from fedparity.traces.intervals import DAY, Intervals, RowError
from fedparity.traces.plain import read_text

WHO = ("client", "device", "device_id", "id")
START, END = ("start_s", "start"), ("end_s", "end")
FIRST, LAST = (tuple(f"{x}{y}" for y in ("_seen_s", "_s", "_seen", "")) for x in ("first", "last"))


def is_table(head: bytes) -> bool:
    """Whether a file begins like a table of intervals."""
    first, _, rest = head.decode("utf-8", "replace").partition("\n")
    cells = [cell.strip() for cell in first.split(",")]
    # Only our own files have comments.
    return all(not set(cells).isdisjoint(names) for names in (WHO, START, END)) and not rest.startswith("#")


@dataclass(frozen=True, slots=True)
class _Columns:
    """A name and two numbers per row, and the line of each; NaN: an empty cell."""

    names: list[str]
    values: NDArray[np.float64]
    lines: list[int]


def read_tables(
    path: str | os.PathLike[str], devices: str | os.PathLike[str] | None = None, *, data: bytes | None = None
) -> Intervals:
    """The intervals of one table, and the devices of another."""
    path = Path(path)
    sessions = _columns(path, data, (START, END), empty=False)
    if devices is None:
        names = list(dict.fromkeys(sessions.names))
        if not names:
            raise InputError(f"{path}: no intervals; add some, or give a table of devices")
        low = float(np.floor(sessions.values[0].min() / DAY) * DAY)
        high = float(np.ceil(sessions.values[1].max() / DAY) * DAY)
        first, last = np.full((2, len(names)), low)
        last[:] = high
    else:
        seen = _columns(Path(devices), None, (FIRST, LAST), empty=True)
        names, (first, last) = seen.names, seen.values
        _fill(Path(devices), seen)
    index = {name: row for row, name in enumerate(names)}
    for line, name in zip(sessions.lines, sessions.names, strict=True):
        if name not in index:
            raise InputError(f"{path}:{line}: client {name!r:.60} is not in {devices}; add it there")
    device = np.array([index[name] for name in sessions.names], dtype=np.int64)
    start, end = sessions.values
    order = np.lexsort((start, device))
    order = order[start[order] != end[order]]
    try:
        return Intervals(tuple(names), first, last, device[order], start[order], end[order])
    except RowError as fault:
        if fault.where == "interval":
            raise InputError(f"{path}:{sessions.lines[int(order[fault.row])]}: {fault.text}") from None
        if devices is None:
            raise InputError(f"{path}: {fault.text}") from None
        raise InputError(f"{devices}:{seen.lines[fault.row] if seen.lines else 1}: {fault.text}") from None


def _fill(path: Path, seen: _Columns) -> None:
    """Give the devices whose span is not known one of no length at the earliest first_seen."""
    first, last = seen.values
    half = np.flatnonzero(np.isnan(first) != np.isnan(last))
    if len(half):
        raise InputError(f"{path}:{seen.lines[half[0]]}: one of two times is missing; give both or none")
    unknown = np.isnan(first)
    if len(first) and not unknown.all():
        first[unknown] = last[unknown] = first[~unknown].min()
    elif len(first):
        raise InputError(f"{path}:{seen.lines[0]}: no device has times; give at least one")


def _columns(path: Path, data: bytes | None, wanted: Sequence[Sequence[str]], *, empty: bool) -> _Columns:
    """The client and the two wanted columns of a table."""
    reader = csv.reader(io.StringIO(read_text(path, data), newline=""), strict=True)
    names, cells, lines = list[str](), list[tuple[str, str]](), list[int]()
    try:
        head = [cell.strip() for cell in next(reader, [])]
        places = [next((k for k, cell in enumerate(head) if cell in known), None) for known in (WHO, *wanted)]
        if None in places:
            missing = (WHO, *wanted)[places.index(None)]
            raise InputError(
                f"{path}:1: no column {missing[0]!r} in {','.join(head)!r:.80}; name the columns in line 1"
            )
        who, low, high = (place or 0 for place in places)
        for row in reader:
            if not row:
                continue
            if len(row) != len(head):
                raise InputError(f"{path}:{reader.line_num}: {len(row)} columns found; write the {len(head)} of line 1")
            names.append(row[who])
            cells.append((row[low], row[high]))
            lines.append(reader.line_num)
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: not CSV ({error}); check its quotes") from error
    return _Columns(names, _numbers(path, cells, lines, empty=empty), lines)


def _numbers(path: Path, cells: list[tuple[str, str]], lines: list[int], *, empty: bool) -> NDArray[np.float64]:
    values = np.empty((2, len(cells)))
    for k, pair in enumerate(cells):
        for side, text in enumerate(pair):
            try:
                value = np.nan if empty and not text.strip() else float(text)
            except ValueError:
                value = np.inf
            if np.isinf(value) or (np.isnan(value) and text.strip()):
                raise InputError(f"{path}:{lines[k]}: {text!r:.60} is not a number; write seconds, as in 3600.0")
            values[side, k] = value
    return values
