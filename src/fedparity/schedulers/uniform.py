"""Uniform selection: FedAvg among the available (McMahan et al., AISTATS 2017), and over the whole population.

uniform:     P(k asked | A_t) = min(1, m / |A_t|)   for k in A_t
population:  m of all N are drawn; those that are offline are slots wasted
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.core.protocols import Scheduler
from fedparity.core.types import Cohort, RoundView
from fedparity.schedulers.draws import everybody

FEDAVG = "McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017"


@dataclass(frozen=True, slots=True)
class Uniform(Scheduler[None]):
    """Everybody available has the same chance (the paper's vanilla branch)."""

    reference: ClassVar[str] = FEDAVG

    def select(self, state: None, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, None]:
        """A simple random sample of the available."""
        online = view.available
        if view.cohort >= len(online):
            return everybody(online), state
        picked = np.sort(rng.choice(len(online), view.cohort, replace=False, shuffle=False))
        return Cohort(online[picked], np.full(view.cohort, view.cohort / len(online)), "exact"), state


@dataclass(frozen=True, slots=True)
class Population(Scheduler[None]):
    """FedAvg over everyone registered; slots given to offline clients are wasted."""

    reference: ClassVar[str] = FEDAVG

    def select(self, state: None, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, None]:
        """A simple random sample of all N, of which the online ones can be asked."""
        everyone = view.ledger.num_clients
        drawn = rng.choice(everyone, min(view.cohort, everyone), replace=False, shuffle=False)
        asked = np.intersect1d(drawn, view.available, assume_unique=True)
        probs = np.full(len(asked), len(drawn) / everyone)
        return Cohort(asked, probs, "exact", wasted=len(drawn) - len(asked)), state
