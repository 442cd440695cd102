"""Clients that live in this process: a task trains each of them, with a stream of random numbers of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from fedparity import checks
from fedparity.loop import Stopped
from fedparity.protocols import Task
from fedparity.rng import stream
from fedparity.types import ClientReport, Evals, Ids, RoundPlan, Vector


@dataclass(frozen=True, slots=True)
class InProcess:
    """Everybody is always there; `workers` threads give the same bits as one."""

    task: Task
    workers: int = 1
    stop: Callable[[], bool] | None = None
    """Asked before each client trains: if it says so, the round is given up with `Stopped`."""

    def __post_init__(self) -> None:
        checks.at_least("workers", self.workers, 1)

    def available(self, round: int) -> Ids:
        """All clients of the task."""
        return np.arange(self.task.num_clients, dtype=np.int64)

    def train(self, plan: RoundPlan) -> Iterable[ClientReport]:
        """Train everybody asked."""

        def one(client: int) -> ClientReport:
            if self.stop is not None and self.stop():
                raise Stopped
            start = plan.starts.get(client, plan.params)
            return self.task.train(client, plan.params, start, stream(plan.seed, "train", plan.round, client))

        clients = plan.cohort.clients.tolist()
        if self.workers == 1:
            return [one(client) for client in clients]
        with ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(one, clients))

    def evaluate(self, params: Vector, clients: Ids) -> Evals:
        """Score `params` on each client's own data."""
        return self.task.evaluate(params, clients)
