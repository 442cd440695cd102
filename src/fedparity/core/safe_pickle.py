"""Reading a pickle without unpickling: opcodes are interpreted here, and nothing they name is imported or called.

A pickle is a program. `pickletools.genops` only reads it; a small stack machine then carries out the opcodes that build
plain values (None, bool, int, float, str, bytes, list, tuple, dict) and refuses every other one. With `arrays`, the few
names in `CALLS` are understood symbolically, so that NumPy arrays come out as `RawArray`: their shape, type and bytes.

    numpy._reconstruct(ndarray, (0,), b'b')         an empty RawArray; BUILD then fills it
    numpy.dtype('u1', ...)                          the text 'u1'; BUILD then adds the byte order
    _codecs.encode('text', 'latin1')                bytes, as Python 3 writes them for Python 2

Strings that Python 2 wrote come out as bytes. A key of a dict is a str, bytes or int, so that nothing nested is hashed.

Memory is bounded by what is stated here: an opcode makes at most about 100 bytes beside its own argument, and opcodes
are counted; bytes that a call copies are counted too. What remains to the caller: a value that is remembered may stand
in many places, so whoever unfolds one (copies a list out of each of many dicts) must count as well.
"""

from __future__ import annotations

import io
import math
import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedparity.core.errors import InputError

MOST_OPCODES = 2_000_000
MOST_COPIED = 1 << 28
"""Bytes that calls of `_codecs.encode` may make in all: a text that is remembered can be encoded again and again."""
MOST_BITS = 1 << 13
"""Of a whole number: longer ones take long to hash, and no file that is read here has any."""
KEY_BITS = 64
"""Of a whole number that is a key: long ones can be chosen so that thousands of them fall into one place."""
RUNS = {
    *("GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX"),
    *("EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"),
}
"""Opcodes that import, call or look up objects."""
_DTYPE = re.compile(r"(?:[|<>=]?[iu][1248]|[|<>=]?f[248]|[|<>=]?b1)")


class _RefusedError(Exception):
    """Why a pickle is not read."""


@dataclass(slots=True, eq=False)
class RawArray:
    """A NumPy array as a pickle describes it: checked numbers, not yet an array."""

    shape: tuple[int, ...] = ()
    dtype: str = ""
    data: bytes = b""

    def array(self) -> NDArray[Any]:
        """The array itself, read-only."""
        return np.frombuffer(self.data, dtype=np.dtype(self.dtype)).reshape(self.shape)


@dataclass(slots=True, eq=False)
class _Dtype:
    text: str


@dataclass(frozen=True, slots=True)
class _Name:
    """A module and a name in it: a word, never looked up."""

    text: str


class _Mark:
    """Where a list, tuple or dict starts on the stack."""


_MARK = _Mark()


def read_pickle(data: bytes, label: str, *, arrays: bool = False, most: int = MOST_OPCODES) -> object:
    """The plain value that a pickle of at most `most` opcodes describes; `label` is what messages call the file."""
    machine = _Machine(arrays=arrays)
    place = 0
    what = "plain values and arrays" if arrays else "plain values"
    try:
        for count, (opcode, argument, position) in enumerate(pickletools.genops(io.BytesIO(data))):
            place = position or 0
            if count >= most:
                raise _RefusedError(f"more than {most} opcodes")  # noqa: TRY301 - one place says where it was
            if opcode.name == "STOP":
                return machine.result()
            machine.do(opcode.name, argument)
    except _RefusedError as error:
        raise InputError(f"{label}: byte {place}: {error}; only {what} are read") from error
    except Exception as error:
        # genops meets hostile bytes with whatever its decoders raise: ValueError, UnicodeDecodeError, struct.error, ...
        raise InputError(f"{label}: byte {place}: not a pickle ({error}); fetch the file again") from error
    raise InputError(f"{label}: not a pickle (no end); fetch the file again")


