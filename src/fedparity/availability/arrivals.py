"""A population that is not there from the start: clients arrive, and leave for good, around any other model.

    A_k(t) = A'_k(t) * [arrival_k <= t < departure_k]        A': the model inside

The first `founders` of all clients are there in round 0; each other one arrives with probability `arrive` per round,
and whoever has arrived leaves for good with probability `leave` per round. Clients are numbered in the order in which
they arrive, as a server that registers them would.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedparity.availability.rates import check_size
from fedparity.core import checks
from fedparity.core.protocols import Availability
from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import Ids

NEVER = 2**31
"""A round that no run reaches."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Clients that arrive in the course of the run and leave for good, around another model."""

    inner: str = "bernoulli"
    """Who is there of those that have arrived: a model, its parameters separated by `;` instead of commas."""
    founders: float = 0.5
    """Share of all clients that are there from the start, at least one; the others arrive later."""
    arrive: float = 0.05
    """Chance per round that a client arrives that has not; higher fills the population sooner."""
    leave: float = 0.0
    """Chance per round that a client that has arrived leaves for good; higher turns it over faster."""

    def __post_init__(self) -> None:
        self._model()
        checks.between("founders", self.founders, 0, 1)
        checks.between("arrive", self.arrive, 0, 1)
        checks.between("leave", self.leave, 0, 1)

    def _model(self) -> Availability:
        from fedparity.availability import AVAILABILITY

        return AVAILABILITY.build(self.inner.replace(";", ","))

    def arrivals(self, num_clients: int, seed: int) -> tuple[Ids, Ids]:
        """The first round of each client, ascending, and the first round after which it is gone."""
        rng = stream(seed, "arrivals")
        first = _waits(rng, self.arrive, num_clients)
        first[: max(1, math.floor(self.founders * num_clients))] = 0
        first.sort()
        return first, first + _waits(rng, self.leave, num_clients)

    def draw(self, num_clients: int, rounds: int, seed: int) -> Trace:
        """One realisation for `num_clients` clients over `rounds` rounds."""
        check_size(num_clients, rounds)
        first, gone = self.arrivals(num_clients, seed)
        inside = self._model().draw(num_clients, rounds, seed)
        return Trace.from_rounds(
            num_clients, (ids[(first[ids] <= t) & (t < gone[ids])].astype(np.int32) for t, ids in enumerate(inside))
        )


def _waits(rng: np.random.Generator, chance: float, count: int) -> Ids:
    """Rounds until something that happens with a chance per round, at least 1."""
    uniform = rng.random(count)
    if chance in {0, 1}:
        return np.full(count, 1 if chance else NEVER, dtype=np.int64)
    rounds = 1 + np.floor(np.log1p(-uniform) / math.log1p(-chance))
    return np.asarray(np.minimum(rounds, NEVER), dtype=np.int64)
