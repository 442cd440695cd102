"""Section 3.2: inverse-availability sampling and reactive reweighting balance participation. Not as printed.

Top-K of alpha/(pi+eps) (1 + lam missed), missed = rounds offline (Theorem 2), has a score that never falls when a
client is chosen, so the same rare clients win every time they are there and the rest starve: the least fair rule of
all on Bernoulli populations. Closing the loop on what was given (`least_served`, `parity`) comes near the limit.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedparity.experiment import Setting
from fedparity.paper.claims.claim import Claim, Finding
from fedparity.paper.claims.measured import SHOWN, gini_bars, measure


@dataclass(frozen=True, slots=True)
class ParticipationBalance(Claim):
    """The paper's rules and closed loops on two populations, beside the limit."""

    id = "participation-balance"
    where = "Section 3.2"
    statement = "Under inverse-availability sampling and reactive reweighting participation becomes balanced."
    assumptions = "The top K of the available by reactive weight (λ = .7) are selected in each round."
    corrected = "A closed loop on what was already given comes within a few per cent of the limit; open loops do not."
    method = "10 draws each: population like the paper's, m = 5, T = 200; Bernoulli U(.2, 1), m = 10, T = 50"
    expected = "fails"

    printed: str = "reactive"
    closed: str = "parity"
    draws: int = 10
    clients: int = 100
    rounds: int = 200

    def examine(self) -> Finding:
        """Gap and Gini of all, on both populations."""
        names = dict.fromkeys(("uniform", "inverse", self.printed, *SHOWN, self.closed))
        cohort = max(1, self.clients // 20)
        found = measure(names, Setting("paper_like", self.clients, self.rounds, cohort, draws=self.draws))
        brief = Setting("bernoulli:low=.2,high=1", self.clients, self.rounds // 4, 2 * cohort, draws=self.draws)
        other = measure(names, brief)
        rule, plain, ours = (found[name]["gini"] for name in (self.printed, "uniform", self.closed))
        limit = found[self.closed]["gini_limit"]
        near = found[self.closed]["gini_over_limit"] <= 1.1
        return Finding(
            "fails" if rule > plain else "holds",
            near and found["inverse"]["gini_over_limit"] > 1.1,
            f"Population like the paper's: Gini as printed {rule:.3f}, uniform {plain:.3f}, closed loop {ours:.3f},"
            f" limit {limit:.3f}. Bernoulli: {other[self.printed]['gini']:.2f}, {other['uniform']['gini']:.2f},"
            f" {other[self.closed]['gini']:.2f}, {other[self.closed]['gini_limit']:.2f}.",
            {"draws": self.draws, "paper_like": found, "bernoulli": other},
            gini_bars("Participation on a population like the paper's", found),
        )
