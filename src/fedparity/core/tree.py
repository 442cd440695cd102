"""States as data: any tree of dataclasses, tuples, lists, dicts, arrays and plain values, without pickle.

`flatten` gives a JSON skeleton and the arrays it refers to by path; `rebuild` puts them together again. Only
dataclasses that the caller names can come out of a file: a checkpoint cannot make the reader import or run anything.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from fedparity.core.errors import ConfigError, FedparityError, InputError, OutputError
from fedparity.core.files import write_bytes
from fedparity.core.imports import NotImported

Arrays = dict[str, NDArray[Any]]
D = TypeVar("D")
FORMAT = "fedparity-state 1"
"""The key in the metadata of a state's file under which its skeleton stands."""


def flatten(value: Any, path: str = "") -> tuple[Any, Arrays]:
    """The JSON skeleton of a state and its arrays by path."""
    arrays: Arrays = {}
    return _flatten(value, path, arrays), arrays


def _flatten(value: Any, path: str, arrays: Arrays) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"array": path}
    if isinstance(value, (tuple, list)):
        items = [_flatten(v, f"{path}/{i}", arrays) for i, v in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if isinstance(value, Foreign):
        return {"class": value.of, "fields": {k: _flatten(v, f"{path}/{k}", arrays) for k, v in value.items()}}
    if isinstance(value, dict):
        if not any(all(isinstance(key, kind) for key in value) for kind in (int, str)):
            raise _no_state("a dict with other keys", path)
        return {"dict": [[k, _flatten(v, f"{path}/{quote(str(k), '')}", arrays)] for k, v in sorted(value.items())]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            f.name: _flatten(getattr(value, f.name), f"{path}/{f.name}", arrays) for f in dataclasses.fields(value)
        }
        return {"class": class_name(type(value)), "fields": fields}
    raise _no_state(f"a {type(value).__name__}", path)


def _no_state(what: str, path: str) -> ConfigError:
    """The first part of a path says whose state it is: a coordinator's fields and a state's have the same names."""
    whose = f"the {path.split('/')[1]}'s state" if path.count("/") else "a state"
    return ConfigError(
        f"{whose} holds {what} (at {path or '/'}), which cannot be stored; use numbers, texts, arrays, tuples, lists,"
        " dicts by number or by text, and dataclasses"
    )


def class_name(cls: type) -> str:
    """How a dataclass is called in a skeleton."""
    return f"{cls.__module__}:{cls.__qualname__}"


class Foreign(dict[str, Any]):
    """The fields of a dataclass that was not imported; its name goes back into the file with them."""

    def __init__(self, of: str, /, **held: Any) -> None:
        super().__init__(held)
        self.of = of


class Classes(dict[str, type]):
    """Dataclasses that may come out of a checkpoint, by name.

    Where a component was not imported, what it keeps comes out as `Foreign`.
    """

    open = False

    def __missing__(self, name: str) -> Any:
        if not self.open:
            raise KeyError(name)
        return partial(Foreign, name)


def classes_in(value: Any) -> Classes:
    """Every dataclass in a tree, by name: what may come out of a checkpoint of the same shape."""
    found = Classes()
    _collect(value, found)
    return found


def _collect(value: Any, found: Classes) -> None:
    inside: Iterable[Any] = ()
    if isinstance(value, NotImported):
        found.open = True
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        found[class_name(type(value))] = type(value)
        inside = (getattr(value, f.name) for f in dataclasses.fields(value))
    elif isinstance(value, (tuple, list)):
        inside = value
    elif isinstance(value, dict):
        inside = value.values()
    for item in inside:
        _collect(item, found)


def rebuild(skeleton: Any, arrays: Arrays, classes: dict[str, type]) -> Any:
    """The state of a skeleton; InputError if it is not one."""
    try:
        return _rebuild(skeleton, arrays, classes)
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise InputError(f"a checkpoint does not fit this run ({type(error).__name__}: {error})") from error


def _rebuild(node: Any, arrays: Arrays, classes: dict[str, type]) -> Any:
    if not isinstance(node, dict):
        return node
    if "array" in node:
        return arrays[node["array"]]
    if "float" in node:
        return float(node["float"])
    if "tuple" in node:
        return tuple(_rebuild(n, arrays, classes) for n in node["tuple"])
    if "list" in node:
        return [_rebuild(n, arrays, classes) for n in node["list"]]
    if "dict" in node:
        return {k: _rebuild(n, arrays, classes) for k, n in node["dict"]}
    return classes[node["class"]](**{k: _rebuild(n, arrays, classes) for k, n in node["fields"].items()})


def save(path: str | os.PathLike[str], value: Any) -> None:
    """Write a state as a safetensors file: its arrays, and the skeleton in the metadata."""
    from safetensors.numpy import save as packed

    try:
        skeleton, arrays = flatten(value)
        about = {FORMAT: json.dumps(skeleton, allow_nan=False, separators=(",", ":"))}  # of several the order varies
        data = packed({name: np.asarray(array, order="C") for name, array in arrays.items()}, about)
    except ConfigError as error:
        raise OutputError(f"{path}: {error}") from error
    except (KeyError, TypeError) as error:  # arrays of no type that a file has
        raise OutputError(f"{path}: {error}; a state is made of arrays, numbers, texts and dataclasses") from error
    write_bytes(path, data)


def load(path: str | os.PathLike[str], fresh: Callable[[Arrays], D]) -> D:
    """The state in a file; `fresh` makes one of the same kind for its arrays: only classes in that may come out."""
    skeleton, arrays = _read(path)
    try:
        like: Any = fresh(arrays)
        found = rebuild(skeleton, arrays, classes_in(like))
    except (KeyError, TypeError, FedparityError) as error:
        raise InputError(f"{path}: not a state of this method ({error}); give the coordinator that saved it") from error
    for name, array in flatten(like)[1].items():
        kept = arrays.get(name)
        if kept is not None and (kept.shape[:1] != array.shape[:1] or kept.dtype != array.dtype):
            kinds = f"{kept.dtype} {kept.shape}, not {array.dtype} {array.shape}"
            raise InputError(f"{path}: {name} is {kinds}; give the coordinator that saved it")
    for f in dataclasses.fields(like):
        old, new = getattr(like, f.name), getattr(found, f.name, None)
        if old is not None and type(old) is not type(new):
            kinds = f"a {type(new).__name__}, not a {type(old).__name__}"
            raise InputError(f"{path}: {f.name} is {kinds}; give the coordinator that saved it")
    return found  # type: ignore[no-any-return]


def _read(path: str | os.PathLike[str]) -> tuple[Any, Arrays]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            about = file.metadata() or {}
            if FORMAT not in about:
                raise InputError(f"{path}: not a state of this version ({FORMAT}); save it again with State.save")
            names = file.keys()
            return json.loads(about[FORMAT]), {name: np.array(file.get_tensor(name)) for name in names}
    except (OSError, SafetensorError, KeyError, RecursionError, TypeError, ValueError) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise InputError(f"{path}: cannot be read as a state ({reason}); give a file that State.save wrote") from error
