"""Every client in one table: some rows stand on the page, the rest beside it as data for the script to search and sort.

The data is JSON in an element that no browser runs, with every `<` escaped; the script puts it on the page as text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fedparity.core.types import FloatArray, Ids
from fedparity.experiment.run import MethodRun, Run
from fedparity.metrics.of_utility import READINGS
from fedparity.report import svg, words
from fedparity.report.figures import client_name
from fedparity.report.tables import normalised

Of: TypeAlias = Callable[[MethodRun], FloatArray]
MOST = 10_000
"""Clients that a page holds."""
FIRST = 25
"""Rows that stand on it without a script."""
DIGITS = 3
"""That count, where values have no fixed number of decimals."""


@dataclass(frozen=True, slots=True)
class Column:
    """One heading, and what stands under it: numbers (NaN: unknown) or texts."""

    head: str
    values: Sequence[Any]
    digits: int | None = 0
    """Decimals; None: as many as count."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One quantity, with one column per method."""

    name: str
    columns: list[Column]


@dataclass(frozen=True, slots=True)
class ClientTable:
    """What the template shows, and what the script is given."""

    heads: list[str]
    rows: list[list[str]]
    kinds: list[str]
    total: int
    held: int
    data: str


def client_table(
    names: Sequence[str], columns: Sequence[Column], kinds: Sequence[Kind] = (), *, total: int | None = None
) -> ClientTable:
    """The table of clients in the order given; `total`: how many there are, if not all of them are held."""
    shown = [*columns, *(kinds[0].columns if kinds else ())]
    rows = [[name, *(printed(c, c.values[k]) for c in shown)] for k, name in enumerate(names[:FIRST])]
    data = {
        "names": [svg.printable(name) for name in names],
        "columns": [_data(c) for c in columns],
        "kinds": [{"name": kind.name, "columns": [_data(c) for c in kind.columns]} for kind in kinds],
    }
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c").replace(">", "\\u003e")
    heads = ["Client", *(c.head for c in shown)]
    return ClientTable(heads, rows, [kind.name for kind in kinds], total or len(names), len(names), text)


def printed(column: Column, value: Any) -> str:
    """One value as the table prints it."""
    if isinstance(value, str):
        return value
    if math.isnan(value):
        return words.DASH
    return words.brief(value) if column.digits is None else f"{value:,.{column.digits}f}".replace("-", "−")


def _data(column: Column) -> dict[str, Any]:
    return {"head": column.head, "digits": column.digits, "values": [_number(column, v) for v in column.values]}


def _number(column: Column, value: Any) -> Any:
    if isinstance(value, str):
        return svg.printable(value)
    if not math.isfinite(value):
        return None
    digits = DIGITS - 1 - math.floor(math.log10(abs(value))) if column.digits is None and value else column.digits or 0
    found = round(float(value), digits)
    return int(found) if found == int(found) else found


def all_clients(run: Run) -> ClientTable | None:
    """What each client got under each method, means over seeds; None before any round.

    The least available come first, and those that were never there last.
    """
    if not run.rounds or not run.trace.num_clients:
        return None
    counts = run.trace.counts()
    ids = np.lexsort((counts, counts == 0))[svg.evenly(len(counts), MOST)]
    names = [client_name(run, k) for k in ids.tolist()]
    columns = [
        Column("Rounds online", counts[ids].tolist()),
        Column("At the limit", run.limit.counts[ids].tolist()),
    ]
    by = run.spec.reading
    shown: tuple[tuple[str, int | None, Of], ...] = (
        ("Times asked", 1, lambda one: one.ledger.selected.astype(np.float64)),
        ("Accuracy on its own test data, %", 1, lambda one: 100 * np.asarray(one.accuracy, np.float64)),
        (f"Utility {READINGS[by].full}", None, lambda one: normalised(one.ledger, by)),
        ("Asked in vain", 1, _in_vain),
    )
    kinds = [_kind(run, ids, *one) for one in shown]
    known = [kind for kind in kinds if any(np.isfinite(c.values).any() for c in kind.columns)]
    return client_table(names, columns, known, total=run.trace.num_clients)


def _in_vain(run: MethodRun) -> FloatArray:
    failed = (run.ledger.selected - run.ledger.completed).astype(np.float64)
    return failed if failed.any() else np.full(len(failed), np.nan)


def _kind(run: Run, ids: Ids, name: str, digits: int | None, of: Of) -> Kind:
    columns = []
    for method in run.methods:
        found = [of(one) for one in run.of(method)]
        values = np.mean(found, axis=0)[ids] if found else np.full(len(ids), np.nan)
        whole = bool(digits) and bool(np.all(values[np.isfinite(values)] % 1 == 0))
        columns.append(Column(method, values.tolist(), 0 if whole else digits))
    return Kind(name, columns)
