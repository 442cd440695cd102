"""Softmax regression on data drawn from a known model, in NumPy: a convex task whose optimum a solver can confirm.

F_k(w) = mean over k's samples of -log softmax(x W)_y + l2/2 |W|^2        l2 > 0: one optimum
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedparity import checks
from fedparity.rng import stream
from fedparity.types import ClientReport, Evals, Ids, Vector


@dataclass(frozen=True, slots=True, eq=False)
class Logistic:
    """Softmax regression; `x` is clients x samples x features, `y` the labels."""

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    classes: int
    rate: float = 0.5
    epochs: int = 1
    batch: int = 16
    l2: float = 1e-3

    @classmethod
    def synthetic(
        cls, num_clients: int, samples: int = 32, features: int = 8, classes: int = 4, seed: int = 0
    ) -> Logistic:
        """Gaussian classes, two labels a client: k mod C and k + 1 mod C."""
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

    def train(self, client: int, params: Vector, start: Vector, rng: np.random.Generator) -> ClientReport:
        """Epochs of mini-batch gradient descent."""
        x, y, w = self.x[client], self.y[client], start.copy()
        before = self.evaluate(params, np.array([client]))
        for _ in range(self.epochs):
            order = rng.permutation(len(y))
            for first in range(0, len(y), self.batch):
                rows = order[first : first + self.batch]
                w -= self.rate * self.gradient(w, x[rows], y[rows])
        after = self.evaluate(w, np.array([client]))
        return ClientReport(
            client,
            w - params,
            num_samples=len(y),
            loss_before=float(before.loss[0]),
            loss_after=float(after.loss[0]),
            accuracy_before=float(before.accuracy[0]),
        )

    def evaluate(self, params: Vector, clients: Ids) -> Evals:
        """Mean loss and accuracy on each client's samples."""
        probs = self._probs(params, self.x[clients])
        y = self.y[clients]
        picked = np.take_along_axis(probs, y[..., None], axis=2)[..., 0]
        loss = -np.log(np.maximum(picked, 1e-300)).mean(1) + self.l2 / 2 * float(params @ params)
        return Evals(clients, loss, np.asarray((probs.argmax(2) == y).mean(1), dtype=np.float64))
