"""A quota around any scheduler: nobody is asked for more than so many times the fair share.

    times k was asked in any `window` of W rounds  <=  max(1, floor(quota * m W / N))
    times k was asked in its first t rounds        <=  floor(lifetime * m t / N) + floor((quota - 1) * m W / N)

The second one holds if `lifetime` is given: a window's quota alone lets a client that never leaves have `quota` times
the fair share for ever where few others come. Its last term, one at least, is for those who were there from the start:
who registers later is first asked after a fair turn of N / m rounds, so that registering anew gains nothing.

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
from fedparity.core.types import NO_IDS, BoolArray, Cohort, RoundView
from fedparity.schedulers.inner import Watched, Wrapper, counted, only


@dataclass(frozen=True, slots=True)
class WithQuota(Wrapper):
    """Any scheduler, with nobody asked for more than `quota` times the fair share of a window."""

    quota: float = 1.3
    """Most selections per window, as a multiple of the fair share; lower is stricter."""
    window: int = 100
    """Rounds that the quota looks back over; longer windows allow longer bursts."""
    lifetime: float | None = None
    """Most selections since a client registered, as a multiple of the fair share; none: only the window counts."""
    spare: Literal["empty", "fill"] = "empty"
    """Slots that only clients at their quota could take: stay empty, or are filled with them after all."""

    def __post_init__(self) -> None:
        Wrapper.__post_init__(self)
        checks.between("quota", self.quota, 1, 1e6)
        checks.at_least("window", self.window, 1)
        if self.lifetime is not None:
            checks.between("lifetime", self.lifetime, 1, 1e6)

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
        ids, ledger = view.available, view.ledger
        fair = view.cohort / max(1, int(np.count_nonzero(counted(ledger, self.window))))
        most = max(1, math.floor(self.quota * (fair * self.window)))
        asked, times = np.unique(np.concatenate([*state.recent, NO_IDS]), return_counts=True)
        below = ~np.isin(ids, asked[times >= most], assume_unique=True)
        if self.lifetime is not None:
            since = 0 if ledger.since is None else ledger.since[ids]
            burst = np.where(since == 0, max(1, math.floor((self.quota - 1) * (fair * self.window))), 0)
            below &= ledger.selected[ids] < np.floor(self.lifetime * fair * (ledger.rounds + 1 - since)) + burst
        return below
