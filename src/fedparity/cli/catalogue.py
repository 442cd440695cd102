"""What there is, by table and name: components, methods, metrics, attacks, data sets, as `fedparity list` shows it."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fedparity.availability import AVAILABILITY
from fedparity.availability.speeds import SPEEDS
from fedparity.core.errors import ConfigError, FedparityError, unknown
from fedparity.core.imports import without_imports
from fedparity.core.registry import OURS, Registry, component_class
from fedparity.data import KNOWN
from fedparity.data.partitions import PARTITIONS
from fedparity.estimators import ESTIMATORS
from fedparity.experiment import METHODS, Method
from fedparity.local import LOCALS
from fedparity.memory import MEMORIES
from fedparity.metrics import MEASURES
from fedparity.models import MODELS
from fedparity.models.features import EXTRACTORS
from fedparity.report import citations
from fedparity.schedulers import SCHEDULERS
from fedparity.servers import SERVERS
from fedparity.servers.rate_schedules import RATE_SCHEDULES
from fedparity.surrogates import SURROGATES
from fedparity.testing import ATTACKS
from fedparity.utility import UTILITIES
from fedparity.weightings import WEIGHTINGS

if TYPE_CHECKING:
    from fedparity.experiment.spec import Spec
    from fedparity.experiment.spec_parts import Population

Entry: TypeAlias = dict[str, Any]
"""`name, summary, parameters, reference, origin`."""

COMPONENTS: dict[str, Registry[Any]] = {
    "schedulers": SCHEDULERS,
    "availability": AVAILABILITY,
    "speeds": SPEEDS,
    "estimators": ESTIMATORS,
    "utilities": UTILITIES,
    "weightings": WEIGHTINGS,
    "surrogates": SURROGATES,
    "memories": MEMORIES,
    "partitions": PARTITIONS,
    "locals": LOCALS,
    "servers": SERVERS,
    "schedules": RATE_SCHEDULES,
    "models": MODELS,
    "extractors": EXTRACTORS,
}
TABLE_OF = {"availability": "availability", "utility": "utilities", "memory": "memories", "features": "extractors"}
"""Keys of a spec or a method whose table is not called by their plural."""


def tables() -> dict[str, list[Entry]]:
    """Every table with its entries."""
    found = {name: [table.describe(entry) for entry in table] for name, table in COMPONENTS.items()}
    found["methods"] = [_method(name, m) for name, m in METHODS.items()]
    found["metrics"] = [_entry(name, measure.says) for name, measure in MEASURES.items()]
    found["attacks"] = [_entry(name, attack.summary) for name, attack in ATTACKS.items()]
    found["datasets"] = [_entry(known.name, f"{known.title}.") for known in KNOWN.values()]
    return found


def find(name: str, table: str | None = None) -> list[Entry]:
    """Every entry of that name (in that table) with its `table`, or an error with the nearest one."""
    everything = tables()
    if table is not None and table not in everything:
        raise unknown("table", table, everything)
    searched = everything if table is None else {table: everything[table]}
    found = [{"table": t, **entry} for t, entries in searched.items() for entry in entries if entry["name"] == name]
    if not found:
        names = [entry["name"] for entries in searched.values() for entry in entries]
        if table is not None:
            raise ConfigError(f"{table}: {unknown('name', name, names)}")
        raise unknown("table or name", name, [*everything, *names])
    return found


def text_of(entry: Entry) -> str:
    """The paper, the equation and what was changed: the docstring of the component's module."""
    table = COMPONENTS.get(entry["table"])
    if table is None:
        return ""
    return inspect.getdoc(sys.modules[component_class(table[entry["name"]]).__module__]) or ""


def parts_of(entry: Entry) -> list[Entry]:
    """What a method is made of: each component with its `key`, and its parameters as the method sets them."""
    found = []
    for key, text in entry["parameters"].items() if entry["table"] == "methods" else ():
        table = COMPONENTS.get(TABLE_OF.get(key, f"{key}s"))
        name = "" if table is None else table.name_in(str(text))
        if table is None or name not in table or name in ("none", "plain"):
            continue
        built = table.build(str(text))
        described = {"table": TABLE_OF.get(key, f"{key}s"), **table.describe(name), "key": key}
        found.append(described | {"parameters": {k: getattr(built, k, None) for k in described["parameters"]}})
    return found


def cites_of(entry: Entry) -> list[str]:
    """The citation keys of an entry, and for a method those of its parts."""
    keys = list(citations.keys_of(entry["table"], entry["name"], entry["reference"]))
    for part in parts_of(entry):
        if _counts(part["table"], part["parameters"]):
            keys += citations.keys_of(part["table"], part["name"], part["reference"])
    return list(dict.fromkeys(keys))


def _counts(table: str, parameters: dict[str, Any]) -> bool:
    """Whether a component is more than what everybody does: a plain step without momentum is not cited."""
    return table != "servers" or parameters.get("momentum", 1) != 0


def cites_of_spec(spec: Spec) -> list[str]:
    """The citation keys of everything a spec uses, methods first."""
    with without_imports():  # a spec may come from a folder that was received
        return list(dict.fromkeys(_spec_keys(spec.resolved())))


def _spec_keys(spec: Spec) -> Iterator[str]:
    for contender in spec.methods:
        named = METHODS.get(contender.name)
        yield from citations.keys_of("methods", contender.name, None if named is None else named.reference)
        yield from _component_keys(contender.model_dump())
    data = spec.data.model_dump()
    more = {"utility": spec.utility, "dataset": spec.data.set, "model": spec.model.name}
    yield from _component_keys(data | more | {"schedule": spec.training.schedule})
    yield from _availability_keys(spec.population)


def _component_keys(values: dict[str, Any]) -> Iterator[str]:
    """Of every key that names a component of some table, its citations; tables that are not here yet are looked up."""
    for key, given in values.items():
        if not isinstance(given, (str, dict)) or key == "name":
            continue
        of = TABLE_OF.get(key, f"{key}s")
        table = COMPONENTS.get(of)
        if table is None:
            yield from citations.keys_of(of, str(given))
        elif (name := table.name_in(given)) in table:
            described = table.describe(name)
            built = table.of(given)
            if _counts(of, {k: getattr(built, k, None) for k in described["parameters"]}):
                yield from citations.keys_of(of, name, described["reference"])


def _availability_keys(people: Population) -> Iterator[str]:
    if people.path is None:
        name = AVAILABILITY.name_in(people.availability)
        if name in AVAILABILITY:
            yield from citations.keys_of("availability", name, AVAILABILITY.describe(name)["reference"])
        return
    kind = trace_kind(people.path)
    if kind is not None:
        yield from citations.keys_of("traces", kind)


def trace_kind(path: str) -> str | None:
    """Whose trace a file is; None if it cannot be read here."""
    from fedparity.traces.plain import read_data
    from fedparity.traces.readers import detect

    try:
        return detect(read_data(Path(path)))
    except FedparityError:
        return None


def _entry(name: str, summary: str) -> Entry:
    return {"name": name, "summary": summary, "parameters": {}, "reference": None, "origin": OURS}


def _method(name: str, method: Method) -> Entry:
    parts = [f.name for f in dataclasses.fields(method) if f.name not in ("summary", "reference", "gate")]
    parameters = {part: getattr(method, part) for part in parts}
    return _entry(name, method.summary) | {"parameters": parameters, "reference": method.reference}
