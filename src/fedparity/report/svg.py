"""Drawing by hand: scales, ticks, paths and escaped elements, as small SVG text.

Coordinates are rounded to a tenth of a unit, far below what a screen shows, so that a page of many lines stays small.
Whatever comes from outside goes through `escape`; a chart never pastes a string into markup.
"""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedparity.core.types import BoolArray, FloatArray, Ids

Kind = Literal["linear", "log", "root"]


def escape(value: object) -> str:
    """Text that is safe between tags and in attributes, and legal in XML."""
    return html.escape(printable(str(value)))


def printable(value: str) -> str:
    """Text in which whatever would turn or hide other text is replaced."""
    return "".join(c if legal(c) else "\ufffd" for c in value)


def legal(c: str) -> bool:
    """Not a control character: some are illegal in XML, others turn the direction of what follows or break a line."""
    return c.isprintable() or c in "\t\n\r" or unicodedata.category(c) == "Zs"


def num(value: float) -> str:
    """A coordinate: one decimal, nothing superfluous."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def element(tag: str, content: str = "", /, **attributes: object) -> str:
    """`<tag ...>content</tag>`; `content` is markup, attributes are escaped (`class_`, `stroke_width` as in Python)."""
    parts = [tag]
    for name, value in attributes.items():
        if value is not None:
            shown = num(value) if isinstance(value, float) else escape(value)
            parts.append(f'{name.rstrip("_").replace("_", "-")}="{shown}"')
    opening = " ".join(parts)
    return f"<{opening}>{content}</{tag}>" if content else f"<{opening}/>"


def text(x: float, y: float, label: object, **attributes: object) -> str:
    """A label at a point."""
    return element("text", escape(label), x=float(x), y=float(y), **attributes)


def picture(
    size: tuple[float, float],
    body: Iterable[str],
    *,
    title: str,
    desc: str,
    class_: str = "chart",
    stretch: bool = False,
    data: Mapping[str, object] | None = None,
) -> str:
    """A whole drawing with its alternative text; `stretch` lets it fill any box, `data` is for the script."""
    head = element("title", escape(title)) + element("desc", escape(desc))
    return element(
        "svg",
        head + "".join(body),
        xmlns="http://www.w3.org/2000/svg",
        class_=class_,
        role="img",
        viewBox=f"0 0 {num(size[0])} {num(size[1])}",
        preserveAspectRatio="none" if stretch else None,
        **{f"data_{name}": value for name, value in (data or {}).items()},
    )


def path(xs: FloatArray, ys: FloatArray) -> str:
    """A line through the points, in relative steps; broken where a value is missing."""
    parts: list[str] = []
    pen: tuple[float, float] | None = None
    for x, y in zip(np.round(xs, 1).tolist(), np.round(ys, 1).tolist(), strict=True):
        if not (math.isfinite(x) and math.isfinite(y)):
            pen = None
        elif pen is None:
            parts.append(f"M{num(x)} {num(y)}l0 0")
            pen = (x, y)
        else:
            parts.append(_step(x - pen[0], y - pen[1]))
            pen = (x, y)
    return "".join(parts)


def _step(dx: float, dy: float) -> str:
    if num(dy) == "0":
        return f"h{num(dx)}"
    right, down = num(dx), num(dy)
    return f"l{right}{down}" if down.startswith("-") else f"l{right} {down}"


def area(xs: FloatArray, low: FloatArray, high: FloatArray) -> str:
    """The surface between two lines, over the points where both are known."""
    known = np.isfinite(low) & np.isfinite(high)
    if known.sum() < 2:
        return ""
    x, a, b = xs[known], low[known], high[known]
    return path(np.concatenate([x, x[::-1]]), np.concatenate([b, a[::-1]])).replace("l0 0", "", 1) + "z"


def runs(marked: BoolArray) -> str:
    """Rows of marks as horizontal strokes of unit length: consecutive marks of a row make one stroke."""
    padded = np.zeros((marked.shape[0], marked.shape[1] + 2), dtype=np.int8)
    padded[:, 1:-1] = marked
    change = np.diff(padded, axis=1)
    row, start = np.nonzero(change == 1)
    end = np.nonzero(change == -1)[1]
    return "".join(f"M{x} {y}h{w}" for y, x, w in np.column_stack([row, start, end - start]).tolist())


@dataclass(frozen=True, slots=True)
class Scale:
    """From values in [low, high] to coordinates in [start, end]."""

    low: float
    high: float
    start: float
    end: float
    kind: Kind = "linear"

    def __call__(self, values: FloatArray) -> FloatArray:
        """The coordinates of values; NaN where a logarithm has none."""
        span = self._bend(np.array([self.low, self.high]))
        width = float(span[1] - span[0]) or 1.0
        return np.asarray(self.start + (self._bend(values) - span[0]) / width * (self.end - self.start))

    def at(self, value: float) -> float:
        """The coordinate of one value."""
        return float(self(np.array([value]))[0])

    def _bend(self, values: FloatArray) -> FloatArray:
        given = np.asarray(values, dtype=np.float64)
        if self.kind == "log":
            return np.log10(np.where(given > 0, given, np.nan))
        return np.sign(given) * np.sqrt(np.abs(given)) if self.kind == "root" else given

    def ticks(self, count: int = 5) -> list[float]:
        """Round values inside the scale."""
        if self.kind == "log":
            return _decades(self.low, self.high, count)
        if self.kind == "root":
            return _root_ticks(self.low, self.high)
        step = _nice_step((self.high - self.low) / max(1, count))
        first = math.ceil(self.low / step - 1e-9)
        return [float(f"{k * step:.12g}") for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _nice_step(rough: float) -> float:
    if not rough > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * s for s in (1, 2, 2.5, 5, 10) if power * s >= rough * 0.999)


def _decades(low: float, high: float, count: int) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    return [10.0**k for k in range(first, last + 1, max(1, math.ceil((last - first) / max(1, count))))]


def _root_ticks(low: float, high: float) -> list[float]:
    """0 and 1, 2, 5, 10, ... to either side: more than fit, for the axis to choose from."""
    reach = max(abs(low), abs(high))
    power = math.floor(math.log10(reach)) if reach > 0 else 0
    steps = [float(f"{s}e{p}") for p in range(power - 3, power + 1) for s in (1, 2, 5)]
    return [-v for v in reversed(steps) if -v >= low] + [0.0] + [v for v in steps if v <= high]


def bounds(values: Sequence[FloatArray]) -> tuple[float, float] | None:
    """The least and greatest finite number; None if there is none."""
    known: NDArray[np.float64] = np.concatenate([np.ravel(v) for v in values]) if values else np.empty(0)
    known = known[np.isfinite(known)]
    return (float(known.min()), float(known.max())) if len(known) else None


def evenly(count: int, most: int) -> Ids:
    """Which of `count` things are drawn where there is room for `most`: all, or evenly many from first to last."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places as near as can be to the wanted ones, in their order, at least `gap` apart and within [low, high]."""
    gap = min(gap, (high - low) / max(1, len(wanted) - 1))
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    blocks: list[tuple[float, int]] = []  # (mean of first places, members)
    for rank, i in enumerate(order):
        mean, size = wanted[i] - rank * gap, 1
        while blocks and blocks[-1][0] >= mean:
            other, members = blocks.pop()
            mean = (mean * size + other * members) / (size + members)
            size += members
        blocks.append((mean, size))
    firsts = [mean for mean, size in blocks for _ in range(size)]
    top = high - (len(wanted) - 1) * gap
    placed = [0.0] * len(wanted)
    for rank, i in enumerate(order):
        placed[i] = min(max(firsts[rank], low), top) + rank * gap
    return placed
