"""Who holds which images: what every way of dealing them out gives.

Training images are kept as one flat array with offsets. Test sets are made when asked for, since clients with the same
labels share them: `own` is every test image of a client's own labels, `mix` the largest choice among them in proportion
to its training images (or `test_samples` of either). Where the data says whose each test image is, and clients hold
whole groups, a client is tested on its own. Random numbers are keyed by client, so the order of asking does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedparity.core.errors import ConfigError
from fedparity.core.rng import stream
from fedparity.core.types import Ids


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """The test split by label, and what a client takes of it."""

    order: Ids
    """Test images, sorted by label."""
    starts: Ids
    """Where each label starts in `order`."""
    kind: Literal["own", "mix"]
    most: int | None
    seed: int
    mine: tuple[Ids, Ids] | None = None
    """Test images sorted by the client they belong to, and where each client's start; None: nobody's."""

    def of(self, client: int, labels: Ids, counts: Ids) -> Ids:
        """The test images of a client that holds so many training images of these labels."""
        if self.mine is not None:
            order, starts = self.mine
            own = order[starts[client] : starts[client + 1]]
            rng = stream(self.seed, "test images", client=client)
            return own if self.most is None or len(own) <= self.most else np.sort(rng.permutation(own)[: self.most])
        there = np.diff(self.starts)[labels]
        labels, counts, there = labels[there > 0], counts[there > 0], there[there > 0]
        take = there if self.kind == "own" else self._in_proportion(counts, there)
        rng = stream(self.seed, "test images", client=client)
        pools = [self.order[self.starts[l] : self.starts[l + 1]] for l in labels.tolist()]
        chosen = [
            pool if n == len(pool) else rng.permutation(pool)[:n] for pool, n in zip(pools, take.tolist(), strict=True)
        ]
        found = np.concatenate(chosen)
        if self.kind == "own" and self.most is not None and len(found) > self.most:
            found = rng.permutation(found)[: self.most]
        return np.sort(found)

    def _in_proportion(self, counts: Ids, there: Ids) -> Ids:
        """The most of each label that keeps the proportions; at least one image of the largest."""
        factor = float((there / counts).min())
        if self.most is not None:
            factor = min(factor, self.most / int(counts.sum()))
        take: Ids = np.minimum(np.floor(counts * factor + 1e-9).astype(np.int64), there)
        take[counts.argmax()] = max(1, take[counts.argmax()])
        return take


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Training images, labels and test images of every client."""

    train: Ids
    """Training images, client after client, each client's sorted."""
    offsets: Ids
    """Client k's are train[offsets[k]:offsets[k + 1]]."""
    labels: Ids
    """The labels each client holds, client after client, sorted."""
    counts: Ids
    """How many training images of each of them."""
    label_offsets: Ids
    """Client k's are labels[label_offsets[k]:label_offsets[k + 1]]."""
    classes: int
    tests: HeldOut

    @property
    def num_clients(self) -> int:
        """How many clients hold images."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Ids:
        """Training images per client."""
        return np.diff(self.offsets)

    @property
    def shared(self) -> int:
        """Training images with more than one owner: 0 unless there were too few for all."""
        return int((np.unique(self.train, return_counts=True)[1] > 1).sum())

    def train_of(self, client: int) -> Ids:
        """One client's training images."""
        return self.train[self.offsets[client] : self.offsets[client + 1]]

    def labels_of(self, client: int) -> Ids:
        """The labels of one client's training images."""
        return self.labels[self.label_offsets[client] : self.label_offsets[client + 1]]

    def counts_of(self, client: int) -> Ids:
        """How many training images of each of its labels a client has."""
        return self.counts[self.label_offsets[client] : self.label_offsets[client + 1]]

    def test_of(self, client: int) -> Ids:
        """One client's test images."""
        return self.tests.of(client, self.labels_of(client), self.counts_of(client))

    def matrix(self) -> NDArray[np.int64]:
        """Clients x labels: training images."""
        found = np.zeros((self.num_clients, self.classes), dtype=np.int64)
        found[np.repeat(np.arange(self.num_clients), np.diff(self.label_offsets)), self.labels] = self.counts
        return found


def by_label(labels: NDArray[np.integer], classes: int) -> tuple[Ids, Ids]:
    """Samples sorted by label, in their order otherwise, and where each label starts."""
    order = np.argsort(labels, kind="stable").astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=classes))])
    return order, starts.astype(np.int64)


def build(owner: Ids, image: Ids, labels: NDArray[np.integer], num_clients: int, tests: HeldOut) -> Partition:
    """A partition from (owner, image) pairs in any order."""
    classes = len(tests.starts) - 1
    sorting = np.lexsort((image, owner))
    owner, image = owner[sorting], image[sorting]
    sizes = np.bincount(owner, minlength=num_clients)
    if sizes.min() == 0:
        empty = int(sizes.argmin())
        raise ConfigError(
            f"{int((sizes == 0).sum())} of {num_clients} clients, first client {empty}, would hold no sample; "
            f"{len(labels)} are there: lower clients, or give samples=S to let clients share them"
        )
    keys, counts = np.unique(owner * classes + labels[image], return_counts=True)
    held, label = np.divmod(keys, classes)
    per_client = np.bincount(held, minlength=num_clients)
    offsets = np.concatenate([[0], np.cumsum(per_client)])
    if tests.mine is not None:
        testable, lacks = np.diff(tests.mine[1]) > 0, "has no test image of its own; give each group in groups_test one"
    else:
        testable = np.logical_or.reduceat(np.diff(tests.starts)[label] > 0, offsets[:-1])
        lacks = "holds labels of which no test image is there; give y_test those labels"
    if not testable.all():
        raise ConfigError(f"client {int(testable.argmin())} {lacks}")
    return Partition(
        train=image,
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        labels=label,
        counts=counts.astype(np.int64),
        label_offsets=offsets,
        classes=classes,
        tests=tests,
    )
