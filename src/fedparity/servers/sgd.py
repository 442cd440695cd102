"""The plain step, with momentum if wanted (FedAvgM, Hsu et al. 2019).

v <- momentum v + update        w <- w + rate schedule(t) v
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.types import Vector
from fedparity.servers.rate_schedules import RateSchedule, rate_schedule_of


@dataclass(frozen=True, slots=True)
class Sgd:
    """w + rate x update, with momentum if wanted."""

    rate: float = 1.0
    """Server learning rate; 1 takes the aggregated update as it is, higher goes further."""
    momentum: float = 0.0
    """Part of the last step that is kept; closer to 1 moves more smoothly and further."""
    schedule: str | Mapping[str, Any] | RateSchedule = "constant"
    """What the rate is multiplied by in each round: a name of `fedparity list schedules`, its keys as a=1;b=2."""
    reference: ClassVar[str] = "Hsu et al., Measuring the Effects of Non-Identical Data Distribution, 2019"

    def __post_init__(self) -> None:
        checks.positive("rate", self.rate)
        checks.between("momentum", self.momentum, 0, 0.9999)
        object.__setattr__(self, "schedule", rate_schedule_of(self.schedule))

    def init(self, size: int) -> NDArray[np.float64] | None:
        """The velocity, if there is momentum."""
        return np.zeros(size) if self.momentum else None

    def step(
        self, state: NDArray[np.float64] | None, params: Vector, update: Vector, round: int
    ) -> tuple[Vector, NDArray[np.float64] | None]:
        """Along the velocity."""
        if state is not None:
            state = self.momentum * state + update
            update = state
        rate = self.rate * cast("RateSchedule", self.schedule).scale(round)
        moved = rate * update
        moved += params  # in place: a model of float64 is large
        return moved.astype(params.dtype, copy=False), state
