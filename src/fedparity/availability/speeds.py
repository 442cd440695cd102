"""How fast clients' devices are: what turns local steps into seconds, so that latency is part of a simulation.

    d_k(t) = steps_k s_k e^(jitter z),   z standard normal, keyed by round and client

steps_k is what one participation of client k takes (`Task.local_steps`), s_k the seconds per step on its device. What a
client trains beside the shared model (Ditto, PHP-FL) is not counted. Simulated durations follow from the spec
and are journalled; what a real system measures is telemetry (`ClientReport.seconds`) and is not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from fedparity.core.checks import at_least, between, positive
from fedparity.core.errors import ConfigError
from fedparity.core.registry import Registry
from fedparity.core.rng import stream
from fedparity.core.types import ClientReport, FloatArray, RoundPlan


class Speed(Protocol):
    """How fast devices are."""

    @property
    def jitter(self) -> float:
        """Standard deviation, from round to round, of the log of a client's duration."""
        ...

    def seconds_per_step(self, num_clients: int, seed: int) -> FloatArray:
        """What one local step takes on the device of each client."""
        ...


@dataclass(frozen=True, slots=True)
class LogNormalSpeed:
    """Seconds per local step, log-normal over devices."""

    median: float = 0.1
    """Seconds that the middle device needs for one local step; higher makes everybody slower."""
    sigma: float = 1.0
    """Standard deviation of the log of a device's seconds per step; 0 is equal devices, higher differ more."""
    jitter: float = 0.1
    """Standard deviation of the log of a client's duration from round to round; 0 takes the same time every round."""

    def __post_init__(self) -> None:
        positive("median", self.median)
        between("sigma", self.sigma, 0, 10)
        between("jitter", self.jitter, 0, 10)

    def seconds_per_step(self, num_clients: int, seed: int) -> FloatArray:
        """The median times e^(sigma z_k)."""
        at_least("clients", num_clients, 1)
        return np.asarray(self.median * np.exp(self.sigma * stream(seed, "speed").standard_normal(num_clients)))


@dataclass(frozen=True, slots=True)
class GivenSpeed:
    """Seconds per local step as they are given."""

    rates: tuple[float, ...] = ()
    """Seconds that one local step takes, one number per client; higher makes that client slower."""
    jitter: float = 0.0
    """Standard deviation of the log of a client's duration from round to round; 0 takes the same time every round."""

    def __post_init__(self) -> None:
        if not self.rates:
            raise ConfigError("rates is empty; give the seconds of one local step for each client, rates=.1/.4")
        for rate in self.rates:
            positive("rates", rate)
        between("jitter", self.jitter, 0, 10)

    def seconds_per_step(self, num_clients: int, seed: int) -> FloatArray:
        """The rates."""
        if len(self.rates) != num_clients:
            raise ConfigError(f"rates has {len(self.rates)} values for {num_clients} clients; give one per client")
        return np.array(self.rates, dtype=np.float64)


SPEEDS: Registry[Speed] = Registry("speed", {"lognormal": LogNormalSpeed, "given": GivenSpeed}, needs=Speed)


@dataclass(frozen=True, slots=True, eq=False)
class Clock:
    """How long each simulated client takes for a round."""

    seconds: FloatArray
    """What one participation of each client takes when nothing varies."""
    jitter: float = 0.0

    @classmethod
    def of(cls, speed: Speed, local_steps: FloatArray | None, num_clients: int, seed: int) -> Clock:
        """The clock of a population whose clients take so many local steps per participation."""
        if local_steps is None:
            raise ConfigError("speed needs a task that says how many local_steps a participation takes; leave it out")
        return cls(np.asarray(local_steps * speed.seconds_per_step(num_clients, seed)), speed.jitter)

    def timed(self, report: ClientReport, plan: RoundPlan) -> ClientReport:
        """The report, with how long the client took for it."""
        took = float(self.seconds[report.client])
        if self.jitter:
            z = stream(plan.seed, "duration", plan.round, report.client).standard_normal()
            took *= float(np.exp(self.jitter * z))
        return replace(report, duration=took)
