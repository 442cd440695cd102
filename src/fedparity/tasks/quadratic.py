"""Quadratic clients with a known optimum: the smallest task in which every number can be worked out by hand.

F_k(w) = 1/2 sum_d h_kd (w_d - c_kd)^2        optimum of the mean loss: w*_d = sum_k h_kd c_kd / sum_k h_kd
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.protocols import Measure, Task
from fedparity.core.reprs import brief, one_line
from fedparity.core.rng import stream
from fedparity.core.types import ClientReport, Evals, FloatArray, Ids, Job, Vector
from fedparity.tasks.rule import check_size, train_by_rule


@dataclass(frozen=True, slots=True, eq=False)
class Quadratic(Task):
    """Client k pulls the model towards its own centre c_k with curvature h_k."""

    centres: NDArray[np.float64]
    """Clients x dimensions."""
    curvature: NDArray[np.float64]
    rate: float = 0.1
    steps: int = 5

    __repr__ = brief

    @classmethod
    def random(cls, num_clients: int, dim: int = 4, seed: int = 0, rate: float = 0.1, steps: int = 5) -> Quadratic:
        """Normal centres, curvatures between 1/2 and 2."""
        rng = stream(seed, "quadratic")
        return cls(rng.normal(size=(num_clients, dim)), rng.uniform(0.5, 2.0, (num_clients, dim)), rate, steps)

    def __post_init__(self) -> None:
        for name in ("centres", "curvature"):
            given = np.asarray(getattr(self, name))
            if given.ndim != 2 or given.dtype.kind not in "fiu" or not np.isfinite(given).all():
                raise ConfigError(f"{name}={one_line(given)} must be finite numbers, clients x dimensions")
        if np.shape(self.centres) != np.shape(self.curvature):
            raise ConfigError(f"curvature={one_line(self.curvature)} must have the shape of centres")
        checks.positive("rate", self.rate)
        checks.at_least("steps", self.steps, 1)

    @property
    def num_clients(self) -> int:
        """How many clients hold data."""
        return len(self.centres)

    def optimum(self) -> Vector:
        """The minimiser of the mean loss over all clients."""
        return np.asarray((self.curvature * self.centres).sum(0) / self.curvature.sum(0))

    def init(self, rng: np.random.Generator) -> Vector:
        """Zero."""
        return np.zeros(self.centres.shape[1])

    def _loss(self, params: Vector, client: int) -> float:
        return float(0.5 * (self.curvature[client] * (params - self.centres[client]) ** 2).sum())

    def train(self, job: Job) -> ClientReport:
        """`steps` steps of gradient descent."""
        h, c = self.curvature[job.row], self.centres[job.row]
        check_size(job.params, len(c))

        def descend(w: Vector, pull: float, centre: Vector) -> Vector:
            for _ in range(self.steps):
                w -= job.rate * self.rate * (h * (w - c) + pull * (w - centre))
            return w

        w, beside = train_by_rule(job, descend)
        before, after = self._loss(job.params, job.row), self._loss(w, job.row)
        return job.report(w - job.params, beside, loss_before=before, loss_after=after, loss_rms=before)

    def local_steps(self) -> FloatArray:
        """The same for everybody."""
        return np.full(self.num_clients, float(self.steps))

    def evaluate(self, params: Vector, clients: Ids, measure: Measure = "both") -> Evals:
        """Losses; a quadratic has no accuracy."""
        loss = 0.5 * (self.curvature[clients] * (params - self.centres[clients]) ** 2).sum(1)
        return Evals(clients, loss, np.full(len(clients), np.nan))
