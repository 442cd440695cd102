"""Short texts of objects: what differs from the defaults, and shapes instead of numbers."""

from __future__ import annotations

import dataclasses
import reprlib
from typing import Any

import numpy as np


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxother = self.maxstring = 80

    def repr_ndarray(self, array: np.ndarray[Any, Any], level: int) -> str:
        """Its shape and type."""
        return f"<{' x '.join(map(str, array.shape))} {array.dtype}>"


_SHORT = _Short()


def short(value: Any, name: str | None = None) -> str:
    """A dataclass as `name(key=value, ...)`, without what is at its default."""
    shown = [f for f in dataclasses.fields(value) if f.repr and not is_default(f, getattr(value, f.name))]
    settings = ", ".join(f"{f.name}={_SHORT.repr(getattr(value, f.name))}" for f in shown)
    return f"{type(value).__name__ if name is None else name}({settings})"


def one_line(value: Any) -> str:
    """Any value in one line of an error."""
    return " ".join(_SHORT.repr(value).split())


def is_default(f: dataclasses.Field[Any], value: Any) -> bool:
    """Whether a field has the value that it has if it is not given."""
    default = f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
    if default is dataclasses.MISSING or isinstance(value, np.ndarray) or isinstance(default, np.ndarray):
        return value is default
    return type(value) is type(default) and bool(value == default)
