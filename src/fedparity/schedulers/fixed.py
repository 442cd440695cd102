"""A given schedule, replayed: an oracle's witness, a log, a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fedparity.core.protocols import Scheduler
from fedparity.core.types import Cohort, Ids, RoundView
from fedparity.schedulers.draws import everybody


@dataclass(frozen=True, slots=True)
class Fixed(Scheduler[None]):
    """Asks whom a given schedule names in each round, if they are there."""

    schedule: Sequence[Ids] = field(default=(), metadata={"settable": False})
    """The ids to ask, round by round; nobody after its end. Only from Python: `Fixed(frontier(trace, m).schedule)`."""

    def select(self, state: None, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, None]:
        """Those of this round's entry that are available, up to the cohort."""
        wanted = self.schedule[view.round] if view.round < len(self.schedule) else np.empty(0, np.int64)
        there = np.intersect1d(wanted, view.available)[: view.cohort]
        cohort = everybody(there)
        return Cohort(cohort.clients, cohort.probs, cohort.design, wasted=len(wanted) - len(there)), state
