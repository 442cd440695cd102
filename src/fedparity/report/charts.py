"""The charts of the page, from plain arrays to SVG; they know nothing about runs.

A series keeps one style on the whole page: colour (class `s0`, `s1`, ... in the style sheet), dashes and marker, so
that no reader depends on colour. Text is set in units that the style sheet enlarges on a narrow screen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedparity.core.types import FloatArray
from fedparity.report import svg, words

DASHES = ("", "7 3", "2 2.5", "9 3 2 3", "4 2", "12 4", "1.5 4", "6 2 1 2 1 2", "3 1.5")
STYLES = 9
"""Styles before they start again."""
MARKS = (
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
    "M-3.2-3.2h6.4v6.4h-6.4z",
    "M0-4.2l4 7h-8z",
    "M0-4.5l4.5 4.5l-4.5 4.5l-4.5-4.5z",
    "M0 4.2l4-7h-8z",
    "M-1.3-4h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7v-2.6h2.7z",
    "M-4-2l4-2.5l4 2.5l-1.5 5.5h-5z",
    "M-4.5-1.5h9v3h-9z",
    "M-1.5-4.5h3v9h-3z",
)


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One line: its place in the legend, its points, and how far seeds lie apart."""

    label: str
    index: int
    x: FloatArray
    y: FloatArray
    sd: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One line of the distribution: one dot per client."""

    label: str
    index: int
    values: FloatArray
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing (empty if there is nothing to draw), and the scale its values stand on."""

    markup: str = ""
    scale: svg.Kind = "linear"
    dense: bool = False
    """Too many dots: bars stand for them."""


def style(index: int) -> int:
    """The style of the series with that number."""
    return index % STYLES


def mark(index: int, x: float, y: float) -> str:
    """The marker of a series."""
    place = f"translate({svg.num(x)} {svg.num(y)})"
    return svg.element("path", class_=f"mark s{style(index)}", d=MARKS[style(index)], transform=place)


def swatch(index: int) -> str:
    """A piece of the line with its marker, for legends; decoration beside a name."""
    line = svg.element(
        "path", class_=f"line s{style(index)}", d="M1 7h34", stroke_dasharray=DASHES[style(index)] or None
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="swatch" viewBox="0 0 36 14" aria-hidden="true">'
        f"{line}{mark(index, 18, 7)}</svg>"
    )


@dataclass(frozen=True, slots=True)
class Frame:
    """The rectangle that data is drawn in."""

    left: float
    top: float
    right: float
    bottom: float


LINES = Frame(50, 12, 420, 296)
LINES_SIZE = (560, 340)


def lines(series: Sequence[Series], *, title: str, desc: str, unit: bool = False) -> Chart:
    """Lines over rounds with a thin band of one sd; `unit`: values are shares of 1. Empty if nothing is known."""
    scales = _line_scales(series, unit=unit)
    if scales is None:
        return Chart()
    across, up = scales
    body = [
        *_grid(LINES, across, up, percent=unit),
        svg.text(LINES.right, LINES_SIZE[1] - 8, "round", class_="axis end"),
    ]
    body += [band for one in series for band in _band(one, across, up)]
    body += [_line(one, across, up, percent=unit) for one in series]
    body += _ends(series, across, up)
    data = {"across": _told(across), "unit": "round"}
    return Chart(svg.picture(LINES_SIZE, body, title=title, desc=desc, class_="chart lines", data=data), up.kind)


def _told(across: svg.Scale) -> str:
    """A linear scale for the script."""
    return " ".join(f"{value:.6g}" for value in (across.low, across.high, across.start, across.end))


def _line_scales(series: Sequence[Series], *, unit: bool) -> tuple[svg.Scale, svg.Scale] | None:
    """Both axes; the upright one is logarithmic where values span more than two decades."""
    known = svg.bounds([one.y for one in series])
    if known is None:
        return None
    low, high = known
    last = max(float(one.x[-1]) for one in series if len(one.x))
    across = svg.Scale(1, max(last, 2.0), LINES.left, LINES.right)
    if unit:
        return across, svg.Scale(*_share_bounds(low, high), LINES.bottom, LINES.top)
    positive = np.concatenate([one.y[np.isfinite(one.y) & (one.y > 0)] for one in series])
    if len(positive) and low >= 0 and positive.max() > 100 * positive.min():
        floor = max(float(positive.min()), float(positive.max()) * 1e-8)
        return across, svg.Scale(floor / 1.3, float(positive.max()) * 1.3, LINES.bottom, LINES.top, "log")
    reach = svg.bounds([one.y + one.sd for one in series if one.sd is not None]) or (low, high)
    top = max(high, min(reach[1], high + 0.4 * abs(high)))  # room for bands, unless they dwarf the lines
    return across, svg.Scale(min(0.0, low), 1.05 * top if top > 0 else 1.0, LINES.bottom, LINES.top)


