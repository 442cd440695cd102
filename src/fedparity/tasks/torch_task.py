"""Local training of a small PyTorch model (Algorithm 2 of the paper): epochs of mini-batch SGD on one's own images.

    w_k <- w_k - rate * v,    v <- momentum * v + gradient of the mean cross-entropy of a mini-batch    (v = 0 at first)

Loss is always that of a client's own *training* images, accuracy that on its own *test* images, in reports and in
`evaluate` alike. Every score comes from one pass over all images in one fixed order, so a client's numbers are the same
bits whoever else is asked about. Models work in float32; vectors are float64 and hold the float32 values exactly.

Bits depend on the key of the random stream alone: each call has a model to itself, and pins torch to one thread (and
leaves it so), since two threads may round differently. Clients, not matrix products, are what runs in parallel here.
Importing this module imports torch; importing `fedparity.tasks` does not.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedparity import checks
from fedparity.errors import ConfigError
from fedparity.tasks.digits import Partition, load_digits, partition_labels
from fedparity.types import BoolArray, ClientReport, Evals, FloatArray, Ids, Vector

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise ConfigError("this task trains with PyTorch; pip install 'fedparity[torch]'") from error


def mlp(sizes: Sequence[int]) -> nn.Sequential:
    """Linear layers with ReLU between them; its first weights are fixed and torch's global generator is left alone."""
    layers: list[nn.Module] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for fan_in, fan_out in itertools.pairwise(sizes):
            layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """A model of one's own, whose parameters and gradients are windows on two flat float32 tensors."""

    module: nn.Module
    weights: Tensor
    gradient: Tensor

    def load(self, vector: Vector) -> None:
        """Take over the values of `vector`, rounded to float32."""
        self.weights.copy_(torch.tensor(vector))

    def vector(self) -> Vector:
        """The values, exact in float64."""
        return np.asarray(self.weights.double().numpy())


