"""What a data set is, wherever it came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedparity.core.reprs import brief

Images: TypeAlias = NDArray[np.uint8]
Inputs: TypeAlias = NDArray[np.uint8] | NDArray[np.float32]
Labels: TypeAlias = NDArray[np.int64]
Progress: TypeAlias = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done and how much there is (0: not known)."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrays:
    """Images and labels, as they are stored."""

    x_train: Images
    y_train: Images
    x_test: Images
    y_test: Images

    def parts(self) -> dict[str, Images]:
        """By name."""
        return {name: getattr(self, name) for name in ("x_train", "y_train", "x_test", "y_test")}


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """Samples and labels, split into train and test.

    Samples are images (N x H x W or N x H x W x C) or lists of numbers (N x D): uint8, perhaps memory-mapped, or
    float32.
    """

    name: str
    x_train: Inputs
    y_train: Labels
    x_test: Inputs
    y_test: Labels
    classes: int
    """Labels are 0 .. classes - 1."""
    source: str
    """Where it came from: a folder, an address, a package or a file."""
    digests: Mapping[str, str]
    """Of the official files it is made of (SHA-1 for CIFAR-10, else SHA-256), by their names."""
    path: Path
    """The folder or file it is read from."""
    peak: int = 255
    """The value of a full pixel: uint8 samples are divided by it. 1 for floats, which are taken as they are."""
    groups: Labels | None = None
    """Who each training sample belongs to, if the file says so."""
    groups_test: Labels | None = None
    """Who each test sample belongs to, if the file says so."""

    __repr__ = brief


def every_fourth(keys: NDArray[np.integer], labels: Labels | None = None) -> NDArray[np.bool_]:
    """Which samples are for testing where nobody says so: of those with the same key the first, the fifth, ...

    With `labels` each label of a key is split so, for else labels that come in turns are tested or trained on alone;
    those that the key has fewer than four samples of count as one, of which a single sample is trained on.
    """
    groups, rank = keys, np.zeros(len(keys), np.int64)
    if labels is not None:
        each = keys.astype(np.int64) * (1 + labels.max()) + labels
        _, pairs, counts = np.unique(each, return_inverse=True, return_counts=True)
        groups = np.where(counts[pairs] < 4, len(counts) + keys, pairs)
        rank = -counts[pairs]  # what there is two of is on both sides
    order = np.lexsort((rank if labels is None else labels, rank, groups))
    first = np.searchsorted(groups[order], groups[order])
    found = np.zeros(len(keys), dtype=np.bool_)
    found[order] = (np.arange(len(keys)) - first) % 4 == 0
    return found if labels is None else found & (np.bincount(groups)[groups] > 1)


def silent(_what: str, _done: int, _total: int) -> None:
    """No progress is shown."""
