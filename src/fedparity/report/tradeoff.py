"""Accuracy against fairness: one point per method with its spread over seeds, and lines over beta.

One picture that stands alone: its style sheet has a light and a dark half, colours repeat only together with another
marker. A label goes to the free place nearest to its point; one that had to move further gets a lead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from fedparity.availability import shown_name
from fedparity.experiment.compare import ACCURACY, FAIRNESS, Comparison
from fedparity.metrics import Table
from fedparity.metrics.measures import heading
from fedparity.report import charts, svg, words

SIZE = (900.0, 600.0)
FRAME = charts.Frame(88.0, 70.0, 872.0, 528.0)
FONT = 13.0
LATE = "late_accuracy"
Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom."""

STYLE = """
svg { color-scheme: light dark; font: 13px system-ui, "Segoe UI", Roboto, Arial, "Noto Sans", sans-serif;
  --paper: #fff; --ink: #1b1e21; --muted: #5b6268; --grid: #e8eaeb; --line: #8b949b;
  --s0: #555c63; --s1: #c85200; --s2: #00845f; --s3: #b8568c; --s4: #8f6b00;
  --s5: #0072b2; --s6: #7a4fb5; --s7: #c0272d; --s8: #5b8c00; }
@media (prefers-color-scheme: dark) { svg {
  --paper: #14171a; --ink: #e7eaec; --muted: #a3abb2; --grid: #2a2f34; --line: #77828a;
  --s0: #b9c0c6; --s1: #ff9149; --s2: #3fcf9f; --s3: #e79cc6; --s4: #e6c34a;
  --s5: #58b0f0; --s6: #bfa2f0; --s7: #ff7b72; --s8: #a8d65a; } }
.paper { fill: var(--paper); } text { fill: var(--ink); } .axis { fill: var(--muted); }
.title { font-size: 17px; font-weight: 600; }
.end { text-anchor: end; } .mid { text-anchor: middle; } .start { text-anchor: start; }
.grid { stroke: var(--grid); fill: none; } .base, .tick { stroke: var(--muted); fill: none; }
.bar { stroke: var(--c); stroke-width: 1.2; fill: none; opacity: .55; }
.mark { fill: var(--c); stroke: var(--paper); stroke-width: 1; }
.name { paint-order: stroke; stroke: var(--paper); stroke-width: 3px; stroke-linejoin: round; }
path.lead { stroke: var(--muted); stroke-width: .7; fill: none; }
.curve { stroke: var(--line); stroke-width: 1.6; stroke-dasharray: 6 4; fill: none; }
.s0 { --c: var(--s0); } .s1 { --c: var(--s1); } .s2 { --c: var(--s2); } .s3 { --c: var(--s3); }
.s4 { --c: var(--s4); } .s5 { --c: var(--s5); } .s6 { --c: var(--s6); } .s7 { --c: var(--s7); } .s8 { --c: var(--s8); }
"""


@dataclass(frozen=True, slots=True)
class Point:
    """One method: its label, its style, where it stands, and how far seeds lie apart."""

    name: str
    label: str
    index: int
    x: float
    y: float
    x_sd: float = 0.0
    y_sd: float = 0.0


def points(found: Comparison) -> list[Point]:
    """A point for each method of which both numbers are known; those on a line over beta are called by their beta."""
    beta = {name: f"β={b:g}" for curve in found.curves for b, name in curve}
    if len(found.curves) > 1:
        beta = {}
    placed = []
    plain = [name for name in found.methods if name not in beta]
    for name in found.methods:
        across, up = found.stats[FAIRNESS][name], found.stats[ACCURACY][name]
        if across.mean is not None and up.mean is not None:
            index = plain.index(name) if name in plain else len(plain)
            label = beta.get(name, name)
            placed.append(Point(name, label, index, across.mean, up.mean, across.sd or 0.0, up.sd or 0.0))
    return placed


def draw_tradeoff(found: Comparison) -> str:
    """The picture; empty if no method has both numbers."""
    placed = points(found)
    if not placed:
        return ""
    by_name = {p.name: p for p in placed}
    lines = [[by_name[name] for _, name in curve if name in by_name] for curve in found.curves]
    alone = [svg.element("style", STYLE), svg.element("rect", class_="paper", width="100%", height="100%")]
    return _drawn(placed, lines, f"{heading(ACCURACY, narrow=True)} of the last model", [*alone, *_heads(found)])


def draw_inline(table: Table) -> str:
    """The picture for a page that has its own style: accuracy of the last tenth of the rounds; empty if not known."""
    placed = []
    for index, name in enumerate(table.methods):
        across, up = table.mean(FAIRNESS, name), table.mean(LATE, name)
        if across is not None and up is not None:
            spread = table.sd(FAIRNESS, name) or 0.0, table.sd(LATE, name) or 0.0
            placed.append(Point(name, name, index, across, up, *spread))
    return _drawn(placed, [], "accuracy on clients’ own test data", []) if len(placed) > 1 else ""


