"""Numbers in Tables 1 and 2 that cannot be matched, whoever tries.

* Utility CV and Jain of one vector are tied (`identity-jain-cv`), gap and Gini at full slots, too (`gini-gap`).
* 250 slots over 100 clients are 2 or 3 each at best: Gini >= .1; on a population like the paper's the limit is higher.
* The surrogate column of Table 1 stays at 22.99 in rounds 10 to 20. With the same clients missing e^(-lam delta) falls
  by e^-lam per round; a sum over everybody *ever* missing, never cleared on return, stands still once all are back.
* All 20 accuracies of Table 1 are multiples of 1/640: they are counted on 640 samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.availability import AVAILABILITY
from fedparity.core.types import FloatArray
from fedparity.metrics.frontier import frontier
from fedparity.metrics.inequality import gini
from fedparity.metrics.participation import selection_gap
from fedparity.paper.claims.claim import Claim, Estimate, Finding
from fedparity.paper.claims.gini_gap import least_empty
from fedparity.paper.claims.identity_jain_cv import PRINTED
from fedparity.paper.claims.plot import Curve, Lines
from fedparity.paper.tables.rows import TABLE_1

ACCURACY = tuple(100 * row[0] for row in TABLE_1)
SURROGATE = tuple(row[2] for row in TABLE_1)
"""Columns of the paper's Table 1, rounds 1 to 20; accuracies in per cent."""
HALF = 0.005
"""A number printed with two decimals may be off by this much."""


def on_grid(percents: FloatArray, samples: int) -> int:
    """How many of some printed percentages can be a whole number of `samples`, rounded to two decimals."""
    count = np.rint(percents * samples / 100)
    return int((np.abs(100 * count / samples - percents) <= HALF + 1e-9).sum())


@dataclass(frozen=True, slots=True)
class TableNumbers(Claim):
    """Tables 1 and 2 against what any counts and any utilities satisfy."""

    id = "table-numbers"
    where = "Tables 1 and 2"
    statement = "Table 2: CV .19 with Jain .94, selection gap .31 with Gini .04; Table 1: surrogates constant at 22.99."
    assumptions = "100 clients, 50 rounds, 5 selected in each (the authors' cohort), definitions of section 4.1."
    corrected = (
        "CV .19 means Jain .965; gap .31 is near the limit of a population like the paper's, where Gini is at least"
        " .1 with full slots; a decaying surrogate cannot stay constant while the same clients are missing."
    )
    method = "Identities on the printed numbers; limits on 30 draws of a population like the paper's, m = 5, T = 50"
    expected = "fails"

    rows: tuple[tuple[str, tuple[float, float, float, float]], ...] = tuple(PRINTED.items())
    """Utility CV, Jain, selection gap and Gini of each row."""
    surrogate: tuple[float, ...] = SURROGATE
    draws: int = 30
    lam: float = 0.5

    def examine(self) -> Finding:
        """Row by row, then the limits."""
        apart = {name: 1 / (1 + row[0] ** 2) - row[1] for name, row in self.rows}
        slack = {name: 2 * HALF * row[0] / (1 + row[0] ** 2) ** 2 + HALF for name, row in self.rows}
        jain_wrong = [name for name in apart if abs(apart[name]) > slack[name]]
        gini_wrong = [name for name, row in self.rows if row[3] + HALF < (row[2] - HALF) / 2]
        longest = int(max(np.diff(np.flatnonzero(np.diff([np.nan, *self.surrogate, np.nan]) != 0))))
        flat = longest > 2
        gaps, ginis = np.array([self._limit(draw) for draw in range(self.draws)]).T
        gap, uneven = Estimate.of(gaps), Estimate.of(ginis)
        forced = gini([2] * 50 + [3] * 50)
        grid = {n: on_grid(np.array(ACCURACY), n) for n in (100, 500, 640, 1000)}
        decayed = [22.99 * float(np.exp(-self.lam * d)) for d in range(11)]
        return Finding(
            "fails" if jain_wrong or gini_wrong or flat else "holds",
            forced >= 0.1 - 1e-12 and gap.low < 0.31 + HALF and uneven.low > 0.04 + HALF,
            f"Jain does not follow from CV in {len(jain_wrong)} of {len(apart)} rows, Gini is below gap/2 in"
            f" {len(gini_wrong)}. The limit on a population like the paper's (m = 5, T = 50) is gap {gap.mean:.3f},"
            f" Gini {uneven.mean:.3f}. 22.99 stands still for {longest} rounds; decaying with λ = {self.lam:g} it"
            f" would be {decayed[-1]:.2f}. {grid[640]} of 20 accuracies are multiples of 1/640.",
            {
                "rows_where_jain_does_not_follow_from_cv": jain_wrong,
                "rows_with_gini_below_half_the_gap": gini_wrong,
                "least_empty_share_for_gap_and_gini": {name: least_empty(r[2], r[3], 100) for name, r in self.rows},
                "draws": self.draws,
                "limit_selection_gap": gap.to_json(),
                "limit_gini": uneven.to_json(),
                "gini_forced_by_250_slots_over_100_clients": forced,
                "rounds_with_a_constant_surrogate": longest,
                "accuracies_that_are_multiples_of_one_over": {str(n): found for n, found in grid.items()},
            },
            Lines(
                "Table 1: surrogate contribution",
                "round",
                "contribution",
                (
                    Curve("as printed", range(1, len(self.surrogate) + 1), self.surrogate),
                    Curve("same missing, decayed", range(10, 21), decayed),
                ),
            ),
        )

    def _limit(self, draw: int) -> tuple[float, float]:
        best = frontier(AVAILABILITY.build("paper_like").draw(100, 50, draw), 5).counts
        return selection_gap(best, 5, 50), gini(best)
