"""Adaptive server steps (Reddi et al., Adaptive Federated Optimization, ICLR 2021).

    m <- b1 m + (1 - b1) d       w <- w + rate schedule(t) m / (sqrt(v) + eps)
    adam:  v <- b2 v + (1 - b2) d^2
    yogi:  v <- v - (1 - b2) d^2 sign(v - d^2)

d is the aggregated update. As in the paper there is no bias correction, and v starts at eps^2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.types import Vector
from fedparity.servers.rate_schedules import RateSchedule, rate_schedule_of


@dataclass(slots=True)
class Moments:
    """First and second moments of the updates."""

    first: NDArray[np.float64]
    second: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Steps scaled by the size of earlier updates, coordinate by coordinate (FedAdam, FedYogi)."""

    rate: float = 0.01
    """Server learning rate; higher takes longer steps."""
    b1: float = 0.9
    """Weight of past updates in the first moment; closer to 1 is smoother."""
    b2: float = 0.99
    """Weight of past updates in the second moment; closer to 1 adapts more slowly."""
    eps: float = 1e-3
    """Added to the root of the second moment; higher adapts less from coordinate to coordinate."""
    second: Literal["adam", "yogi"] = "adam"
    """How the second moment moves: towards an update's square (adam), or by its size (yogi)."""
    schedule: str | Mapping[str, Any] | RateSchedule = "constant"
    """What the rate is multiplied by in each round: a name of `fedparity list schedules`, its keys as a=1;b=2."""
    reference: ClassVar[str] = "Reddi et al., Adaptive Federated Optimization, ICLR 2021"

    def __post_init__(self) -> None:
        checks.positive("rate", self.rate)
        checks.between("b1", self.b1, 0, 0.9999)
        checks.between("b2", self.b2, 0, 0.99999)
        checks.positive("eps", self.eps)
        object.__setattr__(self, "schedule", rate_schedule_of(self.schedule))

    def init(self, size: int) -> Moments:
        """Nothing moved yet."""
        return Moments(np.zeros(size), np.full(size, self.eps**2))

    def step(self, state: Moments, params: Vector, update: Vector, round: int) -> tuple[Vector, Moments]:
        """Along the first moment, over the root of the second."""
        d = np.asarray(update, dtype=np.float64)
        first = self.b1 * state.first + (1 - self.b1) * d
        if self.second == "adam":
            second = self.b2 * state.second + (1 - self.b2) * d**2
        else:
            second = state.second - (1 - self.b2) * d**2 * np.sign(state.second - d**2)
        rate = self.rate * cast("RateSchedule", self.schedule).scale(round)
        step = rate * first / (np.sqrt(np.maximum(second, 0.0)) + self.eps)
        return (params + step).astype(params.dtype, copy=False), Moments(first, second)