def _share_bounds(low: float, high: float) -> tuple[float, float]:
    top = min(1.0, float(np.ceil(high * 10 + 0.01)) / 10)
    return max(0.0, min(float(np.floor(low * 10)) / 10, top - 0.1)), top


def _grid(frame: Frame, across: svg.Scale, up: svg.Scale, *, percent: bool = False) -> Iterator[str]:
    for value in up.ticks(5):
        y = up.at(value)
        yield svg.element("path", class_="grid", d=f"M{svg.num(frame.left)} {svg.num(y)}H{svg.num(frame.right)}")
        shown = words.percent(value, 0) if percent else words.tick(value)
        yield svg.text(frame.left - 6, y + 4, shown, class_="axis end")
    ticks = [v for v in across.ticks(4) if v > 0 and v == round(v)] or [across.low]
    for value in ticks:
        x = across.at(value)
        yield svg.element("path", class_="tick", d=f"M{svg.num(x)} {svg.num(frame.bottom)}v4")
        yield svg.text(x, frame.bottom + 20, words.tick(value), class_="axis mid")
    yield svg.element("path", class_="base", d=f"M{svg.num(frame.left)} {svg.num(frame.bottom)}H{svg.num(frame.right)}")


def _band(one: Series, across: svg.Scale, up: svg.Scale) -> Iterator[str]:
    if one.sd is None:
        return
    low, high = one.y - one.sd, one.y + one.sd
    if up.kind == "log":  # as far down as up: y - sd may be below 0, which would be all the way to the axis
        known = np.where(one.y > 0, one.y, np.nan)
        low = known * known / (known + one.sd)
    shape = svg.area(across(one.x), up(np.maximum(low, up.low)), up(np.minimum(high, up.high)))
    if shape:
        yield svg.element("path", class_=f"band s{style(one.index)}", d=shape)


def _line(one: Series, across: svg.Scale, up: svg.Scale, *, percent: bool = False, limit: bool = False) -> str:
    """A line; the script is told its values as they are printed."""
    drawn = svg.path(across(one.x), up(one.y if up.kind != "log" else np.maximum(one.y, up.low)))
    known = one.y[np.isfinite(one.y)]
    tip = svg.element("title", svg.escape(f"{one.label}: {words.brief(float(known[-1]))}")) if len(known) else ""
    dash = DASHES[style(one.index)] or None
    at = np.isfinite(one.y)
    said = (words.percent(value) if percent else words.brief(value) for value in one.y[at].tolist())
    return svg.element(
        "path",
        tip,
        class_="limit" if limit else f"line s{style(one.index)}",
        d=drawn,
        stroke_dasharray=None if limit else dash,
        data_name=one.label,
        data_x=" ".join(f"{x:.4g}" if x < 1 else f"{x:.0f}" for x in one.x[at].tolist()),
        data_y=" ".join(said),
    )


def _ends(series: Sequence[Series], across: svg.Scale, up: svg.Scale) -> Iterator[str]:
    """A name beside each line's end, moved apart where they would collide."""
    ended = [one for one in series if np.isfinite(one.y).any()]
    tips = []
    for one in ended:
        last = int(np.flatnonzero(np.isfinite(one.y))[-1])
        tips.append((across.at(float(one.x[last])), up.at(max(float(one.y[last]), up.low))))
    places = svg.spread([y for _, y in tips], 16, LINES.top + 4, LINES.bottom - 2)
    for one, (x, y), place in zip(ended, tips, places, strict=True):
        lead = f"M{svg.num(x + 4)} {svg.num(y)}L{svg.num(LINES.right + 14)} {svg.num(place)}"
        yield mark(one.index, x, y)
        yield svg.element("path", class_=f"lead s{style(one.index)}", d=lead)
        yield svg.text(LINES.right + 18, place + 4, words.shortened(one.label), class_="name")


