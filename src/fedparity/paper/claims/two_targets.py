"""Two honest targets pull apart: the same S_k for everybody, or the same S_k/pi_k.

    S_k proportional to pi_k^beta:  CV(S) = CV(pi^beta),  CV(S/pi) = CV(pi^(beta-1));  beta 0: share, 1: opportunity

Both are 0 only if all pi_k are equal. The paper asks for m/N each (Lemma 2) *and* for equal u/pi (Theorem 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.experiment import Setting, schedule
from fedparity.metrics.inequality import cv
from fedparity.paper.claims.claim import Claim, Estimate, Finding
from fedparity.paper.claims.plot import Curve, Lines


@dataclass(frozen=True, slots=True)
class TwoTargets(Claim):
    """The exact trade-off, and our scheduler aimed at either end of it."""

    id = "two-targets"
    where = "Lemma 2 and Theorem 1 together; sections 3.1 and 3.2"
    statement = "Equal selection (m/N each) and equal benefit per opportunity (u/π) are reached by one rule."
    assumptions = "Heterogeneous availability."
    corrected = "They are two targets: with S_k ∝ π_k^β, β = 0 gives the first, β = 1 the second; never both."
    method = "Exact on π ~ U(.2, 1), β from 0 to 1; parity aimed at both, 3 draws, N = 100, m = 10, T = 100"
    expected = "fails"

    low: float = 0.2
    high: float = 1.0
    draws: int = 3
    rounds: int = 100
    steps: int = 11
    aims: tuple[str, str] = ("parity:target=share", "parity:target=opportunity")

    def examine(self) -> Finding:
        """Both dispersions over beta, and of two schedulers."""
        pi = np.linspace(self.low, self.high, 1_000)
        beta = np.linspace(0, 1, self.steps)
        share = [cv(pi**b) for b in beta]
        chance = [cv(pi ** (b - 1)) for b in beta]
        least = min(max(pair) for pair in zip(share, chance, strict=True))
        where = Setting(f"bernoulli:low={self.low},high={self.high}", 100, self.rounds, 10, draws=self.draws)
        found = {aim: schedule(aim, where).table().values for aim in self.aims}
        spreads = {
            aim: [Estimate.of(values[key][aim]) for key in ("cv_counts", "cv_per_opportunity")]
            for aim, values in found.items()
        }
        first, second = ([one.mean for one in pair] for pair in spreads.values())
        return Finding(
            "fails" if least > 1e-6 else "holds",
            first[0] < second[0] and second[1] < first[1],
            f"With π from {self.low:g} to {self.high:g}, equal shares have CV(S/π) = {chance[0]:.2f} and equal"
            f" opportunity has CV(S) = {share[-1]:.2f}; no β has both below {least:.2f}. Measured: parity for shares"
            f" {first[0]:.2f} and {first[1]:.2f}, for opportunity {second[0]:.2f} and {second[1]:.2f}.",
            {
                "beta": beta,
                "cv_counts": share,
                "cv_per_opportunity": chance,
                "least_larger_of_both": least,
                "draws": self.draws,
                "measured_cv_counts_and_per_opportunity": {
                    aim: [one.to_json() for one in pair] for aim, pair in spreads.items()
                },
            },
            Lines(
                "Two targets: S ∝ π^β",
                "β",
                "coefficient of variation",
                (Curve("CV(S)", beta, share), Curve("CV(S/π)", beta, chance)),
            ),
        )
