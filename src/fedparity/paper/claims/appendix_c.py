"""Appendix C: under drift, windowed selection is within C1 eps_T + C2 Delta_T of its target. True with C1 = 4/pi_min.

    P(k) = (1/pi^_k) / sum_j 1/pi^_j        |P(k) - P~(k)| <= 4 eps / pi_min      whenever |pi^ - pi| <= eps

Proof: nothing exceeds 1, so let eps < pi_min/4; then 1/pi^ is off by a factor within 1 +- r, r = eps/(pi_min - eps) <=
1/3, and a ratio of such terms by at most 2r/(1-r) <= 4 eps/pi_min. Delta_T is only needed to replace the target by that
of the window's mean. The rule ignores who is online: see `drift`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core.rng import stream
from fedparity.core.types import FloatArray
from fedparity.paper.claims.claim import SEED, Claim, Finding
from fedparity.paper.claims.plot import Curve, Lines


def inverse_chances(pi: FloatArray) -> FloatArray:
    """Chances proportional to 1/pi over all clients, row by row."""
    q = 1 / pi
    return np.asarray(q / q.sum(axis=-1, keepdims=True))


@dataclass(frozen=True, slots=True)
class AppendixC(Claim):
    """The worst ratio of error to eps found by a search that pushes one client against all others."""

    id = "appendix-c"
    where = "Appendix C"
    statement = "Window-averaged selection is within C₁ε_T + C₂Δ_T of the ideal, C₁ and C₂ depending on min π only."
    assumptions = "|π̂ − π| ≤ ε_T and slow drift on the window; selection ∝ 1/π̂ over all clients, online or not."
    corrected = "C₁ = 4/π_min; Δ_T is not needed for the bound as printed (C₂ = 0)."
    method = "20,000 populations of 2 to 10 clients, π̂ pushed to the corners of the box around π"
    expected = "holds"

    constant: float = 4.0
    """C1 in units of 1/pi_min."""
    draws: int = 20_000
    floor: float = 1e-6
    """Least estimate."""

    def examine(self) -> Finding:
        """Ratios |P - P~| pi_min / eps, by size of eps."""
        rng = stream(SEED, self.id)
        sizes = np.logspace(-3, 0, 13)
        worst = np.zeros(len(sizes))
        for draw in range(self.draws):
            at = draw % len(sizes)
            least = float(rng.uniform(0.02, 1.0))
            pi = np.concatenate([[least], rng.uniform(least, 1.0, int(rng.integers(1, 10)))])
            pi[-1] = least if rng.random() < 0.5 else pi[-1]
            eps = sizes[at] * least
            signs = np.where(rng.random(len(pi)) < 0.2, rng.choice([-1, 1], len(pi)), np.eye(len(pi))[0] * -2 + 1)
            estimate = np.clip(pi + signs * eps, self.floor, 1.0)
            moved = float(np.abs(inverse_chances(estimate) - inverse_chances(pi)).max())
            worst[at] = max(worst[at], moved * least / eps)
        top = float(worst.max())
        return Finding(
            "holds" if top <= self.constant else "fails",
            top <= self.constant,
            f"The largest |P − P̃|·π_min/ε found is {top:.2f}; the proof gives {self.constant:g}.",
            {"draws": self.draws, "largest_ratio": top, "constant": self.constant, "ratio_by_eps_over_pi_min": worst},
            Lines(
                "Appendix C: |P − P̃|·π_min/ε, the worst found",
                "ε / π_min",
                "ratio",
                (Curve("worst found", sizes, worst), Curve("bound", sizes[[0, -1]], [self.constant] * 2)),
                log_x=True,
            ),
        )
