"""Adversarial availability, which the paper leaves open: patterns built against a scheduler, and clients that hide.

departures   all are there at first and leave for good one after another
crowding     half are always there, the other half only together, every tenth round
hiding       ten always-on clients stay away in a share of the rounds, or declare a low availability, to be asked more
             under the rule as printed: weights alpha/(pi+eps) (1 + lam offline), top m
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core.rng import stream
from fedparity.experiment import Setting
from fedparity.paper.claims.claim import SEED, Claim, Estimate, Finding
from fedparity.paper.claims.measured import SHOWN, gini_bars, measure

KINDS = ("departures", "crowding")


@dataclass(frozen=True, slots=True)
class AdversarialAvailability(Claim):
    """Two hostile patterns, and what hiding pays under the rule as printed."""

    id = "adversarial-availability"
    where = "Section 2, after Theorem 1"
    statement = "The guarantees do not cover adversarial participation, an open problem."
    assumptions = "Clients leave for good, come in crowds, or stay away to be asked more."
    corrected = (
        "A closed loop on what was given is nearer to the limit on both patterns, though nobody is near it when clients"
        " leave for good; availability must be observed, never declared: the printed rule pays for hiding."
    )
    method = "5 draws of each pattern, N = 100, m = 5, T = 100; hiding: 5 draws, N = 100, m = 10, T = 1,000"
    expected = "holds"

    open_loop: str = "inverse"
    closed: str = "parity"
    draws: int = 5
    clients: int = 100
    rounds: int = 100
    hiding_rounds: int = 1_000
    hiding_draws: int = 5
    lam: float = 0.7
    hidden: float = 0.65
    """Share of rounds in which ten always-on clients stay away on purpose."""

    def examine(self) -> Finding:
        """Both patterns, then hiding."""
        names = dict.fromkeys((*SHOWN, self.open_loop, self.closed))
        cohort = max(1, self.clients // 20)
        settings = {
            k: Setting(f"adversarial:kind={k}", self.clients, self.rounds, cohort, draws=self.draws) for k in KINDS
        }
        found = {kind: measure(names, where) for kind, where in settings.items()}
        broken = all(found[kind][self.open_loop]["gini_over_limit"] > 1.1 for kind in KINDS)
        nearer = all(found[kind][self.closed]["gini"] < found[kind]["inverse"]["gini"] for kind in KINDS)
        taken = {
            "always_on": self._taken(hidden=0.0),
            "hiding": self._taken(self.hidden),
            "declaring_1_percent": self._taken(hidden=0.0, declared=0.01),
            "declaring_1_percent_and_hiding_15_percent": self._taken(hidden=0.15, declared=0.01),
        }
        believed = taken["declaring_1_percent_and_hiding_15_percent"]
        pays = taken["hiding"].mean > 2 * taken["always_on"].mean + 0.05
        return Finding(
            "holds" if broken and pays else "fails",
            nearer,
            f"Gini with departures and crowding: {self.open_loop} {self._pair(found, self.open_loop)}, {self.closed}"
            f" {self._pair(found, self.closed)}, limits {self._pair(found, self.closed, 'gini_limit')}: who leaves for"
            " good cannot be known beforehand. Under the printed rule ten always-on clients get"
            f" {taken['always_on'].mean:.0%} of the slots, {taken['hiding'].mean:.0%} if they hide"
            f" {self.hidden:.0%} of the time, and {believed.mean:.0%} if they hide 15% and"
            " a declared π = .01 is believed.",
            {
                "draws": self.draws,
                **found,
                "hiding_draws": self.hiding_draws,
                "slots_of_ten_clients": {name: share.to_json() for name, share in taken.items()},
            },
            gini_bars("Departures, one after another", found["departures"]),
        )

    @staticmethod
    def _pair(found: dict[str, dict[str, dict[str, float]]], name: str, key: str = "gini") -> str:
        return " and ".join(f"{found[kind][name][key]:.3f}" for kind in KINDS)

    def _taken(self, hidden: float, declared: float | None = None) -> Estimate:
        """The share of slots that ten always-on clients get under the rule as printed."""
        shares = []
        for draw in range(self.hiding_draws):
            rng = stream(SEED, self.id, draw)
            pi = np.concatenate([np.full(10, 1 - hidden), rng.uniform(0.2, 1.0, 90)])
            believed = pi.copy()
            if declared is not None:
                believed[:10] = declared
            offline, served = np.zeros(100), np.zeros(100)
            for online in rng.random((self.hiding_rounds, 100)) < pi:
                score = np.where(online, (1 + self.lam * offline) / (believed + 1e-3), -1.0)
                served[np.argpartition(-score, 10)[:10]] += 1
                offline += ~online
            shares.append(served[:10].sum() / served.sum())
        return Estimate.of(np.array(shares))