LORENZ = Frame(50, 12, 430, 392)
LORENZ_SIZE = (440, 440)


def lorenz(series: Sequence[Series], limit: Series, *, title: str, desc: str) -> str:
    """Shares of clients against the share of selections they got; the limit thick and dashed, equality the diagonal."""
    across = svg.Scale(0, 1, LORENZ.left, LORENZ.right)
    up = svg.Scale(0, 1, LORENZ.bottom, LORENZ.top)
    body = list(_percent_axes(LORENZ, across, up))
    diagonal = svg.path(across(np.array([0.0, 1.0])), up(np.array([0.0, 1.0])))
    body.append(svg.element("path", svg.element("title", "equality"), class_="equal", d=diagonal))
    body += [_line(one, across, up, percent=True) for one in series]
    body.append(_line(limit, across, up, percent=True, limit=True))
    body.append(svg.text(LORENZ.right, LORENZ_SIZE[1] - 6, "share of clients, least served first", class_="axis end"))
    data = {"across": _told(across), "unit": "%"}
    return svg.picture(LORENZ_SIZE, body, title=title, desc=desc, class_="chart lorenz", data=data)


def _percent_axes(frame: Frame, across: svg.Scale, up: svg.Scale) -> Iterator[str]:
    for share in (0, 0.25, 0.5, 0.75, 1):
        x, y, shown = across.at(share), up.at(share), words.percent(share, 0)
        yield svg.element("path", class_="grid", d=f"M{svg.num(frame.left)} {svg.num(y)}H{svg.num(frame.right)}")
        yield svg.text(frame.left - 6, y + 4, shown, class_="axis end")
        place = "mid" if 0 < share < 1 else "end" if share else "start"
        yield svg.text(x, frame.bottom + 20, shown, class_=f"axis {place}")
    yield svg.element("path", class_="base", d=f"M{svg.num(frame.left)} {svg.num(frame.bottom)}H{svg.num(frame.right)}")


DOTS_WIDTH, DOTS_ROW, DOTS_REACH, DOT = 480.0, 48.0, 13.0, 4.0
"""Units: the chart's width, a row's height, how far dots may lie from a row's middle, and a dot."""


HEAP = 30
"""Dots that may lie on one place; above it bars are drawn."""


def dots(rows: Sequence[Row], *, title: str, desc: str, axis: str) -> Chart:
    """A row of dots each, stacked where they would overlap; bars of the same outline where there are too many."""
    known = svg.bounds([row.values for row in rows])
    if known is None:
        return Chart()
    scale = _dots_scale(rows, known)
    bins = int((scale.end - scale.start) / DOT)
    tallest = max((int(_stacks(row.values, scale, bins).max()) for row in rows if len(row.values)), default=1)
    height = DOTS_ROW * len(rows) + 48
    body = list(_dots_axis(scale, height - 42, axis))
    for number, row in enumerate(rows):
        body += _dots_row(row, scale, bins, tallest, number * DOTS_ROW)
    markup = svg.picture((DOTS_WIDTH, height), body, title=title, desc=desc, class_="chart dots")
    return Chart(markup, scale.kind, dense=tallest > HEAP)


def _dots_scale(rows: Sequence[Row], known: tuple[float, float]) -> svg.Scale:
    """Linear, or by square root where a few clients lie so far out that the others would be one heap."""
    low, high = min(0.0, known[0]), known[1] if known[1] > 0 else 1.0
    middle = float(np.median(np.abs(np.concatenate([row.values for row in rows]))))
    kind: svg.Kind = "root" if max(high, -low) > 6 * middle else "linear"
    return svg.Scale(low, high, 8, DOTS_WIDTH - 8, kind)


def _stacks(values: FloatArray, scale: svg.Scale, bins: int) -> NDArray[np.int64]:
    place = (scale(values) - scale.start) / (scale.end - scale.start)
    return np.bincount(np.clip((place * bins).astype(np.int64), 0, bins - 1), minlength=bins)


