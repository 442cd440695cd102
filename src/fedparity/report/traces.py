"""A trace as a picture: how available its devices are (Figure 1 of the paper), when in the day, for how long at a time.

Two populations are drawn over each other: bars for the first, a line for the second. Bars are shares of devices or
sessions, so that populations of any size compare.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedparity.core.errors import ConfigError
from fedparity.core.files import write_bytes, write_text
from fedparity.core.types import FloatArray
from fedparity.report import svg, words

if TYPE_CHECKING:
    from fedparity.traces.intervals import Intervals

SIZE, PANEL = (1020.0, 340.0), 340.0
PLOT = (48.0, 60.0, 318.0, 270.0)
"""Left, top, right and bottom of what a panel draws, from the panel's corner."""
COLOURS = ("#0072b2", "#c85200")
INK, MUTED, GRID = "#1b1e21", "#5b6268", "#e8eaeb"
LENGTHS = np.array([1, 3, 10, 30, 60, 180, 600, 1800, 3600, 7200, 14400, 28800, 86400, 864000], dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """Bars of equal width for each population, what stands below some of their edges, and a reference."""

    title: str
    below: str
    heights: tuple[FloatArray, ...]
    ticks: tuple[tuple[float, str], ...]
    """Edges by number, and their labels."""
    marked: float | None = None
    """The edge at which a dashed line stands."""


def panels(populations: Sequence[Intervals]) -> tuple[Panel, Panel, Panel]:
    """The three panels: availability, hours of the day, lengths of sessions."""
    from fedparity.traces.stats import availability, hour_profile, session_lengths

    shares, lengths = [], []
    for one in populations:
        counted = np.bincount(np.minimum((availability(one) * 20).astype(np.int64), 19), minlength=20)
        shares.append(counted / max(1, counted.sum()))
        bins = np.searchsorted(LENGTHS, session_lengths(one), side="right") - 1
        counted = np.bincount(np.clip(bins, 0, len(LENGTHS) - 2), minlength=len(LENGTHS) - 1)
        lengths.append(counted / max(1, counted.sum()))
    spells = ("1 s", "", "10 s", "", "1 min", "", "10 min", "", "1 h", "", "4 h", "", "1 day", "")
    return (
        Panel(
            "Devices by availability",
            "share of time ready",
            tuple(shares),
            tuple((4 * k, f"{20 * k}%") for k in range(6)),
            marked=1,
        ),
        Panel(
            "Ready by hour of the day",
            "hour, local time",
            tuple(hour_profile(one) for one in populations),
            tuple((h, str(h)) for h in range(0, 25, 4)),
        ),
        Panel(
            "Sessions by length",
            "time ready without a break",
            tuple(lengths),
            tuple((k, label) for k, label in enumerate(spells) if label),
        ),
    )


def draw_traces(populations: Sequence[tuple[str, Intervals]]) -> str:
    """The picture as SVG."""
    names = [name for name, _ in populations]
    drawn = panels([intervals for _, intervals in populations])
    body = [svg.element("rect", width=SIZE[0], height=SIZE[1], fill="#ffffff"), *_legend(populations)]
    for number, panel in enumerate(drawn):
        body.append(svg.element("g", "".join(_panel(panel)), transform=f"translate({svg.num(number * PANEL)} 0)"))
    low = ", ".join(f"{h[0]:.0%} of {name}" for name, h in zip(names, drawn[0].heights, strict=True))
    inside = svg.element("g", "".join(body), font_family="system-ui, sans-serif", font_size=12, fill=INK)
    desc = f"Ready less than 5 % of the time: {low}. Panels: availability, hours of the day, session lengths."
    return svg.picture(SIZE, [inside], title=f"Availability of {words.listed(names)}", desc=desc)


def _legend(populations: Sequence[tuple[str, Intervals]]) -> Iterator[str]:
    for k, (name, intervals) in enumerate(populations):
        x = PLOT[0] + 480 * k
        mark: dict[str, Any] = {"fill": COLOURS[0], "opacity": "0.55"} if k == 0 else {"fill": COLOURS[1]}
        yield svg.element("rect", x=x, y=9.0 if k == 0 else 13.0, width=18.0, height=11.0 if k == 0 else 2.5, **mark)
        said = f"{words.shortened(name, 44)} ({words.plural(len(intervals.names), 'device')})"
        yield svg.text(x + 26, 19, said)


def _panel(panel: Panel) -> Iterator[str]:
    left, top, right, bottom = PLOT
    bars = len(panel.heights[0])
    high = max(float(h.max()) for h in panel.heights) or 1.0
    up = svg.Scale(0.0, 1.08 * high, bottom, top)
    across = svg.Scale(0.0, float(bars), left, right)
    yield svg.text(left, 44, panel.title, font_size=14, font_weight="600")
    for value in up.ticks(4):
        y = up.at(value)
        yield svg.element("path", d=f"M{svg.num(left)} {svg.num(y)}H{svg.num(right)}", stroke=GRID, fill="none")
        yield svg.text(left - 6, y + 4, words.percent(value, 0 if high > 0.04 else 1), text_anchor="end", fill=MUTED)
    first = panel.heights[0]
    for k, height in enumerate(first.tolist()):
        x, width, y = across.at(k) + 0.5, (right - left) / bars - 1, up.at(height)
        yield svg.element(
            "rect",
            x=float(x),
            y=float(y),
            width=float(width),
            height=float(bottom - y),
            fill=COLOURS[0],
            opacity="0.55",
        )
    for other in panel.heights[1:]:
        edges = np.repeat(np.arange(bars + 1, dtype=np.float64), 2)[1:-1]
        line = svg.path(across(edges), up(np.repeat(other, 2)))
        yield svg.element("path", d=line, stroke=COLOURS[1], stroke_width=2, fill="none")
    if panel.marked is not None:
        at = svg.num(across.at(panel.marked))
        yield svg.element("path", d=f"M{at} {svg.num(top)}V{svg.num(bottom)}", stroke=MUTED, stroke_dasharray="4 3")
        share = " / ".join(f"{h[: int(panel.marked)].sum():.0%}" for h in panel.heights)
        yield svg.text(across.at(panel.marked) + 6, top + 10, f"{share} below 5%", fill=MUTED)
    yield svg.element("path", d=f"M{svg.num(left)} {svg.num(bottom)}H{svg.num(right)}", stroke=MUTED, fill="none")
    for edge, label in panel.ticks:
        yield svg.text(across.at(edge), bottom + 18, label, text_anchor="middle", fill=MUTED)
    yield svg.text((left + right) / 2, bottom + 40, panel.below, text_anchor="middle", fill=MUTED)


def write_picture(populations: Sequence[tuple[str, Intervals]], path: Path) -> None:
    """Write the picture as .svg, .html or .png (which needs matplotlib), by the ending of the name."""
    kind = path.suffix.lower()
    if kind == ".svg":
        write_text(path, draw_traces(populations) + "\n")
    elif kind == ".html":
        title = svg.escape(f"Availability of {words.listed([name for name, _ in populations])}")
        write_text(
            path,
            f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n'
            f'<body style="margin:24px;max-width:1100px">\n{draw_traces(populations)}\n</body></html>\n',
        )
    elif kind == ".png":
        write_bytes(path, _png(populations))
    else:
        raise ConfigError(f"{path}: a picture's name must end in .svg, .html or .png; rename it")


def _png(populations: Sequence[tuple[str, Intervals]]) -> bytes:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("a .png needs matplotlib: pip install 'fedparity[report]', or write .svg") from None
    figure = Figure(figsize=(12, 4), layout="constrained")
    FigureCanvasAgg(figure)
    drawn = panels([intervals for _, intervals in populations])
    for axes, panel in zip(figure.subplots(1, 3), drawn, strict=True):
        edges = np.arange(len(panel.heights[0]) + 1)
        axes.stairs(panel.heights[0], edges, fill=True, color=COLOURS[0], alpha=0.55, label=populations[0][0])
        for (name, _), heights in zip(populations[1:], panel.heights[1:], strict=True):
            axes.stairs(heights, edges, color=COLOURS[1], linewidth=2, label=name)
        axes.set_title(panel.title)
        axes.set_xlabel(panel.below)
        axes.set_xticks([edge for edge, _ in panel.ticks], [label for _, label in panel.ticks])
        if panel.marked is not None:
            axes.axvline(panel.marked, color=MUTED, linestyle="--", linewidth=1)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=2, frameon=False)
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=110)
    return target.getvalue()