def _drawn(placed: Sequence[Point], lines: Sequence[Sequence[Point]], accuracy: str, body: list[str]) -> str:
    across = _scale([(p.x, p.x_sd) for p in placed], FRAME.left, FRAME.right, floor=None)
    up = _scale([(p.y, p.y_sd) for p in placed], FRAME.bottom, FRAME.top, floor=0.0, top=1.0)
    body = [*body, *_axes(across, up, accuracy)]
    for line in lines:
        drawn = svg.path(across(np.array([p.x for p in line])), up(np.array([p.y for p in line])))
        body.append(svg.element("path", class_="curve", d=drawn))
    body += [bar for p in placed for bar in _bars(p, across, up)]
    body += [_mark(p, across, up) for p in placed]
    body += _labels(placed, lines, across, up)
    said = ", ".join(
        f"{p.name} {words.percent(p.y)} at {words.fixed(p.x)}" for p in sorted(placed, key=lambda p: (p.x, p.name))
    )
    desc = f"Accuracy at avoidable Gini coefficient, fairest first: {said}."
    return svg.picture(SIZE, body, title="Accuracy against fairness", desc=desc, class_="chart tradeoff")


def _scale(
    values: Sequence[tuple[float, float]], start: float, end: float, *, floor: float | None, top: float = math.inf
) -> svg.Scale:
    """Room for every bar, and some air; not beyond what the number can be."""
    low, high = min(v - sd for v, sd in values), max(v + sd for v, sd in values)
    air = 0.08 * (high - low) or 0.05
    low, high = low - air, high + air
    return svg.Scale(low if floor is None else max(floor, low), min(high, max(top, high - air)), start, end)


def _heads(found: Comparison) -> Iterator[str]:
    """What stands around the picture where no page says it."""
    f, s = FRAME, found.spec
    yield svg.text(f.left, 28, "Accuracy against fairness", class_="title")
    spread = f"bars: one standard deviation over {len(found.seeds)} seeds" if len(found.seeds) > 1 else "one seed"
    where = words.shortened(shown_name(s.population.shown), 40)
    told = f"{s.population.clients} clients ({where}), {s.rounds} rounds, {s.asked} asked per round"
    yield svg.text(f.left, 50, told, class_="axis")
    dashed = "; dashed: parity over β" if found.curves else ""
    yield svg.text(f.right, f.bottom + 64, f"{spread}{dashed}", class_="axis end")


def _axes(across: svg.Scale, up: svg.Scale, accuracy: str) -> Iterator[str]:
    f = FRAME
    for value in up.ticks(6):
        y = up.at(value)
        yield svg.element("path", class_="grid", d=f"M{svg.num(f.left)} {svg.num(y)}H{svg.num(f.right)}")
        yield svg.text(f.left - 8, y + 4.5, words.percent(value, _places(up)), class_="axis end")
    for value in across.ticks(7):
        x = across.at(value)
        yield svg.element("path", class_="grid", d=f"M{svg.num(x)} {svg.num(f.top)}V{svg.num(f.bottom)}")
        yield svg.text(x, f.bottom + 20, words.tick(value), class_="axis mid")
    yield svg.element("path", class_="base", d=f"M{svg.num(f.left)} {svg.num(f.bottom)}H{svg.num(f.right)}")
    yield svg.text(
        (f.left + f.right) / 2, f.bottom + 44, "← fairer: avoidable Gini coefficient of selections", class_="mid"
    )
    at = f"translate(20 {svg.num((f.top + f.bottom) / 2)}) rotate(-90)"
    yield svg.element("text", svg.escape(f"{accuracy} →"), class_="mid", transform=at)


def _places(up: svg.Scale) -> int:
    ticks = up.ticks(6)
    return 0 if all(abs(100 * t - round(100 * t)) < 1e-9 for t in ticks) else 1


def _ends(p: Point, across: svg.Scale, up: svg.Scale) -> tuple[Box, Box]:
    """The bars of a point as thin boxes, within the frame."""
    x, y = across.at(p.x), up.at(p.y)
    left, right = max(across.at(p.x - p.x_sd), FRAME.left), min(across.at(p.x + p.x_sd), FRAME.right)
    top, bottom = max(up.at(p.y + p.y_sd), FRAME.top), min(up.at(p.y - p.y_sd), FRAME.bottom)
    return (left, y - 1, right, y + 1), (x - 1, top, x + 1, bottom)


