"""Rates that move with the clock: a sine (F3AST), a staircase (FedAWE) and a fixed cycle (FedAU).

    Diurnal    pi_k (.4 sin(2 pi t / period + phase_k) + .5)
    Staircase  pi_k, then factor pi_k, alternating every `period` rounds
    Cyclic     online in ceil(pi_k period) consecutive rounds of every `period`, from a random phase

F3AST gives all clients the same phase (`spread=0`); we spread them over a part of the period, as time zones do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.availability.rates import check_bounds, check_size, independent_rounds, uniform_rates
from fedparity.core.checks import at_least, between
from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import FloatArray


@dataclass(frozen=True, slots=True)
class Diurnal:
    """Day and night: rates follow a sine, with phases spread over a part of the day."""

    period: int = 24
    """Length of a day, in rounds."""
    low: float = 0.2
    """Lowest rate (share of rounds online) that a client can draw."""
    high: float = 1.0
    """Highest rate (share of rounds online) that a client can draw."""
    spread: float = 0.25
    """Part of a period over which phases are spread: 0 is one night for all, 1 the whole globe."""
    swing: float = 0.4
    """Height of the wave, as a share of a client's rate; 0 is no rhythm, higher empties the nights."""
    level: float = 0.5
    """Mean of the wave, as a share of a client's rate; higher makes everybody more available."""
    reference: ClassVar[str] = "F3AST: Ribero, Vikalo, de Veciana, IEEE JSTSP 2023, arXiv 2205.06730"

    def __post_init__(self) -> None:
        at_least("period", self.period, 1)
        check_bounds(self.low, self.high)
        for name in ("spread", "swing", "level"):
            between(name, getattr(self, name), 0, 1)

    def draw(self, num_clients: int, rounds: int, seed: int) -> Trace:
        """One realisation for `num_clients` clients over `rounds` rounds."""
        rates = uniform_rates(num_clients, self.low, self.high, seed)
        phase = 2 * np.pi * self.spread * stream(seed, "phases").random(num_clients)

        def rate(t: int) -> FloatArray:
            wave = self.swing * np.sin(2 * np.pi * (t % self.period) / self.period + phase) + self.level
            return np.clip(rates * wave, 0, 1)

        return independent_rounds(num_clients, rounds, seed, rate)


@dataclass(frozen=True, slots=True)
class Staircase:
    """Rates that drop by a factor and come back, every `period` rounds."""

    period: int = 10
    """Rounds from one step to the next, down or up."""
    factor: float = 0.4
    """What rates are multiplied by after a step down; lower makes deeper steps, 1 none."""
    low: float = 0.2
    """Lowest rate (share of rounds online) that a client can draw."""
    high: float = 1.0
    """Highest rate (share of rounds online) that a client can draw."""
    reference: ClassVar[str] = "FedAWE: Xiang, Ioannidis, Yeh, Joe-Wong, Su, NeurIPS 2024, arXiv 2409.17446"

    def __post_init__(self) -> None:
        at_least("period", self.period, 1)
        between("factor", self.factor, 0, 1)
        check_bounds(self.low, self.high)

    def draw(self, num_clients: int, rounds: int, seed: int) -> Trace:
        """One realisation for `num_clients` clients over `rounds` rounds."""
        rates = uniform_rates(num_clients, self.low, self.high, seed)
        steps = (rates, self.factor * rates)
        return independent_rounds(num_clients, rounds, seed, lambda t: steps[t // self.period % 2])


@dataclass(frozen=True, slots=True)
class Cyclic:
    """Fixed shifts: each client is online for the same part of every period, from a phase of its own."""

    period: int = 100
    """Length of a cycle, in rounds; longer ones give longer absences."""
    low: float = 0.2
    """Lowest rate (share of rounds online) that a client can draw."""
    high: float = 1.0
    """Highest rate (share of rounds online) that a client can draw."""
    reference: ClassVar[str] = "FedAU: Wang, Ji, ICLR 2024, arXiv 2306.03401"

    def __post_init__(self) -> None:
        at_least("period", self.period, 1)
        check_bounds(self.low, self.high)

    def client_rates(self, num_clients: int, seed: int) -> FloatArray:
        """How often each client is online over whole periods: ceil(pi period) / period."""
        rates = uniform_rates(num_clients, self.low, self.high, seed)
        # .07 * 100 is 7.000000000000001, which is meant to be 7 rounds.
        return np.asarray(np.ceil(rates * self.period - 1e-9) / self.period, dtype=np.float64)

    def draw(self, num_clients: int, rounds: int, seed: int) -> Trace:
        """One realisation for `num_clients` clients over `rounds` rounds."""
        check_size(num_clients, rounds)
        active = np.rint(self.client_rates(num_clients, seed) * self.period)
        phase = stream(seed, "phases").integers(self.period, size=num_clients)
        return Trace.from_rounds(
            num_clients, (np.flatnonzero((t + phase) % self.period < active) for t in range(rounds))
        )
