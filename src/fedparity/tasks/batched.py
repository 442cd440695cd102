"""Many small clients trained as one computation: their models are stacked, and every step is taken by all of them.

A chain of linear layers with ReLU between them has its gradients written out as batched matrix products; any other
model without buffers goes through `torch.func` (vmap over clients of the gradient), compiled if asked for. Clients
train in groups whose models fit a processor's cache. Who shares a group follows from the plan alone, so bits do not
depend on workers; they may differ in the last places from those of clients trained one by one.

Batches are padded to one size with samples that weigh nothing; a client that has fewer steps than others rests.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedparity.errors import ConfigError
from fedparity.local import Ditto, PhpFl, Prox
from fedparity.protocols import Measure
from fedparity.tasks.flat import pieces
from fedparity.tasks.optimise import BETA1, BETA2, EPS
from fedparity.tasks.rule import finish
from fedparity.tasks.torch_task import TorchTask
from fedparity.types import ClientReport, Evals, FloatArray, Ids, Job, Vector

CACHE = 16 << 20
"""Bytes of stacked models and batches that train together."""
MOST = 50
"""Clients of a group at most: several groups of a cohort train side by side."""

Stack: TypeAlias = list[Tensor]
"""Each parameter of the model for every client of a group: clients first."""
Gradients: TypeAlias = Callable[[Stack, Tensor, Tensor, Tensor, bool], tuple[Stack, Tensor]]
"""(parameters, x, y, weights of samples, whether all models are alike) -> gradients, and the loss of each batch."""


def chain_of(module: nn.Module) -> list[nn.Linear] | None:
    """The linear layers of a module that is nothing but flatten, linear layers and ReLU between them; else None."""
    layers = [m for m in module.modules() if not list(m.children()) and not isinstance(m, (nn.Flatten, nn.Identity))]
    kinds = [type(layer) for layer in layers]
    expected = [nn.Linear if i % 2 == 0 else nn.ReLU for i in range(len(kinds))]
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    if not kinds or len(kinds) % 2 == 0 or kinds != expected or any(layer.bias is None for layer in linear):
        return None
    return linear


def chain_forward(stack: Stack, x: Tensor, *, alike: bool = False) -> list[Tensor]:
    """What each layer of a chain takes, and at the end the logits; models that are alike make one large product."""
    seen = [x.flatten(2)]
    layers = len(stack) // 2
    for i in range(layers):
        weight, bias = stack[2 * i], stack[2 * i + 1]
        if alike:
            h = torch.addmm(bias[0], seen[-1].flatten(0, 1), weight[0].t()).view(*seen[-1].shape[:2], -1)
        else:
            # W x^T rather than x W^T: with few outputs it is the faster of the two.
            h = torch.bmm(weight, seen[-1].transpose(1, 2)).transpose(1, 2) + bias.unsqueeze(1)
        seen.append(h.relu_() if i < layers - 1 else h)
    return seen


def chain_gradients(layers: int) -> Gradients:
    """Gradients of the mean cross-entropy of a chain of `layers` linear layers, written out."""

    @torch.no_grad()
    def gradients(stack: Stack, x: Tensor, y: Tensor, weight: Tensor, alike: bool) -> tuple[Stack, Tensor]:  # noqa: FBT001
        seen = chain_forward(stack, x, alike=alike)
        logs = torch.log_softmax(seen[-1], dim=-1)
        share = (weight / weight.sum(1, keepdim=True).clamp_min(1e-30)).unsqueeze(-1)
        picked = logs.gather(2, y.unsqueeze(-1))
        loss = -(picked * share).sum((1, 2))
        back = logs.exp_()
        back.scatter_add_(2, y.unsqueeze(-1), torch.full_like(picked, -1.0))
        back *= share
        found: Stack = []
        for i in reversed(range(layers)):
            found[:0] = [torch.bmm(back.transpose(1, 2), seen[i]), back.sum(1)]
            if i:
                w = stack[2 * i]
                to = torch.mm(back.flatten(0, 1), w[0]).view(*back.shape[:2], -1) if alike else torch.bmm(back, w)
                back = to.mul_(seen[i] > 0)
        return found, loss

    return gradients


def func_gradients(module: nn.Module, *, compiled: bool) -> Gradients:
    """The same for any module without buffers, through `torch.func`."""
    names = [name for name, _ in module.named_parameters()]

    def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        logits = torch.func.functional_call(module, parameters, (x,))
        each = nn.functional.cross_entropy(logits, y, reduction="none")
        return (each * weight).sum() / weight.sum().clamp_min(1e-30)

    def all_clients(
        parameters: dict[str, Tensor], x: Tensor, y: Tensor, weight: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        found: tuple[dict[str, Tensor], Tensor] = torch.func.vmap(torch.func.grad_and_value(loss))(
            parameters, x, y, weight
        )
        return found

    run: Any = torch.compile(all_clients, dynamic=False) if compiled else all_clients

    def gradients(stack: Stack, x: Tensor, y: Tensor, weight: Tensor, alike: bool) -> tuple[Stack, Tensor]:  # noqa: ARG001, FBT001
        found, losses = run(dict(zip(names, stack, strict=True)), x, y, weight)
        return [found[name].detach() for name in names], losses.detach()

    return gradients


@dataclass(frozen=True, slots=True, eq=False)
class Batched:
    """A task whose clients train together; scores are the task's own."""

    task: TorchTask
    compiled: bool = False
    """Compile `torch.func` gradients: pays after seconds of compiling, needs a C++ compiler, changes last places."""
    workers: int = 1
    """Groups that train at a time; one if the model is no chain, since `torch.func` calls share one module."""
    _chain: bool = field(init=False, repr=False)
    _gradients: Gradients = field(init=False, repr=False)
    _group: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts = pieces(self.task.module)
        if len(parts) != len(list(self.task.module.parameters())):
            raise ConfigError("path='batched' cannot train a model with buffers (batch norm); use path='plain'")
        if any(not t.requires_grad for _, t in parts):
            raise ConfigError("path='batched' trains whole models; use path='plain' to freeze a part")
        chain = None if self.compiled else chain_of(self.task.module)
        found = (
            func_gradients(self.task.module, compiled=self.compiled) if chain is None else chain_gradients(len(chain))
        )
        object.__setattr__(self, "_chain", chain is not None)
        object.__setattr__(self, "_gradients", found)
        each = self.task.flat.size + self.task.training.batch * math.prod(self.task.samples.x_train.shape[1:])
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
        if any(isinstance(job.local, PhpFl) or "prototypes" in job.wants for job in jobs):
            return [self.task.train(job) for job in jobs]
        ends = np.linspace(0, len(jobs), math.ceil(len(jobs) / self._group) + 1).astype(int)
        groups = [jobs[first:end] for first, end in itertools.pairwise(ends.tolist())]
        if not self._chain or min(self.workers, len(groups)) <= 1:
            return [report for group in groups for report in self._train_group(group)]
        with ThreadPoolExecutor(self.workers) as pool:
            return [report for done in pool.map(self._train_group, groups) for report in done]

    def _train_group(self, jobs: Sequence[Job]) -> list[ClientReport]:
        torch.set_num_threads(self.task.threads)
        data = _Data(self.task, jobs)
        told = self._before(jobs, data)
        start = self._stack([job.start for job in jobs])
        rules = [job.local for job in jobs]
        pull = [rule.mu if isinstance(rule, Prox) else 0.0 for rule in rules]
        streams = [job.rng() for job in jobs]
        weights, bad = self._descend(jobs, data, start, pull, streams)
        personal: NDArray[Any] | None = None
        if any(isinstance(rule, Ditto) for rule in rules):
            begin = self._stack([job.params if job.own is None else job.own for job in jobs])
            pull = [rule.lam if isinstance(rule, Ditto) else 0.0 for rule in rules]
            own, worse = self._descend(jobs, data, begin, pull, streams)
            personal = own.numpy()
            bad = [a or b for a, b in zip(bad, worse, strict=True)]
        if any("loss_after" in job.wants for job in jobs):
            after = data.losses(self._forward, weights)
            for i, mean in enumerate(data.means(after)):
                told[i]["loss_after"] = mean
                bad[i] = bad[i] or (None if math.isfinite(mean) else "loss is not finite after training")
        trained = weights.numpy()
        same = all(job.params is jobs[0].params for job in jobs)
        deltas = trained - jobs[0].params if same else [w - job.params for w, job in zip(trained, jobs, strict=True)]
        return [
            ClientReport(job.client, failure=f"client {job.client}, round {job.round}: {bad[i]}")
            if bad[i]
            else finish(
                job,
                deltas[i],
                None if personal is None or not isinstance(job.local, Ditto) else personal[i].copy(),
                num_samples=data.sizes[i],
                **told[i],
            )
            for i, job in enumerate(jobs)
        ]

    def _before(self, jobs: Sequence[Job], data: _Data) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = [{} for _ in jobs]
        wants = frozenset[str]().union(*(job.wants for job in jobs))
        if wants & {"loss_before", "loss_rms"}:
            losses = data.losses(self._forward, self._stack([job.params for job in jobs]))
            for i, (mean, square) in enumerate(zip(data.means(losses), data.means(losses**2), strict=True)):
                told[i] |= {"loss_before": mean, "loss_rms": math.sqrt(square)}
        if "accuracy_before" in wants:
            for i, job in enumerate(jobs):
                evals = self.task.evaluate(job.params, np.array([job.client]), "accuracy")
                told[i]["accuracy_before"] = float(evals.accuracy[0])
        return told

    def _stack(self, vectors: Sequence[Vector]) -> Tensor:
        """A copy of each, clients first; most often they are all one model."""
        if all(vector is vectors[0] for vector in vectors):
            return torch.from_numpy(vectors[0].copy()).to(self.task.flat.dtype).repeat(len(vectors), 1)
        return torch.from_numpy(np.stack(vectors)).to(self.task.flat.dtype)

    def _split(self, weights: Tensor) -> Stack:
        shapes = [p.shape for p in self.task.module.parameters()]
        parts = torch.split(weights, [math.prod(shape) for shape in shapes], dim=1)
        return [part.view(len(weights), *shape) for part, shape in zip(parts, shapes, strict=True)]

    @torch.no_grad()
    def _forward(self, weights: Tensor, x: Tensor) -> Tensor:
        if self._chain:
            return chain_forward(self._split(weights), x)[-1]
        names = [name for name, _ in self.task.module.named_parameters()]
        stack = dict(zip(names, self._split(weights), strict=True))
        found: Tensor = torch.func.vmap(
            lambda parameters, inputs: torch.func.functional_call(self.task.module, parameters, (inputs,))
        )(stack, x)
        return found

    def _descend(
        self,
        jobs: Sequence[Job],
        data: _Data,
        weights: Tensor,
        pull: list[float],
        streams: Sequence[np.random.Generator],
    ) -> tuple[Tensor, list[str | None]]:
        """Train all models from `weights`; the trained ones, and what went wrong with each."""
        t = self.task.training
        plans = [list(t.batches(size, rng)) for size, rng in zip(data.sizes, streams, strict=True)]
        rates = torch.tensor([t.rate * job.rate for job in jobs], dtype=weights.dtype).unsqueeze(1)
        centre = self._stack([job.params for job in jobs]) if any(pull) else None
        strength = torch.tensor(pull, dtype=weights.dtype).unsqueeze(1)
        plain = not (t.momentum or t.weight_decay or t.clip or centre is not None or t.optimiser == "adam")
        stack = self._split(weights)
        alike = all(job.start is jobs[0].start and job.own is jobs[0].own for job in jobs)
        first, second = torch.zeros((2, 0) if plain else (2, *weights.shape), dtype=weights.dtype)
        seen: list[Tensor] = []
        for step in range(max(map(len, plans))):
            x, y, share = data.batch(plans, step)
            found, loss = self._gradients(stack, x, y, share, alike and step == 0)
            seen.append(loss)
            with torch.no_grad():
                if plain:
                    for part, gradient in zip(stack, found, strict=True):
                        part.sub_(gradient.mul_(rates.view(-1, *[1] * (gradient.ndim - 1))))
                    continue
                gradient = torch.cat([g.flatten(1) for g in found], dim=1)
                if centre is not None:
                    gradient += strength * (weights - centre)
                awake = torch.tensor([[float(step < len(plan))] for plan in plans], dtype=weights.dtype)
                weights -= awake * rates * self._direction(weights, gradient, first, second, step)
        return weights, self._trouble(seen, plans, data.sizes)

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

    def _trouble(self, seen: list[Tensor], plans: list[list[Ids]], sizes: list[int]) -> list[str | None]:
        losses = torch.stack(seen).double().numpy()
        if np.isfinite(losses).all():
            return [None] * len(plans)
        found: list[str | None] = []
        for i, plan in enumerate(plans):
            wrong = np.flatnonzero(~np.isfinite(losses[: len(plan), i]))
            place = self.task.training.place(int(wrong[0]), sizes[i]) if len(wrong) else None
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

    def own_accuracy(self, client: int, model: Vector) -> float:
        """As the task does."""
        return self.task.own_accuracy(client, model)

    def label_counts(self) -> NDArray[np.int64]:
        """As the task does."""
        return self.task.label_counts()


