"""Tables of named components: `NAME[:key=value,...]`, or a table with a `name`, in, a checked object out.

A table maps a name to a frozen dataclass, or to a preset of one (`functools.partial`). Adding a component is one file
and one line in its table; the command line, the docs and the conformance suites read the tables. Components of others
need no line: `TABLE.register(name, cls)`, an entry point of the group `fedparity.GROUP` in an installed package, or
`package.module:Class[:key=value,...]` wherever a name is taken.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from fedparity.core import imports
from fedparity.core.described import parameter_help
from fedparity.core.errors import ConfigError, FedparityError, unknown
from fedparity.core.reprs import is_default, one_line, short

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from pydantic import TypeAdapter

T = TypeVar("T")
SMALLEST, LARGEST = 1e-30, 1e9
"""Of a setting, in size: beyond them sums of it overflow, vanish or do not fit a counter."""
OURS = "fedparity"
"""Where our own components come from, as lists say it."""
_NAME = re.compile(r"[^\W\d][\w-]*")


class Registry(Mapping[str, Callable[..., T]], Generic[T]):
    """Components of one kind, by name: ours, registered ones and entry points of installed packages, in this order."""

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, Callable[..., T]],
        *,
        group: str | None = None,
        needs: type | tuple[str, ...] = (),
    ) -> None:
        """`kind` is the singular noun used in messages, `group` the plural; components have what `needs` has."""
        self.kind = kind
        self.group = f"{kind}s" if group is None else group
        self._needs = needs
        self._entries = dict(entries)
        self._registered: set[str] = set()
        self._installed: dict[str, EntryPoint] | None = None
        for name, maker in reversed(list(entries.items())):
            if isinstance(maker, type) and dataclasses.is_dataclass(maker):
                maker.__repr__ = functools.partialmethod(short, name)  # type: ignore[assignment]

    def __getitem__(self, name: str) -> Callable[..., T]:
        """The class or preset of that name, or an error with the nearest name."""
        if name in self._entries:
            return self._entries[name]
        if imports.names_code(str(name)):
            return self._maker(name, imports.load(self.kind, name))
        if (point := self._entry_points().get(name)) is not None:
            return self._maker(name, imports.load_entry_point(self.kind, point))
        raise unknown(self.kind, name, self)

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self._entry_points()

    def __iter__(self) -> Iterator[str]:
        return iter((*self._entries, *self._entry_points()))

    def __len__(self) -> int:
        return len(self._entries) + len(self._entry_points())

    def __repr__(self) -> str:
        names = list(self._entries)
        more = ", ..." if len(names) > 4 else ""
        return f"{type(self).__name__}({len(names)} {self.group}: {', '.join(names[:4])}{more})"

    @overload
    def register(self, name: str, maker: Callable[..., T]) -> Callable[..., T]: ...
    @overload
    def register(self, name: str) -> Callable[[Callable[..., T]], Callable[..., T]]: ...
    def register(self, name: str, maker: Callable[..., T] | None = None) -> Callable[..., Any]:
        """Add a component under a name of its own; without `maker` a decorator. The same class may come again."""
        if maker is None:
            return functools.partial(self.register, name)
        if not _NAME.fullmatch(str(name)):
            raise ConfigError(f"{self.kind} {name!r}: a name is made of letters, digits, _ and -, a letter first")
        there = self._entries.get(name)
        if there is not None and not (name in self._registered and _origin(there) == _origin(maker)):
            raise ConfigError(f"{self.kind} {name!r} is there already ({_origin(there)}); choose another name")
        self._entries[name] = self._maker(name, maker)
        self._registered.add(name)
        if self._installed is not None:
            self._installed.pop(name, None)
        return maker

    def name_in(self, given: str | Mapping[str, Any]) -> str:
        """The name in a component's text or table; that of code of others is `package.module:Class`."""
        return self._split(given if isinstance(given, str) else str(given.get("name")))[0]

    def of(self, given: str | Mapping[str, Any] | T) -> T:
        """A component given as an object, as its text, or as a table: `{"name": NAME, key: value, ...}`.

        A value of a table may be a table itself, where a component takes another one.
        """
        if isinstance(given, str):
            return self.build(given)
        if not isinstance(given, Mapping):
            return self._fitting(given)
        name = given.get("name")
        if not isinstance(name, str):
            raise ConfigError(f"{self.kind}: a table needs a name, for example {{name = {next(iter(self))!r}}}")
        only, rest = self._split(name)
        if rest:
            raise ConfigError(f"{self.kind} {name!r}: in a table settings are keys of their own; write name = {only!r}")
        return self._make(only, lambda: ((key, value) for key, value in given.items() if key != "name"), only)

    def build(self, text: str) -> T:
        """The component that `NAME[:key=value,...]` or `package.module:Class[:key=value,...]` asks for."""
        name, rest = self._split(text)
        return self._make(name, lambda: self._pairs(text, rest), text)

    def _pairs(self, text: str, rest: str) -> Iterator[tuple[str, str]]:
        for part in filter(None, (p.strip() for p in rest.split(","))):
            key, equals, value = part.partition("=")
            if not equals:
                raise ConfigError(f"{self.kind} {text!r}: {part!r} must be written key=value")
            yield key.strip(), value.strip()

    def _make(self, name: str, settings: Callable[[], Iterable[tuple[str, Any]]], text: str) -> T:
        if name not in self._entries and not imports.allowed():
            return cast("T", imports.NotImported(text))
        maker = self[name]
        hints = _hints(self.kind, name, maker)
        given: dict[str, Any] = {}
        for key, value in settings():
            if key not in hints:
                raise ConfigError(f"{self.kind} {name!r}: {unknown('key', key, hints)}")
            if key in given:
                raise ConfigError(f"{self.kind} {text!r}: key {key!r} is given twice; keep one")
            given[key] = convert(f"{name}:{key}", value, hints[key])
        try:
            return self._fitting(maker(**given))
        except FedparityError:
            raise
        except Exception as error:
            raise ConfigError(f"{self.kind} {text!r} cannot be made ({type(error).__name__}: {error})") from error

    def entries(self) -> Iterator[tuple[str, Callable[..., T]]]:
        """Ours and registered ones, by name."""
        return iter(self._entries.items())

    def describe(self, name: str) -> dict[str, Any]:
        """Name, summary, parameters with their defaults, reference and origin, as `fedparity list` shows them."""
        point = None if name in self._entries else self._entry_points().get(name)
        origin = imports.origin(point) if point else _origin(self[name]) if name in self._registered else OURS
        try:
            maker = self[name]
        except ConfigError as error:
            if point is None:
                raise
            return {"name": name, "summary": str(error), "parameters": {}, "reference": None, "origin": origin}
        cls = component_class(maker)
        preset = maker.keywords if isinstance(maker, functools.partial) else {}
        summary = (inspect.getdoc(cls) or "").partition("\n")[0]
        if preset:
            settings = ", ".join(f"{key}={value}" for key, value in preset.items())
            summary = f"{summary.removesuffix('.')}; preset: {settings}."
        return {
            "name": name,
            "summary": summary,
            "parameters": {key: preset.get(key, default) for key, default in _parameters(cls).items()},
            "parameter_help": parameter_help(cls),
            "reference": getattr(cls, "reference", None),
            "origin": origin,
        }

    def _split(self, text: str) -> tuple[str, str]:
        name, _, rest = str(text).partition(":")
        name = name.strip()
        code = None if name in self._entries else imports.names_code(str(text))
        return (name, rest) if code is None else code

    def _entry_points(self) -> dict[str, EntryPoint]:
        if self._installed is None:
            self._installed = imports.entry_points(self.kind, f"{OURS}.{self.group}", self._entries)
        return self._installed

    def _maker(self, name: str, maker: Any) -> Callable[..., T]:
        if not callable(maker):
            raise ConfigError(f"{self.kind} {name!r} must be a class, not {one_line(maker)}")
        return cast("Callable[..., T]", maker)

    def _fitting(self, made: T) -> T:
        if isinstance(made, type):
            raise ConfigError(f"{self.kind} {made.__name__} is a class; give one of its objects: {made.__name__}()")
        if isinstance(made, imports.NotImported):
            return made
        lacks = next((name for name in _members(self._needs) if not hasattr(made, name)), None)
        if lacks is not None:
            fix = f"; inherit from {self._needs.__name__}, which has defaults" if isinstance(self._needs, type) else ""
            raise ConfigError(f"{one_line(made)} is no {self.kind}: it has no {lacks!r}{fix}")
        return made


