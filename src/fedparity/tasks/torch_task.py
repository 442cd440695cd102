"""Clients that train a PyTorch classifier on their own samples (Algorithm 2 of the paper).

Loss is always that of a client's own *training* samples, accuracy that on its own *test* samples, in reports and in
`evaluate` alike. Test samples go through the model once, whoever shares them: per-client accuracies are gathered from
one table, kept until another model is asked about. Scores come from fixed groups of samples, so a client's numbers are
the same bits whoever else is asked about.

Bits depend on the key of the random stream and on `threads`, never on how many clients train at a time: each call has a
model to itself. Importing this module imports torch; importing `fedparity.tasks` does not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.protocols import Measure, Task
from fedparity.core.types import ClientReport, Descent, Evals, FloatArray, Ids, Job, JointLoss, Prototypes, Vector
from fedparity.tasks.digits import load_digits, partition_labels
from fedparity.tasks.flat import Flat, Replica
from fedparity.tasks.samples import Samples, tiles
from fedparity.tasks.training import Training

try:
    import torch
    from torch import Tensor, nn

    from fedparity.tasks.optimise import Optimiser
except ImportError as error:
    raise ConfigError("this task trains with PyTorch; pip install 'fedparity[torch]'") from error

TILE = 64
"""Samples scored at a time: larger groups leave the cache, and take more memory and longer."""


@dataclass(frozen=True, slots=True, eq=False)
class Own:
    """One client's training samples."""

    x: NDArray[np.generic]
    y: Tensor


class _Scores:
    """What is known of one model: the test samples it recognises, group by group."""

    def __init__(self) -> None:
        self.params: Vector | None = None
        self.hits: dict[int, NDArray[np.bool_]] = {}

    def of(self, params: Vector) -> dict[int, NDArray[np.bool_]]:
        if self.params is not params:  # models are replaced, never changed in place
            self.params, self.hits = params, {}
        return self.hits


