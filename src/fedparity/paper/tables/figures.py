"""Table 1 and Figures 1 to 3, from what is stored of the rounds and from the trace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedparity.availability.phones import Phones
from fedparity.core.types import FloatArray
from fedparity.paper.tables.results import Result
from fedparity.paper.tables.rows import LEVEL, TABLE_1
from fedparity.report import charts, svg
from fedparity.report.traces import draw_traces, panels
from fedparity.report.tradeoff import STYLE
from fedparity.traces.fit import phones_intervals
from fedparity.traces.flash import read_events
from fedparity.traces.intervals import Intervals
from fedparity.traces.stats import TraceStats, trace_stats

DAYS = 7
LINES = """
.line { stroke: var(--c); stroke-width: 2; fill: none; } .band { fill: var(--c); opacity: .15; }
path.lead { stroke: var(--c); }
"""
PRINTED_1 = {"devices": 1000, "below_5pct": 213, "below_half": "over 60 %", "below_40pct": "most"}
"""What the caption of Figure 1 and the text say."""
TABLE_1_COLUMNS = (
    "round", "accuracy", "fairness_variance", "surrogate_decaying", "surrogate_never_cleared",
    "paper_accuracy", "paper_fairness_variance", "paper_surrogate",
)  # fmt: skip
CURVE_COLUMNS = ("round", "method", "accuracy", "accuracy_sd", "fairness_variance", "fairness_variance_sd")
FIGURES = {"figure2": ("uniform",), "figure3": (LEVEL, "cup_authors", "parity")}
"""The runs that each draws: random sampling, and the paper's rule in both readings beside ours."""
TITLES = {
    "figure2": "Accuracy and fairness variance, random sampling",
    "figure3": "Accuracy and fairness variance, inverse availability × missed rounds",
}


def table_1(found: Result) -> list[tuple[object, ...]]:
    """Rounds 1 to 20 of the paper's rule, means over seeds; fairness variance as the authors log it, Var(u/(T pi))."""
    curve = {name: values.mean(axis=0) for name, values in found.curves[LEVEL].items()}
    rows: list[tuple[object, ...]] = []
    for number, printed in enumerate(TABLE_1[: found.block.rounds], start=1):
        at = number - 1
        ours = (
            curve["accuracy"][at],
            curve["fairness_variance"][at] / number**2,
            curve["surrogate_contribution"][at],
            curve["never_cleared"][at],
        )
        rows.append((number, *(float(f"{value:.6g}") for value in ours), *printed))
    return rows


def curve_rows(found: Result, figure: str) -> list[tuple[object, ...]]:
    """Every round of the runs of a figure."""
    rows: list[tuple[object, ...]] = []
    for run in FIGURES[figure]:
        accuracy, variance = (found.curves[run][name] for name in ("accuracy", "fairness_variance"))
        for at in range(found.block.rounds):
            both = (accuracy[:, at], variance[:, at])
            cells = (float(f"{value:.6g}") for column in both for value in (column.mean(), column.std()))
            rows.append((at + 1, run, *cells))
    return rows


def curve_ends(found: Result, run: str) -> dict[str, float]:
    """Where a run of a figure begins and ends, means over seeds."""
    accuracy, variance = (found.curves[run][name].mean(axis=0) for name in ("accuracy", "fairness_variance"))
    ends = {
        "accuracy": accuracy[-1],
        "fairness_variance_round_1": variance[0],
        "fairness_variance": variance[-1],
        "fairness_variance_over_rounds_squared": variance[-1] / len(variance) ** 2,
    }
    return {"rounds": len(variance), **{name: float(f"{value:.6g}") for name, value in ends.items()}}


def draw_curves(found: Result, figure: str) -> str:
    """Accuracy beside fairness variance, as one picture that stands alone."""
    drawn = []
    for name, title, unit in (
        ("accuracy", "Test accuracy over rounds", True),
        ("fairness_variance", "Fairness variance V_T over rounds", False),
    ):
        series = [_series(run, index, found.curves[run][name]) for index, run in enumerate(FIGURES[figure])]
        ends = ", ".join(f"{one.label} {one.y[-1]:.3g}" for one in series)
        drawn.append(charts.lines(series, title=title, desc=f"{title}, last: {ends}.", unit=unit).markup)
    width, height = charts.LINES_SIZE
    body = [svg.element("style", STYLE + LINES), svg.element("rect", class_="paper", width="100%", height="100%")]
    for number, (markup, head) in enumerate(zip(drawn, ("Test accuracy", "Fairness variance V_T"), strict=True)):
        body.append(svg.text(number * width + charts.LINES.left, 28, head, class_="title"))
        place = f'<svg x="{number * width}" y="40" width="{width}" height="{height}" '
        body.append(markup.replace("<svg ", place, 1))
    desc = f"{found.block.says}; {found.seeds} seeds. {TITLES[figure]}."
    return svg.picture((2.0 * width, height + 48.0), body, title=TITLES[figure], desc=desc)


def _series(run: str, index: int, values: FloatArray) -> charts.Series:
    rounds = np.arange(1, values.shape[1] + 1, dtype=np.float64)
    return charts.Series(run, index, rounds, values.mean(axis=0), values.std(axis=0) if len(values) > 1 else None)


def populations(trace: Path | None, devices: int) -> list[tuple[str, Intervals]]:
    """The trace under the paper's readiness rule, read properly and with Wi-Fi never cleared; else phones like it."""
    if trace is None:
        drawn = phones_intervals(devices, DAYS, *Phones().sessions(devices, DAYS, 0))
        return [("phones like FLASH's (no trace file was given)", drawn)]
    events = read_events(trace)
    return [
        ("charging and Wi-Fi", events.intervals()),
        ("charging and Wi-Fi, Wi-Fi never cleared", events.intervals(wifi_cleared=False)),
    ]


def figure_1(found: Sequence[tuple[str, Intervals]]) -> tuple[str, list[tuple[object, ...]], dict[str, TraceStats]]:
    """The picture, the share of devices in each twentieth of availability, and the figures of each population."""
    shares = panels([intervals for _, intervals in found])[0].heights
    rows: list[tuple[object, ...]] = [
        (name, k / 20, (k + 1) / 20, float(height))
        for (name, _), heights in zip(found, shares, strict=True)
        for k, height in enumerate(heights.tolist())
    ]
    return draw_traces(found), rows, {name: trace_stats(intervals, pairs=False) for name, intervals in found}
