"""Clients that live in this process: a task trains each of them, with a stream of random numbers of its own.

An exception in one client's training is that client's failure, if it is one that data can cause (`OF_A_CLIENT`) and
others of the cohort get through. What else is raised, or is raised by everybody, is a mistake in a program or the
machine's (no memory, no disk): it ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from fedparity.availability.speeds import Clock
from fedparity.core import checks
from fedparity.core.errors import ConfigError, FedparityError, RoundError
from fedparity.core.loop import Stopped
from fedparity.core.protocols import Engine, Measure, Task, TrainsMany
from fedparity.core.reprs import brief, one_line
from fedparity.core.types import ClientReport, Evals, FloatArray, Ids, Job, RoundPlan, Vector

OF_A_CLIENT = (ArithmeticError, LookupError, ValueError)


@dataclass(frozen=True, slots=True)
class InProcess(Engine):
    """Everybody is always there; `workers` threads give the same bits as one."""

    task: Task
    workers: int = 1
    stop: Callable[[], bool] | None = None
    """Asked before each client trains: if it says so, the round is given up with `Stopped`."""
    clock: Clock | None = None
    """How long each client takes, for reports that say so; None: nobody is timed."""

    __repr__ = brief

    def __post_init__(self) -> None:
        checks.at_least("workers", self.workers, 1)
        if not callable(getattr(self.task, "train", None)):
            raise ConfigError(f"task={one_line(self.task)} must be a task: it has no method 'train'")

    @property
    def num_clients(self) -> int:
        """Those of the task."""
        return self.task.num_clients

    def available(self, round: int) -> Ids:
        """All clients of the task."""
        return np.arange(self.task.num_clients, dtype=np.int64)

    def train(self, plan: RoundPlan) -> Iterable[ClientReport]:
        """Train everybody asked: at once if the task can, else one by one."""
        if not len(plan.params):
            raise ConfigError("a task trains a model, but there is none; give its first one, params=task.init(rng)")
        reports = self._trained(plan)
        return reports if self.clock is None else [self.clock.timed(report, plan) for report in reports]

    def _trained(self, plan: RoundPlan) -> list[ClientReport]:
        jobs = [plan.job(client) for client in plan.cohort.clients.tolist()]
        if isinstance(self.task, TrainsMany):
            if self.stop is not None and self.stop():
                raise Stopped
            with suppress(*OF_A_CLIENT):  # whose fault it was shows one by one
                return self.task.train_many(jobs)
        if self.workers == 1:
            found = [self._one(job) for job in jobs]
        else:
            with ThreadPoolExecutor(self.workers) as pool:
                found = list(pool.map(self._one, jobs))
        errors = [one for one in found if isinstance(one, Exception)]
        if len(errors) == len(jobs) > 1:
            raise errors[0]
        return [
            ClientReport(job.client, failure=f"{type(one).__name__}: {one}") if isinstance(one, Exception) else one
            for job, one in zip(jobs, found, strict=True)
        ]

    def _one(self, job: Job) -> ClientReport | Exception:
        if self.stop is not None and self.stop():
            raise Stopped
        try:
            return trained(self.task, job)
        except FedparityError:
            raise
        except OF_A_CLIENT as error:
            return error

    def evaluate(self, params: Vector, clients: Ids, measure: Measure = "both") -> Evals:
        """Score `params` on each client's own data."""
        return scored(self.task, params, clients, measure)

    @property
    def validate(self) -> Callable[[Vector], float] | None:
        """Scores a model on the server's own data, if the task has any."""
        return self.task.validate

    def probe(self, params: Vector, clients: Ids, samples: int, rng: np.random.Generator) -> FloatArray:
        """As the task does."""
        return self.task.probe(params, clients, samples, rng)


def trained(task: Task, job: Job) -> ClientReport:
    """The report of one client, if it is one: a task may be anybody's."""
    report = task.train(job)
    checks.instance("what Task.train returned", report, ClientReport, "ClientReport(job.client, update) makes one")
    if report.client != job.client:
        raise RoundError(f"Task.train reported client {report.client} for client {job.client}; give it job.client")
    return report


def scored(task: Task, params: Vector, clients: Ids, measure: Measure = "both") -> Evals:
    """The scores of a model, if there is one per client."""
    found = task.evaluate(params, clients, measure)
    checks.instance("what Task.evaluate returned", found, Evals, "Evals(clients, loss, accuracy) makes one")
    for name, values in (("loss", found.loss), ("accuracy", found.accuracy)):
        if (shape := np.shape(values)) != clients.shape:
            raise RoundError(
                f"Task.evaluate gave {name} of shape {shape} for {len(clients)} clients; give one for each"
            )
    wrong = (found.accuracy < 0) | (found.accuracy > 1)
    if wrong.any():
        raise RoundError(f"Task.evaluate gave an accuracy of {found.accuracy[wrong][0]}; give it from 0 to 1")
    return found
