"""Appendix D: the limiting weights lie in (0, 1), and are equal if and only if alpha_k (1-pi_k)/(pi_k+eps) is constant.

The second is true. The first is not under what is printed: a client that is always online has the limit 0, and if only
one is not, its limit is 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core.rng import stream
from fedparity.paper.claims.claim import SEED, Claim, Finding
from fedparity.paper.claims.plot import Bars
from fedparity.paper.claims.theorem_2 import limit_weights


@dataclass(frozen=True, slots=True)
class AppendixD(Claim):
    """One population with everybody but one always online, and many random ones."""

    id = "appendix-d"
    where = "Appendix D, Theorem 2, parts 2 and 3"
    statement = "The limits p̂_k lie in (0, 1), and are all 1/N iff α_k(1−π_k)/(π_k+ε) is the same for all k."
    assumptions = "π_k ∈ (0, 1], and not all clients are always available."
    corrected = "p̂_k ∈ (0, 1) for every client with π_k < 1 if there are at least two of them; it is 0 for π_k = 1."
    method = "Exact limits: one population by hand, 2,000 random ones, a third of their clients always on"
    expected = "needs-assumption"

    rates: tuple[float, ...] = (0.5, 1.0, 1.0)
    eps: float = 1e-3
    draws: int = 2_000
    least_sometimes: int = 2
    """How many clients of a random population are at least not always online."""

    def examine(self) -> Finding:
        """Where the limits lie, and when they are equal."""
        limits = limit_weights(np.array(self.rates), self.eps, 1.0)
        inside = bool(((limits > 0) & (limits < 1)).all())
        rng = stream(SEED, self.id)
        right = 0
        for _ in range(self.draws):
            size = int(rng.integers(2, 9))
            pi = np.where(rng.random(size) < 1 / 3, 1.0, rng.uniform(0.01, 0.99, size))
            pi[: self.least_sometimes] = rng.uniform(0.01, 0.99, min(size, self.least_sometimes))
            pi[self.least_sometimes :] = np.where(self.least_sometimes < 2, 1.0, pi[self.least_sometimes :])
            found = limit_weights(pi, self.eps, 1.0)
            sometimes = pi < 1
            good = ((found[sometimes] > 0) & (found[sometimes] < 1)).all() and (found[~sometimes] == 0).all()
            equal = np.ptp(found) < 1e-12
            right += bool(good) and equal == (np.ptp((1 - pi) / (pi + self.eps)) < 1e-12)
        same = limit_weights(np.full(4, 0.3), self.eps, 1.0)
        shown = ", ".join(f"{value:g}" for value in limits)
        return Finding(
            "holds" if inside else "needs-assumption",
            right == self.draws and bool(np.allclose(same, 0.25)),
            f"π = {self.rates} gives the limits ({shown}). With at least two clients that are not always online, all"
            f" {self.draws:,} random populations have the limits that the corrected statement says."
            if right == self.draws
            else f"π = {self.rates} gives the limits ({shown}); {self.draws - right:,} of {self.draws:,} populations"
            " break it.",
            {"rates": self.rates, "limits": limits, "draws": self.draws, "as_corrected": right},
            Bars(
                "Appendix D: limits of the weights",
                tuple((f"π = {rate:g}", float(value)) for rate, value in zip(self.rates, limits, strict=True)),
            ),
        )
