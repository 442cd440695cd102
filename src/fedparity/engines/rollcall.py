"""Scheduling without training: everybody asked answers with an empty update and, if wanted, a gain drawn for it.

gain_k(t) = max(0, mu_k (1 + noise * z)),   z standard normal, keyed by round and client
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.protocols import Engine, Measure
from fedparity.core.reprs import brief
from fedparity.core.rng import stream
from fedparity.core.types import ClientReport, Evals, FloatArray, Ids, RoundPlan, Vector


@dataclass(frozen=True, slots=True)
class NoTraining(Engine):
    """A register of `num_clients` clients that answer when called."""

    num_clients: int
    gains: FloatArray | None = None
    """mu_k: what one participation is worth to each client on average; None: nothing."""
    noise: float = 0.0

    __repr__ = brief

    def __post_init__(self) -> None:
        checks.at_least("clients", self.num_clients, 1)
        if self.gains is not None and np.shape(self.gains) != (self.num_clients,):
            raise ConfigError(f"gains has shape {np.shape(self.gains)}; give one number per client, {self.num_clients}")
        if self.gains is not None and not np.isfinite(np.asarray(self.gains, dtype=np.float64)).all():
            raise ConfigError("gains must be finite, one per client")

    def available(self, round: int) -> Ids:
        """All of them."""
        return np.arange(self.num_clients, dtype=np.int64)

    def train(self, plan: RoundPlan) -> Iterable[ClientReport]:
        """An empty update from everybody asked."""
        nothing = np.zeros_like(plan.params)
        clients = plan.cohort.clients
        if self.gains is None:
            return (ClientReport(client, nothing) for client in clients.tolist())
        z = stream(plan.seed, "gain", plan.round).standard_normal(self.num_clients)[clients]
        gains = np.maximum(0.0, np.asarray(self.gains)[clients] * (1 + self.noise * z))
        return (
            ClientReport(client, nothing, loss_before=gain, loss_after=0.0)
            for client, gain in zip(clients.tolist(), gains.tolist(), strict=True)
        )

    def evaluate(self, params: Vector, clients: Ids, measure: Measure = "both") -> Evals:
        """There is no model: every loss is unknown."""
        unknown = np.full(len(clients), np.nan)
        return Evals(clients, unknown, unknown)
