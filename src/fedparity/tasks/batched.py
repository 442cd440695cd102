"""Many small clients trained as one computation: their models are stacked, and every step is taken by all of them.

Clients train in groups whose models fit a processor's cache. Who shares a group follows from the plan alone, so bits
do not depend on workers; they may differ in the last places from those of clients trained one by one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedparity.core.errors import ConfigError
from fedparity.core.types import ClientReport, Descent, Job, Vector
from fedparity.tasks.flat import pieces
from fedparity.tasks.group import Group, Step, streams_of
from fedparity.tasks.optimise import Optimiser
from fedparity.tasks.stacked import AnyModel, Chain, Stack, Stacked, chain_of
from fedparity.tasks.torch_task import TorchTask

CACHE = 16 << 20
"""Bytes of stacked models and batches that train together."""
MOST = 50
"""Clients of a group at most: several groups of a cohort train side by side."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Batched(TorchTask):
    """Clients that train a classifier together; `workers` groups at a time, one if the model is no chain."""

    compiled: bool = False
    """Compile `torch.func` gradients: pays after seconds of compiling, needs a C++ compiler, changes last places."""
    _models: Stacked = field(init=False, repr=False)
    _group: int = field(init=False, repr=False)
    _pool: ThreadPoolExecutor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        TorchTask.__post_init__(self)
        parts = pieces(self.module)
        if len(parts) != len(list(self.module.parameters())):
            raise ConfigError("path='batched' cannot train a model with buffers (batch norm); use path='sequential'")
        if any(not t.requires_grad for _, t in parts):
            raise ConfigError("path='batched' trains whole models; use path='sequential' to freeze a part")
        written_out = not self.compiled and chain_of(self.module) is not None
        models: Stacked = Chain() if written_out else AnyModel(self.module, compiled=self.compiled)
        object.__setattr__(self, "_models", models)
        each = self.flat.size + self.training.batch * math.prod(self.samples.x_train.shape[1:])
        object.__setattr__(self, "_pool", ThreadPoolExecutor(max(1, self.workers - 1)))
        # Compiling is for one shape: all of a cohort in one group.
        object.__setattr__(self, "_group", 1 << 30 if self.compiled else max(1, min(MOST, CACHE // (4 * each))))

    def train(self, job: Job) -> ClientReport:
        """One client by itself."""
        return self.train_many([job])[0]

    def train_many(self, jobs: Sequence[Job]) -> list[ClientReport]:
        """All clients of a cohort, group by group."""
        if not jobs or any(_alone(job, jobs[0]) for job in jobs):
            return [TorchTask.train(self, job) for job in jobs]
        ends = np.linspace(0, len(jobs), math.ceil(len(jobs) / self._group) + 1).astype(int)
        # What Python does for each client comes first, at once for all: threads could not share it.
        everybody = Group(self, jobs, streams_of(jobs))
        groups = [everybody.part(first, end) for first, end in itertools.pairwise(ends.tolist())]
        helpers = min(self.workers, len(groups)) - 1 if self._models.written_out else 0
        return [report for reports in self._train_groups(groups, helpers) for report in reports]

    def _train_groups(self, groups: Iterable[Group], helpers: int) -> list[list[ClientReport]]:
        """Train groups in this thread and its helpers, whoever is free; the answer is in the order of groups."""
        numbered, lock = enumerate(groups), Lock()
        found: dict[int, list[ClientReport]] = {}

        def work() -> None:
            while True:
                with lock:
                    number, data = next(numbered, (-1, None))
                if data is None:
                    return
                with torch.inference_mode(self._models.written_out):  # which makes calls cheaper
                    found[number] = self._train_group(data)

        working = [self._pool.submit(work) for _ in range(helpers)]
        work()
        for helper in working:
            helper.result()
        return [found[number] for number in sorted(found)]

    def _train_group(self, data: Group) -> list[ClientReport]:
        torch.set_num_threads(self.threads)
        jobs = data.jobs
        told = self._before_all(jobs, data)
        (weights, bad), *further = [
            self._descend_together(data, steps, [descents[i] for descents in data.descents])
            for i, steps in enumerate(data.steps)
        ]
        for _, worse in further:
            bad = [a or b for a, b in zip(bad, worse, strict=True)]
        if any("loss_after" in job.report_fields for job in jobs):
            after = data.losses(self._models, self._split(weights))
            for i, mean in enumerate(data.means(after)):
                told[i]["loss_after"] = mean
                bad[i] = bad[i] or (None if math.isfinite(mean) else "loss is not finite after training")
        deltas = weights.numpy()
        deltas -= self._stack([job.params for job in jobs]).numpy()
        beside = [models.numpy() for models, _ in further]
        return [
            ClientReport(job.client, failure=f"client {job.client}, round {job.round}: {wrong}")
            if wrong
            else job.report(
                delta,
                [(begun.start, ended[i].copy()) for begun, ended in zip(data.descents[i][1:], beside, strict=True)],
                num_samples=size,
                **facts,
            )
            for i, (job, delta, size, facts, wrong) in enumerate(zip(jobs, deltas, data.sizes, told, bad, strict=True))
        ]

    def _before_all(self, jobs: Sequence[Job], data: Group) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = [{} for _ in jobs]
        fields = frozenset[str]().union(*(job.report_fields for job in jobs))
        if fields & {"loss_before", "loss_rms"}:
            losses = data.losses(self._models, self._split(self._stack([job.params for job in jobs])))
            for i, (mean, square) in enumerate(zip(data.means(losses), data.means(losses**2), strict=True)):
                told[i] |= {"loss_before": mean, "loss_rms": math.sqrt(square)}
        if "accuracy_before" in fields:
            for i, job in enumerate(jobs):
                evals = self.evaluate(job.params, np.array([job.row]), "accuracy")
                told[i]["accuracy_before"] = float(evals.accuracy[0])
        return told

    def _stack(self, vectors: Sequence[Vector]) -> Tensor:
        """A copy of each, clients first; of the first alone if they are all one model, as they are most often."""
        if all(vector is vectors[0] for vector in vectors):
            vectors = vectors[:1]
        return torch.from_numpy(np.stack(vectors)).to(self.flat.dtype)

    def _split(self, weights: Tensor) -> Stack:
        shapes = [p.shape for p in self.module.parameters()]
        parts = torch.split(weights, [math.prod(shape) for shape in shapes], dim=1)
        return [part.view(len(weights), *shape) for part, shape in zip(parts, shapes, strict=True)]

    def _descend_together(
        self, data: Group, steps: list[Step], descents: Sequence[Descent]
    ) -> tuple[Tensor, list[str | None]]:
        """Train everybody's model from its start; and what went wrong with each."""
        t, jobs = self.training, data.jobs
        start = self._stack([descent.start for descent in descents])
        pull = [descent.pull for descent in descents]
        rates = torch.tensor([t.rate * job.rate for job in jobs], dtype=start.dtype).view(-1, 1, 1)
        if not (t.momentum or t.weight_decay or t.clip or any(pull) or t.optimiser == "adam"):
            return self._descend_plainly(data, steps, start, rates)
        centres = [job.params if d.centre is None else d.centre for job, d in zip(jobs, descents, strict=True)]
        centre = self._stack(centres) if any(pull) else None
        strength = torch.tensor(pull, dtype=start.dtype).unsqueeze(1)
        weights = start.repeat(len(jobs) // len(start), 1)
        optimiser = Optimiser(t, weights)
        seen: list[Tensor] = []
        for number, step in enumerate(steps):
            stack = self._split(weights if number else start)
            found, loss = self._models.gradients(stack, data.take(step.rows), step.y, step.share, data.scale)
            seen.append(loss)
            gradient = torch.cat([g.flatten(1) for g in found], dim=1)
            if centre is not None:
                gradient += strength * (weights - centre)
            awake = (step.share.amax(2) > 0).to(start.dtype)
            optimiser.step(weights, gradient, awake * rates[:, :, 0])
        return weights, self._trouble(seen, data.sizes)

    def _descend_plainly(
        self, data: Group, steps: list[Step], start: Tensor, rates: Tensor
    ) -> tuple[Tensor, list[str | None]]:
        """Plain SGD: the rate goes into the shares, which are few, rather than into the gradients."""
        weights = torch.empty((len(data.jobs), start.shape[1]), dtype=start.dtype)
        now, new = self._split(start), self._split(weights)
        seen: list[Tensor] = []
        for step in steps:
            x, share = data.take(step.rows), step.share * rates
            found, loss = self._models.gradients(now, x, step.y, share, data.scale)
            seen.append(loss)
            for before, after, gradient in zip(now, new, found, strict=True):
                torch.sub(before, gradient, out=after)
            now = new
        return weights, self._trouble(seen, data.sizes)

    def _trouble(self, seen: list[Tensor], sizes: list[int]) -> list[str | None]:
        """Where each client's loss was not finite; after its last step a client has none."""
        finite = torch.stack(seen).isfinite().numpy()
        if finite.all():
            return [None] * len(sizes)
        found: list[str | None] = []
        for i, size in enumerate(sizes):
            wrong = np.flatnonzero(~finite[: self.training.num_batches(size), i])
            place = self.training.place(int(wrong[0]), size) if len(wrong) else None
            found.append(None if place is None else f"loss is not finite in {place}")
        return found


def _alone(job: Job, other: Job) -> bool:
    """Whether a job cannot be done together with another: it wants what a stack cannot give, or has another rule."""
    return job.joint is not None or "prototypes" in job.report_fields or job.local != other.local
