"""The pictures of claims: lines over any axes, or bars beside names; small SVG text in the page's own styles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fedparity.core.types import FloatArray
from fedparity.report import charts, svg, words

FRAME = charts.Frame(58, 16, 420, 296)
SIZE = (560, 346)
BAR, LABEL, REACH = 30, 190, 500
"""Units: the height of a bar's row, where bars start, and where the longest ends."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One line and its name."""

    label: str
    x: Sequence[float] | FloatArray
    y: Sequence[float] | FloatArray


@dataclass(frozen=True, slots=True)
class Lines:
    """Curves over a common axis."""

    title: str
    across: str
    up: str
    curves: tuple[Curve, ...]
    log_x: bool = False
    log_y: bool = False

    @classmethod
    def of_ratios(cls, title: str, ratios: Mapping[str, FloatArray], bound: float | None = None) -> Lines:
        """Left over right side of an inequality in many cases, sorted, about a hundred of them drawn per name."""
        shown = {name: np.sort(values)[:: max(1, len(values) // 100)] for name, values in ratios.items()}
        curves = [Curve(name, np.linspace(0, 1, len(values)), values) for name, values in shown.items()]
        if bound is not None:
            curves.append(Curve("bound", [0, 1], [bound, bound]))
        return cls(title, "share of cases", "ratio", tuple(curves))

    def draw(self) -> str:
        """The drawing."""
        x, y = (self._scale([np.asarray(getattr(c, axis)) for c in self.curves], axis) for axis in ("x", "y"))
        body = [*self._axes(x, y)]
        tips = []
        for index, curve in enumerate(self.curves):
            xs, ys = x(np.asarray(curve.x, dtype=np.float64)), y(np.asarray(curve.y, dtype=np.float64))
            dash = charts.DASHES[charts.style(index)] or None
            drawn = svg.path(xs, ys)
            body.append(svg.element("path", class_=f"line s{charts.style(index)}", d=drawn, stroke_dasharray=dash))
            body += [charts.mark(index, a, b) for a, b in zip(xs.tolist(), ys.tolist(), strict=True) if len(xs) <= 12]
            tips.append(float(ys[-1]))
        for index, place in enumerate(svg.spread(tips, 16, FRAME.top + 4, FRAME.bottom)):
            name = words.shortened(self.curves[index].label, 20)
            body.append(svg.text(FRAME.right + 8, place + 4, name, class_=f"name s{charts.style(index)}"))
        desc = "; ".join(f"{c.label} ends at {float(c.y[-1]):.3g}" for c in self.curves)
        return svg.picture(SIZE, body, title=self.title, desc=desc, class_="chart lines")

    def _scale(self, values: list[FloatArray], axis: str) -> svg.Scale:
        log = self.log_x if axis == "x" else self.log_y
        span = (FRAME.left, FRAME.right) if axis == "x" else (FRAME.bottom, FRAME.top)
        low, high = svg.bounds(values) or (0.0, 1.0)
        if log:
            return svg.Scale(low / 1.2, high * 1.2, *span, "log")
        if axis == "y":
            low, high = min(0.0, low), high + 0.05 * (high - min(0.0, low))
        return svg.Scale(low, high if high > low else low + 1.0, *span)

    def _axes(self, x: svg.Scale, y: svg.Scale) -> Iterator[str]:
        for value in y.ticks(5):
            at = svg.num(y.at(value))
            yield svg.element("path", class_="grid", d=f"M{FRAME.left} {at}H{FRAME.right}")
            yield svg.text(FRAME.left - 6, y.at(value) + 4, words.tick(value), class_="axis end")
        for value in x.ticks(5):
            yield svg.element("path", class_="tick", d=f"M{svg.num(x.at(value))} {FRAME.bottom}v4")
            yield svg.text(x.at(value), FRAME.bottom + 20, words.tick(value), class_="axis mid")
        yield svg.element("path", class_="base", d=f"M{FRAME.left} {FRAME.bottom}H{FRAME.right}")
        yield svg.text(FRAME.right, SIZE[1] - 8, self.across, class_="axis end")
        yield svg.text(2, 11, self.up, class_="axis")


@dataclass(frozen=True, slots=True)
class Bars:
    """One bar per name; `marks` are values to compare with, drawn as a stroke across the bar."""

    title: str
    values: tuple[tuple[str, float], ...]
    marks: tuple[float | None, ...] = ()
    marked: str = ""
    """What a mark is."""

    def draw(self) -> str:
        """The drawing."""
        given = [value for _, value in self.values] + [m for m in self.marks if m is not None]
        scale = svg.Scale(0.0, max(given) or 1.0, LABEL, REACH)
        body = []
        for row, (label, value) in enumerate(self.values):
            top = float(row * BAR + 8)
            body.append(svg.text(LABEL - 8, top + 13, words.shortened(label, 30), class_="axis end"))
            body.append(
                svg.element("rect", class_="part pale", x=float(LABEL), y=top, width=scale.at(value) - LABEL, height=18)
            )
            body.append(svg.text(REACH + 6, top + 13, words.brief(value)))
            if row < len(self.marks) and (mark := self.marks[row]) is not None:
                at = svg.num(scale.at(mark))
                body.append(svg.element("path", class_="median", d=f"M{at} {svg.num(top - 3)}v24"))
        height = len(self.values) * BAR + (34 if self.marked else 12)
        if self.marked:
            body.append(svg.text(REACH, height - 8, f"stroke: {self.marked}", class_="axis end"))
        desc = "; ".join(f"{label} {value:.3g}" for label, value in self.values)
        return svg.picture((560, height), body, title=self.title, desc=desc, class_="chart lines")


Picture: TypeAlias = Lines | Bars
