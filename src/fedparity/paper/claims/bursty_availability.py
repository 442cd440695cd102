"""Bursty availability, which the paper leaves open: sessions and absences with heavy tails (Pareto, exponent 1.3).

Shares of rounds online then converge slowly, and some absences outlast the run, so weights 1/pi^ are wrong for long.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedparity.experiment import Setting
from fedparity.paper.claims.claim import Claim, Finding
from fedparity.paper.claims.measured import SHOWN, gini_bars, measure


@dataclass(frozen=True, slots=True)
class BurstyAvailability(Claim):
    """Open and closed loops under heavy-tailed bursts."""

    id = "bursty-availability"
    where = "Section 2, after Theorem 1"
    statement = "The guarantees do not cover fully bursty participation, an open problem."
    assumptions = "On and off times with Pareto tails of exponent 1.3, mean session 5 rounds, π ~ U(.05, .6)."
    corrected = (
        "A closed loop on what was given adds less than a third of the inequality that inverse sampling adds to the"
        " limit."
    )
    method = "10 draws, N = 100, m = 5, T = 200; limits from the same draws"
    expected = "holds"

    open_loop: str = "inverse"
    """The rule whose guarantee is said not to carry over."""
    closed: str = "parity"
    availability: str = "bursty"
    draws: int = 10
    clients: int = 100
    rounds: int = 200
    near: float = 1.1
    """Gini over the limit's up to which a guarantee would have carried over."""
    part: float = 1 / 3
    """The most that the closed loop may add, as a share of what the open loop adds."""

    def examine(self) -> Finding:
        """Gap and Gini of all, beside the limit."""
        names = dict.fromkeys((*SHOWN, self.open_loop, self.closed))
        where = Setting(self.availability, self.clients, self.rounds, max(1, self.clients // 20), draws=self.draws)
        found = measure(names, where)
        ours, theirs = found[self.closed], found[self.open_loop]
        added = [row["gini"] - row["gini_limit"] for row in (ours, found["inverse"])]
        return Finding(
            "holds" if theirs["gini_over_limit"] > self.near else "fails",
            added[0] <= self.part * added[1],
            f"Gini over the limit's {ours['gini_limit']:.3f}: {self.open_loop} {theirs['gini_over_limit']:.2f} times,"
            f" reactive as printed {found['reactive']['gini_over_limit']:.2f}, {self.closed}"
            f" {ours['gini_over_limit']:.2f}; it adds {added[0]:.3f} where inverse adds {added[1]:.3f}.",
            {"draws": self.draws, "near": self.near, "schedulers": found},
            gini_bars("Heavy-tailed bursts", found),
        )
