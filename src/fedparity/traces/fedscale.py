"""FedScale's device trace, a pickle, read without unpickling: `{client: {"active", "inactive", "finish_time", ...}}`.

`core.safe_pickle` carries out the opcodes that build plain values; one that would import or call anything is refused
before it does. Client k is online in active[i]..inactive[i], modulo finish_time; its clock starts at
0. Queries are bisections: FedScale's own stepping pointer reports "offline" wrongly after a jump over two intervals.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from fedparity.core.errors import InputError
from fedparity.core.safe_pickle import read_pickle
from fedparity.core.types import FloatArray
from fedparity.traces.intervals import LONGEST, Intervals
from fedparity.traces.plain import read_data

MOST_OPCODES = 40_000_000
"""The published trace of 107,749 devices has about 16 million."""
SPARE = 1_000_000
"""Times that a trace may hold beyond one for each byte of its file: entries that share a list count each time."""


def read_fedscale(path: str | os.PathLike[str], *, data: bytes | None = None) -> Intervals:
    """When each client of a FedScale trace was online."""
    path = Path(path)
    data = read_data(path) if data is None else data
    clients = read_pickle(data, str(path), most=MOST_OPCODES)
    if not isinstance(clients, dict) or not clients:
        raise InputError(f'{path}: not a FedScale trace; it must hold {{client: {{"active": [...], ...}}}}')
    names, ends, starts, stops = list[str](), list[float](), list[FloatArray](), list[FloatArray]()
    left = SPARE + len(data)
    for key, entry in clients.items():
        name = key.decode("latin-1") if isinstance(key, bytes) else str(key)
        if not name or not {"\0", "\r", "\n"}.isdisjoint(name):
            raise InputError(f"{path}: client {key!r:.60} is not a name; use numbers or texts of one line")
        if not isinstance(entry, dict):
            raise InputError(f"{path}: client {name!r:.60} must be a dict with active, inactive and finish_time")
        # Python 2 wrote keys as bytes.
        active, inactive, finish = (
            entry.get(field, entry.get(field.encode())) for field in ("active", "inactive", "finish_time")
        )
        left -= sum(len(times) for times in (active, inactive) if isinstance(times, (list, tuple)))
        if left < 0:
            raise InputError(f"{path}: clients share lists of more times in all than the file can hold; write it anew")
        end = _numbers(path, name, "finish_time", [finish])[0]
        start, stop = _numbers(path, name, "active", active), _numbers(path, name, "inactive", inactive)
        if end <= 0:
            raise InputError(f"{path}: client {name!r:.60}: finish_time={end:g} must be above 0; correct it")
        if len(start) != len(stop):
            raise InputError(
                f"{path}: client {name!r:.60}: {len(start)} times active but {len(stop)} inactive; pair them"
            )
        start, stop = _looped(path, name, start, stop, end)
        names.append(name)
        ends.append(end)
        starts.append(start)
        stops.append(stop)
    if len(set(names)) < len(names):
        raise InputError(f"{path}: two clients have the same name, as a number and as a text; rename one")
    device = np.repeat(np.arange(len(names)), [len(x) for x in starts])
    return Intervals(
        tuple(names), np.zeros(len(ends)), np.array(ends), device, np.concatenate(starts), np.concatenate(stops)
    )


def _numbers(path: Path, name: str, field: str, values: object) -> FloatArray:
    if not isinstance(values, (list, tuple)):
        raise InputError(f"{path}: client {name!r:.60}: {field} must be a list of seconds; correct it")
    for value in values:
        if not isinstance(value, (int, float)) or isinstance(value, bool) or abs(value) > 10 * LONGEST:
            raise InputError(f"{path}: client {name!r:.60}: {field}: {type(value).__name__} found; give seconds")
    found = np.array([float(v) for v in values], dtype=np.float64)
    if not np.all(np.abs(found) <= LONGEST):
        raise InputError(f"{path}: client {name!r:.60}: {field} must be finite and within {LONGEST:g} s; correct it")
    return found


def _looped(path: Path, name: str, start: FloatArray, stop: FloatArray, end: float) -> tuple[FloatArray, FloatArray]:
    """Sorted and merged intervals within 0..end; one that crosses the end goes on at 0, empty ones are dropped."""
    if np.any(stop < start):
        row = int(np.flatnonzero(stop < start)[0])
        raise InputError(
            f"{path}: client {name!r:.60}: inactive[{row}]={stop[row]:g} is before active[{row}]={start[row]:g}; "
            "swap them"
        )
    length = np.minimum(stop - start, end)
    low = np.mod(start, end)
    high = low + length
    over = high > end
    low = np.concatenate([low, np.zeros(np.count_nonzero(over))])
    high = np.concatenate([np.minimum(high, end), (high - end)[over]])
    order = np.argsort(low, kind="stable")
    order = order[high[order] > low[order]]
    low, high = low[order], np.maximum.accumulate(high[order])
    new = np.ones(len(low), dtype=np.bool_)
    new[1:] = low[1:] > high[:-1]
    head = np.flatnonzero(new)
    return low[head], np.maximum.reduceat(high, head) if len(head) else high