class _Data:
    """The samples of a group of clients, side by side."""

    def __init__(self, task: TorchTask, jobs: Sequence[Job]) -> None:
        self.task = task
        rows = [task.samples.train[job.client] for job in jobs]
        self.sizes = [len(r) for r in rows]
        self.offsets = np.cumsum([0, *self.sizes[:-1]])
        self.rows = np.concatenate(rows)

    def _take(self, places: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        rows = self.rows[places.reshape(-1)]
        x = torch.from_numpy(self.task.samples.x_train[rows]).to(self.task.flat.dtype)
        if self.task.samples.peak != 1:
            x *= 1 / self.task.samples.peak
        y = torch.from_numpy(self.task.samples.y_train[rows].astype(np.int64, copy=False))
        return x.view(*places.shape, *x.shape[1:]), y.view(places.shape)

    def batch(self, plans: list[list[Ids]], step: int) -> tuple[Tensor, Tensor, Tensor]:
        """The samples of one step, padded to the largest batch, and what each weighs."""
        chosen = [plan[step] if step < len(plan) else plan[0][:0] for plan in plans]
        width = max(map(len, chosen))
        if all(len(own) == width for own in chosen):
            rows, share = np.stack(chosen), np.ones((len(plans), width))
        else:
            rows, share = np.zeros((len(plans), width), dtype=np.int64), np.zeros((len(plans), width))
            for i, own in enumerate(chosen):
                rows[i, : len(own)] = own
                share[i, : len(own)] = 1
        rows += self.offsets[:, None]
        x, y = self._take(rows)
        return x, y, torch.from_numpy(share).to(self.task.flat.dtype)

    @torch.no_grad()
    def losses(self, forward: Callable[[Tensor, Tensor], Tensor], weights: Tensor) -> FloatArray:
        """Clients x samples: the loss of each; NaN beyond a client's last sample."""
        width = max(self.sizes)
        rows = np.minimum(np.arange(width), np.array(self.sizes)[:, None] - 1) + self.offsets[:, None]
        x, y = self._take(rows)
        logits = forward(weights, x)
        each = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none")
        found = each.double().numpy().reshape(rows.shape).copy()
        found[np.arange(width) >= np.array(self.sizes)[:, None]] = np.nan
        return np.asarray(found)

    def means(self, values: FloatArray) -> list[float]:
        """The mean over each client's own samples."""
        return [float(row[:size].mean()) for row, size in zip(values, self.sizes, strict=True)]
