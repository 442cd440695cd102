"""The count metrics of one run, and what part of each no schedule could have avoided.

The limit is the least unequal count profile that the same availability and the same number of filled slots allow
(`metrics.frontier`). Its metric is unavoidable; the rest is what the scheduler added.
"""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from fedparity.metrics import inequality, participation


@dataclass(frozen=True, slots=True)
class CountSummary:
    """How evenly slots were shared; `METRICS` has the formulas. Never-online clients count as zeros."""

    selection_gap: float
    gini: float
    cv_counts: float
    jain_counts: float
    cv_per_opportunity: float
    """Over clients online at least once; NaN if there are none."""
    max_minus_min: float
    never_served: int
    """Those that were never online included."""
    never_available: int
    participation_std: float
    fill: float


def summarise_counts(counts: ArrayLike, online: ArrayLike, cohort: int, rounds: int) -> CountSummary:
    """All count metrics; `counts` is how often each client was served, `online` how often it was there."""
    served = inequality.as_vector(counts, "counts", negative=False)
    return CountSummary(
        selection_gap=participation.selection_gap(served, cohort, rounds),
        gini=inequality.gini(served),
        cv_counts=inequality.cv(served),
        jain_counts=inequality.jain(served),
        cv_per_opportunity=inequality.cv(participation.per_opportunity(served, online)),
        max_minus_min=inequality.max_minus_min(served),
        never_served=participation.never_served(served),
        never_available=participation.never_served(online),
        participation_std=participation.participation_std(served, rounds),
        fill=participation.fill(float(served.sum()), cohort, rounds),
    )


@dataclass(frozen=True, slots=True)
class Split:
    """A metric, and its value at the limit."""

    value: float
    unavoidable: float
    higher_is_better: bool = False

    @property
    def avoidable(self) -> float:
        """How much worse than the limit: value - unavoidable, or unavoidable - value where higher is better (Jain).

        It is below 0 only against a limit of another number of filled slots: empty slots can be shared more evenly.
        """
        return self.unavoidable - self.value if self.higher_is_better else self.value - self.unavoidable


SPLIT = {
    "selection_gap": False,
    "gini": False,
    "cv_counts": False,
    "jain_counts": True,
    "max_minus_min": False,
    "never_served": False,
}
"""Metrics that one profile is best at together, and whether higher is better."""


def split(summary: CountSummary, limit_summary: CountSummary) -> dict[str, Split]:
    """Each metric of `SPLIT` beside its value at the limit."""
    return {
        name: Split(float(getattr(summary, name)), float(getattr(limit_summary, name)), higher)
        for name, higher in SPLIT.items()
    }
