"""Theorem 1: inverse-availability sampling has the lower variance of u/pi than vanilla sampling. It has the higher one.

(A3) asks for the same selection probability *given availability* for everybody: that is what uniform sampling among the
available does, up to O(1/N), while chances proportional to 1/pi_k break it as soon as many are online. What inverse
sampling evens out is u_k, not u_k/pi_k. (With two clients and m = 1 it is the other way round: S_k/pi_k is equal.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core.rng import stream
from fedparity.core.types import FloatArray
from fedparity.paper.claims.claim import SEED, Claim, Estimate, Finding
from fedparity.paper.claims.plot import Bars
from fedparity.paper.claims.simulate import coins, cv_rows, drawn


@dataclass(frozen=True, slots=True)
class Theorem1(Claim):
    """Uniform and inverse sampling on the same availability, equal mean gains."""

    id = "theorem-1"
    where = "Section 2, Theorem 1"
    statement = "E[Var(u/π)] under inverse-availability sampling is at most that under vanilla sampling."
    assumptions = "(A1) stationary availability, (A2) selection among the available, (A3), (A4) bounded gains."
    corrected = (
        "Uniform sampling among the available satisfies (A3) and has the lower Var(u/π); inverse sampling has the"
        " lower Var(u). One rule cannot serve both."
    )
    method = "Monte Carlo: 20 paired draws, N = 100, m = 10, T = 2,000, π ~ U(.2, 1), gain 1 ± .3"
    expected = "fails"

    clients: int = 100
    cohort: int = 10
    rounds: int = 2_000
    draws: int = 20
    low: float = 0.2
    noise: float = 0.3
    rates: tuple[float, ...] | None = None
    """Availabilities; None: uniform between `low` and 1, others in each draw."""

    def examine(self) -> Finding:
        """Both schemes, draw by draw."""
        per_round: dict[str, list[FloatArray]] = {"uniform": [], "inverse": []}
        per_opportunity: dict[str, list[FloatArray]] = {"uniform": [], "inverse": []}
        for draw in range(self.draws):
            rng = stream(SEED, self.id, draw)
            pi = rng.uniform(self.low, 1.0, self.clients) if self.rates is None else np.array(self.rates)
            online = coins(pi, self.rounds, rng)
            for name, weights in (("uniform", np.ones_like(pi)), ("inverse", 1 / pi)):
                served = drawn(online, weights, self.cohort, rng).sum(axis=0)
                gained = served + self.noise * np.sqrt(served) * rng.standard_normal(len(pi))
                per_round[name].append(gained)
                per_opportunity[name].append(gained / pi)
        share = {name: Estimate.of(cv_rows(np.array(rows))) for name, rows in per_round.items()}
        chance = {name: Estimate.of(cv_rows(np.array(rows))) for name, rows in per_opportunity.items()}
        variance = {name: np.array(rows).var(axis=1) for name, rows in per_opportunity.items()}
        difference = Estimate.of(variance["inverse"] - variance["uniform"])
        apart = chance["uniform"].high < chance["inverse"].low and share["inverse"].high < share["uniform"].low
        return Finding(
            "fails" if difference.low > 0 else "holds",
            apart,
            f"CV(u/π): uniform {chance['uniform'].mean:.3f}, inverse {chance['inverse'].mean:.3f}. CV(u): uniform"
            f" {share['uniform'].mean:.3f}, inverse {share['inverse'].mean:.3f}.",
            {
                "draws": self.draws,
                "cv_utility_per_opportunity": {name: one.to_json() for name, one in chance.items()},
                "cv_utility": {name: one.to_json() for name, one in share.items()},
                "variance_difference_inverse_minus_uniform": difference.to_json(),
            },
            Bars(
                "Theorem 1: what each sampling evens out",
                tuple((f"CV(u/π), {name}", one.mean) for name, one in chance.items())
                + tuple((f"CV(u), {name}", one.mean) for name, one in share.items()),
            ),
        )
