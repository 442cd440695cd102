"""Rollout, our own: who is served now is whoever comes off worst in the futures that may follow.

    E[S_k(T)] + theta (S_k + r R_k)   ->  the m smallest are asked

S_k(T) is where client k ends up in a sampled future (`view.futures`): the present counts are carried through each of
them by parity's own rule, S_k + r R_k with R_k the mean over the samples, and the ends are averaged. A client that will
be back often enough catches up whether it is asked now or not, so that its end hardly depends on how often that is; one
that will not be back ends where it stands. The second term is parity's outlook (`schedulers.parity`), which decides
what the samples leave open.

Also tried were ends under the best schedule of each future (the frontier from the present counts): it knows each
future, which nobody will, and came out behind on long sessions; and ends under `least_served`. One choice costs
O(samples x rounds left x N), so that this is for small populations, and for saying what could have been reached without
hindsight (`fedparity schedule --online-limit`). Chances of being asked are not known, since samples are random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.protocols import Scheduler
from fedparity.core.types import BoolArray, Cohort, FloatArray, RoundView
from fedparity.schedulers.draws import everybody, lowest, unknown
from fedparity.schedulers.parity import Course

MOST_CLIENTS = 5000
"""Beyond this a round takes seconds."""


@dataclass(frozen=True, slots=True)
class Rollout(Scheduler[Course]):
    """Samples futures, carries the present counts through each, and asks whoever comes off worst."""

    forecasts: ClassVar[bool] = True
    samples: int = 32
    """Futures sampled per round; more decide with less noise and take longer."""
    theta: float = 0.5
    """How much parity's outlook counts beside the sampled ends; higher is closer to parity."""

    def __post_init__(self) -> None:
        checks.at_least("samples", self.samples, 1, 10_000)
        checks.not_negative("theta", self.theta)

    def init(self, num_clients: int) -> Course:
        """Nobody has been asked."""
        if num_clients > MOST_CLIENTS:
            raise ConfigError(
                f"rollout simulates every client, at most {MOST_CLIENTS}, but there are {num_clients}; use parity"
            )
        return Course(0, 0, None, np.full(num_clients, np.nan))

    def select(self, state: Course, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, Course]:
        """The available clients that end up with least."""
        whole = view.whole or view
        state.slots += min(whole.cohort, len(whole.available))
        state.online += len(whole.available)
        ids = view.available
        if len(ids) <= view.cohort:
            return everybody(ids), state
        counts = view.ledger.selected
        # Without rounds to come or an end that is known there is nothing to carry counts to: who has least is asked.
        if view.futures is None or view.remaining is None or not view.rounds_left:
            return lowest(ids, counts[ids].astype(np.float64), view.cohort, rng), state
        behind = self.theta * (counts[ids] + state.rate * view.remaining)
        online = view.futures(view.rounds_left, self.samples, rng)
        behind += ends(counts, online, whole.cohort, state.rate, rng)[:, ids].mean(0)
        return unknown(lowest(ids, behind, view.cohort, rng).clients), state


def ends(
    counts: NDArray[np.number], online: BoolArray, cohort: int, rate: float, rng: np.random.Generator
) -> FloatArray:
    """Samples x clients: counts after the rounds of `online` (rounds x samples x clients), whoever is behind first."""
    _, samples, clients = online.shape
    there = online.mean(1)
    outlook = rate * (np.cumsum(there[::-1], axis=0)[::-1] - there)
    ahead = counts + 0.01 * rng.random((samples, clients))  # lots decide among equals
    row = np.arange(samples)[:, None]
    for now, to_come in zip(online, outlook, strict=True):
        keys = np.where(now, ahead + to_come, np.inf)
        chosen = np.argpartition(keys, min(cohort, clients) - 1, axis=1)[:, :cohort]
        ahead[row, chosen] += now[row, chosen]
    return np.asarray(np.floor(ahead), dtype=np.float64)
