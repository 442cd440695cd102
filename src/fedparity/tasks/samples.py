"""What a classification task learns from: one copy of the data, and who holds which of it.

Bytes stay uint8 as they are kept, memory-mapped or not; a batch is made into floats when it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedparity.core.errors import ConfigError
from fedparity.core.reprs import brief
from fedparity.core.types import FloatArray, Ids


def recall_of(labels: NDArray[np.integer], hits: NDArray[np.bool_], classes: int) -> FloatArray:
    """The share of each label's samples that is recognised; NaN for a label that none of them has."""
    there = np.bincount(labels, minlength=classes)
    found = np.bincount(labels[hits], minlength=classes)
    return np.asarray(np.divide(found, there, out=np.full(classes, np.nan), where=there > 0), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Training and test data of all clients."""

    x_train: NDArray[np.generic]
    y_train: NDArray[np.integer]
    x_test: NDArray[np.generic]
    y_test: NDArray[np.integer]
    train: Sequence[Ids]
    """Each client's own training samples."""
    test: Sequence[Ids]
    """Each client's own test samples; clients may share them."""
    classes: int
    held_out: Ids
    """All test samples that the global accuracy is taken over."""
    validation: Ids = field(default_factory=lambda: np.empty(0, np.int64))
    """Training samples that the server holds itself, and no client."""
    peak: float = 1.0
    """The value of a full pixel: samples are divided by it. Floats are taken as they are: 1."""

    __repr__ = brief

    def __post_init__(self) -> None:
        if len(self.train) != len(self.test):
            raise ConfigError(f"{len(self.train)} clients have training samples but {len(self.test)} test samples")
        for client, pair in enumerate(zip(self.train, self.test, strict=True)):
            if not all(map(len, pair)):
                raise ConfigError(f"client {client} has no training or no test samples; give every client some of each")

    @property
    def num_clients(self) -> int:
        """How many clients hold data."""
        return len(self.train)

    def standardised(self) -> Samples:
        """The same with each float feature less its mean, over its deviation, in all training samples.

        A feature that never changes becomes 0. Whoever computes this sees the data of all clients.
        """
        if self.x_train.dtype.kind != "f":
            raise ConfigError(
                f"samples of {self.x_train.dtype} are divided by {self.peak:g}; standardise is for float features"
            )
        rows = self.x_train[np.unique(np.concatenate([*self.train, self.validation]))]
        mean, deviation = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
        deviation[deviation == 0] = 1.0
        x_train, x_test = (((x - mean) / deviation).astype(np.float32) for x in (self.x_train, self.x_test))
        return replace(self, x_train=x_train, x_test=x_test)

    def label_counts(self) -> NDArray[np.int64]:
        """Clients x labels: training samples."""
        found = [np.bincount(self.y_train[rows], minlength=self.classes) for rows in self.train]
        return np.stack(found).astype(np.int64)


def tiles(order: Ids, wanted: Ids, size: int) -> list[tuple[int, Ids]]:
    """The fixed groups of `size` samples of `order` that hold the wanted ones, by number.

    Scores come from whole groups, so a sample's score is the same bits whoever else is asked about.
    """
    place = np.empty(int(order.max(initial=-1)) + 1, dtype=np.int64)
    place[order] = np.arange(len(order))
    numbers = np.unique(place[wanted] // size)
    return [(int(n), order[n * size : (n + 1) * size]) for n in numbers.tolist()]
