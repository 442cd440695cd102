"""Irreducibility: cumulative parity depends on history, so no reweighting of single rounds can give it.

Two clients that are always online and always lose the same look alike in every round: a rule that sees the round alone
selects the first with some probability p, whatever happened before, and S_1 is binomial. A rule that sees the ledger
alternates. Exactly, over all p:

    min_p E|S_1 - S_2| = E|2 Bin(T, 1/2) - T| ~ sqrt(2T/pi),        with the ledger: T mod 2

A reweighting whose weights are functions of the *ledger* is one per round, too, and does reach it: what is impossible
is to do so from the losses of the round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedparity.paper.claims.claim import Claim, Finding
from fedparity.paper.claims.plot import Curve, Lines


def memoryless(rounds: int, p: float) -> float:
    """E|S_1 - S_2| if the first of two is selected with probability p in each round."""
    hits = np.arange(rounds + 1)
    law = np.array([math.comb(rounds, int(h)) for h in hits]) * p**hits * (1 - p) ** (rounds - hits)
    return float((law * np.abs(2 * hits - rounds)).sum())


def with_ledger(rounds: int) -> float:
    """|S_1 - S_2| if the one with fewer selections is next."""
    served = [0, 0]
    for _ in range(rounds):
        served[served[1] < served[0]] += 1
    return float(abs(served[0] - served[1]))


@dataclass(frozen=True, slots=True)
class Irreducibility(Claim):
    """The best rule without memory beside one that has the ledger, m = 1."""

    id = "irreducibility"
    where = "Section 1"
    statement = "Cumulative utility parity cannot be reduced to any per-round loss-reweighting objective."
    assumptions = "The weights of a round depend on that round's losses alone."
    corrected = "Weights that are a function of the ledger (what everybody got so far) do reach it."
    method = "Exact: two clients that look alike in every round, all selection probabilities, T = 2 to 64"
    expected = "holds"

    horizons: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
    grid: int = 101
    """Selection probabilities tried."""
    remembers: bool = False
    """Whether the rule that must fail is given the ledger after all."""

    def examine(self) -> Finding:
        """The smallest expected difference of both."""
        rule = with_ledger if self.remembers else self._best
        best = [rule(T) for T in self.horizons]
        closed = [with_ledger(T) for T in self.horizons]
        return Finding(
            "holds" if min(best) > 1e-9 else "fails",
            max(closed) <= 1,
            f"After {self.horizons[-1]} rounds the best rule without memory leaves E|S₁ − S₂| = {best[-1]:.2f}, after"
            f" {self.horizons[0]} rounds {best[0]:.2f}; with the ledger it is {closed[-1]:g}.",
            {"rounds": self.horizons, "without_memory": best, "with_ledger": closed, "probabilities_tried": self.grid},
            Lines(
                "Irreducibility: E|S₁ − S₂| of two clients that look alike",
                "rounds T",
                "E|S₁ − S₂|",
                (Curve("best without memory", self.horizons, best), Curve("with the ledger", self.horizons, closed)),
            ),
        )

    def _best(self, rounds: int) -> float:
        return min(memoryless(rounds, float(p)) for p in np.linspace(0, 1, self.grid))
