"""What a classification task learns from: one copy of the data, and who holds which of it.

Images stay uint8 as they are kept, memory-mapped or not; a batch is made into floats when it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedparity.core.errors import ConfigError
from fedparity.core.types import Ids


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
    """The value of a full pixel: samples are divided by it."""

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
