"""Schedulers on one population, as claims show them: gap and Gini beside the limit of the same draws."""

from __future__ import annotations

import math
from collections.abc import Iterable

from fedparity.experiment import Setting, schedule
from fedparity.paper.claims.claim import Estimate
from fedparity.paper.claims.plot import Bars

SHOWN = {
    "uniform": "uniform",
    "inverse": "inverse (Lemma 2)",
    "reactive": "reactive, as printed",
    "cup_authors": "reactive, authors' code",
    "least_served": "least served",
    "parity": "parity (ours)",
}
"""Schedulers that claims compare, and what they are called there."""


def measure(schedulers: Iterable[str], where: Setting) -> dict[str, dict[str, float]]:
    """Mean gap and Gini of each scheduler with 95 % intervals, their limits, and the ratio to the limit."""
    found = {}
    for name in schedulers:
        table = schedule(name, where).table()
        kept: dict[str, float] = {}
        for key in ("selection_gap", "gini"):
            over = Estimate.of(table.values[key][name])
            limit = table.mean(f"{key}_limit", name) or 0.0
            kept |= {key: over.mean, f"{key}_low": over.low, f"{key}_high": over.high, f"{key}_limit": limit}
            kept[f"{key}_over_limit"] = over.mean / limit if limit > 1e-9 else math.inf
        found[name] = kept
    return found


def gini_bars(title: str, found: dict[str, dict[str, float]]) -> Bars:
    """Gini of every scheduler, marked with its limit."""
    return Bars(
        title,
        tuple((SHOWN.get(name, name), row["gini"]) for name, row in found.items()),
        tuple(row["gini_limit"] for row in found.values()),
        "the limit; bars: Gini of selections",
    )
