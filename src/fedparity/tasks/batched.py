"""Many small clients trained as one computation: their models are stacked, and every step is taken by all of them.

Clients train in groups whose models fit a processor's cache. Who shares a group follows from the plan alone, so bits
do not depend on workers; they may differ in the last places from those of clients trained one by one.

Batches are padded to one size with samples that weigh nothing; a client that has fewer steps than others rests.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedparity.core.errors import ConfigError
from fedparity.core.protocols import Measure, Task
from fedparity.core.rng import streams
from fedparity.core.types import ClientReport, Descent, Evals, FloatArray, Ids, Job, Vector
from fedparity.tasks.flat import pieces
from fedparity.tasks.optimise import BETA1, BETA2, EPS
from fedparity.tasks.stacked import AnyModel, Chain, Stack, Stacked, chain_of
from fedparity.tasks.torch_task import TorchTask

CACHE = 16 << 20
"""Bytes of stacked models and batches that train together."""
MOST = 50
"""Clients of a group at most: several groups of a cohort train side by side."""


@dataclass(frozen=True, slots=True, eq=False)
class Batched(Task):
    """A task whose clients train together; scores are the task's own."""

    task: TorchTask
    compiled: bool = False
    """Compile `torch.func` gradients: pays after seconds of compiling, needs a C++ compiler, changes last places."""
    workers: int = 1
    """Groups that train at a time; one if the model is no chain."""
    _models: Stacked = field(init=False, repr=False)
    _group: int = field(init=False, repr=False)
    _pool: ThreadPoolExecutor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts = pieces(self.task.module)
        if len(parts) != len(list(self.task.module.parameters())):
            raise ConfigError("path='batched' cannot train a model with buffers (batch norm); use path='plain'")
        if any(not t.requires_grad for _, t in parts):
            raise ConfigError("path='batched' trains whole models; use path='plain' to freeze a part")
        written_out = not self.compiled and chain_of(self.task.module) is not None
        models: Stacked = Chain() if written_out else AnyModel(self.task.module, compiled=self.compiled)
        object.__setattr__(self, "_models", models)
        each = self.task.flat.size + self.task.training.batch * math.prod(self.task.samples.x_train.shape[1:])
        object.__setattr__(self, "_pool", ThreadPoolExecutor(max(1, self.workers - 1)))
        # Compiling is for one shape: all of a cohort in one group.
        object.__setattr__(self, "_group", 1 << 30 if self.compiled else max(1, min(MOST, CACHE // (4 * each))))

    @property
    def num_clients(self) -> int:
        """How many clients hold data."""
        return self.task.num_clients

    def init(self, rng: np.random.Generator) -> Vector:
        """The first model."""
        return self.task.init(rng)

    def train(self, job: Job) -> ClientReport:
        """One client by itself."""
        return self.train_many([job])[0]

    def train_many(self, jobs: Sequence[Job]) -> list[ClientReport]:
        """All clients of a cohort, group by group."""
        if not jobs or any(_alone(job, jobs[0]) for job in jobs):
            return [self.task.train(job) for job in jobs]
        ends = np.linspace(0, len(jobs), math.ceil(len(jobs) / self._group) + 1).astype(int)
        # What Python does for each client comes first, at once for all: threads could not share it.
        everybody = _Data(self.task, jobs, _streams_of(jobs))
        groups = [everybody.part(first, end) for first, end in itertools.pairwise(ends.tolist())]
        helpers = min(self.workers, len(groups)) - 1 if self._models.written_out else 0
        return [report for reports in self._train_groups(groups, helpers) for report in reports]

    def _train_groups(self, groups: Iterable[_Data], helpers: int) -> list[list[ClientReport]]:
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

    def _train_group(self, data: _Data) -> list[ClientReport]:
        torch.set_num_threads(self.task.threads)
        jobs = data.jobs
        told = self._before(jobs, data)
        (weights, bad), *further = [
            self._descend(data, steps, [descents[i] for descents in data.descents])
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

    def _before(self, jobs: Sequence[Job], data: _Data) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = [{} for _ in jobs]
        fields = frozenset[str]().union(*(job.report_fields for job in jobs))
        if fields & {"loss_before", "loss_rms"}:
            losses = data.losses(self._models, self._split(self._stack([job.params for job in jobs])))
            for i, (mean, square) in enumerate(zip(data.means(losses), data.means(losses**2), strict=True)):
                told[i] |= {"loss_before": mean, "loss_rms": math.sqrt(square)}
        if "accuracy_before" in fields:
            for i, job in enumerate(jobs):
                evals = self.task.evaluate(job.params, np.array([job.client]), "accuracy")
                told[i]["accuracy_before"] = float(evals.accuracy[0])
        return told

    def _stack(self, vectors: Sequence[Vector]) -> Tensor:
        """A copy of each, clients first; of the first alone if they are all one model, as they are most often."""
        if all(vector is vectors[0] for vector in vectors):
            vectors = vectors[:1]
        return torch.from_numpy(np.stack(vectors)).to(self.task.flat.dtype)

    def _split(self, weights: Tensor) -> Stack:
        shapes = [p.shape for p in self.task.module.parameters()]
        parts = torch.split(weights, [math.prod(shape) for shape in shapes], dim=1)
        return [part.view(len(weights), *shape) for part, shape in zip(parts, shapes, strict=True)]

    def _descend(self, data: _Data, steps: list[_Step], descents: Sequence[Descent]) -> tuple[Tensor, list[str | None]]:
        """Train everybody's model from its start; and what went wrong with each."""
        t, jobs = self.task.training, data.jobs
        start = self._stack([descent.start for descent in descents])
        pull = [descent.pull for descent in descents]
        rates = torch.tensor([t.rate * job.rate for job in jobs], dtype=start.dtype).view(-1, 1, 1)
        if not (t.momentum or t.weight_decay or t.clip or any(pull) or t.optimiser == "adam"):
            return self._descend_plainly(data, steps, start, rates)
        centres = [job.params if d.centre is None else d.centre for job, d in zip(jobs, descents, strict=True)]
        centre = self._stack(centres) if any(pull) else None
        strength = torch.tensor(pull, dtype=start.dtype).unsqueeze(1)
        weights = start.repeat(len(jobs) // len(start), 1)
        first, second = torch.zeros((2, *weights.shape), dtype=start.dtype)
        seen: list[Tensor] = []
        for number, step in enumerate(steps):
            stack = self._split(weights if number else start)
            found, loss = self._models.gradients(stack, data.take(step.rows), step.y, step.share, data.scale)
            seen.append(loss)
            gradient = torch.cat([g.flatten(1) for g in found], dim=1)
            if centre is not None:
                gradient += strength * (weights - centre)
            awake = (step.share.amax(2) > 0).to(start.dtype)
            weights -= awake * rates[:, :, 0] * self._direction(weights, gradient, first, second, number)
        return weights, self._trouble(seen, data.sizes)

    def _descend_plainly(
        self, data: _Data, steps: list[_Step], start: Tensor, rates: Tensor
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

    def _direction(self, weights: Tensor, gradient: Tensor, first: Tensor, second: Tensor, step: int) -> Tensor:
        """Where the optimiser goes: `tasks.optimise`, for a stack of models."""
        t = self.task.training
        gradient = gradient + t.weight_decay * weights if t.weight_decay else gradient
        if t.clip is not None:
            length = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
            gradient = gradient * torch.clamp(t.clip / (length + 1e-12), max=1.0)
        if t.optimiser == "adam":
            first.lerp_(gradient, 1 - BETA1)
            second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
            root = (second / (1 - BETA2 ** (step + 1))).sqrt_().add_(EPS)
            return first / root / (1 - BETA1 ** (step + 1))
        return first.mul_(t.momentum).add_(gradient) if t.momentum else gradient

    def _trouble(self, seen: list[Tensor], sizes: list[int]) -> list[str | None]:
        """Where each client's loss was not finite; after its last step a client has none."""
        finite = torch.stack(seen).isfinite().numpy()
        if finite.all():
            return [None] * len(sizes)
        found: list[str | None] = []
        for i, size in enumerate(sizes):
            wrong = np.flatnonzero(~finite[: self.task.training.num_batches(size), i])
            place = self.task.training.place(int(wrong[0]), size) if len(wrong) else None
            found.append(None if place is None else f"loss is not finite in {place}")
        return found

    def evaluate(self, params: Vector, clients: Ids, measure: Measure = "both") -> Evals:
        """As the task does."""
        return self.task.evaluate(params, clients, measure)

    def probe(self, params: Vector, clients: Ids, samples: int, rng: np.random.Generator) -> FloatArray:
        """As the task does."""
        return self.task.probe(params, clients, samples, rng)

    @property
    def validate(self) -> Callable[[Vector], float] | None:
        """As the task does."""
        return self.task.validate

    def accuracy(self, params: Vector) -> float:
        """As the task does."""
        return self.task.accuracy(params)

    def kept_accuracy(self, client: int, model: Vector) -> float:
        """As the task does."""
        return self.task.kept_accuracy(client, model)

    def label_counts(self) -> NDArray[np.int64]:
        """As the task does."""
        return self.task.label_counts()

    def local_steps(self) -> FloatArray:
        """As the task does."""
        return self.task.local_steps()


@dataclass(frozen=True, slots=True)
class _Step:
    """What every client of a group looks at in one step: its next batch, padded to the largest."""

    rows: Ids
    """Clients x samples: where they stand in the training data."""
    y: Tensor
    """Clients x 1 x samples: their labels."""
    share: Tensor
    """Clients x 1 x samples: what part of the client's loss each is; 0 for padding."""

    def part(self, first: int, end: int) -> _Step:
        """The same for some of the clients."""
        return _Step(self.rows[first:end], self.y[first:end], self.share[first:end])


class _Data:
    """The samples of a group of clients, side by side."""

    def __init__(self, task: TorchTask, jobs: Sequence[Job], streams: Sequence[np.random.Generator]) -> None:
        self.task, self.jobs = task, jobs
        rows = [task.samples.train[job.client] for job in jobs]
        self.sizes = [len(r) for r in rows]
        self.offsets = np.cumsum([0, *self.sizes[:-1]])[:, None]
        self.rows = np.concatenate(rows)
        self.labels = task.samples.y_train[self.rows].astype(np.int64, copy=False)
        self.scale = 1 / task.samples.peak
        self.descents = [job.descents() for job in jobs]
        self.steps = [self._draw(streams) for _ in self.descents[0]]

    def part(self, first: int, end: int) -> _Data:
        """The same for some of the clients, up to the last step that one of them takes."""
        found = copy.copy(self)
        found.jobs, found.sizes = self.jobs[first:end], self.sizes[first:end]
        found.offsets = self.offsets[first:end]
        longest = max(map(self.task.training.num_batches, found.sizes))
        found.descents = self.descents[first:end]
        found.steps = [[step.part(first, end) for step in steps[:longest]] for steps in self.steps]
        return found

    def _draw(self, streams: Sequence[np.random.Generator]) -> list[_Step]:
        """Every step of a descent, in the order that each client's stream gives."""
        training, size = self.task.training, self.sizes[0]
        if self.sizes.count(size) < len(self.sizes):
            plans = [list(training.batches(own, rng)) for own, rng in zip(self.sizes, streams, strict=True)]
            return [
                self._padded([p[i] if i < len(p) else p[0][:0] for p in plans]) for i in range(max(map(len, plans)))
            ]
        found: list[_Step] = []
        while (left := training.num_batches(size) - len(found)) > 0:
            order = np.tile(np.arange(size), (len(streams), 1))
            for own, rng in zip(order, streams, strict=True):
                rng.shuffle(own)  # rng.permutation(size), in place
            batches = [order[:, first : first + training.batch] for first in range(0, size, training.batch)]
            found += [self._step(batch, np.full((1, batch.shape[1]), 1 / batch.shape[1])) for batch in batches[:left]]
        return found

    def _padded(self, chosen: list[Ids]) -> _Step:
        width = max(map(len, chosen))
        places, share = np.zeros((len(chosen), width), dtype=np.int64), np.zeros((len(chosen), width))
        for i, own in enumerate(chosen):
            places[i, : len(own)] = own
            share[i, : len(own)] = 1 / max(len(own), 1)
        return self._step(places, share)

    def _step(self, places: Ids, share: FloatArray) -> _Step:
        places = places + self.offsets
        y = torch.from_numpy(self.labels[places]).unsqueeze(1)
        shares = torch.from_numpy(share).to(self.task.flat.dtype).unsqueeze(1)
        return _Step(self.rows[places], y, shares.expand(y.shape))

    def take(self, rows: Ids) -> Tensor:
        """Samples as floats, not yet scaled."""
        return torch.from_numpy(self.task.samples.x_train.take(rows, axis=0)).to(self.task.flat.dtype)

    def losses(self, models: Stacked, stack: Stack) -> FloatArray:
        """Clients x samples: the loss of each; NaN beyond a client's last sample."""
        width = max(self.sizes)
        places = np.minimum(np.arange(width), np.array(self.sizes)[:, None] - 1) + self.offsets
        logits = models.forward(stack, self.take(self.rows[places]), self.scale)
        each = nn.functional.cross_entropy(logits, torch.from_numpy(self.labels[places]), reduction="none")
        found = each.double().numpy().copy()
        found[np.arange(width) >= np.array(self.sizes)[:, None]] = np.nan
        return np.asarray(found)

    def means(self, values: FloatArray) -> list[float]:
        """The mean over each client's own samples."""
        return [float(row[:size].mean()) for row, size in zip(values, self.sizes, strict=True)]


def _alone(job: Job, other: Job) -> bool:
    """Whether a job cannot be done together with another: it wants what a stack cannot give, or has another rule."""
    return job.joint is not None or "prototypes" in job.report_fields or job.local != other.local


def _streams_of(jobs: Sequence[Job]) -> list[np.random.Generator]:
    """The random numbers of every job; jobs are most often those of one round."""
    if len({(job.seed, job.round) for job in jobs}) == 1:
        return streams(jobs[0].seed, "train", jobs[0].round, [job.client for job in jobs])
    return [job.rng() for job in jobs]