class _Machine:
    """The stack and the memo."""

    def __init__(self, *, arrays: bool) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._arrays = arrays
        self._copied = 0

    def result(self) -> Any:
        """The one value that is left at the end."""
        value = self.pop()
        if self._stack:
            raise _RefusedError(f"{len(self._stack) + 1} values are left where one must be")
        return value

    def do(self, name: str, argument: Any) -> None:
        """Carry out one opcode."""
        if name in _PUSH:
            self.push(_PUSH[name](argument))
        elif name in RUNS and not (self._arrays and name in _OPCODES):
            raise _RefusedError(f"opcode {name}, which would run code")
        elif name in _OPCODES:
            _OPCODES[name](self, argument)
        elif name not in {"PROTO", "FRAME"}:
            raise _RefusedError(f"opcode {name}")

    def pop(self) -> Any:
        """The top of the stack."""
        if not self._stack or self._stack[-1] is _MARK:
            raise _RefusedError("an empty stack")
        return self._stack.pop()

    def push(self, value: Any) -> None:
        """A new top of the stack."""
        self._stack.append(value)

    def since_mark(self) -> list[Any]:
        """All above the last mark, which goes with them."""
        for i in range(len(self._stack) - 1, -1, -1):
            if self._stack[i] is _MARK:
                found = self._stack[i + 1 :]
                del self._stack[i:]
                return found
        raise _RefusedError("no mark on the stack")

    def _top(self, kind: type) -> Any:
        if not self._stack or not isinstance(self._stack[-1], kind):
            raise _RefusedError(f"no {kind.__name__.lstrip('_')} to add to")
        return self._stack[-1]

    def put(self, argument: Any) -> None:
        """Remember the top of the stack under a number; None: the next one."""
        value = self.pop()
        self.push(value)
        self._memo[len(self._memo) if argument is None else argument] = value

    def get(self, argument: Any) -> None:
        """What was remembered."""
        if argument not in self._memo:
            raise _RefusedError(f"memo {argument} was never set")
        self.push(self._memo[argument])

    def tuple_of(self, size: int) -> None:
        """A tuple of the last few."""
        items = [self.pop() for _ in range(size)]
        self.push(tuple(reversed(items)))

    def extend(self, items: list[Any]) -> None:
        """More items of a list."""
        self._top(list).extend(items)

    def update(self, items: list[Any]) -> None:
        """More entries of a dict: keys, each with its value behind it."""
        target = self._top(dict)
        if len(items) % 2:
            raise _RefusedError("a key without a value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | bytes | int) or (isinstance(key, int) and key.bit_length() > KEY_BITS):
                raise _RefusedError(f"a key that is no str, bytes or int of {KEY_BITS} bits")
            target[key] = value

    def dict_(self, _: Any) -> None:
        """A dict of all since the mark."""
        items = self.since_mark()
        self.push({})
        self.update(items)

    def stack_global(self, _: Any) -> None:
        """A name whose words are on the stack."""
        name, module = self.pop(), self.pop()
        self.name(f"{module}.{name}" if isinstance(name, str) and isinstance(module, str) else "")

    def name(self, text: str) -> None:
        """A name, as words: one of those that are understood."""
        known = text.replace("numpy._core.", "numpy.core.")
        if known not in CALLS and known != "numpy.ndarray":
            raise _RefusedError(f"the name {text[:60]!r}, which would run code")
        self.push(_Name(known))

    def reduce(self, _: Any) -> None:
        """What a call of a known name would give."""
        arguments, name = self.pop(), self.pop()
        if not (isinstance(name, _Name) and name.text in CALLS and isinstance(arguments, tuple)):
            raise _RefusedError("a call, which would run code")
        made = CALLS[name.text](*arguments[:3]) if arguments else _no_call()
        self._copied += len(made) if isinstance(made, bytes) else 0
        if self._copied > MOST_COPIED:
            raise _RefusedError(f"more than {MOST_COPIED >> 20} MiB made by calls")
        self.push(made)

    def build(self, _: Any) -> None:
        """Fill an array or a dtype."""
        state = self.pop()
        target = self.pop()
        self.push(target)
        if isinstance(target, _Dtype):
            _fill_dtype(target, state)
        elif isinstance(target, RawArray):
            _fill_array(target, state)
        else:
            raise _RefusedError("a state for something that is no array")


def _no_call(*_: Any) -> Any:
    raise _RefusedError("a call with unknown arguments")


def _reconstruct(kind: Any, *_: Any) -> RawArray:
    return RawArray() if kind == _Name("numpy.ndarray") else _no_call()


def _dtype(text: Any, *_: Any) -> _Dtype:
    word = text.decode("latin-1") if isinstance(text, bytes) else text
    if not (isinstance(word, str) and _DTYPE.fullmatch(word)):
        raise _RefusedError(f"the type {str(word)[:40]!r}" if isinstance(word, str) else "an unknown type")
    return _Dtype(word)


def _encode(text: Any, coding: Any = None, *_: Any) -> bytes:
    word = coding.decode("latin-1") if isinstance(coding, bytes) else coding
    if not isinstance(text, str) or word not in {"latin1", "latin-1"}:
        return bytes(_no_call())
    return text.encode("latin-1")


def _fill_dtype(target: _Dtype, state: Any) -> None:
    order = state[1] if isinstance(state, tuple) and len(state) >= 2 else None
    order = order.decode("latin-1") if isinstance(order, bytes) else order
    if not (isinstance(order, str) and order in {"|", "<", ">", "="}):
        raise _RefusedError("a type with unknown byte order")
    target.text = order + target.text.lstrip("|<>=")


def _fill_array(target: RawArray, state: Any) -> None:
    if not (isinstance(state, tuple) and len(state) == 5):
        raise _RefusedError("an array with unknown state")
    _, shape, kind, fortran, data = state
    whole = isinstance(shape, tuple) and len(shape) <= 8 and all(type(n) is int and 0 <= n < 2**40 for n in shape)
    if not (whole and isinstance(kind, _Dtype) and isinstance(data, bytes)):
        raise _RefusedError("an array whose shape, type or bytes are not plain")
    if fortran and len(shape) > 1:
        raise _RefusedError("an array stored by columns")
    if math.prod(shape) * np.dtype(kind.text).itemsize != len(data):
        raise _RefusedError(f"an array of shape {shape} with {len(data)} bytes")
    target.shape, target.dtype, target.data = shape, kind.text, data


CALLS: dict[str, Callable[..., Any]] = {
    "numpy.core.multiarray._reconstruct": _reconstruct,
    "numpy.dtype": _dtype,
    "_codecs.encode": _encode,
}
"""The names that are understood."""


def _whole(value: int) -> int:
    if value.bit_length() > MOST_BITS:
        raise _RefusedError(f"a whole number of more than {MOST_BITS} bits")
    return value


_PUSH: dict[str, Callable[[Any], Any]] = {
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "EMPTY_LIST": lambda _: [],
    "EMPTY_DICT": lambda _: {},
    "EMPTY_TUPLE": lambda _: (),
    **dict.fromkeys(("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"), _whole),
    **dict.fromkeys(("FLOAT", "BINFLOAT", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"), lambda value: value),
    **dict.fromkeys(("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), lambda value: value),
    **dict.fromkeys(("STRING", "BINSTRING", "SHORT_BINSTRING"), lambda value: value.encode("latin-1")),
}
_OPCODES: dict[str, Callable[[_Machine, Any], object]] = {
    "MARK": lambda m, _: m.push(_MARK),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _Machine.put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Machine.get),
    "TUPLE": lambda m, _: m.push(tuple(m.since_mark())),
    "TUPLE1": lambda m, _: m.tuple_of(1),
    "TUPLE2": lambda m, _: m.tuple_of(2),
    "TUPLE3": lambda m, _: m.tuple_of(3),
    "LIST": lambda m, _: m.push(m.since_mark()),
    "DICT": _Machine.dict_,
    "APPEND": lambda m, _: m.extend([m.pop()]),
    "APPENDS": lambda m, _: m.extend(m.since_mark()),
    "SETITEM": lambda m, _: m.update([m.pop(), m.pop()][::-1]),
    "SETITEMS": lambda m, _: m.update(m.since_mark()),
    "POP": lambda m, _: m.pop(),
    "GLOBAL": lambda m, words: m.name(str(words).replace(" ", ".")),
    "STACK_GLOBAL": _Machine.stack_global,
    "REDUCE": _Machine.reduce,
    "BUILD": _Machine.build,
}