class Named(dict[str, T]):
    """Things by name: short to print, and an unknown name is an error with the nearest one."""

    def __init__(self, kind: str, entries: Mapping[str, T]) -> None:
        """`kind` is the singular noun used in messages."""
        super().__init__(entries)
        self.kind = kind

    def __missing__(self, name: str) -> T:
        raise unknown(self.kind, name, self)

    def __repr__(self) -> str:
        return f"Named({len(self)} {self.kind}s: {', '.join([*self][:4])}, ...)"


@functools.lru_cache
def _members(needs: type | tuple[str, ...]) -> Iterable[str]:
    """What a component of a protocol has; what it must say itself comes first."""
    if isinstance(needs, tuple):
        return needs
    classes = [c for c in needs.__mro__ if c.__module__.startswith(OURS)]
    found = {name: value for c in reversed(classes) for name, value in vars(c).items() if not name.startswith("_")}
    return sorted(found, key=lambda name: isinstance(found[name], property))


def text_of(made: Any, tables: Iterable[Registry[Any]]) -> str | dict[str, Any] | None:
    """A component as a spec names it: `NAME[:key=value,...]`, or a table where a setting is a component itself.

    A dataclass in none of the tables is named by the module that it can be imported from.

    None: there is no such module, or it holds what no text can say.
    """
    tables, kind = tuple(tables), type(made)
    if isinstance(made, imports.NotImported):
        return made.text
    entries = [entry for table in tables for entry in table.entries() if component_class(entry[1]) is kind]
    if (
        not entries
        and dataclasses.is_dataclass(made)
        and kind.__module__ != "__main__"
        and "<" not in kind.__qualname__
    ):
        entries = [(f"{kind.__module__}:{kind.__qualname__}", kind)]
    if not entries:
        return None
    name, maker = min(entries, key=lambda entry: isinstance(entry[1], functools.partial))  # presets last
    if not dataclasses.is_dataclass(made):
        return None if _parameters(kind) else name
    preset = maker.keywords if isinstance(maker, functools.partial) else {}
    usual = {f.name: f for f in dataclasses.fields(made) if f.init and f.name not in preset}
    given: dict[str, Any] = {}
    for key in usual | preset:  # those that no text sets, too: they may hold what it cannot say
        value = getattr(made, key)
        if is_default(usual[key], value) if key in usual else value == preset[key]:
            continue
        said = _said(value, tables)
        if said is None:
            return None
        if key not in usual or said != usual[key].default:
            given[key] = said
    texts = {key: _in_text(value) for key, value in given.items()}
    if any(text is None for text in texts.values()):
        return {"name": name} | given
    return name + ":" * bool(texts) + ",".join(f"{key}={text}" for key, text in texts.items())


