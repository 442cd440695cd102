"""The 1,797 real handwritten digits that ship with scikit-learn, and how they are dealt to clients by label.

Label ring: client k holds the labels k, k + 1, ... (mod C). Held-out images are set aside first, the same share of
every label; a client is tested on those of its own labels. What is left of a label is shuffled and dealt in turn to the
clients that hold it, so no image has two owners. Only where that would leave a client below `min_samples` are a label's
images shared: each holder then takes the next few of them in a circle, never one twice, so all are used equally often.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.rng import stream
from fedparity.core.types import Ids


def load_digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Images (1797 x 64, in [0, 1], steps of 1/16: exact in float32) and their labels."""
    try:
        datasets = importlib.import_module("sklearn.datasets")
    except ImportError as error:
        raise ConfigError("the digits come with scikit-learn; pip install 'fedparity[torch]'") from error
    bunch = datasets.load_digits()
    return (bunch.data / 16).astype(np.float32), bunch.target.astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Who holds which images: arrays of image numbers, sorted and free of repeats."""

    train: tuple[Ids, ...]
    """Each client's own training images."""
    test: tuple[Ids, ...]
    """All held-out images of each client's own labels."""
    held_out: Ids
    """All held-out images: the global test set."""
    labels: NDArray[np.int64]
    """Clients x labels_per_client: which labels each client holds."""

    @property
    def num_clients(self) -> int:
        """How many clients hold data."""
        return len(self.train)


def partition_labels(
    labels: NDArray[np.int64],
    num_clients: int,
    labels_per_client: int = 2,
    *,
    samples: int | None = None,
    min_samples: int = 10,
    test_share: float = 0.25,
    seed: int = 0,
) -> Partition:
    """Deal images by label: at most `samples` a client (None: all there are), at least `min_samples` unless capped.

    Both are split evenly over a client's labels (the latter rounded up), and every label keeps at least one image on
    either side of the hold-out.
    """
    classes, sizes = np.unique(labels, return_counts=True)
    checks.at_least("clients", num_clients, 1)
    checks.at_least("labels_per_client", labels_per_client, 1)
    checks.between("labels_per_client", labels_per_client, 1, len(classes))
    checks.at_least("min_samples", min_samples, 1)
    if samples is not None:
        checks.at_least("samples", samples, labels_per_client)
    checks.between("test_share", test_share, 0, 1)
    if sizes.min() < 2:
        raise ConfigError(
            f"label {classes[sizes.argmin()]} has a single image; one to train on and one to test on needed"
        )

    rng = stream(seed, "partition")
    shuffled = [rng.permutation(np.flatnonzero(labels == c)) for c in classes]
    cuts = np.clip(np.rint(test_share * sizes), 1, sizes - 1).astype(int)
    ring = (np.arange(num_clients)[:, None] + np.arange(labels_per_client)) % len(classes)
    share = -(-min_samples // labels_per_client)
    parts: list[list[Ids]] = [[] for _ in range(num_clients)]
    for label, (images, cut) in enumerate(zip(shuffled, cuts, strict=True)):
        holders, slots = np.nonzero(ring == label)
        for turn, (client, slot) in enumerate(zip(holders.tolist(), slots.tolist(), strict=True)):
            most = len(images) if samples is None else (samples + labels_per_client - 1 - slot) // labels_per_client
            parts[client].append(_deal(images[cut:], turn, len(holders), min(share, most), most))
    tests = [images[:cut] for images, cut in zip(shuffled, cuts, strict=True)]
    return Partition(
        train=tuple(np.sort(np.concatenate(part)) for part in parts),
        test=tuple(np.sort(np.concatenate([tests[c] for c in row])) for row in ring.tolist()),
        held_out=np.sort(np.concatenate(tests)),
        labels=classes[ring],
    )


def _deal(images: Ids, turn: int, holders: int, least: int, most: int) -> Ids:
    """What the holder whose turn is `turn` gets of one label."""
    if least > len(images):
        raise ConfigError(
            f"{least} images of one label asked for each client but only {len(images)} are there; lower min_samples"
        )
    if holders * least <= len(images):
        return images[turn::holders][:most]
    return images[(turn * least + np.arange(least)) % len(images)]
