"""Theorem 2: the limit of the normalised reactive weights. True with the eps that section 2 drops, unless all are on.

    p_k(t) = alpha_k / (pi_k + eps) (1 + lam missed_k(t)),    missed_k(t) = rounds offline before t
    p^_k -> alpha_k (1 - pi_k) / (pi_k + eps) / sum_j ...      lam > 0, and somebody is not always online

Section 2 prints the limit without eps and without the condition; if everybody is always online it reads 0/0, while the
weights are constant. These are weights over all N clients with true pi, not selection frequencies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core.rng import stream
from fedparity.core.types import FloatArray
from fedparity.paper.claims.claim import SEED, Claim, Estimate, Finding
from fedparity.paper.claims.plot import Curve, Lines


def limit_weights(pi: FloatArray, eps: float, lam: float) -> FloatArray:
    """The limit of the normalised weights, alpha = 1; NaN where it reads 0/0."""
    raw = (1 - pi) / (pi + eps) if lam > 0 else 1 / (pi + eps)
    return np.asarray(np.divide(raw, raw.sum(), out=np.full_like(pi, np.nan), where=raw.sum() > 0))


@dataclass(frozen=True, slots=True)
class Theorem2(Claim):
    """The largest distance between the weights and their limit, over rounds."""

    id = "theorem-2"
    where = "Section 2, Theorem 2"
    statement = "p̂_k(t) → α_k(1−π_k)/π_k over its sum if λ > 0, and → (α_k/π_k) over its sum if λ = 0."
    assumptions = "Stationary ergodic availability, π_k ∈ (0, 1], α_k > 0, small ε > 0."
    corrected = "With π_k + ε in place of π_k, and if somebody is not always online (appendix D)."
    method = "Exact limits; 50 draws of missed rounds at each T from 10² to 10⁶"
    expected = "needs-assumption"

    populations: tuple[tuple[float, ...], ...] = ((0.9, 0.7, 0.5, 0.3, 0.1), (1.0, 1.0, 1.0))
    """Availabilities; the weights are simulated on the first."""
    lam: float = 0.7
    eps: float = 1e-3
    limit_eps: float | None = None
    """The eps of the corrected limit; None: that of the weights."""
    horizons: tuple[int, ...] = (100, 10_000, 1_000_000)
    draws: int = 50

    def examine(self) -> Finding:
        """Whether the printed limit is the limit, and whether the weights go to the corrected one."""
        pi = np.array(self.populations[0])
        printed = [limit_weights(np.array(p), 0.0, self.lam) for p in self.populations]
        true = limit_weights(pi, self.eps, self.lam)
        off = float(np.abs(printed[0] - true).max())
        undefined = sum(not np.isfinite(p).all() for p in printed)
        wanted = limit_weights(pi, self.eps if self.limit_eps is None else self.limit_eps, self.lam)
        rng = stream(SEED, self.id)
        found = [Estimate.of(self._distances(pi, wanted, T, rng)) for T in self.horizons]
        distance = [one.mean for one in found]
        converges = distance[-1] < 1e-3 and (self.lam == 0 or distance[-1] < distance[0] / 10)
        return Finding(
            "holds" if not undefined and off < 1e-9 else "needs-assumption",
            converges,
            f"Without ε the printed limit is off by {off:.1e} at ε = {self.eps:g}, and it reads 0/0 for {undefined} of"
            f" {len(printed)} populations (all always online). To the limit with ε the distance falls from"
            f" {distance[0]:.1e} at T = {self.horizons[0]} to {distance[-1]:.1e} at T = {self.horizons[-1]:,}.",
            {
                "draws": self.draws,
                "rounds": self.horizons,
                "mean_distance_to_limit": [one.to_json() for one in found],
                "printed_limit_off_by": off,
                "populations_without_a_limit": undefined,
                "limit": true,
            },
            Lines(
                "Theorem 2: distance of the weights to their limit",
                "rounds t",
                "largest distance",
                (Curve("with ε", self.horizons, distance),),
                log_x=True,
                log_y=min(distance) > 0,
            ),
        )

    def _distances(self, pi: FloatArray, wanted: FloatArray, rounds: int, rng: np.random.Generator) -> FloatArray:
        """The largest distance of each draw."""
        missed = rng.binomial(rounds - 1, 1 - pi, (self.draws, len(pi)))
        weight = (1 + self.lam * missed) / (pi + self.eps)
        return np.asarray(np.abs(weight / weight.sum(axis=1, keepdims=True) - wanted).max(axis=1))
