"""From a run to charts: what is drawn, and what each drawing says in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedparity.core.ledger import Ledger, Normaliser
from fedparity.core.trace import Trace
from fedparity.core.types import FloatArray
from fedparity.experiment.run import MethodRun, Run
from fedparity.metrics import MEASURES, Outcome, in_reading, lorenz
from fedparity.metrics.of_utility import READINGS
from fedparity.report import charts, strip, svg, words

POINTS = 160
"""The most points of a line: more than a chart has pixels to spare for."""


@dataclass(frozen=True, slots=True)
class Tab:
    """One layer of the strip: its name, and what it shows in numbers."""

    name: str
    says: str
    failures: bool = False


@dataclass(frozen=True, slots=True)
class StripFigure:
    """The client x round strip and everything around it."""

    drawing: str
    height: int
    tabs: list[Tab]
    default: int
    ticks: list[tuple[int, str]]
    """Rounds, and where they stand from the left, in percent."""
    never: int
    """Clients never online."""
    notes: list[str]

    @property
    def failures(self) -> bool:
        """Whether any layer shows requests in vain."""
        return any(tab.failures for tab in self.tabs)


def seen_trace(run: Run) -> Trace:
    """The trace of the rounds that were done (the first one if none was)."""
    return run.trace.head(min(max(1, run.rounds), run.trace.num_rounds))


def client_name(run: Run, client: int) -> str:
    """What a client is called: as its file names it, or its number."""
    return str(client) if run.trace.names is None else run.trace.names[client]


def over_rounds(run: Run, of: Callable[[MethodRun], FloatArray]) -> list[charts.Series]:
    """A number of each round, for each method: mean over seeds, sd where there are several."""
    found = []
    for index, name in enumerate(run.methods):
        columns = [of(one) for one in run.of(name)]
        length = min((len(c) for c in columns), default=0)
        if length:
            values = np.stack([c[:length] for c in columns])
            values = np.where(np.isfinite(values), values, np.nan)
            mean, sd = values.mean(axis=0), values.std(axis=0)
            known = np.flatnonzero(np.isfinite(mean))  # not every round is scored
            at = known[svg.evenly(len(known), POINTS)]
            spread = sd[at] if len(columns) > 1 else None
            found.append(charts.Series(name, index, (at + 1).astype(np.float64), mean[at], spread))
    return found


def _last(series: list[charts.Series]) -> list[tuple[str, float]]:
    known = [(one.label, one.y[np.isfinite(one.y)]) for one in series]
    return [(label, float(values[-1])) for label, values in known if len(values)]


def accuracy(run: Run) -> charts.Chart:
    """Test accuracy over rounds; empty where the task has none."""
    series = over_rounds(run, lambda one: one.column("accuracy"))
    ends = ", ".join(f"{label} {words.percent(value)}" for label, value in _last(series))
    desc = f"Test accuracy of the global model after round {run.rounds}: {ends}."
    return charts.lines(series, title="Test accuracy over rounds", desc=desc, unit=True)


def variance(run: Run) -> charts.Chart:
    """V_T over rounds, in the run's reading: the log has that per round online, the journal all of them."""
    by = run.spec.reading
    series = over_rounds(
        run, lambda one: one.column("fairness_variance") if by == "availability" else _variances(run, one, by)
    )
    ends = ", ".join(f"{label} {words.brief(value)}" for label, value in _last(series))
    desc = f"Variance of normalised utility across clients after round {run.rounds}: {ends}."
    return charts.lines(series, title="Fairness variance V_T over rounds", desc=desc)


def _variances(run: Run, one: MethodRun, by: Normaliser) -> FloatArray:
    ledger, found = Ledger.empty(run.trace.num_clients), []
    measure = MEASURES[in_reading("fairness_variance", by)]
    for record in one.records:
        ledger = ledger.then(record)
        found.append(measure.of(Outcome.of(ledger, run.spec.cohort)) if record.told else np.nan)
    return np.array(found)


def lorenz_curves(run: Run) -> str:
    """The Lorenz curve of selections: mean over seeds, the limit drawn in."""
    series = []
    for index, name in enumerate(run.methods):
        curves = [lorenz(one.ledger.selected) for one in run.of(name)]
        if curves:
            x, y = thinned(curves[0][0], np.mean([held for _, held in curves], axis=0))
            series.append(charts.Series(name, index, x, y))
    limit = charts.Series("the limit", 0, *thinned(*lorenz(run.limit.counts)))
    return charts.lorenz(series, limit, title="Lorenz curve of participation", desc=_lorenz_says(run))


