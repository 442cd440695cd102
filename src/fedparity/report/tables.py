"""The tables: exact numbers beside what is printed, so that a reader (or a test) can take either."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedparity.core.ledger import Ledger
from fedparity.core.types import FloatArray
from fedparity.experiment.results import MethodRun, Results
from fedparity.report import charts, verdict, words

Row = dict[str, float | None]
WORST = 10
"""How many of the worst-off are listed."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: a key of `Results.row`, its heading, how it is printed, and which way is better."""

    key: str
    head: str
    show: Callable[[float | None], str] = words.fixed
    higher: bool = False
    parts: bool = False
    """Printed as unavoidable + avoidable."""
    bar: bool = False
    define: str = ""
    """The metric that explains it, if not `key`."""

    @property
    def metric(self) -> str:
        """The name of its definition."""
        return self.define or self.key


SHARE = (
    Column("selection_gap", "Selection gap", parts=True, bar=True),
    Column("gini", "Gini", parts=True, bar=True),
    Column("never_served", "Never served", words.count, parts=True),
    Column("fill", "Fill", words.percent, higher=True),
    Column("accuracy", "Accuracy, test", words.percent, higher=True),
    Column("avg_client_accuracy", "Accuracy, mean client", words.percent, higher=True),
    Column("jain_accuracy", "Jain, accuracy", higher=True),
)
OPPORTUNITY = (
    Column("cv_per_opportunity", "CV, selections per round online"),
    Column("utility_cv", "Utility CV"),
    Column("jain_utility", "Jain, utility", higher=True),
    Column("fairness_variance", "V_T, variance of u/π", words.brief),
)
AIDED = (
    Column("utility_cv_with_surrogates", "Utility CV, surrogates counted", define="utility_cv"),
    Column("jain_utility_with_surrogates", "Jain, utility, surrogates counted", higher=True, define="jain_utility"),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One printed value with its exact one."""

    value: float | None
    shown: str
    sd: str = ""
    best: bool = False
    limit: str = ""
    avoidable: str = ""
    bar: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns, and for each method a row of cells."""

    columns: tuple[Column, ...]
    rows: list[tuple[str, list[Cell]]]


def seeds_done(results: Results) -> int:
    """Repetitions that the numbers rest on."""
    return max((len(results.of(name)) for name in results.methods), default=0)


def has_surrogates(results: Results) -> bool:
    """Whether anybody was credited for somebody absent."""
    return any(run.ledger.surrogate_utility.any() for run in results.runs)


def share_table(results: Results) -> Table:
    """How evenly slots were shared, beside what the model can do."""
    return _table(results, SHARE)


def opportunity_table(results: Results) -> Table:
    """How evenly selections and benefit were spread per opportunity: the other target, in its own table."""
    return _table(results, (*OPPORTUNITY, *AIDED) if has_surrogates(results) else OPPORTUNITY)


def _table(results: Results, columns: tuple[Column, ...]) -> Table:
    rows = {name: results.row(name) for name in results.methods}
    several = seeds_done(results) > 1
    cells = {column.key: _cells(column, rows, several=several) for column in columns}
    return Table(columns, [(name, [cells[column.key][name] for column in columns]) for name in results.methods])


def _cells(column: Column, rows: dict[str, Row], *, several: bool) -> dict[str, Cell]:
    shown = {name: column.show(row.get(column.key)) for name, row in rows.items()}
    known = {name: v for name, row in rows.items() if (v := row.get(column.key)) is not None and math.isfinite(v)}
    top = (max if column.higher else min)(known.values(), default=None)
    winner = next((shown[name] for name, value in known.items() if value == top), None)
    marked = winner if len({shown[name] for name in known}) > 1 else None
    most = max(known.values(), default=0.0)
    return {name: _cell(column, row, shown[name] == marked, most, several=several) for name, row in rows.items()}


def _cell(column: Column, row: Row, best: bool, most: float, *, several: bool) -> Cell:  # noqa: FBT001 - one caller
    value = row.get(column.key)
    sd = row.get(f"{column.key}_sd") if several else None
    limit, avoidable = row.get(f"{column.key}_limit"), row.get(f"{column.key}_avoidable")
    if not column.parts or limit is None or avoidable is None:
        return Cell(value, column.show(value), _sd(column, sd, value), best)
    bar = charts.split_bar(limit, avoidable, most) if column.bar else ""
    return Cell(
        value, column.show(value), _sd(column, sd, value), best, column.show(limit), column.show(avoidable), bar
    )


def _sd(column: Column, sd: float | None, value: float | None) -> str:
    if sd is None or not math.isfinite(sd):
        return ""
    if column.show is words.count:
        return words.fixed(sd, 1)
    if column.show is words.brief:
        return words.brief(sd, like=value)
    return column.show(sd).removesuffix(f"{words.NARROW}%")


@dataclass(frozen=True, slots=True)
class Client:
    """A client as the worst-off tables show it."""

    name: str
    availability: str
    online: int
    selected: int
    limit: int
    utility: str
    accuracy: str


@dataclass(frozen=True, slots=True)
class WorstOff:
    """Of one method: who got least per opportunity, and who was there and never asked."""

    method: str
    lowest: list[Client]
    unserved: list[Client]
    more: int
    """Unserved clients that are not listed."""


def worst_off(results: Results) -> list[WorstOff]:
    """The fairest method beside the baseline, both with the first seed."""
    wanted = [verdict.fairest(results), verdict.BASELINE]
    found = []
    for name in dict.fromkeys(wanted):
        runs = results.of(name) if name is not None else []
        if runs:
            found.append(_worst_off(results, runs[0]))
    return found


def normalised(ledger: Ledger) -> FloatArray:
    """u_k / pi_k of every client; NaN for those never online."""
    values = np.full(ledger.num_clients, np.nan)
    values[ledger.seen()] = ledger.normalised_utility()
    return values


def _worst_off(results: Results, run: MethodRun) -> WorstOff:
    ledger = run.ledger
    utility = normalised(ledger)
    seen = np.flatnonzero(ledger.seen())
    lowest = seen[np.lexsort((seen, -ledger.online[seen], utility[seen]))][:WORST]
    unserved = seen[ledger.selected[seen] == 0]
    unserved = unserved[np.lexsort((unserved, -ledger.online[unserved]))]
    listed = [_client(results, run, k, utility[k]) for k in unserved[:WORST].tolist()]
    return WorstOff(
        run.method, [_client(results, run, k, utility[k]) for k in lowest.tolist()], listed, len(unserved) - len(listed)
    )


def _client(results: Results, run: MethodRun, k: int, utility: float) -> Client:
    ledger, names = run.ledger, results.trace.names
    return Client(
        name=str(k) if names is None else names[k],
        availability=words.percent(float(ledger.online[k]) / max(1, ledger.rounds)),
        online=int(ledger.online[k]),
        selected=int(ledger.selected[k]),
        limit=int(results.limit.counts[k]),
        utility=words.brief(float(utility)),
        accuracy=words.percent(float(run.accuracy[k])),
    )