def _bars(p: Point, across: svg.Scale, up: svg.Scale) -> Iterator[str]:
    (left, y0, right, y1), (x0, top, x1, bottom) = _ends(p, across, up)
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    if p.x_sd:
        d = f"M{svg.num(left)} {svg.num(y)}H{svg.num(right)}"
        caps = f"M{svg.num(left)} {svg.num(y - 3)}v6M{svg.num(right)} {svg.num(y - 3)}v6"
        yield svg.element("path", class_=f"bar s{charts.style(p.index)}", d=d + caps)
    if p.y_sd:
        d = f"M{svg.num(x)} {svg.num(top)}V{svg.num(bottom)}"
        caps = f"M{svg.num(x - 3)} {svg.num(top)}h6M{svg.num(x - 3)} {svg.num(bottom)}h6"
        yield svg.element("path", class_=f"bar s{charts.style(p.index)}", d=d + caps)


def _mark(p: Point, across: svg.Scale, up: svg.Scale) -> str:
    shape = charts.MARKS[(p.index + p.index // charts.STYLES) % len(charts.MARKS)]
    tip = svg.element("title", svg.escape(f"{p.name}: {words.percent(p.y)}, avoidable Gini {words.fixed(p.x)}"))
    place = f"translate({svg.num(across.at(p.x))} {svg.num(up.at(p.y))}) scale(1.25)"
    return svg.element("path", tip, class_=f"mark s{charts.style(p.index)}", d=shape, transform=place)


# -- labels -----------------------------------------------------------------------------------------------------------


def _labels(
    placed: Sequence[Point], lines: Sequence[Sequence[Point]], across: svg.Scale, up: svg.Scale
) -> Iterator[str]:
    """Each label at the cheapest place around its point, the most crowded points first."""
    at = {p.name: (across.at(p.x), up.at(p.y)) for p in placed}
    marks = [_around(x, y, 7.0) for x, y in at.values()]
    bars = [box for p in placed for box in _ends(p, across, up)]
    for line in lines:
        bars += [box for a, b in pairwise(line) for box in _along(at[a.name], at[b.name])]
    taken: list[Box] = []
    leads: list[Box] = []

    def crowd(p: Point) -> tuple[float, str]:
        x, y = at[p.name]
        return -sum(1 / (20 + math.hypot(x - a, y - b)) for a, b in at.values()), p.name

    drawn: dict[str, tuple[str, str]] = {}
    for p in sorted(placed, key=crowd):
        x, y = at[p.name]
        label = words.shortened(p.label, 30)
        width = 0.56 * FONT * len(label) + 4
        box = min(_places_around(x, y, width), key=lambda b: _price(b, (x, y), marks, bars, [*taken, *leads]))
        taken.append(box)
        edge = (min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3]))
        far = math.hypot(edge[0] - x, edge[1] - y) > 13
        if far:
            leads += list(_along((x, y), edge))[2:-1]
        stroke = f"M{svg.num(x)} {svg.num(y)}L{svg.num(edge[0])} {svg.num(edge[1])}"
        lead = svg.element("path", class_="lead", d=stroke) if far else ""
        drawn[p.name] = lead, svg.text(box[0] + 2, box[3] - 4, label, class_="name")
    yield from (drawn[p.name][0] for p in placed if drawn[p.name][0])
    yield from (drawn[p.name][1] for p in placed)


def _around(x: float, y: float, reach: float) -> Box:
    return x - reach, y - reach, x + reach, y + reach


def _along(a: tuple[float, float], b: tuple[float, float]) -> Iterator[Box]:
    """A line as small boxes."""
    count = max(2, int(math.hypot(b[0] - a[0], b[1] - a[1]) / 4))
    for k in range(count + 1):
        yield _around(a[0] + (b[0] - a[0]) * k / count, a[1] + (b[1] - a[1]) * k / count, 1.5)


def _places_around(x: float, y: float, width: float) -> Iterator[Box]:
    """Right, left, above and below first; then rings further out."""
    height = FONT + 4
    for ring in (10.0, 18.0, 30.0, 46.0, 66.0, 90.0, 120.0, 160.0):
        for step in range(16):
            angle = math.pi / 8 * step
            cx = x + (ring + width / 2) * math.cos(angle)
            cy = y + (ring + height / 2) * math.sin(angle)
            box = cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2
            inside = box[0] >= FRAME.left and box[2] <= SIZE[0] - 4 and box[1] >= FRAME.top - 14
            if inside and box[3] <= FRAME.bottom - 2:
                yield box
    yield x - width / 2, y - height - 8, x + width / 2, y - 8


def _price(
    box: Box, point: tuple[float, float], marks: Sequence[Box], bars: Sequence[Box], labels: Sequence[Box]
) -> float:
    edge = (min(max(point[0], box[0]), box[2]), min(max(point[1], box[1]), box[3]))
    away = math.hypot(edge[0] - point[0], edge[1] - point[1])
    hidden = 20 * sum(_shared(box, other) for other in labels) + 6 * sum(_shared(box, other) for other in marks)
    middle = abs((box[1] + box[3]) / 2 - point[1])
    return hidden + 1.2 * sum(_shared(box, other) for other in bars) + away + 0.1 * middle


def _shared(a: Box, b: Box) -> float:
    """The area that two boxes share."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return width * height if width > 0 and height > 0 else 0.0
