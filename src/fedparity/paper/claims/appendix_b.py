"""Appendix B, the proof of Theorem 1: where it goes wrong.

(A3) says "conditional on being available, every client is selected with the same probability rho". Uniform sampling
among the available does that up to O(1/N):  p_k = E[min(1, m / (1 + others online))], which is worked out exactly here.
Inverse sampling does not. And step 5 ends in

    2 E Var(systematic) + 2 E Var(noise) <= E Var(X)        (vanilla)

although step 1 proved >=: an upper bound is used as a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core.rng import stream
from fedparity.core.types import FloatArray
from fedparity.paper.claims.claim import SEED, Claim, Estimate, Finding
from fedparity.paper.claims.plot import Curve, Lines
from fedparity.paper.claims.simulate import coins, drawn


def others_online(pi: FloatArray) -> FloatArray:
    """The law of how many of some independent clients are online."""
    law = np.ones(1)
    for rate in pi.tolist():
        law = np.convolve(law, [1 - rate, rate])
    return law


def uniform_given_available(pi: FloatArray, cohort: int, client: int) -> float:
    """P(client selected | it is available) when m of the available are drawn uniformly."""
    law = others_online(np.delete(pi, client))
    return float((law * np.minimum(1.0, cohort / (1 + np.arange(len(law))))).sum())


@dataclass(frozen=True, slots=True)
class AppendixB(Claim):
    """(A3) for uniform sampling, exactly, and both sides of step 5."""

    id = "appendix-b"
    where = "Appendix B, proof of Theorem 1, steps 2 and 5"
    statement = "Inverse sampling has equal selection probability given availability, vanilla has not; hence V_T falls."
    assumptions = "(A1)–(A4); step 5: 2·Var(systematic) + 2·Var(noise) ≤ Var(u/π) for vanilla sampling."
    corrected = "Uniform sampling among the available satisfies (A3) up to O(1/N); inverse sampling does not."
    method = "Exact law of the number online, N = 10 to 300; Monte Carlo, 20 draws, for step 5"
    expected = "fails"

    sizes: tuple[int, ...] = (10, 30, 100, 300)
    low: float = 0.2
    share: float = 0.1
    """m/N."""
    rounds: int = 1_000
    draws: int = 20
    noise: float = 0.3

    def examine(self) -> Finding:
        """How unequal selection given availability is, and whether step 5 is true."""
        spread = []
        for size in self.sizes:
            pi = np.linspace(self.low, 1.0, size)
            ends = [uniform_given_available(pi, max(1, round(self.share * size)), k) for k in (0, size - 1)]
            spread.append(abs(ends[0] / ends[1] - 1))
        excess, ratios = [], []
        pi = np.linspace(self.low, 1.0, 100)
        for draw in range(self.draws):
            rng = stream(SEED, self.id, draw)
            online = coins(pi, self.rounds, rng)
            cohort = max(1, round(self.share * 100))
            served = drawn(online, np.ones(100), cohort, rng).sum(axis=0)
            noise = self.noise * np.sqrt(served) * rng.standard_normal(100) / pi
            parts = 2 * (served / pi).var() + 2 * noise.var()
            excess.append(parts - (served / pi + noise).var())
            given = drawn(online, 1 / pi, cohort, rng).sum(axis=0) / np.maximum(1, online.sum(axis=0))
            ratios.append(given[:10].mean() / given[-10:].mean())
        over = Estimate.of(np.array(excess))
        inverse = float(np.mean(ratios))
        wrong = over.low > 0 and abs(inverse - 1) > 0.05
        shrinks = spread[-1] < 0.01 and spread[-1] <= spread[0] * 2 * self.sizes[0] / self.sizes[-1]
        return Finding(
            "fails" if wrong else "holds",
            shrinks,
            "Given availability, uniform sampling treats the rarest and the most available client alike to"
            f" {spread[0]:.1%} at N = {self.sizes[0]} and {spread[-1]:.2%} at N = {self.sizes[-1]}; inverse sampling"
            f" selects the rarest tenth {inverse:.1f} times as often. In step 5 the left side is larger, by"
            f" {over.mean:.0f}, not smaller.",
            {
                "clients": self.sizes,
                "uniform_rarest_against_commonest": spread,
                "inverse_rarest_over_commonest_tenth": inverse,
                "draws": self.draws,
                "step_5_left_minus_right": over.to_json(),
            },
            Lines(
                "Appendix B: inequality of selection given availability, uniform sampling",
                "clients N",
                "relative difference",
                (Curve("uniform", self.sizes, spread),),
                log_x=True,
                log_y=min(spread) > 0,
            ),
        )
