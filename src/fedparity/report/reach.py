"""Who got what: clients in tenths, ordered by how often they were there, and what each method gave to each tenth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core.types import FloatArray, Ids
from fedparity.experiment.run import Run
from fedparity.metrics import tenths
from fedparity.report import charts, words


@dataclass(frozen=True, slots=True)
class Cell:
    """One tenth under one method."""

    shade: str
    """How well off it is, 0 to 100."""
    accuracy: str
    """In percent; empty where the task has none."""
    asked: str
    """Selections per client."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The picture that a report opens with."""

    online: list[str]
    """Share of rounds in which each tenth was there."""
    rows: list[tuple[str, str, list[Cell]]]
    """Method, its swatch, one cell per tenth."""
    accuracies: bool
    says: str


def by_availability(run: Run, method: str) -> FloatArray:
    """Accuracy of each tenth over the last tenth of the rounds, mean over seeds; empty where it is not known."""
    known = [one.late_by_availability for one in run.of(method)]
    return np.mean(known, axis=0) if known and all(map(len, known)) else np.empty(0)


def reach(run: Run) -> Reach | None:
    """Accuracy and requests by availability; None before any round was done."""
    if not run.rounds or not run.trace.num_clients:
        return None
    counts = run.trace.counts()
    groups = tenths(counts)
    asked = {name: _asked(run, name, groups) for name in run.methods if run.of(name)}
    found = {name: by_availability(run, name) for name in asked}
    accuracies = all(len(a) == len(groups) and bool(np.isfinite(a).all()) for a in found.values())
    most = max(1.0, *(float(a.max()) for a in asked.values()))
    rows = []
    for index, name in enumerate(run.methods):
        if name in asked:
            shades = found[name] if accuracies else asked[name] / most
            cells = [
                Cell(f"{100 * shade:.0f}", f"{100 * shade:.0f}" if accuracies else "", words.fixed(float(times), 1))
                for shade, times in zip(shades, asked[name], strict=True)
            ]
            rows.append((name, charts.swatch(index), cells))
    online = [words.percent(float(counts[ids].mean()) / max(1, run.trace.num_rounds), 0) for ids in groups]
    return Reach(online, rows, accuracies, _says(found if accuracies else asked, accuracies=accuracies))


def _asked(run: Run, name: str, groups: list[Ids]) -> FloatArray:
    mean = np.mean([one.ledger.selected for one in run.of(name)], axis=0)
    return np.array([mean[ids].mean() for ids in groups])


def _says(values: dict[str, FloatArray], *, accuracies: bool) -> str:
    """The ends of the picture in words."""
    shown = words.percent if accuracies else words.fixed
    ends = "; ".join(f"{name} {shown(float(v[0]), 0)} to {shown(float(v[-1]), 0)}" for name, v in values.items())
    return f"From the tenth that is there least to the one that is there most: {ends}."
