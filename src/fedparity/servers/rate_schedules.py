"""Learning-rate schedules: what a rate is multiplied by in each round.

constant  1                      inverse  1 / (1 + t / every)            sqrt  1 / sqrt(1 + t / every)
step      factor^(t // every)    cosine   (1 + cos(pi min(1, t / every))) / 2, at least `floor`
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from fedparity.core import checks
from fedparity.core.registry import Registry


class RateSchedule(Protocol):
    """What a learning rate is multiplied by."""

    def scale(self, round: int) -> float:
        """The factor in that round."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """The rate as it is."""

    def scale(self, round: int) -> float:
        """1."""
        return 1.0


@dataclass(frozen=True, slots=True)
class Inverse:
    """1 / (1 + t / every): MIFA's with every=1."""

    every: float = 1.0
    """Rounds after which the rate is halved; more decay more slowly."""

    def __post_init__(self) -> None:
        checks.positive("every", self.every)

    def scale(self, round: int) -> float:
        """1 / (1 + t / every)."""
        return 1 / (1 + round / self.every)


@dataclass(frozen=True, slots=True)
class InverseRoot:
    """1 / sqrt(1 + t / every): FedAWE's with every=10."""

    every: float = 10.0
    """Rounds after which the rate is divided by sqrt(2); more decay more slowly."""

    def __post_init__(self) -> None:
        checks.positive("every", self.every)

    def scale(self, round: int) -> float:
        """1 / sqrt(1 + t / every)."""
        return 1 / math.sqrt(1 + round / self.every)


@dataclass(frozen=True, slots=True)
class Step:
    """Times `factor` after every so many rounds."""

    every: int = 100
    """Rounds from one step to the next; more decay more slowly."""
    factor: float = 0.5
    """What the rate is multiplied by at each step; lower decays faster."""

    def __post_init__(self) -> None:
        checks.at_least("every", self.every, 1)
        checks.positive("factor", self.factor)

    def scale(self, round: int) -> float:
        """factor^(t // every)."""
        return float(self.factor ** (round // self.every))


@dataclass(frozen=True, slots=True)
class Cosine:
    """Half a cosine from 1 down to `floor` over so many rounds."""

    every: int = 100
    """Rounds until the rate reaches its floor; more decay more slowly."""
    floor: float = 0.0
    """Lowest factor on the rate (0 to 1); higher goes on learning faster at the end."""

    def __post_init__(self) -> None:
        checks.at_least("every", self.every, 1)
        checks.between("floor", self.floor, 0, 1)

    def scale(self, round: int) -> float:
        """The cosine, then `floor`; a floor of 0 still leaves a billionth, since a rate of 0 is no rate."""
        along = (1 + math.cos(math.pi * min(1.0, round / self.every))) / 2
        return max(self.floor + (1 - self.floor) * along, 1e-9)


@dataclass(frozen=True, slots=True)
class Scaled:
    """Another schedule, times a number."""

    inner: RateSchedule
    by: float = 1.0

    def scale(self, round: int) -> float:
        """The other's factor times the number."""
        return self.by * self.inner.scale(round)


RATE_SCHEDULES: Registry[RateSchedule] = Registry(
    "schedule",
    {"constant": Constant, "inverse": Inverse, "sqrt": InverseRoot, "step": Step, "cosine": Cosine},
    group="rate_schedules",
    needs=RateSchedule,
)


def rate_schedule_of(given: str | Mapping[str, Any] | RateSchedule) -> RateSchedule:
    """Inside another component: an object, a table, or `NAME[:key=value;...]`, as commas part that one's own keys."""
    return RATE_SCHEDULES.of(given.replace(";", ",") if isinstance(given, str) else given)
