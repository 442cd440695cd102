"""A bound on one round around any scheduler: clients that come and go together hold less than a share of it.

Whoever is behind is asked first, so clients that stay away and return together are all behind at the same time: they
hold a whole round now and then, while each of them gets no more than its share. Two clients keep company if the rounds
in which they were there, of the last 64, correlate by `ALIKE` or more, or are all the same. Of a company the inner
scheduler sees only as many as may be asked, those that were asked least so far; if the cohort is so small that they
hold `share` of it even so, some are left out and their slots stay empty. A company of more than half of all registered
clients is the population, and is let be. So is a client all by itself. Clients that registered in the last 64 rounds
of a run keep company, for nobody knows how they come and go.

Attackers who come and go more loosely than that are not seen, and hold a round the less often the looser they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.marks import PER_CLIENT
from fedparity.core.protocols import Feedback
from fedparity.core.types import BoolArray, Cohort, Ids, RoundView
from fedparity.schedulers.draws import unknown
from fedparity.schedulers.inner import Wrapper, only

MEMORY, ENOUGH = 64, 8
"""Rounds that are remembered, and that must have passed before two clients can be told to keep company."""
ALIKE = 0.5
LOOKED_AT = 256
"""Of more clients online only so many are looked at, those asked least."""


@dataclass(slots=True)
class Attended:
    """The inner scheduler's memory, and who was there in the last 64 rounds."""

    inner: Any = field(metadata=PER_CLIENT)
    rounds: NDArray[np.uint64] = field(metadata=PER_CLIENT)
    """One bit per round, the last one lowest."""


@dataclass(frozen=True, slots=True)
class WithCompany(Wrapper):
    """Any scheduler, with clients that come and go together kept below a share of each round."""

    share: float = 1 / 3
    """What a company may not hold of a round; lower is stricter."""

    def __post_init__(self) -> None:
        Wrapper.__post_init__(self)
        checks.between("share", self.share, 0.01, 1)

    def init(self, num_clients: int) -> Attended:
        """Nobody was there."""
        return Attended(self.policy.init(num_clients), np.zeros(num_clients, np.uint64))

    def select(self, state: Attended, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, Attended]:
        """The inner scheduler's choice, less what companies hold too much of it."""
        whole = view.whole or view
        state.rounds <<= np.uint64(1)
        state.rounds[whole.available] |= np.uint64(1)
        if view.ledger.rounds + 1 < ENOUGH or len(view.available) < 2:
            cohort, state.inner = self.policy.select(state.inner, view, rng)
            return cohort, state
        lot = rng.permutation(len(view.available))
        order = lot[np.argsort(view.ledger.selected[view.available][lot], kind="stable")][:LOOKED_AT]
        company = self._company(state, view.available[order], view)
        hidden = _beyond(company, math.ceil(self.share * view.cohort) - 1)
        visible = np.ones(len(view.available), dtype=np.bool_)
        visible[order[hidden]] = False
        seen = view if visible.all() else only(replace(view, whole=whole), visible, view.cohort)
        cohort, state.inner = self.policy.select(state.inner, seen, rng)
        asked = order[np.isin(view.available[order], cohort.clients, assume_unique=True)]
        inside = np.isin(order, asked, assume_unique=True)
        out = self._too_many(company[inside][:, inside], len(cohort.clients))
        if not out.any():
            return cohort, state
        kept = ~np.isin(cohort.clients, view.available[asked[out]], assume_unique=True)
        return replace(unknown(cohort.clients[kept]), wasted=cohort.wasted), state

    def _company(self, state: Attended, clients: Ids, view: RoundView) -> BoolArray:
        """Which pairs keep company, each client with itself; a company that is the population is none."""
        company = _together(state.rounds[clients], min(view.ledger.rounds + 1, MEMORY))
        if view.ledger.since is not None:
            new = view.ledger.since[clients] > max(0, view.ledger.rounds - MEMORY)
            company |= new[:, None] & new
        common = company.mean(axis=1) * len(view.available) > view.ledger.num_clients / 2
        company[common] = company[:, common] = False
        np.fill_diagonal(company, val=True)
        return company

    def _too_many(self, company: BoolArray, size: int) -> BoolArray:
        """Who is left out, the most served first, so that no company holds `share` of those that remain."""
        out = np.zeros(len(company), dtype=np.bool_)
        plural = company.sum(axis=1) > 1
        for at in range(len(company) - 1, -1, -1):
            if plural[at] and np.count_nonzero(company[at] & ~out) >= self.share * (size - np.count_nonzero(out)):
                out[at] = True
        return out

    def learn(self, state: Attended, feedback: Feedback) -> Attended:
        """As the inner scheduler does."""
        state.inner = self.taught(state.inner, feedback)
        return state


def _beyond(company: BoolArray, most: int) -> list[int]:
    """Who comes after `most` others of its company."""
    kept = np.zeros(len(company), dtype=np.bool_)
    for at in range(len(company)):
        kept[at] = np.count_nonzero(company[at] & kept) < max(most, 1)
    return np.flatnonzero(~kept).tolist()


def _together(attendance: NDArray[np.uint64], rounds: int) -> BoolArray:
    """Which pairs of clients come and go together; each does with itself."""
    bits = (attendance[:, None] >> np.arange(rounds, dtype=np.uint64)) & np.uint64(1)
    there = bits.astype(np.float64)
    there -= there.mean(axis=1, keepdims=True)
    length = np.sqrt((there * there).sum(axis=1, keepdims=True))
    there /= np.where(length > 0, length, 1.0)
    alike = np.einsum("it,jt->ij", there, there) >= ALIKE
    return np.asarray(alike | (attendance[:, None] == attendance))
