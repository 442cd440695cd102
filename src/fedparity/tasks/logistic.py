"""Softmax regression on data drawn from a known model, in NumPy: a convex task whose optimum a solver can confirm.

F_k(w) = mean over k's samples of -log softmax(x W)_y + l2/2 |W|^2        l2 > 0: one optimum
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.protocols import Measure, Task
from fedparity.core.reprs import brief
from fedparity.core.rng import stream
from fedparity.core.types import ClientReport, Evals, FloatArray, Ids, Job, Vector
from fedparity.tasks.rule import check_size, train_by_rule
from fedparity.tasks.samples import recall_of


@dataclass(frozen=True, slots=True, eq=False)
class Logistic(Task):
    """Softmax regression; `x` is clients x samples x features, `y` the labels."""

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    classes: int
    rate: float = 0.5
    epochs: int = 1
    batch: int = 16
    l2: float = 1e-3

    __repr__ = brief

    @classmethod
    def synthetic(
        cls, num_clients: int, samples: int = 32, features: int = 8, classes: int = 4, seed: int = 0
    ) -> Logistic:
        """Gaussian classes, two labels per client: k mod C and k + 1 mod C."""
        rng = stream(seed, "logistic")
        means = rng.normal(scale=1.5, size=(classes, features))
        first = np.arange(num_clients) % classes
        y = (first[:, None] + (rng.random((num_clients, samples)) < 0.5)) % classes
        x = means[y] + rng.normal(size=(num_clients, samples, features))
        return cls(x, y.astype(np.int64), classes)

    def __post_init__(self) -> None:
        checks.positive("rate", self.rate)
        checks.at_least("epochs", self.epochs, 1)
        checks.at_least("batch", self.batch, 1)
        checks.not_negative("l2", self.l2)

    @property
    def num_clients(self) -> int:
        """How many clients hold data."""
        return len(self.x)

    def init(self, rng: np.random.Generator) -> Vector:
        """Zero."""
        return np.zeros((self.x.shape[2] + 1) * self.classes)

    def _probs(self, params: Vector, x: NDArray[np.float64]) -> NDArray[np.float64]:
        w = params.reshape(-1, self.classes)
        logits = x @ w[:-1] + w[-1]
        e = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return np.asarray(e / e.sum(axis=-1, keepdims=True))

    def gradient(self, params: Vector, x: NDArray[np.float64], y: NDArray[np.int64]) -> Vector:
        """Gradient of the loss on a batch."""
        error = self._probs(params, x)
        error[np.arange(len(y)), y] -= 1
        padded = np.column_stack([x, np.ones(len(x))])
        return np.asarray((padded.T @ error / len(y)).ravel() + self.l2 * params)

    def train(self, job: Job) -> ClientReport:
        """Epochs of mini-batch gradient descent."""
        client, params, rng = job.row, job.params, job.rng()
        check_size(params, (self.x.shape[2] + 1) * self.classes)
        x, y = self.x[client], self.y[client]
        losses = self._losses(params, x, y)
        before = self.evaluate(params, np.array([client]))

        def descend(w: Vector, pull: float, centre: Vector) -> Vector:
            for _ in range(self.epochs):
                order = rng.permutation(len(y))
                for first in range(0, len(y), self.batch):
                    rows = order[first : first + self.batch]
                    w -= job.rate * self.rate * (self.gradient(w, x[rows], y[rows]) + pull * (w - centre))
            return w

        w, beside = train_by_rule(job, descend)
        after = self.evaluate(w, np.array([client]))
        return job.report(
            w - params,
            beside,
            num_samples=len(y),
            loss_before=float(before.loss[0]),
            loss_after=float(after.loss[0]),
            accuracy_before=float(before.accuracy[0]),
            loss_rms=float(np.sqrt((losses**2).mean())),
        )

    def _losses(self, params: Vector, x: NDArray[np.float64], y: NDArray[np.int64]) -> NDArray[np.float64]:
        picked = np.take_along_axis(self._probs(params, x), y[..., None], axis=-1)[..., 0]
        return np.asarray(-np.log(np.maximum(picked, 1e-300)))

    def label_counts(self) -> NDArray[np.int64]:
        """Clients x labels: samples."""
        return np.stack([np.bincount(y, minlength=self.classes) for y in self.y]).astype(np.int64)

    def recall(self, params: Vector) -> FloatArray:
        """On everybody's samples."""
        hits = self._probs(params, self.x).argmax(2) == self.y
        return recall_of(self.y.ravel(), hits.ravel(), self.classes)

    def local_steps(self) -> FloatArray:
        """Mini-batches of all epochs, the same for everybody."""
        return np.full(self.num_clients, float(self.epochs * math.ceil(self.x.shape[1] / self.batch)))

    def probe(self, params: Vector, clients: Ids, samples: int, rng: np.random.Generator) -> FloatArray:
        """Mean loss on a few random samples of each client."""
        rows = rng.random((self.num_clients, self.x.shape[1])).argsort(axis=1)[clients, :samples]
        x = np.take_along_axis(self.x[clients], rows[..., None], axis=1)
        losses = self._losses(params, x, np.take_along_axis(self.y[clients], rows, axis=1))
        return np.asarray(losses.mean(axis=1) + self.l2 / 2 * float(params @ params))

    def evaluate(self, params: Vector, clients: Ids, measure: Measure = "both") -> Evals:
        """Mean loss and accuracy on each client's samples."""
        probs = self._probs(params, self.x[clients])
        y = self.y[clients]
        picked = np.take_along_axis(probs, y[..., None], axis=2)[..., 0]
        loss = -np.log(np.maximum(picked, 1e-300)).mean(1) + self.l2 / 2 * float(params @ params)
        return Evals(clients, loss, np.asarray((probs.argmax(2) == y).mean(1), dtype=np.float64))
