"""What the last model recognises of each label's test samples, method by method: where some labels are rarely there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.experiment.run import Run
from fedparity.report import charts, words

MOST = 20
"""Labels that a row has room for; of more, those that are recognised least are shown."""


@dataclass(frozen=True, slots=True)
class Labels:
    """One row per method, one column per label."""

    heads: list[str]
    rows: list[tuple[str, str, list[str]]]
    """Method, its swatch, the share of each label that is recognised, in percent, and the mean over all labels."""
    left_out: int
    """Labels that are not shown: they are recognised better, on average over methods."""


def labels(run: Run) -> Labels | None:
    """Means over seeds; None where the task has no labels, or a method has no last model yet."""
    found = []
    for name in run.methods:
        told = [one.facts.recall for one in run.of(name) if one.facts is not None and one.facts.recall is not None]
        if not told:
            return None
        found.append(np.mean(told, axis=0))
    recall = 100 * np.array(found)
    known = np.flatnonzero(np.isfinite(recall).all(axis=0))
    shown = np.sort(known[np.argsort(recall[:, known].mean(axis=0), kind="stable")][:MOST])
    if not len(shown):
        return None
    rows = [
        (name, charts.swatch(index), [words.fixed(v, 0) for v in [*recall[index, shown], np.nanmean(recall[index])]])
        for index, name in enumerate(run.methods)
    ]
    return Labels([str(label) for label in shown.tolist()], rows, len(known) - len(shown))
