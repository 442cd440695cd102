"""Availability that breaks assumptions: heavy-tailed bursts, and patterns built against a scheduler.

    Bursty   on and off sojourns alternate, P(sojourn > x) = (x_min / x)^tail, with means mean_on and
             mean_on (1 - pi) / pi, so that a client is online in a share pi of the time

The first sojourn is drawn from the law of what is left of one under way, (1/tail) (x_min / x)^(tail - 1) beyond x_min,
which makes every round's rate pi; below tail = 2 sojourns have no variance and a mean over rounds converges slowly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedparity.availability.rates import check_bounds, check_size, uniform_rates
from fedparity.core.checks import at_least, between
from fedparity.core.errors import ConfigError
from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import BoolArray, FloatArray


@dataclass(frozen=True, slots=True)
class Bursty:
    """Bursts and absences of Pareto-distributed length: a few absences outlast the run."""

    tail: float = 1.3
    """Exponent of the Pareto law of lengths; closer to 1 gives more sessions and absences without end."""
    mean_on: float = 5.0
    """Mean length of a session, in rounds; absences are longer in proportion."""
    low: float = 0.05
    """Lowest rate (share of rounds online) that a client can draw."""
    high: float = 0.6
    """Highest rate (share of rounds online) that a client can draw."""

    def __post_init__(self) -> None:
        between("tail", self.tail, 1.01, 100)
        between("mean_on", self.mean_on, 1, 1e9)
        check_bounds(self.low, self.high)
        between("low", self.low, 1e-6, 1)

    def client_rates(self, num_clients: int, seed: int) -> FloatArray:
        """How often each client is online in the long run."""
        return uniform_rates(num_clients, self.low, self.high, seed)

    def _sojourn(self, mean: FloatArray, rng: np.random.Generator) -> FloatArray:
        shortest = mean * (self.tail - 1) / self.tail
        return np.asarray(shortest * (1 - rng.random(len(mean))) ** (-1 / self.tail), dtype=np.float64)

    def _residual(self, mean: FloatArray, rng: np.random.Generator) -> FloatArray:
        left = 1 - rng.random(len(mean))
        shortest = mean * (self.tail - 1) / self.tail
        with np.errstate(over="ignore"):  # an infinite sojourn outlasts every run, as it should
            beyond = shortest * (self.tail * left) ** (-1 / (self.tail - 1))
        return np.where(left > 1 / self.tail, mean * (1 - left), beyond)

    def draw(self, num_clients: int, rounds: int, seed: int) -> Trace:
        """One realisation for `num_clients` clients over `rounds` rounds."""
        check_size(num_clients, rounds)
        rates = self.client_rates(num_clients, seed)
        mean_off = self.mean_on * (1 - rates) / rates
        rng = stream(seed, "sojourns")
        online: BoolArray = rng.random(num_clients) < rates
        until = self._residual(np.where(online, self.mean_on, mean_off), rng)
        ids = []
        for t in range(rounds):
            rng = stream(seed, "availability", t)
            while len(due := np.flatnonzero(until <= t)):
                online[due] = ~online[due]
                until[due] += self._sojourn(np.where(online[due], self.mean_on, mean_off[due]), rng)
            ids.append(np.flatnonzero(online).astype(np.int32))
        return Trace.from_rounds(num_clients, ids)


@dataclass(frozen=True, slots=True)
class Adversarial:
    """Patterns against a scheduler: clients that leave for good, or that all come in the same rounds."""

    kind: Literal["departures", "crowding"] = "departures"
    """departures: all are there at first and leave one after another, spread over the run, so whoever waits for later
    starves those who leave first; crowding: half are always there, the other half only together."""
    every: int = 10
    """With crowding: rounds from one visit of the other half to the next; more leave it fewer chances."""

    def __post_init__(self) -> None:
        if self.kind not in ("departures", "crowding"):
            raise ConfigError(f"kind={self.kind!r} must be departures or crowding")
        at_least("every", self.every, 1)

    def draw(self, num_clients: int, rounds: int, seed: int) -> Trace:
        """One realisation for `num_clients` clients over `rounds` rounds."""
        check_size(num_clients, rounds)
        place = stream(seed, "order").permutation(num_clients)
        if self.kind == "departures":
            gone = -(-(place + 1) * rounds // num_clients)
            return Trace.from_rounds(num_clients, (np.flatnonzero(t < gone) for t in range(rounds)))
        regular = place < (num_clients + 1) // 2
        return Trace.from_rounds(num_clients, (np.flatnonzero(regular | (t % self.every == 0)) for t in range(rounds)))
