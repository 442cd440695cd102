"""A forecast: in how many of the next rounds a client that is here now will be here again, learned as rounds go by.

    expected at t + h:   b + nu^h (1 - b)          b = rate_k (rhythm(t + h) + own_k(t + h)) / 2

* `rate_k` is the client's share of rounds online, shrunk towards the population: a Beta prior fitted to the moments of
all
  counts so far, the number of rounds discounted for their correlation, (1 - nu) / (1 + nu).
* `rhythm` is the population's day, in `bins` parts of a period of `period` rounds, relative to its mean; `own_k` is the
  client's own, each part shrunk towards the population's by `shrink` visits. A population without a rhythm learns a
  flat one.
* `nu` is how long a state lasts: the excess of "online again in the next round" over the rate, over all clients.

A client costs 8 + 2 `bins` bytes: two counts of 4 bytes (rounds online, last seen) and one of 2 bytes a part of the
day. `Oracle` knows the trace: the best that any forecast could do, to compare with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from fedparity.core.checks import at_least, between, positive
from fedparity.core.marks import PER_CLIENT
from fedparity.core.trace import Trace
from fedparity.core.types import FloatArray, Ids

FULL = np.iinfo(np.uint16).max
ORACLE: Final = "oracle"
"""What the estimator that knows a trace is called: it is in no table, since it must be given one."""


@dataclass(slots=True)
class Memory:
    """What was seen: per client its rounds online, the last of them, and its day; sums over all clients."""

    rounds: int
    online: NDArray[np.int32] = field(metadata=PER_CLIENT)
    last: NDArray[np.int32] = field(metadata=PER_CLIENT)
    day: NDArray[np.uint16] = field(metadata=PER_CLIENT)
    """Clients x bins: visits in each part of the day."""
    squares: float
    """Sum over clients of online^2."""
    visits: FloatArray
    """Visits of all clients in each part of the day."""
    exposure: FloatArray
    """Rounds in each part of the day."""
    again: float
    """How often a client online in one round was online in the next."""
    expected: float
    """The sum of their rates at those times: what independence would have given for `again`."""
    chances: float
    """How often a client could have been online again."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Shrunk rate x day rhythm x last state, learned online in 24 bytes a client."""

    period: int = 48
    bins: int = 8
    shrink: float = 8.0

    def __post_init__(self) -> None:
        at_least("period", self.period, 1)
        between("bins", self.bins, 1, 48)
        positive("shrink", self.shrink)

    def init(self, num_clients: int) -> Memory:
        """Nothing was seen."""
        return Memory(
            rounds=0,
            online=np.zeros(num_clients, np.int32),
            last=np.full(num_clients, -2, np.int32),
            day=np.zeros((num_clients, self.bins), np.uint16),
            squares=0.0,
            visits=np.zeros(self.bins),
            exposure=np.zeros(self.bins),
            again=0.0,
            expected=0.0,
            chances=0.0,
        )

    def _bin(self, round: int) -> int:
        return round % self.period * self.bins // self.period

    def observe(self, state: Memory, available: Ids) -> Memory:
        """Take in who is online in one more round."""
        now, part = state.rounds, self._bin(state.rounds)
        seen = state.online[available]
        if now > 1:
            # Everybody online in the last round had a chance to be online again, at its rate by then.
            state.again += float(np.count_nonzero(state.last[available] == now - 1))
        state.squares += float(2 * seen.sum() + len(available))
        state.online[available] += 1
        state.last[available] = now
        column = state.day[available, part]
        state.day[available, part] = column + (column < FULL)
        state.visits[part] += len(available)
        state.exposure[part] += 1
        state.rounds += 1
        # What is expected of this round's clients is added now and compared with the next round.
        state.expected += float(self._rate(state, available).sum())
        state.chances += len(available)
        return state

    def _persistence(self, state: Memory) -> float:
        """How much of "here now" is left after one round, beyond the rate."""
        if state.chances <= state.expected or state.rounds < 3:
            return 0.0
        return float(np.clip((state.again - state.expected) / (state.chances - state.expected), 0.0, 0.99))

    def _rate(self, state: Memory, clients: Ids) -> FloatArray:
        """Shares of rounds online, shrunk towards the population."""
        n, t = len(state.online), state.rounds
        nu = self._persistence(state)
        seen = max(1.0, t * (1 - nu) / (1 + nu))
        mean = float(np.clip(state.visits.sum() / (n * t), 1e-6, 1 - 1e-6))
        spread = state.squares / (n * t * t) - mean * mean
        # Var(count / t) = mean (1 - mean) (rho + (1 - rho) / seen) for a Beta-binomial with correlation rho.
        rho = (spread / (mean * (1 - mean)) - 1 / seen) / max(1 - 1 / seen, 1e-9)
        prior = 1 / float(np.clip(rho, 0.01, 0.99)) - 1
        return np.asarray((prior * mean + state.online[clients] * (seen / t)) / (prior + seen), dtype=np.float64)

    def estimate(self, state: Memory, clients: Ids) -> FloatArray:
        """Estimated availability of `clients`."""
        if not state.rounds:
            return np.full(len(clients), 0.5)
        return np.clip(self._rate(state, clients), 1e-9, 1.0)

    def remaining(self, state: Memory, clients: Ids, rounds_left: int) -> FloatArray:
        """In how many of the next `rounds_left` rounds each of `clients`, online now, is expected online."""
        if not rounds_left or not state.rounds:
            return self.estimate(state, clients) * rounds_left
        ahead = np.arange(state.rounds, state.rounds + min(rounds_left, self.period))
        parts = np.bincount(ahead % self.period * self.bins // self.period, minlength=self.bins).astype(np.float64)
        if rounds_left > self.period:
            parts *= rounds_left / self.period
        rate = self.estimate(state, clients)
        usual = self._rhythm(state)
        # own_k = (visits + shrink) / (visits expected + shrink), in place: this is the one table of clients x bins.
        own = state.day[clients].astype(np.float32)
        own += np.float32(self.shrink)
        expected = np.multiply.outer(rate.astype(np.float32), (state.exposure * usual).astype(np.float32))
        expected += np.float32(self.shrink)
        own /= expected
        usually = parts * usual
        # einsum rather than BLAS: the same bits with any number of threads.
        base = rate * 0.5 * (usually.sum() + np.einsum("kb,b->k", own, usually.astype(np.float32)))
        nu = self._persistence(state)
        lasting = nu * (1 - nu**rounds_left) / (1 - nu)
        return np.asarray(np.minimum(base + lasting * (1 - rate), rounds_left), dtype=np.float64)

    def _rhythm(self, state: Memory) -> FloatArray:
        """The population's day relative to its mean; parts not yet seen are taken as usual."""
        usual = state.visits.sum() / state.rounds
        known = np.where(state.exposure > 0, state.visits / np.maximum(state.exposure, 1), usual)
        shape = (known + 0.1 * usual) / (1.1 * usual) if usual else np.ones(self.bins)
        return np.asarray(shape, dtype=np.float64)


@dataclass(slots=True)
class Left:
    """The rounds so far, and the rounds online that are left to each client."""

    rounds: int
    left: NDArray[np.int64] = field(metadata=PER_CLIENT)


@dataclass(frozen=True, slots=True)
class Oracle:
    """Knows the trace: the rounds in which each client will really be online."""

    hindsight: ClassVar[bool] = True
    trace: Trace = field(metadata={"settable": False})

    def init(self, num_clients: int) -> Left:
        """Everything is still to come."""
        return Left(0, self.trace.counts())

    def observe(self, state: Left, available: Ids) -> Left:
        """One more round has begun."""
        state.left[available] -= 1
        state.rounds += 1
        return state

    def estimate(self, state: Left, clients: Ids) -> FloatArray:
        """The true share of rounds online."""
        return self.trace.rates()[clients]

    def remaining(self, state: Left, clients: Ids, rounds_left: int) -> FloatArray:
        """The true number of rounds online that are left."""
        return state.left[clients].astype(np.float64)
