"""Gini >= gap/2 whenever all slots are filled, since gap/2 is the Hoover index.

With a share e of slots empty the gap is e if nobody is above the fair share, and else

    gap <= e (1 - 2/N) + 2 (1 - e) Gini        so  e >= (gap - 2 Gini) / (1 - 2/N - 2 Gini)

which one client above its fair share and all others equal reach.
And e <= gap, since the mean falls short by e. Counts are whole numbers, too: 250 slots over 100 clients are 2 or 3
each at best, which is a Gini of .1.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from fedparity.metrics.inequality import gini
from fedparity.metrics.participation import selection_gap
from fedparity.paper.claims.claim import Claim, Finding
from fedparity.paper.claims.identity_jain_cv import PRINTED
from fedparity.paper.claims.plot import Bars


def least_empty(gap: float, gini_: float, clients: int) -> float:
    """The share of slots that must be empty for a gap and a Gini to belong to the same counts; at least 0."""
    short = 2 / clients
    return max(0.0, (gap - 2 * gini_) / (1 - short - 2 * gini_))


@dataclass(frozen=True, slots=True)
class GiniGap(Claim):
    """Every vector of counts of a small population, full and not, against both bounds."""

    id = "gini-gap"
    where = "Section 4.1, participation parity"
    statement = "Gini ≥ SelGap/2 for counts that fill all m·T slots."
    assumptions = "Every round has m clients selected."
    corrected = "With a share e of empty slots: SelGap ≤ max(e, e(1 − 2/N) + 2(1 − e)·Gini)."
    method = "Enumeration of all counts of 4 clients in 6 rounds with m = 2"
    expected = "holds"

    clients: int = 4
    rounds: int = 6
    cohort: int = 2
    factor: float = 2.0
    """Gini >= gap / factor."""
    slack: float = 0.0
    """Taken off the right side of the corrected bound."""

    def examine(self) -> Finding:
        """Both bounds on all counts; Table 2's rows."""
        slots = self.cohort * self.rounds
        full = least = 0
        worst, bound = np.inf, np.inf
        for counts in itertools.combinations_with_replacement(range(self.rounds + 1), self.clients):
            total = sum(counts)
            if not 0 < total <= slots:
                continue
            gap, uneven = selection_gap(counts, self.cohort, self.rounds), gini(counts)
            empty = 1 - total / slots
            least += 1
            right = empty * (1 - 2 / self.clients) + 2 * (1 - empty) * uneven
            # Below the fair share everybody is short, and the gap is the shortfall itself.
            bound = min(bound, max(right, empty) - self.slack - gap)
            if total == slots:
                full += 1
                worst = min(worst, uneven - gap / self.factor)
        empty_by_row = {name: least_empty(row[2], row[3], 100) for name, row in PRINTED.items()}
        forced = gini([2] * 50 + [3] * 50)
        rows = list(empty_by_row.items())[:3]
        return Finding(
            "holds" if worst >= -1e-12 else "fails",
            bool(bound >= -1e-12),
            f"True of all {full} full and {least} partly filled counts. Table 2's gap .31 with Gini .04 takes at least"
            f" {rows[2][1]:.1%} and at most 31% empty slots, its q-FFL row {rows[0][1]:.1%}, its PHP-FL row"
            f" {rows[1][1]:.1%}; 250 slots over 100 clients force a Gini of {forced:.2f}.",
            {
                "counts_with_all_slots_filled": full,
                "counts": least,
                "least_slack_full": worst,
                "table_2_least_empty_share": empty_by_row,
                "table_2_least_empty_share_any_number_of_clients": (0.31 - 0.08) / (1 - 0.08),
                "gini_forced_by_250_slots_over_100_clients": forced,
            },
            Bars(
                "Table 2: Gini at least gap/2 with full slots",
                tuple((name, row[2] / 2) for name, row in PRINTED.items()),
                tuple(row[3] for row in PRINTED.values()),
                "Gini as printed; bars: gap/2",
            ),
        )
