"""A spec as a TOML file: read, with overrides laid over it, written, and written as a commented starter."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError

from fedparity.core.errors import ConfigError, InputError
from fedparity.experiment.spec import MethodSpec, Spec
from fedparity.experiment.spec_errors import VERSION, one_line
from fedparity.experiment.spec_parts import written
from fedparity.experiment.starters import read_starter

_DECIMAL = re.compile(r"[+-]?(?:\.\d+|\d+\.)(?:[eE][+-]?\d+)?")
"""Decimals as people write them and TOML does not: .3"""
NOTHING: Mapping[str, Any] = MappingProxyType({})


def load(path: str | Path, overrides: Sequence[str] = (), options: Mapping[str, Any] = NOTHING) -> Spec:
    """A spec file, with `options` by key and then `key=value` overrides (`population.clients=50`) laid over it."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; `fedparity init {path}` writes a starter") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read as text ({reason}); give a spec file in UTF-8") from error
    return parse(text, str(path), overrides, options)


def parse(text: str, source: str, overrides: Sequence[str] = (), options: Mapping[str, Any] = NOTHING) -> Spec:
    """A spec from TOML text; `source` stands in messages, or the option that brought in what is wrong."""
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}: not valid TOML: {error}") from error
    given_by: dict[str, str] = {}
    for key, value in options.items():
        _put(values, key, value, key)
        given_by[key] = f"--{key.rpartition('.')[2]}"
    for override in overrides:
        given_by[_lay_over(values, override)] = "--set"
    if "version" not in values:
        raise InputError(f"{source}: key 'version' is missing; add it (version = {VERSION})")
    wide = next(_too_wide(values), None)
    if wide is not None:
        raise InputError(f"{source}: key {wide!r} is a whole number of more than 64 bits; give a smaller one")
    try:
        return Spec.model_validate(values)
    except ValidationError as error:
        where = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
        raise InputError(f"{given_by.get(where, source)}: {one_line(error, Spec)}") from error


def _too_wide(value: Any, key: str = "") -> Iterator[str]:
    """Keys of whole numbers that TOML does not have: Python reads them, and cannot always write them again."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _too_wide(inner, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list):
        for inner in value:
            yield from _too_wide(inner, key)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield key


def _lay_over(values: dict[str, Any], override: str) -> str:
    """Put the value of an override in its place; its key."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {override!r} must be written key=value, for example population.clients=50")
    try:
        value = tomllib.loads(f"v = {text}")["v"]
    except (ValueError, RecursionError):
        value = float(text) if _DECIMAL.fullmatch(text.strip()) else text
    _put(values, key.strip(), value, override)
    return key.strip()


def _put(values: dict[str, Any], key: str, value: Any, shown: str) -> None:
    *parents, last = key.split(".")
    for parent in parents:
        inner = values.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {shown!r}: {parent!r} is not a table")
        values = inner
    values[last] = value


def to_toml(spec: Spec) -> str:
    """The spec as TOML; reading it back gives the same spec."""
    return "\n".join(_toml_lines(spec, comments=False)) + "\n"


def starter() -> str:
    """A commented spec in which every key is shown with its default."""
    spec = Spec(name="first", methods=["uniform", "parity"])
    head = "# A fedparity run: start it with `fedparity run FILE`. Every key is shown with its default."
    return "\n".join([head, *_toml_lines(spec, comments=True), "", read_starter("custom")])


EXAMPLES = {
    "normaliser": "participation",
    "population.rule": "charging & wifi",
    "population.open_end": False,
    "population.round_seconds": 1800.0,
    "population.start": 0,
    "population.work_seconds": 0,
    "population.watch": 0,
    "population.speed": "lognormal",
    "population.trace_seed": 0,
    "data.partition": "dirichlet:alpha=0.5",
    "data.validation": 0.02,
    "data.scored_on": "validation",
    "data.features": "efficientnet_lite0:size=96",
    "model.name": "cnn",
    "model.weights": "first.safetensors",
    "training.steps": 10,
    "training.clip": 5.0,
    "execution.threads": 1,
    "execution.channels_last": True,
    "execution.workers": 2,
}
"""What a starter shows for keys that are left out."""


def _toml_lines(spec: Spec, *, comments: bool) -> Iterator[str]:
    def lines(part: BaseModel, section: str = "") -> Iterator[str]:
        for name, field in type(part).model_fields.items():
            value = getattr(part, name)
            if isinstance(value, (BaseModel, tuple)):
                continue
            note = f"  # {field.description}" if comments else ""
            if value is not None:
                yield f"{name} = {written(value)}{note}"
            elif comments and not isinstance(part, MethodSpec):
                yield f"# {name} = {written(EXAMPLES[f'{section}.{name}'.lstrip('.')])}{note}"

    yield from lines(spec)
    for name in type(spec).model_fields:
        part = getattr(spec, name)
        if isinstance(part, BaseModel):
            yield from ("", f"[{name}]", *lines(part, name))
    for contender in spec.methods:
        yield from ("", "[[methods]]", *lines(contender))
