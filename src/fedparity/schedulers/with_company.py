"""A bound on one round around any scheduler: clients of a kind hold less than a share of a full cohort.

Whoever is behind is asked first, so clients that stay away alike are behind alike: they hold a whole round now and
then, while each of them gets no more than its share. Two kinds are told:

* *company*: the rounds in which two clients were there, of the last 64, correlate by `ALIKE` or more, or are all the
  same. A company of more than half of all registered clients is the population, and is let be. Clients that registered
  in the last 64 rounds of a run keep company, for nobody knows how they come and go.
* *a band*: any `band` N clients next to each other in the order of how often they come; equals are in it by lot.

Of either the inner scheduler sees at most ceil(share m) - 1, those that were asked least so far (who registered later
counts as asked at a fair rate before); slots that nobody else can take stay empty. That is a share of m, not of those
asked: in a thin round few are many, whoever they are, so a step must count for as much of a full one as there are
updates in it (`Gate(max_weight=1)`).

Clients that are not alike in either way hold such a share by chance: of N = 100 any ten hold four or more of m = 10
slots in .8 % of the rounds (hypergeometric), under any rule that cannot tell them.
"""

from __future__ import annotations

import math
from bisect import bisect
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.marks import PER_CLIENT
from fedparity.core.types import BoolArray, Cohort, FloatArray, Ids, RoundView
from fedparity.schedulers.draws import unknown
from fedparity.schedulers.inner import Wrapper, counted, only

MEMORY, ENOUGH = 64, 8
"""Rounds that are remembered, and that must have passed before two clients can be told to keep company."""
ALIKE = 0.5
LOOKED_AT = 256
"""Of more clients online only so many are looked at, those asked least."""
ROOM = 1.5
"""Bands are so narrow that their shares add up to so many cohorts: else slots would stay empty among equals."""
LEVELS = 1024
"""Steps in which rates are told apart."""


@dataclass(slots=True)
class Attended:
    """The inner scheduler's memory, and who was there in the last 64 rounds."""

    inner: Any = field(metadata=PER_CLIENT)
    rounds: NDArray[np.uint64] = field(metadata=PER_CLIENT)
    """One bit per round, the last one lowest."""


@dataclass(frozen=True, slots=True)
class WithCompany(Wrapper):
    """Any scheduler, with clients that come and go alike kept below a share of each round."""

    share: float = 1 / 3
    """What clients of a kind may not hold of a full cohort; lower is stricter."""
    band: float = 0.2
    """Share of all clients that are of a kind by how often they come; more is stricter, 0 looks at company alone."""

    def __post_init__(self) -> None:
        Wrapper.__post_init__(self)
        checks.between("share", self.share, 0.01, 1)
        checks.between("band", self.band, 0, 1)

    def init(self, num_clients: int) -> Attended:
        """Nobody was there."""
        return Attended(self.policy.init(num_clients), np.zeros(num_clients, np.uint64))

    def select(self, state: Attended, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, Attended]:
        """The inner scheduler's choice among those that are not too many of a kind."""
        whole = view.whole or view
        state.rounds <<= np.uint64(1)
        state.rounds[whole.available] |= np.uint64(1)
        seen = view
        if view.ledger.rounds + 1 >= ENOUGH and len(view.available) > 1:
            lot = rng.permutation(len(view.available))
            order = lot[np.argsort(_given(view)[lot], kind="stable")][:LOOKED_AT]
            ids = view.available[order]
            most = max(1, math.ceil(self.share * view.cohort) - 1)
            places = _places(view.ledger, ids, rng)
            width = min(self.band, most / (ROOM * view.cohort))
            hidden = _beyond(self._company(state, ids, view), places, most, width)
            visible = np.ones(len(view.available), dtype=np.bool_)
            visible[order[hidden]] = False
            seen = view if visible.all() else only(replace(view, whole=whole), visible, view.cohort)
        cohort, state.inner = self.policy.select(state.inner, seen, rng)
        # Who is hidden is drawn by lot among equals, so chances are no longer what the inner scheduler says.
        return cohort if seen is view else replace(unknown(cohort.clients), wasted=cohort.wasted), state

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


def _beyond(company: BoolArray, places: FloatArray, most: int, width: float) -> list[int]:
    """Who comes after `most` others of its company, or of clients less than `width` apart."""
    kept, plural = np.zeros(len(company), dtype=np.bool_), (company.sum(axis=1) > most).tolist()
    taken: list[float] = []
    hidden = []
    for at, place in enumerate(places.tolist()):
        where = bisect(taken, place)
        near = [*taken[max(0, where - most) : where], place, *taken[where : where + most]]
        crowded = any(near[j + most] - near[j] < width for j in range(len(near) - most))
        if crowded or (plural[at] and np.count_nonzero(company[at] & kept) >= most):
            hidden.append(at)
        else:
            kept[at] = True
            taken.insert(where, place)
    return hidden


def _given(view: RoundView) -> FloatArray:
    """How often each of the available was asked; before it registered, as often as is fair: new names push nobody."""
    given = view.ledger.selected[view.available].astype(np.float64)
    if view.ledger.since is not None:
        fair = view.cohort / max(1, int(np.count_nonzero(counted(view.ledger, MEMORY))))
        given += view.ledger.since[view.available] * fair
    return given


def _places(ledger: Ledger, clients: Ids, rng: np.random.Generator) -> FloatArray:
    """Where clients stand among the population, from 0 to 1, by how often they come; equals by lot."""
    since = 0 if ledger.since is None else ledger.since
    levels = (ledger.online * (LEVELS / np.maximum(ledger.rounds - since, 1))).astype(np.int64)
    count = np.bincount(levels[counted(ledger, MEMORY)], minlength=int(levels.max()) + 1)
    below = np.cumsum(count) - count
    mine = levels[clients]
    return np.asarray((below[mine] + rng.random(len(clients)) * count[mine]) / max(1, count.sum()), dtype=np.float64)


def _together(attendance: NDArray[np.uint64], rounds: int) -> BoolArray:
    """Which pairs of clients come and go together; each does with itself."""
    bits = (attendance[:, None] >> np.arange(rounds, dtype=np.uint64)) & np.uint64(1)
    there = bits.astype(np.float64)
    there -= there.mean(axis=1, keepdims=True)
    length = np.sqrt((there * there).sum(axis=1, keepdims=True))
    there /= np.where(length > 0, length, 1.0)
    alike = np.einsum("it,jt->ij", there, there) >= ALIKE
    return np.asarray(alike | (attendance[:, None] == attendance))
