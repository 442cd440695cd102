"""Clients x labels: who holds how much of what, as one small picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedparity.report import svg

COLUMNS, LEVELS = 400, 8
"""The most clients that are drawn, and the shades."""


def draw_partition(counts: NDArray[np.integer], title: str) -> str:
    """An SVG picture of clients x labels counts: one column per client, one row per label, dark where it holds most.

    Of more than 400 clients, evenly many are drawn.
    """
    clients, classes = counts.shape
    chosen = svg.evenly(clients, COLUMNS)
    held = counts[chosen].T
    level = np.ceil(LEVELS * np.sqrt(held / max(1, int(counts.max())))).astype(np.int64)
    width, row = 720.0, max(3.0, min(24.0, 360.0 / classes))
    left, top = 56.0, 34.0
    height = top + row * classes
    body = [
        svg.element("rect", width=left + width + 12, height=height + 40, fill="#ffffff"),
        svg.text(left, 20, title, font_size=14),
    ]
    scale = f"translate({svg.num(left)} {svg.num(top + row / 2)}) scale({width / len(chosen):.6f} {row:.4f})"
    marks = [
        svg.element("path", d=path, stroke=f"rgb({_shade(shade)})")
        for shade in range(1, LEVELS + 1)
        if (path := svg.runs(level == shade))
    ]
    body.append(svg.element("g", "".join(marks), transform=scale, stroke_width=0.9, fill="none"))
    step = max(1, -(-classes // 20))
    body += [
        svg.text(left - 8, top + row * (label + 0.5) + 4, label, font_size=11, text_anchor="end")
        for label in range(0, classes, step)
    ]
    ends = ((0.0, "start", int(chosen[0])), (1.0, "end", int(chosen[-1])))
    body += [
        svg.text(left + at * width, height + 16, f"client {client}", font_size=11, text_anchor=anchor)
        for at, anchor, client in ends[: 1 + (clients > 1)]
    ]
    drawn = f", {len(chosen)} of them drawn" if len(chosen) < clients else ""
    note = f"one column per client{drawn}; darkest: {int(counts.max())} images of a label"
    body.append(svg.text(left + width / 2, height + 32, note, font_size=11, text_anchor="middle", fill="#555555"))
    desc = f"{clients} clients{drawn}, {classes} labels, {int(counts.sum())} images."
    inside = svg.element("g", "".join(body), font_family="sans-serif", fill="#222222")
    return svg.picture((left + width + 12, height + 40), [inside], title=title, desc=desc)


def _shade(level: int) -> str:
    """From pale to dark blue."""
    t = level / LEVELS
    return ",".join(str(round(pale + (dark - pale) * t)) for pale, dark in ((225, 16), (234, 56), (246, 122)))
