"""Short texts of objects: what differs from the defaults, and shapes instead of numbers."""

from __future__ import annotations

import dataclasses
import re
import reprlib
from collections.abc import Iterable
from typing import Any

import numpy as np


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxother = self.maxstring = 80

    def repr_ndarray(self, array: np.ndarray[Any, Any], level: int) -> str:
        """Its shape and type."""
        return f"<{' x '.join(map(str, array.shape))} {array.dtype}>"


class _Brief(_Short):
    def repr_ndarray(self, array: np.ndarray[Any, Any], level: int) -> str:
        """A few client numbers as they are."""
        few = array.ndim == 1 and array.dtype.kind in "iu" and len(array) <= FEW
        return str(array.tolist()) if few else super().repr_ndarray(array, level)


_SHORT, _BRIEF = _Short(), _Brief()
FEW = 10
MOST = 240
"""Characters of the settings that `brief` shows."""


def short(value: Any, name: str | None = None) -> str:
    """A dataclass as `name(key=value, ...)`, without what is at its default."""
    settings = ", ".join(f"{key}={_SHORT.repr(inner)}" for key, inner in _settings(value))
    return f"{type(value).__name__ if name is None else name}({settings})"


def _settings(value: Any) -> list[tuple[str, Any]]:
    shown = [f for f in dataclasses.fields(value) if f.repr and not is_default(f, getattr(value, f.name))]
    return [(f.name, getattr(value, f.name)) for f in shown]


def brief(value: Any) -> str:
    """A dataclass or named tuple that holds data: as `short`, cut where a line ends."""
    named = isinstance(value, tuple)
    return described(value, zip(type(value)._fields, value, strict=True) if named else _settings(value))


def described(value: Any, pairs: Iterable[tuple[str, Any]]) -> str:
    """The name of its class with as many of the pairs behind as a line holds."""
    found, left = [], MOST
    for name, inner in pairs:
        found.append(f"{name}={_in_line(_BRIEF, inner)}")
        left -= len(found[-1]) + 2
        if left < 0:
            found[-1] = "..."
            break
    return f"{type(value).__name__}({', '.join(found)})"


def one_line(value: Any) -> str:
    """Any value in one line of an error."""
    return _in_line(_SHORT, value)


def _in_line(shortener: reprlib.Repr, value: Any) -> str:
    """Without line breaks, and without addresses, which say nothing."""
    return re.sub(r" at 0x[0-9a-f]+", "", " ".join(shortener.repr(value).split()))


def is_default(f: dataclasses.Field[Any], value: Any) -> bool:
    """Whether a field has the value that it has if it is not given."""
    default = f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
    if default is dataclasses.MISSING or isinstance(value, np.ndarray) or isinstance(default, np.ndarray):
        return value is default
    try:
        return value is default or (type(value) is type(default) and bool(value == default))
    except ValueError:  # it holds arrays
        return False
