"""Softmax regression on scikit-learn's digits; every client holds two of the ten labels."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Arrays = tuple[NDArray[np.float32], NDArray[np.int64]]
LABELS = 10


@lru_cache
def _digits() -> Arrays:
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    x, y = load_digits(return_X_y=True)
    padded = np.column_stack([x / 16, np.ones(len(x))])
    return padded.astype(np.float32), y.astype(np.int64)


def load_data(partition: int, partitions: int) -> Arrays:
    """The samples of one client: its share of two labels, a fixed one and its neighbour."""
    x, y = _digits()
    rows: list[NDArray[np.intp]] = []
    for label in (partition % LABELS, (partition + 1) % LABELS):
        holders = [k for k in range(partitions) if label in {k % LABELS, (k + 1) % LABELS}]
        rows.append(np.array_split(np.flatnonzero(y == label), len(holders))[holders.index(partition)])
    mine = np.concatenate(rows)
    return x[mine], y[mine]


def first_model() -> NDArray[np.float32]:
    """Zero."""
    return np.zeros((_digits()[0].shape[1], LABELS), np.float32)


def probabilities(w: NDArray[np.float32], x: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the model thinks."""
    logits = x @ w
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def train(w: NDArray[np.float32], data: Arrays, rate: float, steps: int = 5) -> NDArray[np.float32]:
    """A few steps of gradient descent."""
    x, y = data
    for _ in range(steps):
        error = probabilities(w, x)
        error[np.arange(len(y)), y] -= 1
        w = (w - rate * x.T @ error / len(y)).astype(np.float32)
    return w


def test(w: NDArray[np.float32], data: Arrays) -> tuple[float, float]:
    """Loss and accuracy."""
    x, y = data
    found = probabilities(w, x)
    loss = -np.log(np.maximum(found[np.arange(len(y)), y], 1e-12)).mean()
    return float(loss), float((found.argmax(axis=1) == y).mean())
