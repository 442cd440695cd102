"""A quota around any scheduler: nobody is asked for more than so many times the fair share.

    times k was asked in any `window` of W rounds  <=  max(1, floor(quota * m W / N))

Clients at their quota are hidden from the inner scheduler, so its inclusion probabilities stay true. Slots that only
they could take stay empty. This bounds what a client can gain by whatever the inner scheduler believes of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedparity.core import checks
from fedparity.core.protocols import Feedback
from fedparity.core.types import Cohort, RoundView
from fedparity.schedulers.inner import Watched, Wrapper, only


@dataclass(frozen=True, slots=True)
class WithQuota(Wrapper):
    """Any scheduler, with nobody asked for more than `quota` times the fair share of a window."""

    quota: float = 1.3
    """Most selections per window, as a multiple of the fair share; lower is stricter."""
    window: int = 100
    """Rounds that the quota looks back over; longer windows allow longer bursts."""

    def __post_init__(self) -> None:
        Wrapper.__post_init__(self)
        checks.between("quota", self.quota, 1, 1e6)
        checks.at_least("window", self.window, 1)

    def init(self, num_clients: int) -> Watched:
        """Nobody has been asked."""
        return Watched(self.policy.init(num_clients))

    def select(self, state: Watched, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, Watched]:
        """The inner scheduler's choice among those below their quota."""
        everyone = view.ledger.num_clients
        most = max(1, math.floor(self.quota * view.cohort * self.window / everyone))
        below = state.times(everyone)[view.available] < most
        cohort, state.inner = self.policy.select(state.inner, only(view, below, view.cohort), rng)
        state.add(cohort.clients, self.window - 1)
        return cohort, state

    def learn(self, state: Watched, feedback: Feedback) -> Watched:
        """As the inner scheduler does."""
        state.inner = self.taught(state.inner, feedback)
        return state
