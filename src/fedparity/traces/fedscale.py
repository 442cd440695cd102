"""FedScale's device trace, a pickle, read without unpickling: `{client: {"active", "inactive", "finish_time", ...}}`.

A pickle is a program. Here `pickletools.genops` takes it apart and a stack machine of our own carries out the opcodes
that build dicts, lists, tuples, numbers, texts and None; an opcode that would import, call or build anything else is
refused before it does anything. Client k is online in active[i]..inactive[i], modulo finish_time; its clock starts at
0. Queries are bisections: FedScale's own stepping pointer reports "offline" wrongly after a jump over two intervals.
"""

from __future__ import annotations

import os
import pickletools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fedparity.core.errors import InputError
from fedparity.core.types import FloatArray
from fedparity.traces.intervals import LONGEST, Intervals
from fedparity.traces.plain import read_data

VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
}
"""Opcodes that push their argument."""
CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
}
NOTHING = {"PROTO", "FRAME"}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
GET, PUT = {"GET", "BINGET", "LONG_BINGET"}, {"PUT", "BINPUT", "LONG_BINPUT"}
RUNS = {
    *("GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX"),
    *("EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"),
}
"""Opcodes that import, call or look up objects."""
KEYS = (int, str, bytes, float, type(None))
MARK = object()


def read_plain_pickle(path: Path, data: bytes) -> Any:
    """The dicts, lists, tuples, numbers and texts that a pickle describes; a pickle with anything else is refused."""
    machine = _Machine(path)
    try:
        for opcode, argument, place in pickletools.genops(data):
            machine.step(opcode.name, argument, place or 0)
    except InputError:
        raise
    except Exception as error:  # genops meets damaged bytes with errors of many kinds
        raise InputError(f"{path}: not a whole pickle ({type(error).__name__}: {error}); get the file again") from error
    return machine.result()


class _Machine:
    """The stack, the memo, and one method a kind of opcode."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.place = 0
        self.name = ""

    def fault(self, text: str) -> InputError:
        return InputError(f"{self.path}: byte {self.place}, opcode {self.name}: {text}")

    def result(self) -> Any:
        if len(self.stack) != 1:
            raise self.fault(f"{len(self.stack)} values are left where one must be; get the file again")
        return self.stack[0]

    def step(self, name: str, argument: Any, place: int) -> None:
        self.name, self.place = name, place
        if name in VALUES:
            self.stack.append(argument)
        elif name in CONSTANTS:
            self.stack.append(CONSTANTS[name]())
        elif name == "MARK":
            self.stack.append(MARK)
        elif name in PUT or name == "MEMOIZE":
            self.memo[len(self.memo) if name == "MEMOIZE" else int(argument)] = self.top()
        elif name in GET:
            if int(argument) not in self.memo:
                raise self.fault(f"nothing was stored under {argument}; get the file again")
            self.stack.append(self.memo[int(argument)])
        elif name in RUNS:
            raise self.fault("would run code, so the file is refused; a trace needs only numbers, texts and lists")
        elif name not in NOTHING and name != "STOP":
            self.build(name)

    def build(self, name: str) -> None:
        if name in TUPLES:
            self.stack.append(tuple(self.take(TUPLES[name])))
        elif name in ("TUPLE", "LIST"):
            self.stack.append((tuple if name == "TUPLE" else list)(self.since_mark()))
        elif name == "DICT":
            items = self.since_mark()
            self.stack.append({})
            self.add(items)
        elif name in ("SETITEM", "SETITEMS"):
            self.add(self.take(2) if name == "SETITEM" else self.since_mark())
        elif name in ("APPEND", "APPENDS"):
            items = self.take(1) if name == "APPEND" else self.since_mark()
            if not isinstance(self.top(), list):
                raise self.fault("appends to what is not a list; get the file again")
            self.top().extend(items)
        elif name in ("POP", "POP_MARK"):
            self.take(1) if name == "POP" and self.top() is not MARK else self.since_mark()
        elif name == "DUP":
            self.stack.append(self.top())
        else:
            raise self.fault("is not needed for a trace, so the file is refused")

    def top(self) -> Any:
        if not self.stack:
            raise self.fault("finds nothing on the stack; get the file again")
        return self.stack[-1]

    def take(self, count: int) -> list[Any]:
        items = self.stack[-count:]
        if len(items) < count or any(item is MARK for item in items):
            raise self.fault("finds too little on the stack; get the file again")
        del self.stack[-count:]
        return items

    def since_mark(self) -> list[Any]:
        place = len(self.stack) - 1
        while place >= 0 and self.stack[place] is not MARK:
            place -= 1
        if place < 0:
            raise self.fault("finds no mark on the stack; get the file again")
        items = self.stack[place + 1 :]
        del self.stack[place:]
        return items

    def add(self, items: list[Any]) -> None:
        target = self.top()
        if not isinstance(target, dict) or len(items) % 2:
            raise self.fault("sets items of what is not a dict; get the file again")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, KEYS):
                raise self.fault(f"a {type(key).__name__} is not a key; get the file again")
            target[key] = value


def read_fedscale(path: str | os.PathLike[str], *, data: bytes | None = None) -> Intervals:
    """When each client of a FedScale trace was online."""
    path = Path(path)
    clients = read_plain_pickle(path, read_data(path) if data is None else data)
    if not isinstance(clients, dict) or not clients:
        raise InputError(f'{path}: not a FedScale trace; it must hold {{client: {{"active": [...], ...}}}}')
    names, ends, starts, stops = list[str](), list[float](), list[FloatArray](), list[FloatArray]()
    for key, entry in clients.items():
        name = str(key)
        if not isinstance(key, (int, str)) or not name or not {"\0", "\r", "\n"}.isdisjoint(name):
            raise InputError(f"{path}: client {key!r:.60} is not a name; use numbers or texts of one line")
        if not isinstance(entry, dict):
            raise InputError(f"{path}: client {name!r:.60} must be a dict with active, inactive and finish_time")
        end = _numbers(path, name, "finish_time", [entry.get("finish_time")])[0]
        start, stop = (_numbers(path, name, field, entry.get(field)) for field in ("active", "inactive"))
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
    _all_numbers(path, name, field, values)
    found = np.array([float(v) for v in values], dtype=np.float64)
    if not np.all(np.abs(found) <= LONGEST):
        raise InputError(f"{path}: client {name!r:.60}: {field} must be finite and within {LONGEST:g} s; correct it")
    return found


def _all_numbers(path: Path, name: str, field: str, values: Iterable[object]) -> None:
    for value in values:
        if not isinstance(value, (int, float)) or isinstance(value, bool) or abs(value) > 10 * LONGEST:
            raise InputError(f"{path}: client {name!r:.60}: {field}: {type(value).__name__} found; give seconds")


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
