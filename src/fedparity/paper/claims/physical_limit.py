"""The physical limit: whether dividing by availability tells unavoidable inequality from avoidable (it does not).

Even per opportunity some inequality cannot be avoided: counts are whole numbers and clients meet in the same rounds.
What can be said exactly is about counts: among all schedules that fill their slots one sorted profile is majorised by
all others, so it has the least Gini, CV, gap, max - min and number never served together. `frontier` finds it; here
every schedule of small populations is listed beside it. Empty slots can go below; at a given total the limit is exact
again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import BoolArray
from fedparity.metrics.frontier import frontier
from fedparity.metrics.inequality import cv, gini, max_minus_min
from fedparity.metrics.participation import never_served, selection_gap
from fedparity.paper.claims.claim import SEED, Claim, Finding
from fedparity.paper.claims.plot import Bars

Counts = NDArray[np.int64]


def schedules(online: BoolArray, cohort: int, *, empty: bool = False) -> set[tuple[int, ...]]:
    """The counts of every schedule; `empty`: also of those that leave slots empty."""
    found = {(0,) * online.shape[1]}
    for row in online:
        there = np.flatnonzero(row).tolist()
        most = min(cohort, len(there))
        choices = [c for size in range(0 if empty else most, most + 1) for c in itertools.combinations(there, size)]
        found = {tuple(n + (k in c) for k, n in enumerate(counts)) for counts in found for c in choices}
    return found


def majorised(low: Counts, high: Counts) -> bool:
    """Whether the least served so many of `low` have at least as much as those of `high`, for every number of them."""
    return bool((np.cumsum(np.sort(low)) >= np.cumsum(np.sort(high))).all())


@dataclass(frozen=True, slots=True)
class PhysicalLimit(Claim):
    """Every schedule of every small population beside the limit."""

    id = "physical-limit"
    where = "Abstract: “disentangles unavoidable physical constraints from avoidable algorithmic bias”"
    statement = "Normalising by availability leaves only avoidable inequality: without bias CV(S/π) would be 0."
    assumptions = "None printed."
    corrected = (
        "Among schedules that fill their slots one profile of counts is majorised by all others: its Gini, CV, gap,"
        " max − min and number never served are the unavoidable part, all at once."
    )
    method = "Brute force: all 512 availabilities of 3 clients in 3 rounds, m = 1 and 2, and 200 of 4 in 4"
    expected = "fails"

    cases: int = 1_024
    """Of the small availabilities, in order."""
    larger: int = 200
    """Random availabilities of four clients in four rounds."""
    shift: int = 0
    """Selections moved from the least to the most served client of the limit: what must be noticed."""

    def examine(self) -> Finding:
        """Compare the limit with every schedule."""
        count = unavoidable = below = wrong = 0
        for online, cohort in self._populations():
            trace = Trace.from_matrix(online)
            limit = frontier(trace, cohort)
            best = self._moved(limit.counts)
            listed = [np.array(c) for c in schedules(online, cohort)]
            there = online.sum(axis=0)
            count += 1
            unavoidable += min(cv(c[there > 0] / there[there > 0]) for c in listed) > 1e-9 if there.any() else False
            partly = [np.array(c) for c in schedules(online, cohort, empty=True) if any(c)]
            cut = {total: limit.at_total(total).counts for total in {int(c.sum()) for c in partly}}
            at_total = all(majorised(cut[int(c.sum())], c) for c in partly)
            wrong += not (at_total and self._least(best, listed, cohort, len(online)))
            below += min(map(gini, partly), default=0.0) < gini(best) - 1e-12
        return Finding(
            "fails" if unavoidable else "holds",
            wrong == 0,
            f"In {unavoidable} of {count:,} small populations no schedule whatever has CV(S/π) = 0. The limit on"
            f" counts is majorised by every schedule with as many slots filled in {count - wrong:,} of them; empty"
            f" slots go below its Gini in {below}.",
            {
                "cases": count,
                "cv_per_opportunity_unavoidable": unavoidable,
                "limit_wrong": wrong,
                "empty_slots_below": below,
            },
            Bars(
                "Small populations, by brute force",
                (
                    ("populations", float(count)),
                    ("CV(S/π) > 0 unavoidable", float(unavoidable)),
                    ("empty slots go below the limit", float(below)),
                    ("limit wrong", float(wrong)),
                ),
            ),
        )

    def _populations(self) -> Iterator[tuple[BoolArray, int]]:
        small = itertools.product((False, True), repeat=9)
        every = ((np.array(bits).reshape(3, 3), m) for bits in small for m in (1, 2))
        yield from itertools.islice(every, self.cases)
        rng = stream(SEED, self.id)
        for _ in range(self.larger):
            yield rng.random((4, 4)) < rng.uniform(0.2, 0.9, 4), int(rng.integers(1, 3))

    def _moved(self, counts: Counts) -> Counts:
        moved = counts.copy()
        if self.shift and moved.sum() >= 2 and len(moved) > 1:
            donor = int(np.argmin(np.where(moved > 0, moved, moved.max() + 1)))
            moved[donor] -= 1
            moved[int(np.argmax(np.where(np.arange(len(moved)) == donor, -1, moved)))] += 1
        return moved

    def _least(self, best: Counts, listed: list[Counts], cohort: int, rounds: int) -> bool:
        def gap(counts: Counts) -> float:
            return selection_gap(counts, cohort, rounds)

        measures: tuple[Callable[[Counts], float], ...] = (gini, cv, max_minus_min, never_served, gap)
        least = all(measure(best) <= min(map(measure, listed)) + 1e-12 for measure in measures)
        return least and all(majorised(best, other) for other in listed)
