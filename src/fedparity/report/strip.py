"""Who was there, who was asked, who delivered: one row per client, one column per round, one layer per method.

Everything is drawn in units of one round by one client and stretched to the page, so a mark costs a few bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedparity.core.trace import Trace
from fedparity.core.types import BoolArray, Ids
from fedparity.report import svg

ROWS, COLUMNS = 150, 400
"""The most clients and columns that are drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """Which clients (most available first) and how many rounds per column."""

    clients: Ids
    rounds: int
    bin: int

    @classmethod
    def of(cls, trace: Trace) -> Strip:
        """All clients, or evenly many of every rank; every round, or a few rounds per column."""
        ranked = np.argsort(-trace.counts(), kind="stable")[svg.evenly(trace.num_clients, ROWS)]
        return cls(ranked.astype(np.int64), trace.num_rounds, math.ceil(trace.num_rounds / COLUMNS))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.clients), math.ceil(self.rounds / self.bin)

    def marks(self, by_round: Iterable[NDArray[np.integer]], num_clients: int) -> BoolArray:
        """Rows x columns: whether the client is among the ids of any of the column's rounds."""
        row = np.full(num_clients, -1, dtype=np.int64)
        row[self.clients] = np.arange(len(self.clients))
        marked = np.zeros(self.shape, dtype=np.bool_)
        for t, ids in enumerate(by_round):
            if t < self.rounds:
                rows = row[ids]
                marked[rows[rows >= 0], t // self.bin] = True
        return marked


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One method's marks: who delivered, and who was asked in vain."""

    served: BoolArray
    failed: BoolArray


@dataclass(frozen=True, slots=True)
class Labels:
    """What the script says under the pointer: clients row by row, the number of the first round, rounds per column."""

    names: Sequence[str]
    first: int = 1
    wide: int = 1


def draw(
    online: BoolArray, layers: Sequence[Layer], first: int, *, title: str, desc: str, labels: Labels | None = None
) -> str:
    """The presence of all, and one layer above it shown at a time (class `o0`, `o1`, ...; on paper the `first`)."""
    rows, columns = online.shape
    body = [svg.element("path", class_="there", d=svg.runs(online))]
    for number, layer in enumerate(layers):
        inner = svg.element("path", class_="served", d=svg.runs(layer.served))
        if layer.failed.any():
            inner += svg.element("path", class_="failed", d=svg.runs(layer.failed & ~layer.served))
        body.append(svg.element("g", inner, class_=f"layer o{number}{' first' if number == first else ''}"))
    moved = svg.element("g", "".join(body), transform="translate(0 .5)")
    data: dict[str, object] = {}
    if labels is not None:
        said = json.dumps([svg.printable(name) for name in labels.names], ensure_ascii=False)
        data = {"rows": said, "first": labels.first, "wide": labels.wide}
    return svg.picture((columns, rows), [moved], title=title, desc=desc, class_="chart rows", stretch=True, data=data)


def height(rows: int) -> int:
    """Pixels: a whole number per client, so that rows look alike."""
    return rows * max(3, min(22, 520 // max(1, rows)))
