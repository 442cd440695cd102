"""What there is, by table and name: components, methods, metrics and data sets, as `fedparity list` shows them."""

from __future__ import annotations

import inspect
import sys
from typing import Any, TypeAlias

from fedparity.availability import AVAILABILITY, ESTIMATORS
from fedparity.data import KNOWN
from fedparity.data.partitions import PARTITIONS
from fedparity.errors import unknown
from fedparity.experiment import METHODS, Method
from fedparity.local import LOCALS
from fedparity.metrics import METRICS
from fedparity.models import MODELS
from fedparity.models.features import EXTRACTORS
from fedparity.schedulers import SCHEDULERS
from fedparity.schedules import SCHEDULES
from fedparity.servers import SERVERS
from fedparity.surrogates import SURROGATES
from fedparity.table import Table, component_class
from fedparity.utility import UTILITIES
from fedparity.weightings import WEIGHTINGS

Entry: TypeAlias = dict[str, Any]
"""`name, summary, parameters, reference`."""

COMPONENTS: dict[str, Table[Any]] = {
    "schedulers": SCHEDULERS,
    "availability": AVAILABILITY,
    "estimators": ESTIMATORS,
    "utilities": UTILITIES,
    "weightings": WEIGHTINGS,
    "surrogates": SURROGATES,
    "partitions": PARTITIONS,
    "locals": LOCALS,
    "servers": SERVERS,
    "schedules": SCHEDULES,
    "models": MODELS,
    "extractors": EXTRACTORS,
}


def tables() -> dict[str, list[Entry]]:
    """Every table with its entries."""
    found = {name: [table.describe(entry) for entry in table] for name, table in COMPONENTS.items()}
    found["methods"] = [_method(name, m) for name, m in METHODS.items()]
    found["metrics"] = [_entry(name, text) for name, text in METRICS.items()]
    found["datasets"] = [_entry(known.name, f"{known.title}.") for known in KNOWN.values()]
    return found


def find(name: str) -> list[Entry]:
    """Every entry of that name with its `table`, or an error with the nearest one."""
    everything = tables()
    found = [{"table": t, **entry} for t, entries in everything.items() for entry in entries if entry["name"] == name]
    if not found:
        names = [entry["name"] for entries in everything.values() for entry in entries]
        raise unknown("table or name", name, [*everything, *names])
    return found


def text_of(entry: Entry) -> str:
    """The paper, the equation and what was changed: the docstring of the component's module."""
    table = COMPONENTS.get(entry["table"])
    if table is None:
        return ""
    return inspect.getdoc(sys.modules[component_class(table[entry["name"]]).__module__]) or ""


def _entry(name: str, summary: str) -> Entry:
    return {"name": name, "summary": summary, "parameters": {}, "reference": None}


def _method(name: str, method: Method) -> Entry:
    parts = {"scheduler": method.scheduler, "weighting": method.weighting, "surrogate": method.surrogate}
    parameters = {**parts, "local": method.local, "server": method.server, "mixing": method.mixing}
    return {"name": name, "summary": method.summary, "parameters": parameters, "reference": method.reference}
