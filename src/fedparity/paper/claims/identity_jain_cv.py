"""Section 4.1's Jain index and CV are one measure: J = 1/(1 + CV^2) of any vector, with the population's deviation.

So of the two columns of Table 2 one determines the other, and the printed pairs cannot belong to one vector each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core.rng import stream
from fedparity.metrics.inequality import cv, jain
from fedparity.paper.claims.claim import SEED, Claim, Finding
from fedparity.paper.claims.plot import Bars
from fedparity.paper.tables.rows import TABLE_2

PRINTED = {name: row[2:] for name, row in TABLE_2.items()}
"""Rows of the paper's Table 2: Utility CV, Jain of utility, selection gap, Gini."""


@dataclass(frozen=True, slots=True)
class IdentityJainCv(Claim):
    """The identity on random vectors, and what it makes of Table 2."""

    id = "identity-jain-cv"
    where = "Section 4.1"
    statement = "J(ũ) = 1/(1 + CV(ũ)²): the two utility columns of Table 2 are one measure."
    assumptions = "Population standard deviation; the ε in CV's denominator is negligible."
    corrected = None
    method = "2,000 random vectors of 2 to 200 entries"
    expected = "holds"

    draws: int = 2_000
    eps: float = 0.0
    """Added to the mean in CV."""
    degrees: int = 0
    """Degrees of freedom taken off the deviation; 1 is the sample's."""

    def examine(self) -> Finding:
        """The largest difference of the two sides."""
        rng = stream(SEED, self.id)
        off = 0.0
        for _ in range(self.draws):
            x = rng.lognormal(sigma=1.0, size=int(rng.integers(2, 201)))
            spread = cv(x, self.eps) * np.sqrt(len(x) / (len(x) - self.degrees))
            off = max(off, abs(jain(x) - 1 / (1 + spread**2)))
        implied = {name: 1 / (1 + row[0] ** 2) for name, row in PRINTED.items()}
        shown = "/".join(f"{value:.3f}".lstrip("0") for value in implied.values())
        printed = "/".join(f"{row[1]:.2f}".lstrip("0") for row in PRINTED.values())
        return Finding(
            "holds" if off < 1e-9 else "fails",
            None,
            f"Both sides agree to {max(off, 1e-12):.0e}. Table 2's CV imply Jain {shown}; it prints {printed}.",
            {
                "draws": self.draws,
                "largest_difference_at_most": max(off, 1e-12),
                "table_2_implied_jain": implied,
                "table_2_printed_jain": {name: row[1] for name, row in PRINTED.items()},
            },
            Bars(
                "Jain of utility in Table 2",
                tuple(implied.items()),
                tuple(row[1] for row in PRINTED.values()),
                "as printed; bars: what the printed CV implies",
            ),
        )
