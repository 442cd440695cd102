"""Tables of named components: `NAME[:key=value,...]` in, a checked object out.

A table maps a name to a frozen dataclass, or to a preset of one (`functools.partial`). Adding a component is one file
and one line in its table; the command line, the docs and the conformance suites read the tables.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from fedparity.core.described import parameter_help
from fedparity.core.errors import ConfigError, unknown

T = TypeVar("T")


class Registry(Mapping[str, Callable[..., T]], Generic[T]):
    """Components of one kind, by name."""

    def __init__(self, kind: str, entries: Mapping[str, Callable[..., T]]) -> None:
        """`kind` is the singular noun used in messages."""
        self.kind = kind
        self._entries = dict(entries)

    def __getitem__(self, name: str) -> Callable[..., T]:
        """The class or preset of that name, or an error with the nearest name."""
        try:
            return self._entries[name]
        except KeyError:
            raise unknown(self.kind, name, self._entries) from None

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def build(self, text: str) -> T:
        """The component that `NAME[:key=value,...]` asks for."""
        name, _, rest = text.partition(":")
        maker = self[name.strip()]
        given: dict[str, Any] = {}
        hints = _hints(maker)
        for part in filter(None, (p.strip() for p in rest.split(","))):
            key, equals, value = part.partition("=")
            key = key.strip()
            if not equals:
                raise ConfigError(f"{self.kind} {text!r}: {part!r} must be written key=value")
            if key not in hints:
                raise ConfigError(f"{self.kind} {name!r}: {unknown('key', key, hints)}")
            if key in given:
                raise ConfigError(f"{self.kind} {text!r}: key {key!r} is given twice; keep one")
            given[key] = convert(f"{name}:{key}", value.strip(), hints[key])
        return maker(**given)

    def describe(self, name: str) -> dict[str, Any]:
        """Name, summary, parameters (defaults, and what they do) and reference, as `fedparity list` shows them."""
        maker = self[name]
        cls = component_class(maker)
        preset = maker.keywords if isinstance(maker, functools.partial) else {}
        return {
            "name": name,
            "summary": (inspect.getdoc(cls) or "").partition("\n")[0],
            "parameters": {
                f.name: preset.get(f.name, None if f.default is dataclasses.MISSING else f.default)
                for f in _fields(cls)
            },
            "parameter_help": parameter_help(cls),
            "reference": getattr(cls, "reference", None),
        }


def component_class(maker: Callable[..., Any]) -> type:
    """The class behind a table entry, preset or not."""
    inner = maker.func if isinstance(maker, functools.partial) else maker
    return typing.cast("type", inner)


def _fields(cls: type) -> list[dataclasses.Field[Any]]:
    return [f for f in dataclasses.fields(cls) if f.metadata.get("settable", True)]


def _hints(maker: Callable[..., Any]) -> dict[str, Any]:
    cls = component_class(maker)
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in _fields(cls)}


def convert(label: str, text: str, hint: Any) -> Any:
    """`text` as a value of type `hint`; lists are written a/b/c, nothing as `none`.

    A value that may be any text stays as it is: its component looks at it.
    """
    from pydantic import TypeAdapter, ValidationError

    value: object = text
    choices = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else ()
    if str in choices and not (text.lower() == "none" and type(None) in choices):
        return text
    if text.lower() == "none":
        value = None
    elif any(typing.get_origin(h) is tuple for h in (hint, *typing.get_args(hint))):
        value = tuple(text.split("/"))
    try:
        found = TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        raise ConfigError(f"{label}={text!r} must be {_name(hint)}") from error
    if any(isinstance(x, float) and not math.isfinite(x) for x in (found if isinstance(found, tuple) else (found,))):
        raise ConfigError(f"{label}={text!r} must be a finite number")
    return found


def _name(hint: Any) -> str:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(map(str, arguments))
    if typing.get_origin(hint) is tuple:
        return "numbers written a/b/c"
    if arguments:
        return " or ".join(_name(a) for a in arguments)
    return {int: "a whole number", float: "a number", bool: "true or false", type(None): "none"}.get(hint, str(hint))
