"""A forecast: in how many of the next rounds a client that is here now will be here again, learned as rounds go by.

    expected at t + h:   b + nu^h (1 - b)          b = rate_k (rhythm(t + h) + own_k(t + h)) / 2

* `nu` is how long a state lasts: the correlation of one round with the next in a two-state chain. The sessions that
  began are compared with those of independent rounds. Long sessions also spread the counts, by a factor of
  D(nu, t) = t Var(mean of t rounds) / (pi (1 - pi)); the equation allows for it, and is solved by bisection:

      begun / ((t - 1) sum_k p_k (1 - p_k)) = (1 - nu) / (1 - D(nu, t) / t)              p_k: share of rounds online

* `rate_k` is the posterior mean of the client's rate in that chain. A round that begins or ends a session is a fresh
  draw; one that is like the last is so with probability (1 - nu) pi / (nu + (1 - nu) pi) (online) or the same with
  1 - pi (offline), and counts for as much: a long session is not taken for a high rate. The prior is a Beta law with
  the moments of all clients' counts so far (empirical Bayes), narrower while few independent rounds were seen.
* `rhythm` is the population's day, in `bins` parts of a period of `period` rounds, relative to its mean; `own_k` is the
  client's own, each part shrunk towards the population's by `shrink` visits. A population without a rhythm learns a
  flat one.

A client costs 12 + 2 `bins` bytes: three counts of 4 bytes (rounds online, sessions, last seen) and one of 2 bytes for
each part of the day. `Oracle` knows the trace: the best that any forecast could do, to compare with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from fedparity.core.checks import at_least, between, positive
from fedparity.core.marks import PER_CLIENT
from fedparity.core.protocols import Estimator
from fedparity.core.trace import Trace
from fedparity.core.types import BoolArray, FloatArray, Ids

FULL = np.iinfo(np.uint16).max
LONGEST, BISECTIONS = 0.995, 20
DOUBT = 3.0
"""Independent rounds after which half of what clients differ by is believed."""
ORACLE: Final = "oracle"
"""What the estimator that knows a trace is called: it is in no table, since it must be given one."""


@dataclass(slots=True)
class Memory:
    """What was seen: per client its rounds online, its sessions, the last round, and its day; sums over all clients."""

    rounds: int
    online: NDArray[np.int32] = field(metadata=PER_CLIENT)
    sessions: NDArray[np.int32] = field(metadata=PER_CLIENT)
    last: NDArray[np.int32] = field(metadata=PER_CLIENT)
    day: NDArray[np.uint16] = field(metadata=PER_CLIENT)
    """Clients x bins: visits in each part of the day."""
    squares: float
    """Sum over clients of online^2."""
    visits: FloatArray
    """Visits of all clients in each part of the day."""
    exposure: FloatArray
    """Rounds in each part of the day."""
    begun: float
    """Sessions that began after the first round."""
    nu: float
    """How long a state lasts."""


@dataclass(frozen=True, slots=True)
class Forecast(Estimator[Memory]):
    """Shrunk rate x day rhythm x last state, learned online in 28 bytes per client."""

    period: int = 48
    """Length of a day, in rounds: 48 rounds of half an hour."""
    bins: int = 8
    """Parts of the day told apart; more are finer, take longer to learn and cost 2 bytes per client each."""
    shrink: float = 8.0
    """Visits that the population's rhythm counts for in a client's own; higher learns clients' own more slowly."""

    def __post_init__(self) -> None:
        at_least("period", self.period, 1)
        between("bins", self.bins, 1, 48)
        positive("shrink", self.shrink)

    def init(self, num_clients: int) -> Memory:
        """Nothing was seen."""
        return Memory(
            rounds=0,
            online=np.zeros(num_clients, np.int32),
            sessions=np.zeros(num_clients, np.int32),
            last=np.full(num_clients, -2, np.int32),
            day=np.zeros((num_clients, self.bins), np.uint16),
            squares=0.0,
            visits=np.zeros(self.bins),
            exposure=np.zeros(self.bins),
            begun=0.0,
            nu=0.0,
        )

    def _bin(self, round: int) -> int:
        return round % self.period * self.bins // self.period

    def observe(self, state: Memory, available: Ids) -> Memory:
        """Take in who is online in one more round."""
        now, part = state.rounds, self._bin(state.rounds)
        new = available[state.last[available] != now - 1]
        state.sessions[new] += 1
        if now:
            state.begun += len(new)
        # (c + 1)^2 - c^2 = 2 c + 1: the sum of squares is kept up without looking at those that are away.
        state.squares += float(2 * state.online[available].sum() + len(available))
        state.online[available] += 1
        state.last[available] = now
        # Two bytes per part of the day: a count that is full stays full.
        column = state.day[available, part]
        state.day[available, part] = column + (column < FULL)
        state.visits[part] += len(available)
        state.exposure[part] += 1
        state.rounds += 1
        state.nu = _persistence(state)
        return state

    def _rate(self, state: Memory, clients: Ids) -> FloatArray:
        """Shares of rounds online, shrunk towards the population."""
        n, t, nu = len(state.online), state.rounds, state.nu
        seen = max(1.0, t / _inflation(nu, t))
        mean = float(np.clip(state.visits.sum() / (n * t), 1e-6, 1 - 1e-6))
        spread = state.squares / (n * t * t) - mean * mean
        # Var(count / t) = mean (1 - mean) (rho + (1 - rho) / seen) for a Beta-binomial with correlation rho.
        rho = (spread / (mean * (1 - mean)) - 1 / seen) / max(1 - 1 / seen, 1e-9)
        # What spreads beyond chance is told by rounds that are independent: a few long sessions tell next to nothing.
        rho = float(np.clip(rho, 0.0, 1.0)) * (seen - 1) / (seen - 1 + DOUBT)
        # rho = 1 / (a + b + 1), so this is a + b: how many rounds the population's mean counts for.
        prior = 1 / float(np.clip(rho, 0.01, 0.99)) - 1
        online = state.online[clients]
        rate = (prior * mean + online * (seen / t)) / (prior + seen)
        if nu == 0:
            return np.asarray(rate, dtype=np.float64)
        begun = state.sessions[clients]
        ended = begun - (state.last[clients] == t - 1)
        fresh_on, fresh_off = (1 - nu) * rate, (1 - nu) * (1 - rate)
        hits = begun + (online - begun) * fresh_on / (nu + fresh_on)
        misses = ended + np.maximum(t - online - ended, 0) * fresh_off / (nu + fresh_off)
        return np.asarray((prior * mean + hits) / (prior + hits + misses), dtype=np.float64)

    def estimate(self, state: Memory, clients: Ids) -> FloatArray:
        """Estimated availability of `clients`."""
        if not state.rounds:
            return np.full(len(clients), 0.5)
        return np.clip(self._rate(state, clients), 1e-9, 1.0)

    def remaining(self, state: Memory, clients: Ids, rounds_left: int) -> FloatArray:
        """In how many of the next `rounds_left` rounds each of `clients`, online now, is expected online."""
        if not rounds_left or not state.rounds:
            return self.estimate(state, clients) * rounds_left
        # How many of the rounds ahead fall into each part of the day; beyond one day, all days are taken to be alike.
        ahead = np.arange(state.rounds, state.rounds + min(rounds_left, self.period))
        parts = np.bincount(ahead % self.period * self.bins // self.period, minlength=self.bins).astype(np.float64)
        if rounds_left > self.period:
            parts *= rounds_left / self.period
        rate = self.estimate(state, clients)
        usual = self._rhythm(state)
        own = self._own(state, clients, rate, usual)
        usually = parts * usual
        # einsum rather than BLAS: the same bits with any number of threads.
        base = rate * 0.5 * (usually.sum() + np.einsum("kb,b->k", own, usually.astype(np.float32)))
        # "Here now" fades by nu per round: nu + nu^2 + ... of the rounds it would otherwise have been away.
        nu = state.nu
        lasting = nu * (1 - nu**rounds_left) / (1 - nu)
        return np.asarray(np.minimum(base + lasting * (1 - rate), rounds_left), dtype=np.float64)

    def futures(
        self, state: Memory, online: BoolArray, rounds: int, samples: int, rng: np.random.Generator
    ) -> BoolArray:
        """Samples of the chain with the rates b above: a round is like the last one with probability nu, else fresh."""
        everybody = np.arange(len(online), dtype=np.int64)
        rate, usual = self.estimate(state, everybody), np.ones(self.bins)
        own = np.ones((len(online), self.bins), np.float32)
        if state.rounds:
            usual = self._rhythm(state)
            own = self._own(state, everybody, rate, usual)
        fresh = np.minimum(rate[:, None] * usual * (1 + own) / 2, 1.0)
        now = np.tile(online, (samples, 1))
        found = np.empty((rounds, *now.shape), dtype=np.bool_)
        for t in range(rounds):
            chance = (1 - state.nu) * fresh[:, self._bin(state.rounds + t)]
            now = rng.random(now.shape) < chance + state.nu * now
            found[t] = now
        return found

    def _own(self, state: Memory, clients: Ids, rate: FloatArray, usual: FloatArray) -> NDArray[np.float32]:
        """own_k = (visits + shrink) / (visits expected + shrink), in place: this is the one table of clients x bins."""
        own = state.day[clients].astype(np.float32)
        own += np.float32(self.shrink)
        expected = np.multiply.outer(rate.astype(np.float32), (state.exposure * usual).astype(np.float32))
        expected += np.float32(self.shrink)
        own /= expected
        return own

    def _rhythm(self, state: Memory) -> FloatArray:
        """The population's day relative to its mean; parts not yet seen are taken as usual."""
        usual = state.visits.sum() / state.rounds
        known = np.where(state.exposure > 0, state.visits / np.maximum(state.exposure, 1), usual)
        shape = (known + 0.1 * usual) / (1.1 * usual) if usual else np.ones(self.bins)
        return np.asarray(shape, dtype=np.float64)


def _inflation(nu: float, rounds: int) -> float:
    """D: how many rounds of a chain tell as much about its rate as one independent round."""
    gone = 1 - nu
    return min(float(rounds), (1 + nu) / gone - 2 * nu * (1 - nu**rounds) / (rounds * gone * gone))


def _persistence(state: Memory) -> float:
    """How much of "here now" is left after one round, beyond the rate."""
    t, visits = state.rounds, float(state.visits.sum())
    spread = visits / t - state.squares / (t * t)
    if t < 3 or not visits:
        return 0.0
    begun = state.begun / ((t - 1) * spread) if spread > 0 else 0.0
    low, high = 0.0, LONGEST
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if (1 - middle) / max(1 - _inflation(middle, t) / t, 1e-9) > begun:
            low = middle
        else:
            high = middle
    return low


@dataclass(slots=True)
class Left:
    """The rounds so far, and the rounds online that are left to each client."""

    rounds: int
    left: NDArray[np.int64] = field(metadata=PER_CLIENT)


@dataclass(frozen=True, slots=True)
class Oracle(Estimator[Left]):
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

    def futures(self, state: Left, online: BoolArray, rounds: int, samples: int, rng: np.random.Generator) -> BoolArray:
        """What will really come, as often as asked for."""
        found = np.zeros((rounds, samples, len(online)), dtype=np.bool_)
        for t in range(min(rounds, self.trace.num_rounds - state.rounds)):
            found[t][:, self.trace.online(state.rounds + t)] = True
        return found
