"""Noise on what a client says of its data beside its update: losses and accuracy, before they leave the client.

    said = clip(x, 0, bound) + Laplace(scale)            epsilon = bound / scale for each number that is said

That is local differential privacy of these numbers (Dwork et al. 2006; accuracies have bound 1, so theirs is smaller),
once per participation; a client that takes part n times has said n times as much. The update itself is not noised. With
`seed` the noise is that of a simulation, which whoever knows the seed can take off again: leave it out where clients
are real.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fedparity.core import checks
from fedparity.core.protocols import Measure, Task
from fedparity.core.reprs import brief
from fedparity.core.rng import stream
from fedparity.core.types import ClientReport, Evals, FloatArray, Ids, Job, Vector


@dataclass(frozen=True, slots=True)
class Noised(Task):
    """A task whose clients add noise to the losses and the accuracy that they report."""

    task: Task
    """Whose clients."""
    scale: float = 1.0
    """Scale of the Laplace noise, in units of loss; more hides more."""
    bound: float = 4.0
    """Largest loss that is said; lower needs less noise, and tells less."""
    seed: int | None = None
    """Of a simulation; none: the system's own randomness, which nobody can repeat."""

    __repr__ = brief

    def __post_init__(self) -> None:
        checks.positive("scale", self.scale)
        checks.positive("bound", self.bound)

    @property
    def epsilon(self) -> float:
        """What one reported number tells at most."""
        return self.bound / self.scale

    @property
    def num_clients(self) -> int:
        """Those of the task."""
        return self.task.num_clients

    def init(self, rng: np.random.Generator) -> Vector:
        """As the task's."""
        return self.task.init(rng)

    def train(self, job: Job) -> ClientReport:
        """As the task does; what is said of the data has noise."""
        report = self.task.train(job)
        rng = np.random.default_rng() if self.seed is None else stream(self.seed, "noised", job.round, job.client)
        noise = rng.laplace(scale=self.scale, size=4)
        said = (report.loss_before, report.loss_after, report.loss_rms, report.accuracy_before)
        before, after, rms, accuracy = (np.clip(said, 0.0, self.bound) + noise).tolist()
        return replace(report, loss_before=before, loss_after=after, loss_rms=rms, accuracy_before=accuracy)

    def evaluate(self, params: Vector, clients: Ids, measure: Measure = "both") -> Evals:
        """As the task does: measures of an experiment, which no client sends."""
        return self.task.evaluate(params, clients, measure)

    @property
    def validate(self) -> Callable[[Vector], float] | None:
        """As the task's."""
        return self.task.validate

    def probe(self, params: Vector, clients: Ids, samples: int, rng: np.random.Generator) -> FloatArray:
        """Losses that clients send when asked for them: with noise, too."""
        found = np.clip(self.task.probe(params, clients, samples, rng), 0.0, self.bound)
        noise = (np.random.default_rng() if self.seed is None else rng).laplace(scale=self.scale, size=len(found))
        return np.asarray(found + noise)
