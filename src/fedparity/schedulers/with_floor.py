"""A floor under any scheduler: who has got too little lately comes first.

    k comes first if it was asked, in the last W <= `window` rounds,  < floor * m W / N  times

Those that were asked least come first, ties by lot; the inner scheduler fills the slots that are left from the others,
and sits out a round without any. It does not know that the floor asked somebody, except from the ledger and what it
learns. Inclusion probabilities are those of both steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core import checks
from fedparity.core.types import Cohort, Design, RoundView
from fedparity.schedulers.draws import lowest
from fedparity.schedulers.inner import Watched, Wrapper, only


@dataclass(frozen=True, slots=True)
class WithFloor(Wrapper):
    """Any scheduler, with those below `floor` times the fair share of a window asked first."""

    floor: float = 0.5
    """Part of the fair share below which a client comes first (0 to 1); higher guarantees more."""
    window: int = 100
    """Rounds that the floor looks back over; longer windows react later."""

    def __post_init__(self) -> None:
        Wrapper.__post_init__(self)
        checks.between("floor", self.floor, 0, 1)
        checks.at_least("window", self.window, 1)

    def init(self, num_clients: int) -> Watched:
        """Nobody has been asked."""
        return Watched(self.policy.init(num_clients))

    def select(self, state: Watched, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, Watched]:
        """First those below the floor, then the inner scheduler's choice of the others."""
        everyone = view.ledger.num_clients
        times = state.times(everyone)[view.available]
        below = times < self.floor * view.cohort * len(state.recent) / everyone
        first = lowest(view.available[below], times[below].astype(np.float64), view.cohort, rng)
        cohort = first
        if view.cohort > len(first.clients):
            rest, state.inner = self.policy.select(
                state.inner, only(view, ~below, view.cohort - len(first.clients)), rng
            )
            cohort = _joined(first, rest) if below.any() else rest
        state.add(cohort.clients, self.window)
        return cohort, state


def _joined(first: Cohort, rest: Cohort) -> Cohort:
    clients = np.concatenate([first.clients, rest.clients])
    probs = np.concatenate([first.probs, rest.probs])
    designs: set[Design] = {first.design, rest.design}
    ranked: tuple[Design, ...] = ("unknown", "exact", "deterministic")
    order = np.argsort(clients)
    return Cohort(clients[order], probs[order], next(d for d in ranked if d in designs), rest.wasted)
