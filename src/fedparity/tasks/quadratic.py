"""Quadratic clients with a known optimum: the smallest task in which every number can be worked out by hand.

F_k(w) = 1/2 sum_d h_kd (w_d - c_kd)^2        optimum of the mean loss: w*_d = sum_k h_kd c_kd / sum_k h_kd
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedparity import checks
from fedparity.rng import stream
from fedparity.types import ClientReport, Evals, Ids, Vector


@dataclass(frozen=True, slots=True, eq=False)
class Quadratic:
    """Client k pulls the model towards its own centre c_k with curvature h_k."""

    centres: NDArray[np.float64]
    """Clients x dimensions."""
    curvature: NDArray[np.float64]
    rate: float = 0.1
    steps: int = 5

    @classmethod
    def random(cls, num_clients: int, dim: int = 4, seed: int = 0, rate: float = 0.1, steps: int = 5) -> Quadratic:
        """Normal centres, curvatures between 1/2 and 2."""
        rng = stream(seed, "quadratic")
        return cls(rng.normal(size=(num_clients, dim)), rng.uniform(0.5, 2.0, (num_clients, dim)), rate, steps)

    def __post_init__(self) -> None:
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

    def train(self, client: int, params: Vector, start: Vector, rng: np.random.Generator) -> ClientReport:
        """`steps` steps of gradient descent."""
        w = start.copy()
        for _ in range(self.steps):
            w -= self.rate * self.curvature[client] * (w - self.centres[client])
        return ClientReport(
            client, w - params, loss_before=self._loss(params, client), loss_after=self._loss(w, client)
        )

    def evaluate(self, params: Vector, clients: Ids) -> Evals:
        """Losses; a quadratic has no accuracy."""
        loss = 0.5 * (self.curvature[clients] * (params - self.centres[clients]) ** 2).sum(1)
        return Evals(clients, loss, np.full(len(clients), np.nan))