@dataclass(frozen=True, slots=True, eq=False)
class TorchTask(Task):
    """Clients that train a classifier; the module takes batches of samples as floats, shaped as they are kept."""

    module: nn.Module
    samples: Samples
    training: Training = field(default_factory=Training)
    threads: int = 1
    """Threads of one matrix product: part of what decides the bits."""
    workers: int = 1
    """How many groups of samples are scored at a time; decides nothing."""
    channels_last: bool = False
    device: str = "cpu"
    double: bool = False
    """Work in float64 instead of float32."""
    first: Vector | None = None
    """The first model; None: drawn."""
    flat: Flat = field(init=False, repr=False)
    _order: Ids = field(init=False, repr=False)
    _scores: _Scores = field(init=False, repr=False, default_factory=_Scores)

    def __post_init__(self) -> None:
        checks.at_least("threads", self.threads, 1)
        checks.at_least("workers", self.workers, 1)
        flat = Flat(
            self.module,
            channels_last=self.channels_last,
            device=_device(self.device),
            dtype=torch.float64 if self.double else torch.float32,
        )
        object.__setattr__(self, "flat", flat)
        tested = np.unique(np.concatenate([*self.samples.test, self.samples.held_out]))
        by_label = np.argsort(self.samples.y_test[tested], kind="stable")
        object.__setattr__(self, "_order", tested[by_label])  # clients ask for labels, so groups hold one label each
        self._check_output()

    def _check_output(self) -> None:
        """Refuse a model whose answers do not fit the labels, before anybody trains it."""
        with self.flat.lend(self.flat.current()) as replica, torch.no_grad():
            replica.module.eval()
            try:
                shape = tuple(replica.module(self.floats(self.samples.x_train[:1])).shape)
            except RuntimeError as error:
                given = self.samples.x_train.shape[1:]
                raise ConfigError(f"the model cannot take samples of shape {given}: {_first_line(error)}") from error
        if len(shape) != 2 or shape[1] < self.samples.classes:
            raise ConfigError(
                f"the model answers with shape {shape} but there are {self.samples.classes} labels;"
                f" it must give (batch, {self.samples.classes})"
            )

    @property
    def num_clients(self) -> int:
        """How many clients hold data."""
        return self.samples.num_clients

    def init(self, rng: np.random.Generator) -> Vector:
        """The first model."""
        return self.flat.init(rng) if self.first is None else self.first

    def floats(self, rows: NDArray[np.generic]) -> Tensor:
        """Samples as the model takes them."""
        raw = torch.from_numpy(np.array(rows)).to(self.device)
        x = raw.to(self.flat.dtype)
        if self.samples.peak != 1:
            x /= self.samples.peak
        last = self.channels_last and x.ndim == 4
        return x.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)

    # -- training -----------------------------------------------------------------------------------------------------

    def train(self, job: Job) -> ClientReport:
        """Train as the job's rule says; the update is relative to `job.params`."""
        torch.set_num_threads(self.threads)
        data = self._own(self.samples.train[job.client])
        told = self._before(job, data)
        ends, failure = self._descend_all(job, data)
        if failure is None and "loss_after" in job.report_fields:
            with self.flat.lend(ends[0][1]) as replica:
                told["loss_after"] = float(self._losses(replica, data).mean())
            if not math.isfinite(told["loss_after"]):
                failure = f"loss is {_word(told['loss_after'])} after training"
        if failure is not None:
            return ClientReport(job.client, failure=f"client {job.client}, round {job.round}: {failure}")
        return job.report(ends[0][1] - job.params, ends[1:], num_samples=len(data.x), **told)

    def _own(self, rows: Ids) -> Own:
        labels = torch.from_numpy(self.samples.y_train[rows].astype(np.int64))
        return Own(np.array(self.samples.x_train[rows]), labels.to(self.device))

    def _before(self, job: Job, data: Own) -> dict[str, Any]:
        """What the report says about the model received, as far as anybody wants to know."""
        told: dict[str, Any] = {}
        if "accuracy_before" in job.report_fields:
            told["accuracy_before"] = float(self._hits(job.params, self.samples.test[job.client]).mean())
        with self.flat.lend(job.params) as replica:
            if job.report_fields & {"loss_before", "loss_rms"}:
                losses = self._losses(replica, data)
                told["loss_before"] = float(losses.mean())
                told["loss_rms"] = float(np.sqrt((losses**2).mean()))
            if "prototypes" in job.report_fields:
                told["prototypes"] = self._prototypes(replica, data)
        return told

    def _descend_all(self, job: Job, data: Own) -> tuple[list[tuple[Vector, Vector]], str | None]:
        """Where each descent started and ended, and what went wrong; one after the other unless they share a loss."""
        rng, joint, descents = job.rng(), job.joint, job.descents()
        if joint is not None:
            return self._descend(job, data, rng, descents, joint)
        ends: list[tuple[Vector, Vector]] = []
        for descent in descents:
            found, failure = self._descend(job, data, rng, [descent], _of_one)
            if failure is not None:
                return ends, failure
            ends += found
        return ends, None

    def _descend(
        self, job: Job, data: Own, rng: np.random.Generator, descents: Sequence[Descent], joint: JointLoss
    ) -> tuple[list[tuple[Vector, Vector]], str | None]:
        """Train models by one loss: where each started and ended, and what went wrong if something did."""
        with ExitStack() as lent:
            replicas = [lent.enter_context(self.flat.lend(descent.start)) for descent in descents]
            centres = [self._centre(job, descent) for descent in descents]
            optimisers = [Optimiser(self.training, r.gradient, job.rate, r.trained) for r in replicas]
            for replica in replicas:
                replica.prepare()
            for step, batch in enumerate(self.training.batches(len(data.x), rng)):
                x = self.floats(data.x[batch])
                loss = joint([replica.module(x) for replica in replicas], data.y[batch])
                value = loss.item()
                if not math.isfinite(value):
                    return [], f"loss is {_word(value)} in {self.training.place(step, len(data.x))}"
                for replica in replicas:
                    replica.gradient.zero_()
                torch.autograd.backward(loss)
                for replica, descent, centre, optimiser in zip(replicas, descents, centres, optimisers, strict=True):
                    if centre is not None:
                        replica.gradient.add_(replica.parameters.detach() - centre, alpha=descent.pull)
                    optimiser.step(replica.parameters, replica.gradient)
            return [(d.start, replica.vector()) for d, replica in zip(descents, replicas, strict=True)], None

    def _centre(self, job: Job, descent: Descent) -> Tensor | None:
        """What a model is pulled towards, in the memory format of replicas."""
        if not descent.pull:
            return None
        with self.flat.lend(job.params if descent.centre is None else descent.centre) as replica:
            return replica.parameters.clone()

    def _prototypes(self, replica: Replica, data: Own) -> Prototypes:
        """Class means of what the last linear layer takes."""
        head = _head(replica.module)
        seen: list[Tensor] = []
        handle = head.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0].detach()))
        try:
            self._losses(replica, data)
        finally:
            handle.remove()
        features = torch.cat(seen).double().cpu().numpy()
        labels = data.y.cpu().numpy()
        counts = np.bincount(labels, minlength=self.samples.classes)
        sums = np.zeros((self.samples.classes, features.shape[1]))
        np.add.at(sums, labels, features)
        return Prototypes(sums / np.maximum(counts, 1)[:, None], counts)

    # -- scoring ------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _losses(self, replica: Replica, data: Own) -> FloatArray:
        """The loss of each sample."""
        replica.module.eval()
        parts = []
        for first in range(0, len(data.x), TILE):
            logits = replica.module(self.floats(data.x[first : first + TILE]))
            parts.append(nn.functional.cross_entropy(logits, data.y[first : first + TILE], reduction="none"))
        return np.asarray(torch.cat(parts).double().cpu().numpy())

    def _hits(self, params: Vector, wanted: Ids) -> NDArray[np.bool_]:
        """Which of these test samples the model recognises; an answer that is not a number is not recognised."""
        known = self._scores.of(params)
        todo = [(number, rows) for number, rows in tiles(self._order, wanted, TILE) if number not in known]
        found = self._map(params, [rows for _, rows in todo])
        known |= {number: hits for (number, _), hits in zip(todo, found, strict=True)}
        table = np.zeros(int(self._order.max()) + 1, dtype=np.bool_)
        for number, rows in tiles(self._order, wanted, TILE):
            table[rows] = known[number]
        return np.asarray(table[wanted])

    def _map(self, params: Vector, groups: list[Ids]) -> list[NDArray[np.bool_]]:
        if min(self.workers, len(groups)) <= 1:
            with self.flat.lend(params) as replica:
                return [self._recognised(replica, rows) for rows in groups]

        def score(part: list[Ids]) -> list[NDArray[np.bool_]]:
            torch.set_num_threads(self.threads)
            with self.flat.lend(params) as replica:
                return [self._recognised(replica, rows) for rows in part]

        parts = [groups[first :: self.workers] for first in range(self.workers)]
        with ThreadPoolExecutor(self.workers) as pool:
            done = list(pool.map(score, parts))
        return [done[i % self.workers][i // self.workers] for i in range(len(groups))]

    @torch.no_grad()
    def _recognised(self, replica: Replica, rows: Ids) -> NDArray[np.bool_]:
        replica.module.eval()
        logits = replica.module(self.floats(self.samples.x_test[rows]))
        hits = (logits.argmax(1).cpu().numpy() == self.samples.y_test[rows]) & ~logits.isnan().any(1).cpu().numpy()
        return np.asarray(hits)

    def evaluate(self, params: Vector, clients: Ids, measure: Measure = "both") -> Evals:
        """Mean loss on each client's own training samples, accuracy on its own test samples."""
        torch.set_num_threads(self.threads)
        loss = accuracy = np.full(len(clients), np.nan)
        if measure != "accuracy":
            loss = self._client_losses(params, [self.samples.train[c] for c in clients.tolist()])
        if measure != "loss" and len(clients):
            tests = [self.samples.test[c] for c in clients.tolist()]
            hits = self._hits(params, np.concatenate(tests))
            ends = np.cumsum([len(t) for t in tests])
            accuracy = np.array([part.mean() for part in np.split(hits, ends[:-1])], dtype=np.float64)
        return Evals(clients, loss, accuracy)

    def _client_losses(self, params: Vector, groups: Sequence[Ids]) -> FloatArray:
        def mean(rows: Ids) -> float:
            torch.set_num_threads(self.threads)
            with self.flat.lend(params) as replica:
                return float(self._losses(replica, self._own(rows)).mean())

        if min(self.workers, len(groups)) <= 1:
            return np.array([mean(rows) for rows in groups], dtype=np.float64)
        with ThreadPoolExecutor(self.workers) as pool:
            return np.array(list(pool.map(mean, groups)), dtype=np.float64)

    def probe(self, params: Vector, clients: Ids, samples: int, rng: np.random.Generator) -> FloatArray:
        """Mean loss on a few random training samples of each client."""
        chosen = [
            rng.permutation(self.samples.train[c])[:samples] for c in range(self.num_clients)
        ]  # drawn for all, so that a client's samples do not depend on who else is asked about
        return self._client_losses(params, [chosen[c] for c in clients.tolist()])

    @property
    def validate(self) -> Callable[[Vector], float] | None:
        """Mean loss on the samples that the server holds itself, if it holds any."""
        rows = self.samples.validation
        return (lambda params: float(self._client_losses(params, [rows])[0])) if len(rows) else None

    def accuracy(self, params: Vector) -> float:
        """Accuracy on all held-out samples: the global test accuracy."""
        torch.set_num_threads(self.threads)
        return float(self._hits(params, self.samples.held_out).mean())

    def kept_accuracy(self, client: int, model: Vector) -> float:
        """Accuracy of a client's own model on its own test samples."""
        torch.set_num_threads(self.threads)
        rows = self.samples.test[client]
        with self.flat.lend(model) as replica:
            hits = [self._recognised(replica, group) for group in np.array_split(rows, math.ceil(len(rows) / TILE))]
        return float(np.concatenate(hits).mean())

    def label_counts(self) -> NDArray[np.int64]:
        """Clients x labels: training samples."""
        return self.samples.label_counts()

    def local_steps(self) -> FloatArray:
        """Mini-batches of one participation of each client."""
        return np.array([self.training.num_batches(len(rows)) for rows in self.samples.train], dtype=np.float64)


def _of_one(logits: Sequence[Tensor], y: Tensor) -> Tensor:
    """The loss of a model that trains by itself."""
    return nn.functional.cross_entropy(logits[0], y)


def _head(module: nn.Module) -> nn.Linear:
    layers = [part for part in module.modules() if isinstance(part, nn.Linear)]
    if not layers:
        raise ConfigError("prototypes need a model whose last layer is linear; use another memory")
    return layers[-1]


def _device(name: str) -> str:
    if name.split(":", maxsplit=1)[0] == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device={name!r} but PyTorch sees no GPU here; use device='cpu'")
    return name


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _word(value: float) -> str:
    return "NaN" if math.isnan(value) else "infinite"


def mlp(sizes: Sequence[int]) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def digits_task(
    num_clients: int,
    labels_per_client: int = 2,
    *,
    hidden: int = 32,
    training: Training | None = None,
    seed: int = 0,
    workers: int = 1,
) -> TorchTask:
    """A 64-hidden-10 network on the digits, `labels_per_client` labels a client; `seed` is that of the partition."""
    checks.at_least("hidden", hidden, 1)
    samples = digits_samples(num_clients, labels_per_client, seed)
    return TorchTask(mlp([64, hidden, 10]), samples, training or Training(), workers=workers)


def digits_samples(num_clients: int, labels_per_client: int, seed: int) -> Samples:
    """The digits, dealt on a ring of labels."""
    images, labels = load_digits()
    dealt = partition_labels(labels, num_clients, labels_per_client, seed=seed)
    return Samples(images, labels, images, labels, dealt.train, dealt.test, 10, dealt.held_out)
