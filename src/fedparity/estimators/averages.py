"""How available each client is, from what the server saw: online counts, a window, a fading memory, a posterior.

    RunningMean     (online + a) / (rounds + a + b);  a = b = 0 is Algorithm 1 of the paper
    SlidingWindow   the same over the last `window` rounds
    Exponential     sum_s rate (1 - rate)^(t - s) A(s) / (1 - (1 - rate)^t): recent rounds count more
    BetaPosterior   a quantile of Beta(a + online, b + rounds - online)

A round costs what its available clients cost, not what all registered clients would: states change in place, and decay
is caught up with when a client is next looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedparity.core.checks import at_least, between, not_negative, positive
from fedparity.core.marks import CLIENT_NUMBERS, PER_CLIENT
from fedparity.core.protocols import Estimator
from fedparity.core.types import FloatArray, Ids

FLOOR = 1e-9
"""Where a fading memory would reach 0: schedulers divide by what is estimated."""


@dataclass(slots=True)
class Counts:
    """In how many of `rounds` rounds each client was online."""

    rounds: int
    online: NDArray[np.int32] = field(metadata=PER_CLIENT)


class _Counting(Estimator[Counts]):
    """An estimator of nothing but how often clients were online."""

    __slots__ = ()

    def init(self, num_clients: int) -> Counts:
        """The state before the first round."""
        return Counts(0, np.zeros(num_clients, np.int32))

    def observe(self, state: Counts, available: Ids) -> Counts:
        """Take in who was online in one more round."""
        state.online[available] += 1
        state.rounds += 1
        return state


@dataclass(frozen=True, slots=True)
class RunningMean(_Counting):
    """The share of rounds online, with a Beta(a, b) prior; a = b = 0 is the paper's Algorithm 1."""

    a: float = 1.0
    """Prior rounds online, as if seen before round 0; higher starts out more available and learns more slowly."""
    b: float = 1.0
    """Prior rounds offline, as if seen before round 0; higher starts out rarer and learns more slowly."""

    def __post_init__(self) -> None:
        not_negative("a", self.a)
        not_negative("b", self.b)

    def estimate(self, state: Counts, clients: Ids) -> FloatArray:
        """Estimated availability of `clients`; without a prior, 0 for those never seen."""
        weight = state.rounds + self.a + self.b
        return np.asarray((state.online[clients] + self.a) / (weight or 1), dtype=np.float64)


@dataclass(slots=True)
class Window:
    """Who was online in the last rounds, and how often that makes for each client."""

    recent: tuple[NDArray[np.int32], ...] = field(metadata=CLIENT_NUMBERS)
    online: NDArray[np.int32] = field(metadata=PER_CLIENT)


@dataclass(frozen=True, slots=True)
class SlidingWindow(Estimator[Window]):
    """The share of the last `window` rounds online, with a Beta(a, b) prior."""

    window: int = 50
    """Rounds looked back over; fewer follow changes faster, more are steadier."""
    a: float = 1.0
    """Prior rounds online; above 0, so that a client away for a whole window may still come back."""
    b: float = 1.0
    """Prior rounds offline; higher takes everybody for rarer."""

    def __post_init__(self) -> None:
        at_least("window", self.window, 1)
        positive("a", self.a)
        not_negative("b", self.b)

    def init(self, num_clients: int) -> Window:
        """The state before the first round."""
        return Window((), np.zeros(num_clients, np.int32))

    def observe(self, state: Window, available: Ids) -> Window:
        """Take in who was online in one more round."""
        if len(state.recent) == self.window:
            state.online[state.recent[0]] -= 1
            state.recent = state.recent[1:]
        state.online[available] += 1
        state.recent = (*state.recent, available.astype(np.int32))
        return state

    def estimate(self, state: Window, clients: Ids) -> FloatArray:
        """Estimated availability of `clients`."""
        weight = len(state.recent) + self.a + self.b
        return np.asarray((state.online[clients] + self.a) / weight, dtype=np.float64)


@dataclass(slots=True)
class Fading:
    """Each client's decayed sum as it was after round `last`."""

    rounds: int
    value: FloatArray = field(metadata=PER_CLIENT)
    last: NDArray[np.int32] = field(metadata=PER_CLIENT)


@dataclass(frozen=True, slots=True)
class Exponential(Estimator[Fading]):
    """A share of rounds online in which old rounds fade by a factor 1 - rate a round."""

    rate: float = 0.05
    """Weight of the newest round; higher follows changes faster and forgets faster."""

    def __post_init__(self) -> None:
        between("rate", self.rate, 1e-6, 1)

    def _decayed(self, state: Fading, clients: Ids) -> FloatArray:
        with np.errstate(under="ignore"):
            fade = (1 - self.rate) ** (state.rounds - state.last[clients]).astype(np.float64)
            return np.asarray(state.value[clients] * fade, dtype=np.float64)

    def init(self, num_clients: int) -> Fading:
        """The state before the first round."""
        return Fading(0, np.zeros(num_clients), np.zeros(num_clients, np.int32))

    def observe(self, state: Fading, available: Ids) -> Fading:
        """Take in who was online in one more round."""
        state.rounds += 1
        state.value[available] = self._decayed(state, available) + self.rate
        state.last[available] = state.rounds
        return state

    def estimate(self, state: Fading, clients: Ids) -> FloatArray:
        """Estimated availability of `clients`; one half before the first round."""
        if not state.rounds:
            return np.full(len(clients), 0.5)
        seen = 1 - (1 - self.rate) ** state.rounds
        return np.clip(self._decayed(state, clients) / seen, FLOOR, 1)


@dataclass(frozen=True, slots=True)
class BetaPosterior(_Counting):
    """A quantile of the posterior of the rate under a Beta(a, b) prior: low ones are cautious."""

    a: float = 1.0
    """Prior rounds online, as if seen before round 0; higher starts out more available and learns more slowly."""
    b: float = 1.0
    """Prior rounds offline, as if seen before round 0; higher starts out rarer and learns more slowly."""
    quantile: float = 0.5
    """Quantile of the posterior that is the estimate; lower takes clients seldom seen for rarer."""

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            positive(name, getattr(self, name))
            between(name, getattr(self, name), 1e-9, 1e9)  # less of it and a client nobody saw has no rate
        between("quantile", self.quantile, 0.001, 0.999)

    def estimate(self, state: Counts, clients: Ids) -> FloatArray:
        """Estimated availability of `clients`."""
        from scipy.special import betaincinv

        online = state.online[clients].astype(np.float64)
        found = betaincinv(self.a + online, self.b + state.rounds - online, self.quantile)
        return np.clip(np.asarray(found, dtype=np.float64), FLOOR, 1)