class Flat:
    """Module <-> flat vector: parameters in the order of `module.parameters()`, each row by row.

    Copying a module costs more than a step of training, so copies are lent, one borrower at a time, and lent again.
    """

    __slots__ = ("_spare", "module", "size")

    def __init__(self, module: nn.Module) -> None:
        if any(True for _ in module.buffers()):
            raise ConfigError("a model with buffers (batch norm) is more than its parameters; use group norm instead")
        self.module = module
        self.size = sum(p.numel() for p in module.parameters())
        self._spare: list[Replica] = []

    def __reduce__(self) -> tuple[type[Flat], tuple[nn.Module]]:
        return Flat, (self.module,)

    @contextmanager
    def lend(self, vector: Vector) -> Iterator[Replica]:
        """A model with these values, nobody else's until it is given back."""
        if len(vector) != self.size:
            raise ConfigError(f"params has {len(vector)} entries but the model has {self.size}; start from task.init")
        try:
            replica = self._spare.pop()
        except IndexError:
            replica = self._copy()
        replica.load(vector)
        yield replica
        self._spare.append(replica)

    def _copy(self) -> Replica:
        parameters = list(self.module.parameters())
        sizes = [p.numel() for p in parameters]
        weights, gradient = torch.zeros(self.size), torch.zeros(self.size)
        own: dict[int, object] = {}
        for p, w, g in zip(parameters, torch.split(weights, sizes), torch.split(gradient, sizes), strict=True):
            window = nn.Parameter(w.view(p.shape))
            window.grad = g.view(p.shape)
            own[id(p)] = window
        return Replica(copy.deepcopy(self.module, own), weights, gradient)

    def init(self, rng: np.random.Generator) -> Vector:
        """PyTorch's own first weights for linear and convolutional layers: uniform within 1 / sqrt(fan in)."""
        bound, parts = 1.0, []
        for p in self.module.parameters():
            if p.ndim > 1:
                bound = 1 / math.sqrt(p.numel() / p.shape[0])
            parts.append(rng.uniform(-bound, bound, p.numel()))
        return np.concatenate(parts).astype(np.float32).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class TorchTask:
    """Clients that train a classifier of images; `images` is images x pixels, as the module takes them."""

    module: nn.Module
    images: NDArray[np.float32]
    labels: NDArray[np.int64]
    partition: Partition
    epochs: int = 2
    batch: int = 16
    rate: float = 0.1
    momentum: float = 0.0
    """Within one local training; a client keeps no momentum from round to round."""
    flat: Flat = field(init=False, repr=False)
    _x: Tensor = field(init=False, repr=False)
    _y: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        checks.at_least("epochs", self.epochs, 1)
        checks.at_least("batch", self.batch, 1)
        checks.positive("rate", self.rate)
        checks.between("momentum", self.momentum, 0, 0.999)
        for client, pair in enumerate(zip(self.partition.train, self.partition.test, strict=True)):
            if not all(map(len, pair)):
                raise ConfigError(f"client {client} has no training or no test images; give every client some of each")
        object.__setattr__(self, "flat", Flat(self.module))
        object.__setattr__(self, "_x", torch.tensor(self.images, dtype=torch.float32))
        object.__setattr__(self, "_y", torch.tensor(self.labels, dtype=torch.int64))

    @property
    def num_clients(self) -> int:
        """How many clients hold data."""
        return self.partition.num_clients

    def init(self, rng: np.random.Generator) -> Vector:
        """The first model."""
        return self.flat.init(rng)

    def train(self, client: int, params: Vector, start: Vector, rng: np.random.Generator) -> ClientReport:
        """Epochs of mini-batch SGD from `start`; the update is relative to `params` as received, unrounded."""
        torch.set_num_threads(1)
        own = np.array([client])
        with self.flat.lend(params) as replica:
            before = self._evals(replica, own)
            replica.load(start)
            failure = self._descend(replica, self.partition.train[client], rng)
            after = self._evals(replica, own)
            delta = replica.vector() - params
        if failure is None and not math.isfinite(after.loss[0]):
            failure = f"loss is {_word(after.loss[0])} after training"
        if failure is not None:
            return ClientReport(client, failure=failure)
        return ClientReport(
            client,
            delta,
            num_samples=len(self.partition.train[client]),
            loss_before=float(before.loss[0]),
            loss_after=float(after.loss[0]),
            accuracy_before=float(before.accuracy[0]),
        )

    def _descend(self, replica: Replica, rows: Ids, rng: np.random.Generator) -> str | None:
        """Train in place; what went wrong, if something did."""
        x, y = self._x[rows], self._y[rows]
        velocity = torch.zeros_like(replica.gradient)
        for epoch in range(self.epochs):
            order = torch.from_numpy(rng.permutation(len(rows)))
            for number, batch in enumerate(torch.split(order, self.batch)):
                loss = nn.functional.cross_entropy(replica.module(x[batch]), y[batch])
                value = loss.item()
                if not math.isfinite(value):
                    return f"loss is {_word(value)} in epoch {epoch + 1} batch {number + 1}"
                replica.gradient.zero_()
                torch.autograd.backward(loss)
                step = velocity.mul_(self.momentum).add_(replica.gradient) if self.momentum else replica.gradient
                replica.weights.sub_(step, alpha=self.rate)
        return None

    def evaluate(self, params: Vector, clients: Ids) -> Evals:
        """Mean loss on each client's own training images, accuracy on its own test images."""
        torch.set_num_threads(1)
        with self.flat.lend(params) as replica:
            return self._evals(replica, clients)

    def accuracy(self, params: Vector) -> float:
        """Accuracy on all held-out images: the global test accuracy."""
        torch.set_num_threads(1)
        with self.flat.lend(params) as replica:
            return float(self._score(replica)[1][self.partition.held_out].mean())

    def _evals(self, replica: Replica, clients: Ids) -> Evals:
        loss, hit = self._score(replica)
        return Evals(clients, _means(loss, self.partition.train, clients), _means(hit, self.partition.test, clients))

    def _score(self, replica: Replica) -> tuple[FloatArray, BoolArray]:
        """Loss of every image and whether it is recognised; an answer that is not a number is not recognised."""
        with torch.no_grad():
            logits = replica.module(self._x)
            loss = nn.functional.cross_entropy(logits, self._y, reduction="none")
            hit = (logits.argmax(1) == self._y) & ~loss.isnan()
        return loss.double().numpy(), hit.numpy()


def _means(values: NDArray[np.generic], parts: Sequence[Ids], clients: Ids) -> FloatArray:
    """Mean of `values` over each client's part, summed in its order."""
    if len(clients) == 0:
        return np.empty(0)
    chosen = [parts[client] for client in clients.tolist()]
    sizes = np.array([len(part) for part in chosen])
    owner = np.repeat(np.arange(len(chosen)), sizes)
    return np.asarray(np.bincount(owner, weights=values[np.concatenate(chosen)]) / sizes)


def _word(value: float) -> str:
    return "NaN" if math.isnan(value) else "infinite"


def digits_task(
    num_clients: int,
    labels_per_client: int = 2,
    *,
    hidden: int = 32,
    epochs: int = 2,
    batch: int = 16,
    rate: float = 0.1,
    momentum: float = 0.0,
    seed: int = 0,
) -> TorchTask:
    """A 64-hidden-10 network on the digits, `labels_per_client` labels a client; `seed` is that of the partition."""
    checks.at_least("hidden", hidden, 1)
    images, labels = load_digits()
    partition = partition_labels(labels, num_clients, labels_per_client, seed=seed)
    return TorchTask(mlp([64, hidden, 10]), images, labels, partition, epochs, batch, rate, momentum)