def thinned(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A line with no more points than a chart shows."""
    at = svg.evenly(len(x), POINTS)
    return x[at], y[at]


def _lorenz_says(run: Run) -> str:
    parts = []
    for name in run.methods:
        runs = run.of(name)
        if runs:
            half = float(np.mean([np.interp(0.5, *lorenz(one.ledger.selected)) for one in runs]))
            parts.append(f"{name} {words.percent(half)}")
    best = float(np.interp(0.5, *lorenz(run.limit.counts)))
    return (
        f"Share of all selections that the less served half of the clients got: {', '.join(parts)}; "
        f"at the limit {words.percent(best)}; 50 % would be equal."
    )


def utility_dots(run: Run) -> charts.Chart:
    """Normalised utility of each client with the first seed, surrogates counted beside where they are not in it."""
    rows, by = [], run.spec.reading
    for index, name in enumerate(run.methods):
        for one in run.of(name)[:1]:
            rows.append(charts.Row(name, index, one.ledger.normalised_utility(by)))
            if one.ledger.surrogate_utility.any() and by != "imputed":
                aided = one.ledger.normalised_utility(by, with_surrogates=True)
                rows.append(charts.Row(f"{name}, surrogates counted", index, aided, hollow=True))
    medians = [f"{row.label} {words.brief(float(np.median(row.values)))}" for row in rows if len(row.values)]
    lowest = [f"{row.label} {words.brief(float(row.values.min()))}" for row in rows if len(row.values)]
    desc = f"Median over clients: {', '.join(medians)}. Lowest: {', '.join(lowest)}."
    return charts.dots(rows, title="Normalised utility of each client", desc=desc, axis=f"utility {READINGS[by].full}")


def client_strip(run: Run) -> StripFigure:
    """Presence, requests and deliveries of the first seed; one layer per method, and one for the limit."""
    trace = seen_trace(run)
    grid = strip.Strip.of(trace)
    n = trace.num_clients
    firsts = [one for name in run.methods for one in run.of(name)[:1]]
    layers = [_layer(grid, one, n) for one in firsts]
    tabs = [_tab(one) for one in firsts]
    none = np.zeros(grid.shape, dtype=np.bool_)
    layers.append(strip.Layer(grid.marks(run.limit.schedule, n), none))
    tabs.append(Tab("the limit", _limit_says(run)))
    names = [tab.name for tab in tabs]
    default = names.index("parity") if "parity" in names else 0
    desc = f"{words.plural(grid.shape[0], 'client')} by {words.plural(grid.rounds, 'round')}. "
    return StripFigure(
        drawing=strip.draw(
            grid.marks(trace, n),
            layers,
            default,
            title="Who was there, asked and served",
            desc=desc + " ".join(f"{tab.name}: {tab.says}" for tab in tabs),
            labels=strip.Labels([client_name(run, k) for k in grid.clients.tolist()], wide=grid.bin),
        ),
        height=strip.height(grid.shape[0]),
        tabs=tabs,
        default=default,
        ticks=round_ticks(grid.rounds),
        never=int((trace.counts() == 0).sum()),
        notes=strip_notes(grid, n),
    )


def _layer(grid: strip.Strip, run: MethodRun, n: int) -> strip.Layer:
    in_vain = [np.setdiff1d(record.selected, record.completed) for record in run.records]
    return strip.Layer(grid.marks([record.completed for record in run.records], n), grid.marks(in_vain, n))


def _tab(run: MethodRun) -> Tab:
    ledger = run.ledger
    asked, done = int(ledger.selected.sum()), int(ledger.completed.sum())
    in_vain = f", {asked - done:,} of them in vain" if asked > done else ""
    most, left_out = int(ledger.selected.max()), _left_out(ledger.online, ledger.selected)
    says = f"{words.plural(asked, 'request')}{in_vain}; at most {most:,} to one client; {left_out}."
    return Tab(run.method, says, failures=asked > done)


def _left_out(online: NDArray[np.integer], asked: NDArray[np.integer]) -> str:
    if not online.any():
        return "nobody was online"
    missed = int(((online > 0) & (asked == 0)).sum())
    return f"{words.plural(missed, 'client')} online but never asked" if missed else "everybody online was asked"


def _limit_says(run: Run) -> str:
    counts = run.limit.counts
    return (
        f"one of the schedules that share {run.limit.total:,} requests as evenly as presence allows; "
        f"at most {int(counts.max()):,} to one client; {_left_out(seen_trace(run).counts(), counts)}."
    )


def round_ticks(rounds: int) -> list[tuple[int, str]]:
    """Rounds to name under a strip, and where they stand from the left, in percent."""
    shown = sorted({1, *(round(rounds * k / 4) for k in range(1, 5) if round(rounds * k / 4) >= 1)})
    return [(t, f"{0 if t == 1 else 100 * t / rounds:.4g}") for t in shown]


def strip_notes(grid: strip.Strip, n: int) -> list[str]:
    """What a strip leaves out."""
    notes = []
    if grid.shape[0] < n:
        notes.append(f"{grid.shape[0]} of {n:,} clients, evenly by rank of availability.")
    if grid.bin > 1:
        notes.append(f"A column stands for {grid.bin} rounds, and is marked if any of them is.")
    return notes
