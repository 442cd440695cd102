"""What is said about a spec that cannot be used: one line with the key, the value, the rule and the fix."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

from pydantic import BaseModel, ValidationError

from fedparity.core.errors import unknown

VERSION: Literal[2] = 2
"""Of the format of specs."""
_MOVED = {
    "data": ("partition", "label", "client", "standardise", "validation", "scored_on", "features"),
    "model": ("weights", "head", "trains"),
    "training": ("epochs", "steps", "batch", "rate", "schedule", "optimiser", "momentum", "weight_decay", "clip"),
    "execution": ("path", "threads", "channels_last", "device"),
}
_NOW = {key: f"{section}.{key}" for section, keys in _MOVED.items() for key in keys}
_NOW |= {"dataset": "data.set", "model": "model.name"}
"""Where the keys of version 1's [task] are now."""
_RULES = {
    "string_pattern_mismatch": "it must be 1 to 64 letters, digits and _ . + -, with a letter or digit first",
    "tuple_type": 'it must be a list of names or tables: methods = ["parity"], or [[methods]] for each',
    "model_type": "it must be a table of keys, as `fedparity init` shows it",
}
"""Where pydantic speaks of its own types, what a reader of TOML can act on."""


def outdated(values: Mapping[str, Any]) -> str | None:
    """What to write instead of a version or keys that are no more; None if there are none."""
    changes = list(_changes(values))
    if values.get("version") == 1:
        rest = "".join(f", {new} for {old}" for old, new in changes)
        return f"version 1 is of fedparity 0.1; write version = {VERSION}{rest}"
    if not changes:
        return None
    old, new = changes[0]
    more = "".join(f", {new} for {old}" for old, new in changes[1:])
    return f"key {old!r} is no more; write {new}{more}"


def _changes(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    task = values.get("task", {})
    if not isinstance(task, Mapping):
        yield "task", "[data], [model], [training] and [execution]"
        return
    for key, value in task.items():
        if key == "labels_per_client":
            yield f"task.{key}", f'data.partition = "labels:k={value}"'
        elif key == "hidden":
            yield f"task.{key}", f'model.name = "mlp:hidden={value}"'
        elif key in _NOW:
            now = "sequential" if (key, value) == ("path", "plain") else value
            yield f"task.{key}", f"{_NOW[key]} = {json.dumps(now, ensure_ascii=False, default=str)}"
        else:
            yield f"task.{key}", "it in [data], [model], [training] or [execution]"
    if "workers" in values:
        yield "workers", f"execution.workers = {values['workers']}"


def one_line(error: ValidationError, root: type[BaseModel]) -> str:
    """The first thing that is wrong with a `root`."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    value = first["input"]
    long = isinstance(value, int) and abs(value) > 10**100  # some are too long to be written at all
    shown = f"{value!r}" if isinstance(value, (str, int, float, bool)) and not long else type(value).__name__
    kind = first["type"]
    if kind == "extra_forbidden":
        return str(unknown("key", where, _keys_beside(root, first["loc"])))
    if kind == "missing":
        return f"key {where!r} is missing; add it"
    if kind == "value_error":
        text = str(first["ctx"]["error"])
        return f"{where}: {text}" if where else text
    rule = _RULES.get(kind) or first["msg"][0].lower() + first["msg"][1:]
    return f"key {where!r} is {shown}: {rule}"


def _keys_beside(root: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The keys that may stand where an unknown one was found, written as a user writes them."""
    model = root
    for part in loc[:-1]:
        if isinstance(part, str):
            kind = model.model_fields[part].annotation
            model = next(t for t in (kind, *get_args(kind)) if isinstance(t, type) and issubclass(t, BaseModel))
    prefix = "".join(f"{part}." for part in loc[:-1])
    return [prefix + name for name in model.model_fields]
