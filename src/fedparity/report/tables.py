"""The tables: exact numbers beside what is printed, so that a reader (or a test) can take either."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

import numpy as np

from fedparity.core.ledger import Ledger, Normaliser
from fedparity.core.types import FloatArray
from fedparity.experiment.run import MethodRun, Run
from fedparity.metrics import MEASURES, Table, in_reading
from fedparity.report import charts, verdict, words
from fedparity.report.figures import client_name

WORST = 10
"""How many of the worst-off are listed."""
SHARE = (
    "late_accuracy",
    "late_worst_accuracy",
    "never_served",
    "gini",
    "selection_gap",
    "fill",
    "late_worst_recall",
    "span_gap",
    "round_seconds",
    "completed_selection_gap",
    "completed_gini",
)
UTILITY = ("utility_cv", "fairness_variance")  # Jain is 1 / (1 + CV^2)
AIDED = ("utility_cv_with_surrogates",)
BARS = ("selection_gap", "gini")
"""Columns with a bar of their two parts."""


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
class Column:
    """The heading of a column, and the measure that it shows."""

    metric: str
    head: str


@dataclass(frozen=True, slots=True)
class Grid:
    """Columns, and for each method a row of cells."""

    columns: list[Column]
    rows: list[tuple[str, list[Cell]]]


def has_surrogates(run: Run) -> bool:
    """Whether anybody was credited for somebody absent, beside the reading that is shown."""
    return run.spec.reading != "imputed" and any(one.ledger.surrogate_utility.any() for one in run.runs)


def share_table(run: Run) -> Grid:
    """How evenly slots were shared, beside what the model can do; what was completed only where some failed."""
    failed = any(one.ledger.failed.any() for one in run.runs)
    return grid(run.table, run.table.known(SHARE if failed else SHARE[:-2]))


def opportunity_table(run: Run) -> Grid:
    """How evenly selections and benefit were spread per opportunity: the other target, in its own table.

    Benefit is in the run's reading, with the CV of the other readings behind.
    """
    chosen = run.spec.reading
    keys = ["cv_per_opportunity", *(in_reading(name, chosen) for name in UTILITY)]
    if has_surrogates(run) and chosen == "availability":
        keys += AIDED
    return grid(run.table, [*keys, *(in_reading(UTILITY[0], by) for by in get_args(Normaliser) if by != chosen)])


def grid(table: Table, keys: Iterable[str]) -> Grid:
    """Some columns of a table, ready to be printed."""
    columns = [Column(key, MEASURES[key].heading) for key in keys]
    rows = [(name, [_cell(table, column.metric, name) for column in columns]) for name in table.methods]
    return Grid(columns, rows)


def _cell(table: Table, key: str, name: str) -> Cell:
    value = table.mean(key, name)
    leaders = table.leaders(key)
    best = leaders is not None and name in leaders.all and table.told_apart(key)
    limit, avoidable = (table.mean(f"{key}{part}", name) for part in ("_limit", "_avoidable"))
    bar = ""
    if key in BARS and limit is not None and avoidable is not None:
        bar = charts.split_bar(limit, avoidable, max(table.mean(key, other) or 0.0 for other in table.methods))
    split = ("", "") if limit is None or key == "fill" else (words.of(key, limit), words.of(key, avoidable))
    return Cell(value, words.of(key, value), _sd(table, key, name), best, *split, bar)


def _sd(table: Table, key: str, name: str) -> str:
    sd = table.sd(key, name) if len(table.seeds) > 1 else None
    if sd is None:
        return ""
    if MEASURES[key].form == "count":
        return words.fixed(sd, 1)
    if MEASURES[key].form == "brief":
        return words.brief(sd, like=table.mean(key, name))
    return words.of(key, sd).removesuffix(f"{words.NARROW}%")


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


def worst_off(run: Run) -> list[WorstOff]:
    """The fairest method beside the baseline, both with the first seed."""
    leaders = run.table.leaders("gini_avoidable")
    wanted = [verdict.BASELINE] if leaders is None else [leaders.first, verdict.BASELINE]
    return [_worst_off(run, run.of(name)[0]) for name in dict.fromkeys(wanted) if run.of(name)]


def normalised(ledger: Ledger, by: Normaliser) -> FloatArray:
    """Utility of every client in a reading; NaN where it has none: never online, or never selected."""
    values = np.full(ledger.num_clients, np.nan)
    values[ledger.selected > 0 if by == "participation" else ledger.seen()] = ledger.normalised_utility(by)
    return values


def _worst_off(run: Run, one: MethodRun) -> WorstOff:
    ledger = one.ledger
    utility = normalised(ledger, run.spec.reading)
    seen, known = np.flatnonzero(ledger.seen()), np.flatnonzero(np.isfinite(utility))
    lowest = known[np.lexsort((known, -ledger.online[known], utility[known]))][:WORST]
    unserved = seen[ledger.selected[seen] == 0]
    unserved = unserved[np.lexsort((unserved, -ledger.online[unserved]))]
    listed = [_client(run, one, k, utility[k]) for k in unserved[:WORST].tolist()]
    return WorstOff(
        one.method, [_client(run, one, k, utility[k]) for k in lowest.tolist()], listed, len(unserved) - len(listed)
    )


def _client(run: Run, one: MethodRun, k: int, utility: float) -> Client:
    ledger = one.ledger
    return Client(
        name=client_name(run, k),
        availability=words.percent(float(ledger.online[k]) / max(1, ledger.rounds)),
        online=int(ledger.online[k]),
        selected=int(ledger.selected[k]),
        limit=int(run.limit.counts[k]),
        utility=words.brief(float(utility)),
        accuracy=words.percent(float(one.accuracy[k])),
    )