def _dots_axis(scale: svg.Scale, bottom: float, name: str) -> Iterator[str]:
    for value, x in _apart([(value, scale.at(value)) for value in scale.ticks(6)], 46):
        yield svg.element("path", class_="grid", d=f"M{svg.num(x)} 0V{svg.num(bottom)}")
        place = "start" if x < 20 else "end" if x > DOTS_WIDTH - 20 else "mid"
        yield svg.text(x, bottom + 16, words.tick(value), class_=f"axis {place}")
    yield svg.text(scale.end, bottom + 34, name, class_="axis end")


def _apart(ticks: list[tuple[float, float]], gap: float) -> list[tuple[float, float]]:
    """Ticks that keep their distance: 0 first, then from the outside inwards."""
    kept: list[tuple[float, float]] = []
    for value, x in sorted(ticks, key=lambda tick: (tick[0] != 0, -abs(tick[0]))):
        if all(abs(x - other) >= gap for _, other in kept):
            kept.append((value, x))
    return sorted(kept)


def _dots_row(row: Row, scale: svg.Scale, bins: int, tallest: int, top: float) -> Iterator[str]:
    middle = top + 33
    kind = f"s{style(row.index)}{' hollow' if row.hollow else ''}"
    yield svg.text(scale.start, top + 15, words.shortened(row.label, 44), class_="name")
    if not len(row.values):
        yield svg.text(scale.start, middle + 4, "nobody was online", class_="axis")
        return
    stacks = _stacks(row.values, scale, bins)
    yield svg.element("path", class_="base", d=f"M{svg.num(scale.start)} {svg.num(middle)}H{svg.num(scale.end)}")
    if tallest > HEAP:
        yield svg.element("path", class_=f"bars {kind}", d=_bars(stacks, tallest, scale, middle))
    else:
        yield svg.element("path", class_=f"dot {kind}", d=_heaps(stacks, scale, middle))
    for share, name, reach in ((0.25, "quartile", 7.0), (0.5, "median", 12.0), (0.75, "quartile", 7.0)):
        x = scale.at(float(np.quantile(row.values, share)))
        yield svg.element("path", class_=name, d=f"M{svg.num(x)} {svg.num(middle - reach)}v{svg.num(2 * reach)}")
    where = {"x": 0.0, "y": top, "width": DOTS_WIDTH, "height": DOTS_ROW}
    yield svg.element("rect", class_="hit", data_name=row.label, data_says=json.dumps(_summed_up(row.values)), **where)


def _summed_up(values: FloatArray) -> list[tuple[str, str]]:
    """What a pointer on a row of dots is told."""
    low, quarter, middle, rest, high = (words.brief(float(v)) for v in np.quantile(values, (0, 0.25, 0.5, 0.75, 1)))
    told = (("highest", high), ("three quarters below", rest), ("median", middle), ("a quarter below", quarter))
    return [*told, ("lowest", low), ("clients", f"{len(values):,}")]


def _heaps(stacks: NDArray[np.int64], scale: svg.Scale, middle: float) -> str:
    parts = []
    for bin, size in enumerate(stacks.tolist()):
        x = svg.num(scale.start + (bin + 0.5) * DOT)
        pitch = min(DOT, 2 * DOTS_REACH / max(1, size))
        parts += [f"M{x} {svg.num(middle + (k - (size - 1) / 2) * pitch)}h0" for k in range(size)]
    return "".join(parts)


def _bars(stacks: NDArray[np.int64], tallest: int, scale: svg.Scale, middle: float) -> str:
    parts = []
    for bin, size in enumerate(stacks.tolist()):
        if size:
            reach = max(0.5, DOTS_REACH * size / tallest)
            parts.append(f"M{svg.num(scale.start + (bin + 0.5) * DOT)} {svg.num(middle - reach)}v{svg.num(2 * reach)}")
    return "".join(parts)


def split_bar(unavoidable: float, avoidable: float, most: float) -> str:
    """A small bar: what nobody could have avoided (pale), and what was added (full); decoration beside the numbers."""
    scale = 100 / most if most > 0 else 0.0
    first, second = max(0.0, unavoidable) * scale, max(0.0, avoidable) * scale
    body = svg.element("rect", class_="part pale", x=0.0, y=0, width=first, height=6)
    body += svg.element("rect", class_="part full", x=first, y=0, width=second, height=6)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="split" viewBox="0 0 100 6" preserveAspectRatio="none" '
        f'aria-hidden="true">{body}</svg>'
    )
