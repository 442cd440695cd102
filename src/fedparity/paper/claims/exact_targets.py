"""What the two targets ask for exactly, as rates, and how far water-filling is an answer.

opportunity   E[u_k/pi_k] is equal for all k if the selection rate given availability is tau/mu_k,
              tau = m / sum_k(pi_k/mu_k), feasible while tau <= min mu_k
share         s_k = min(pi_k, rho), sum s_k = m: nobody is served more than online. An outer bound, close for
              independent clients; for clients that come together it is out of reach
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import BoolArray, FloatArray
from fedparity.metrics.frontier import frontier
from fedparity.paper.claims.claim import SEED, Claim, Estimate, Finding
from fedparity.paper.claims.plot import Curve, Lines
from fedparity.paper.claims.simulate import coins, cv_rows


def water_filled(pi: FloatArray, cohort: float) -> FloatArray:
    """min(pi_k, rho) with sum `cohort`, or pi where there are not that many online."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(pi, middle).sum() < cohort else (low, middle)
    return np.minimum(pi, high)


@dataclass(frozen=True, slots=True)
class ExactTargets(Claim):
    """Selecting at the rates tau/mu_k, with mu known and with a closed loop that does not know it."""

    id = "exact-targets"
    where = "Section 1: “comparable long-term benefit per participation opportunity”"
    statement = "Selection ∝ 1/π_k gives every client comparable benefit per opportunity, E[u_k/π_k]."
    assumptions = "A participation of client k is worth μ_k on average, constant over rounds."
    corrected = (
        "E[u_k/π_k] is equal for all k iff client k is selected at rate τ/μ_k given availability, τ = m/Σ(π_k/μ_k); a"
        " closed loop on u_k/π_k reaches that without knowing μ_k."
    )
    method = "Monte Carlo: 10 draws, N = 100, m = 10, T = 2,000, π ~ U(.2, 1), μ log-uniform on (1, 3)"
    expected = "fails"

    clients: int = 100
    cohort: int = 10
    rounds: int = 2_000
    draws: int = 10
    low: float = 0.2
    """Least availability."""
    spread: float = 3.0
    """Largest over smallest mean gain."""
    power: float = 1.0
    """Rates are tau / mu^power."""

    def examine(self) -> Finding:
        """CV of u/pi under three rules."""
        names = ("rates τ/μ", "closed loop", "inverse")
        gained: dict[str, list[FloatArray]] = {name: [] for name in names}
        for draw in range(self.draws):
            rng = stream(SEED, self.id, draw)
            pi = rng.uniform(self.low, 1.0, self.clients)
            mu = np.exp(rng.uniform(0, np.log(self.spread), self.clients))
            online = coins(pi, self.rounds, rng)
            worth = mu**self.power
            rate = self.cohort / (pi / worth).sum() / worth
            counts = (online & (rng.random(online.shape) < rate)).sum(axis=0)
            gained["rates τ/μ"].append(counts * mu / pi)
            gained["closed loop"].append(self._closed(online, pi, mu, rng))
            race = np.where(online, rng.standard_exponential(online.shape) * pi, np.inf)
            chosen = np.argpartition(race, self.cohort - 1, axis=1)[:, : self.cohort]
            gained["inverse"].append(np.bincount(chosen.ravel(), minlength=self.clients) * mu / pi)
        found = {name: Estimate.of(cv_rows(np.array(rows))) for name, rows in gained.items()}
        pi = np.linspace(0.05, 1.0, 40)
        rng = stream(SEED, self.id)
        trace = Trace.from_matrix(coins(pi, 400, rng))
        best, wanted = frontier(trace, 12).counts / 400, water_filled(pi, 12)
        off = float(np.abs(np.sort(best) - np.sort(wanted)).max())
        together = frontier(Trace.from_matrix(np.repeat(np.arange(8)[:, None] % 2 == 0, 2, axis=1)), 1).counts / 8
        noise = self.draws > 1 and found["rates τ/μ"].mean < 0.12 and found["closed loop"].mean < 0.05
        return Finding(
            "fails" if found["inverse"].low > 0.15 else "holds",
            bool(noise),
            f"CV(u/π): inverse {found['inverse'].mean:.2f}, rates τ/μ_k {found['rates τ/μ'].mean:.3f} (the noise of"
            f" {self.rounds:,} rounds), closed loop {found['closed loop'].mean:.3f}. Water-filled shares are within"
            f" {off:.3f} of the limit for independent clients; two that only come together get {together[0]:.2f}, not"
            " .50.",
            {
                "draws": self.draws,
                "cv_utility_per_opportunity": {name: one.to_json() for name, one in found.items()},
                "water_filled_off_by_independent": off,
                "water_filled_together": {"wanted": 0.5, "possible": together},
            },
            Lines(
                "Equal shares: water-filled rates and the limit",
                "availability π",
                "rate of selection",
                (Curve("min(π, ρ)", pi, wanted), Curve("limit", pi, np.sort(best))),
            ),
        )

    def _closed(self, online: BoolArray, pi: FloatArray, mu: FloatArray, rng: np.random.Generator) -> FloatArray:
        """The least u/pi among those online is next; ties by lot."""
        u = rng.random(len(pi)) * 1e-6
        for there in online:
            order = np.where(there, u / pi, np.inf)
            chosen = np.argpartition(order, self.cohort - 1)[: self.cohort]
            u[chosen[there[chosen]]] += mu[chosen[there[chosen]]]
        return np.asarray(u / pi)
