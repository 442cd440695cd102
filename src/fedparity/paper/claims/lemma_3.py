"""Lemma 3: the bias of surrogates is at most eps times the sum of their weights. True: the triangle inequality.

    || sum_k eta_k (F~_k - F_k) || <= eps sum_k eta_k,    eta_k >= 0

Weights eta_0 exp(-lambda delta) are never negative, which the lemma does not say but needs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core.rng import stream
from fedparity.paper.claims.claim import SEED, Claim, Finding
from fedparity.paper.claims.plot import Lines


@dataclass(frozen=True, slots=True)
class Lemma3(Claim):
    """Random errors of length at most eps, and the worst case, in which all point one way."""

    id = "lemma-3"
    where = "Section 2, Lemma 3"
    statement = "‖Σ η_k (F̃_k − F_k)‖ ≤ ε Σ η_k over the missing clients."
    assumptions = "‖F̃_k − F_k‖ ≤ ε for every missing client; weights η_k ≥ 0, as η0·e^(−λδ) is."
    corrected = None
    method = "10,000 random cases in 1 to 8 dimensions with 1 to 20 missing clients, and the worst case"
    expected = "holds"

    draws: int = 10_000
    least_weight: float = 0.0
    """Least weight; below 0 the lemma needs what it does not say."""
    eps: float = 0.7

    def examine(self) -> Finding:
        """The largest ratio of the two sides."""
        rng = stream(SEED, self.id)
        ratios = np.empty(self.draws)
        for draw in range(self.draws):
            missing, dim = int(rng.integers(1, 21)), int(rng.integers(1, 9))
            error = rng.normal(size=(missing, dim))
            error *= self.eps * rng.random((missing, 1)) / np.linalg.norm(error, axis=1, keepdims=True)
            eta = rng.uniform(self.least_weight, 1.0, missing)
            ratios[draw] = np.linalg.norm(eta @ error) / (self.eps * max(float(eta.sum()), 1e-12))
        straight, eta = np.full((5, 1), self.eps), rng.random(5)
        reached = float(np.linalg.norm(eta @ straight) / (self.eps * eta.sum()))
        holds = bool(ratios.max() <= 1 + 1e-9)
        return Finding(
            "holds" if holds else "needs-assumption",
            None,
            f"The left side is at most {ratios.max():.3f} of the right in {self.draws:,} cases; errors that all point"
            " one way reach it exactly."
            if holds
            else f"With weights down to {self.least_weight} the left side is up to {ratios.max():.3g} times the right.",
            {"draws": self.draws, "largest_ratio": float(ratios.max()), "ratio_if_all_errors_point_one_way": reached},
            Lines.of_ratios("Lemma 3: left side over right side", {"cases, sorted": ratios}, bound=1),
        )
