"""Code of others: classes written as `package.module:Class`, and entry points of installed packages.

A component that is not ours is looked up when its name is asked for, never at import. The folder that a command is
started in comes last on the path, so that a file in it cannot pass itself off as an installed module.

Who reads files that may come from elsewhere (a run's folder, a checkpoint) does so under `without_imports`: a name that
is not ours then stands for itself as a `NotImported`, and no code runs.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import re
import sys
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from fedparity.core.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_DOTTED = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_CODE = re.compile(rf"\s*({_DOTTED})\s*:\s*({_DOTTED})\s*(?::(.*))?", re.DOTALL)
_allowed: ContextVar[bool] = ContextVar("imports_allowed", default=True)


@dataclass(frozen=True, slots=True)
class NotImported:
    """A component of others whose code was not imported: it can be named, and refuses to be used."""

    text: str
    keeps: ClassVar[bool] = False
    forecasts: ClassVar[bool] = False
    hindsight: ClassVar[bool] = False
    credits_all: ClassVar[bool] = False
    report_fields: ClassVar[tuple[str, ...]] = ()
    requires: ClassVar[tuple[str, ...]] = ()
    goes_with: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def init(self, *_: object) -> NotImported:
        """Itself: what it keeps is not known, and comes out of a stored state as plain values."""
        return self

    def draw(self, *_: object) -> Any:
        """Refused, like everything else that it would do."""
        raise _not_here(self.text)

    build = extractor = scale = split = select = draw


@contextmanager
def without_imports() -> Iterator[None]:
    """Within it, components that are not ours are not imported."""
    token = _allowed.set(False)
    try:
        yield
    finally:
        _allowed.reset(token)


def allowed() -> bool:
    """Whether code of others may be imported here."""
    return _allowed.get()


def names_code(text: str) -> tuple[str, str] | None:
    """`package.module:Class` and the settings behind it, if that is how `text` is written."""
    found = _CODE.fullmatch(text)
    return None if found is None else (f"{found[1]}:{found[2]}", found[3] or "")


def load(kind: str, name: str) -> Any:
    """What `package.module:Class` names, or one line that says why not."""
    if not allowed():
        raise _not_here(name)
    module, _, path = name.partition(":")
    here = os.getcwd()  # noqa: PTH109 - the path holds texts
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        return functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except Exception as error:
        raise ConfigError(
            f"{kind} {name!r} cannot be imported ({_reason(error)}); mend the name or the module"
        ) from error


def entry_points(kind: str, group: str, ours: Container[str]) -> dict[str, EntryPoint]:
    """The entry points of a group by name; of two with one name ours counts, or the first."""
    from importlib.metadata import entry_points as installed

    found: dict[str, EntryPoint] = {}
    for point in installed(group=group):
        if point.name in ours or point.name in found:
            logging.getLogger("fedparity").warning(
                "%s %r of %s is not used: there is one of that name already", kind, point.name, origin(point)
            )
        else:
            found[point.name] = point
    return found


def load_entry_point(kind: str, point: EntryPoint) -> Any:
    """What an entry point names, or one line that says why not."""
    if not allowed():
        raise _not_here(point.name)
    try:
        return point.load()
    except Exception as error:
        owner = origin(point)
        raise ConfigError(
            f"{kind} {point.name!r} of {owner} cannot be imported ({_reason(error)}); mend or remove {owner}"
        ) from error


def origin(point: EntryPoint) -> str:
    """The package that has an entry point."""
    return point.value.partition(".")[0].partition(":")[0] if point.dist is None else point.dist.name


def _not_here(text: str) -> ConfigError:
    return ConfigError(f"{text!r} is not imported: a stored run is read without code of others; resume it by its spec")


def _reason(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
