"""What each parameter of a component does: the line under its field, read from the source when somebody asks."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import sys
from functools import lru_cache


def parameter_help(cls: type) -> dict[str, str]:
    """The line under each settable field of a dataclass, its own or inherited; fields without one are left out."""
    written: dict[str, str] = {}
    # Base classes first: a field that a class declares again may say something else there.
    for base in filter(dataclasses.is_dataclass, reversed(cls.__mro__)):
        written |= _lines(base.__module__).get(base.__name__, {})
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    names = [f.name for f in fields if f.metadata.get("settable", True)]
    return {name: written[name] for name in names if name in written}


@lru_cache(maxsize=256)
def _lines(module: str) -> dict[str, dict[str, str]]:
    """Of every class at the top of a module, its fields' lines; nothing if there is no source to read."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError):
        return {}
    return {node.name: dict(_documented(node)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _documented(node: ast.ClassDef) -> list[tuple[str, str]]:
    found = []
    for field, below in itertools.pairwise(node.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found.append((name, " ".join(text.split())))
    return found
