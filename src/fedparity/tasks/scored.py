"""A PyTorch classifier on clients' samples: how well it does on them. `TorchTask` trains it.

Loss is always that of a client's own *training* samples, accuracy that on its own *test* samples, in reports and in
`evaluate` alike. Test samples go through the model once, whoever shares them: per-client accuracies are gathered from
one table, kept until another model is asked about. Scores come from fixed groups of samples, so a client's numbers are
the same bits whoever else is asked about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.protocols import Measure, Task
from fedparity.core.reprs import brief
from fedparity.core.types import Evals, FloatArray, Ids, Vector
from fedparity.tasks.flat import Flat, Replica
from fedparity.tasks.samples import Samples, recall_of, tiles
from fedparity.tasks.training import Training

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise ConfigError("this task trains with PyTorch; pip install 'fedparity[torch]'") from error

TILE = 64
"""Samples scored at a time: larger groups leave the cache, and take more memory and longer."""


@dataclass(frozen=True, slots=True, eq=False)
class ClientData:
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
class Scored(Task):
    """A classifier and its scores; the module takes batches of samples as floats, shaped as they are kept."""

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

    __repr__ = brief

    def __post_init__(self) -> None:
        checks.instance("module", self.module, nn.Module, "give an object, nn.Linear(8, 2)")
        checks.instance("samples", self.samples, Samples, "own_samples(x, y) makes them")
        if not any(part.requires_grad for part in self.module.parameters()):
            raise ConfigError("the model has no parameter that is trained; leave one with requires_grad")
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
            except (IndexError, RuntimeError, ValueError) as error:  # each kind of layer has its own
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

    def _own(self, rows: Ids) -> ClientData:
        labels = torch.from_numpy(self.samples.y_train[rows].astype(np.int64))
        return ClientData(np.asarray(self.samples.x_train)[rows], labels.to(self.device))  # indexing a map is slower

    @torch.no_grad()
    def _losses(self, replica: Replica, data: ClientData) -> FloatArray:
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
        def score(part: list[Ids]) -> list[NDArray[np.bool_]]:
            torch.set_num_threads(self.threads)
            with self.flat.lend(params) as replica:
                return self._recognised(replica, part)

        if min(self.workers, len(groups)) <= 1:
            return score(groups)
        parts = [groups[first :: self.workers] for first in range(self.workers)]
        with ThreadPoolExecutor(self.workers) as pool:
            done = list(pool.map(score, parts))
        return [done[i % self.workers][i // self.workers] for i in range(len(groups))]

    @torch.no_grad()
    def _recognised(self, replica: Replica, groups: Sequence[Ids]) -> list[NDArray[np.bool_]]:
        replica.module.eval()
        plain = np.asarray(self.samples.x_test)  # indexing a map is slower
        found = []
        for rows in groups:
            logits = replica.module(self.floats(plain[rows]))
            known = ~logits.isnan().any(1).cpu().numpy()
            found.append(np.asarray(known & (logits.argmax(1).cpu().numpy() == self.samples.y_test[rows])))
        return found

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
        # Drawn for all, so that a client's samples do not depend on who else is asked about.
        chosen = [rng.permutation(rows)[:samples] for rows in self.samples.train]
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

    def recall(self, params: Vector) -> FloatArray:
        """On all held-out samples; NaN for a label that none of them has."""
        torch.set_num_threads(self.threads)
        rows = self.samples.held_out
        return recall_of(self.samples.y_test[rows], self._hits(params, rows), self.samples.classes)

    def kept_accuracy(self, client: int, model: Vector) -> float:
        """Accuracy of a client's own model on its own test samples."""
        torch.set_num_threads(self.threads)
        rows = self.samples.test[client]
        with self.flat.lend(model) as replica:
            hits = self._recognised(replica, np.array_split(rows, math.ceil(len(rows) / TILE)))
        return float(np.concatenate(hits).mean())

    def label_counts(self) -> NDArray[np.int64]:
        """Clients x labels: training samples."""
        return self.samples.label_counts()

    def local_steps(self) -> FloatArray:
        """Mini-batches of one participation of each client."""
        return np.array([self.training.num_batches(len(rows)) for rows in self.samples.train], dtype=np.float64)


def _device(name: str) -> str:
    if name.split(":", maxsplit=1)[0] == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device={name!r} but PyTorch sees no GPU here; use device='cpu'")
    try:
        torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device={name!r} is none of PyTorch's; use 'cpu' or 'cuda'") from error
    return name


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
