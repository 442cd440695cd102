"""A quota around any scheduler: nobody is asked for more than so many times the fair share.

    times k was asked in any `window` of W rounds  <=  max(1, floor(quota * m W / N))

Clients at their quota are hidden from the inner scheduler, so its inclusion probabilities stay true. Slots that only
they could take stay empty, or with `spare = "fill"` the inner scheduler gives them to some of them after all: nobody
else is there to be crowded out, but thin rounds are theirs. This bounds what a client can gain by whatever the inner
scheduler believes of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Feedback
from fedparity.core.types import NO_IDS, BoolArray, Cohort, RoundView
from fedparity.schedulers.inner import Watched, Wrapper, only


@dataclass(frozen=True, slots=True)
class WithQuota(Wrapper):
    """Any scheduler, with nobody asked for more than `quota` times the fair share of a window."""

    quota: float = 1.3
    """Most selections per window, as a multiple of the fair share; lower is stricter."""
    window: int = 100
    """Rounds that the quota looks back over; longer windows allow longer bursts."""
    spare: Literal["empty", "fill"] = "empty"
    """Slots that only clients at their quota could take: stay empty, or are filled with them after all."""

    def __post_init__(self) -> None:
        Wrapper.__post_init__(self)
        checks.between("quota", self.quota, 1, 1e6)
        checks.at_least("window", self.window, 1)

    def init(self, num_clients: int) -> Watched:
        """Nobody has been asked."""
        return Watched(self.policy.init(num_clients))

    def select(self, state: Watched, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, Watched]:
        """The inner scheduler's choice among those below their quota."""
        below = self._below(state, view)
        hidden = replace(view, whole=view.whole or view)
        if self.spare == "fill" and np.count_nonzero(below) < min(view.cohort, len(view.available)):
            sure = view.available[below]
            cohort, state.inner = self.policy.select(state.inner, only(hidden, ~below, view.cohort - len(sure)), rng)
            ids = np.concatenate([sure, cohort.clients])
            order, probs = np.argsort(ids), np.concatenate([np.ones(len(sure)), cohort.probs])
            cohort = Cohort(ids[order], probs[order], cohort.design, cohort.wasted)
        else:
            cohort, state.inner = self.policy.select(state.inner, only(hidden, below, view.cohort), rng)
        state.add(cohort.clients, self.window - 1)
        return cohort, state

    def _below(self, state: Watched, view: RoundView) -> BoolArray:
        """Which of the available have not been asked so often yet."""
        most = max(1, math.floor(self.quota * (view.cohort * self.window / self._population(view.ledger))))
        asked, times = np.unique(np.concatenate([*state.recent, NO_IDS]), return_counts=True)
        return ~np.isin(view.available, asked[times >= most], assume_unique=True)

    def _population(self, ledger: Ledger) -> int:
        """N; who registered during the run counts after a window, and while it is seen: names alone dilute nothing."""
        if ledger.since is None:
            return ledger.num_clients
        lately = ledger.rounds - self.window
        counts = (ledger.since == 0) | ((ledger.since <= lately) & (ledger.last_online >= lately))
        return max(1, int(np.count_nonzero(counts)))

    def learn(self, state: Watched, feedback: Feedback) -> Watched:
        """As the inner scheduler does."""
        state.inner = self.taught(state.inner, feedback)
        return state
