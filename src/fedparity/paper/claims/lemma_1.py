"""Lemma 1: the variance across clients of availability-normalised utility vanishes. It does not; it grows like T.

    u~_k(T) = u_k(T) / pi_k,    E[sigma^2(T)] = T (N-1)/N mean_k((mu^2 + s^2) / pi_k - mu^2)      equal mu, sd s
    sigma^2(T) / T^2 -> Var_k(mu_k)

A gain is mu - s or mu + s by a fair coin, so that u_k(T) can be drawn exactly for any T: rounds online are binomial,
and so are the high gains among them. The proof's own limit, divided by T^2, is right; its last sentence is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core.rng import stream
from fedparity.core.types import FloatArray
from fedparity.paper.claims.claim import SEED, Claim, Estimate, Finding
from fedparity.paper.claims.plot import Curve, Lines


@dataclass(frozen=True, slots=True)
class Lemma1(Claim):
    """Var(u/pi) over rounds, for equal and for unequal mean gains."""

    id = "lemma-1"
    where = "Section 2, Lemma 1"
    statement = "The variance across clients of u_k(T)/π_k tends to 0 as T grows; so it does if all μ_k are equal."
    assumptions = "A_k(t) i.i.d. Bernoulli(π_k), π_k > 0; gains bounded, independent over rounds, mean μ_k."
    corrected = "Var(u/π)/T² → Var(μ). With equal μ_k, Var(u/π) itself grows in proportion to T."
    method = "Monte Carlo: 400 exact draws of u_k(T) for each T from 10² to 10⁵, N = 100, π ~ U(.2, 1)"
    expected = "fails"

    clients: int = 100
    draws: int = 400
    horizons: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    low: float = 0.2
    """Least availability."""
    mean: float = 0.5
    noise: float = 0.3
    """Standard deviation of a gain."""
    spread: float = 0.2
    """How far mean gains lie from `mean` at most, where they are unequal."""
    power: float = 2.0
    """Power of T by which the corrected statement divides."""

    def examine(self) -> Finding:
        """Variances at every horizon, for equal and unequal mean gains."""
        rng = stream(SEED, self.id)
        pi = rng.uniform(self.low, 1.0, self.clients)
        mu = self.mean + rng.uniform(-self.spread, self.spread, self.clients)
        same = [Estimate.of(self._variances(pi, np.full_like(pi, self.mean), T, rng)) for T in self.horizons]
        apart = [Estimate.of(self._variances(pi, mu, T, rng)) for T in self.horizons]
        vanishes = same[-1].high < same[0].low or same[-1].mean < 1e-12
        last, target = self.horizons[-1] ** self.power, float(mu.var())
        limits = same[-1].mean / last, apart[-1].mean / last
        right = abs(limits[1] - target) <= 0.02 * target and limits[0] <= 0.02 * target
        theory = (self.clients - 1) / self.clients * float(((self.mean**2 + self.noise**2) / pi - self.mean**2).mean())
        slope = [e.mean / T for e, T in zip(same, self.horizons, strict=True)]
        return Finding(
            "holds" if vanishes else "fails",
            right,
            f"With equal μ_k, Var(u/π)/T stays at {slope[0]:.2f} to {slope[-1]:.2f} from T = {self.horizons[0]:,} to"
            f" {self.horizons[-1]:,} (exactly {theory:.3f} in expectation). With unequal ones Var(u/π)/T² reaches"
            f" {limits[1]:.5f}; Var(μ) is {target:.5f}.",
            {
                "draws": self.draws,
                "rounds": self.horizons,
                "variance_equal_gains": [e.to_json() for e in same],
                "variance_over_rounds": slope,
                "variance_over_rounds_exact": theory,
                "variance_over_rounds_squared_unequal_gains": limits[1],
                "variance_of_mean_gains": target,
            },
            Lines(
                "Lemma 1: Var(u/π) over rounds",
                "rounds T",
                "Var(u/π)",
                (
                    Curve("equal gains", self.horizons, [e.mean for e in same]),
                    Curve("unequal gains", self.horizons, [e.mean for e in apart]),
                ),
                log_x=True,
                log_y=not vanishes,
            ),
        )

    def _variances(self, pi: FloatArray, mu: FloatArray, rounds: int, rng: np.random.Generator) -> FloatArray:
        """Var(u/pi) of each draw."""
        online = rng.binomial(rounds, pi, (self.draws, len(pi)))
        high = rng.binomial(online, 0.5)
        return np.asarray((((mu - self.noise) * online + 2 * self.noise * high) / pi).var(axis=1))