def _said(value: Any, tables: Iterable[Registry[Any]]) -> Any:
    """A setting as a value of a table; None if it cannot be one."""
    if value is None:
        return "none"
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, tuple):
        found = [_said(inner, tables) for inner in value]
        return None if None in found else found
    return text_of(value, tables)


def _in_text(value: Any) -> str | None:
    """A setting as it stands in a text; None if only a table can say it."""
    if isinstance(value, list):
        parts = [_in_text(inner) for inner in value]
        return "/".join(map(str, parts)) if parts and None not in parts else None
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return None if isinstance(value, dict) or (isinstance(value, str) and re.search(r"[,:;=/]", text)) else text


def component_class(maker: Callable[..., Any]) -> type:
    """The class behind a table entry, preset or not."""
    inner = maker.func if isinstance(maker, functools.partial) else maker
    return cast("type", inner)


def _origin(maker: Callable[..., Any]) -> str:
    cls = component_class(maker)
    return f"{cls.__module__}:{cls.__qualname__}"


def _parameters(cls: Any) -> dict[str, Any]:
    """What can be set, each with its default: fields of a dataclass, else arguments."""
    if dataclasses.is_dataclass(cls):
        settable = [f for f in dataclasses.fields(cls) if f.init and f.metadata.get("settable", True)]
        return {f.name: None if f.default is dataclasses.MISSING else f.default for f in settable}
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = [p for p in inspect.signature(cls).parameters.values() if p.kind in named]
    return {p.name: None if p.default is p.empty else p.default for p in found}


def _hints(kind: str, name: str, maker: Callable[..., Any]) -> dict[str, Any]:
    """The type of everything that can be set; where none is written, that of the default, else text."""
    cls: Any = component_class(maker)
    try:
        return _types(cls, plain=isinstance(cls, type) and not dataclasses.is_dataclass(cls))
    except (NameError, TypeError, ValueError) as error:
        raise ConfigError(f"{kind} {name!r}: the types of its settings cannot be read ({error})") from error


@functools.lru_cache(maxsize=1000)
def _types(cls: Any, *, plain: bool) -> dict[str, Any]:
    """Remembered: reading them is most of the time that it takes to make a component."""
    hints = typing.get_type_hints(cls.__init__ if plain else cls)
    return {key: hints.get(key, str if value is None else type(value)) for key, value in _parameters(cls).items()}


def convert(label: str, given: Any, hint: Any) -> Any:
    """A text or a value of a table as a value of type `hint`; in text lists are written a/b/c, nothing as `none`.

    A value that may be any text or another component stays as it is: its component looks at it.
    """
    from pydantic import PydanticUserError, ValidationError

    value = given
    text = given.lower() if isinstance(given, str) else None
    listed = any(typing.get_origin(h) is tuple for h in (hint, *typing.get_args(hint)))
    choices = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else ()
    if str in choices and isinstance(given, (str, Mapping)) and not (text == "none" and type(None) in choices):
        return given
    if text == "none":
        value = None
    elif listed and isinstance(given, (str, list)):
        value = tuple(given.split("/") if isinstance(given, str) else given)
    try:
        found = _adapter(hint).validate_python(value, strict=None if isinstance(given, (str, list)) else True)
    except ValidationError as error:
        raise ConfigError(f"{label}={one_line(given)} must be {_name(hint)}") from error
    except PydanticUserError as error:
        raise ConfigError(f"{label}={one_line(given)} cannot be given as text; give an object that has it") from error
    numbers = [x for x in (found if isinstance(found, tuple) else (found,)) if isinstance(x, (int, float))]
    if not all(math.isfinite(x) for x in numbers if isinstance(x, float)):
        raise ConfigError(f"{label}={one_line(given)} must be a finite number")
    if not all(x == 0 or SMALLEST <= abs(x) <= LARGEST for x in numbers):
        raise ConfigError(f"{label}={one_line(given)} must be 0, or between {SMALLEST:g} and {LARGEST:g} in size")
    return 0.0 if isinstance(found, float) and found == 0 else found  # -0.0 is a 0 below 0 to some


@functools.lru_cache(maxsize=1000)
def _adapter(hint: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(hint)


def _name(hint: Any) -> str:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(map(str, arguments))
    if typing.get_origin(hint) is tuple:
        return "numbers written a/b/c"
    if arguments:
        return " or ".join(_name(a) for a in arguments)
    return {int: "a whole number", float: "a number", bool: "true or false", type(None): "none"}.get(hint, str(hint))
