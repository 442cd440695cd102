"""Ways to deal images to clients: by label, in shards, by Dirichlet draws, unequally many, by group, or evenly.

Every client gets an image or the split is refused. No image has two owners, with one exception: `labels` with a number
of `samples` for which a label has too few images. Then each holder takes the next ones in a circle, so that no client
has an image twice and all are used about equally often; `Partition.shared` counts them. The same seed gives the same
split.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.registry import Registry
from fedparity.core.rng import stream
from fedparity.core.types import FloatArray, Ids
from fedparity.data.partition import HeldOut, Partition, build, by_label

__all__ = ["PARTITIONS", "Partition", "Scheme"]

Marks: TypeAlias = NDArray[np.integer]
"""A label or a group per image."""
Dealt: TypeAlias = tuple[Ids, Ids]
"""Owners and images, in any order."""
TRIES = 100
"""Dirichlet draws before a split with an empty client is refused."""


@dataclass(frozen=True, slots=True)
class Scheme(ABC):
    """What all ways have in common: how a client is tested."""

    test: Literal["own", "mix"] = "own"
    """Test images of a client's labels: all there are (own), or in proportion to its training images (mix)."""
    test_samples: int | None = None
    """Most test images per client; fewer score faster and less precisely; none: all."""
    shares: ClassVar[bool] = False
    """Whether images may have several owners."""
    whole: ClassVar[bool] = False
    """Whether a client holds whole groups, so that test images that belong to a group are its own."""

    def __post_init__(self) -> None:
        if self.test not in {"own", "mix"}:
            raise ConfigError(f"test={self.test!r} must be own or mix")
        if self.test_samples is not None:
            checks.at_least("test_samples", self.test_samples, 1)
        self._check()

    def _check(self) -> None:
        """Rules on a scheme's own settings; none by default."""
        return

    def split(
        self,
        labels_train: Marks,
        labels_test: Marks,
        num_clients: int,
        seed: int,
        groups: Marks | None = None,
        *,
        groups_test: Marks | None = None,
    ) -> Partition:
        """Deal the training images out; `groups` says whose each of them is, `groups_test` whose each test image is."""
        checks.at_least("clients", num_clients, 1)
        for name, labels in (("labels_train", labels_train), ("labels_test", labels_test)):
            if labels.ndim != 1 or not len(labels) or labels.dtype.kind not in "iu" or labels.min() < 0:
                raise ConfigError(f"{name} must be a list of whole numbers of at least 0, one per image")
        if num_clients > len(labels_train) and not self.shares:
            raise ConfigError(f"clients={num_clients} is more than the {len(labels_train)} images; lower clients")
        train = np.asarray(labels_train, dtype=np.int64)
        classes = 1 + int(max(train.max(), labels_test.max()))
        order, starts = by_label(np.asarray(labels_test, dtype=np.int64), classes)
        owner, image = self._deal(train, num_clients, stream(seed, "partition"), groups)
        mine = None
        if self.whole and groups is not None and groups_test is not None:
            mine = _own_tests(owner, groups, groups_test, num_clients)
        return build(owner, image, train, num_clients, HeldOut(order, starts, self.test, self.test_samples, seed, mine))

    @abstractmethod
    def _deal(self, labels: Ids, num_clients: int, rng: np.random.Generator, groups: Marks | None) -> Dealt:
        """Who gets which image."""


def _own_tests(owner: Ids, groups: Marks, tested: Marks, clients: int) -> tuple[Ids, Ids]:
    """Test images by client, where training image i of groups[i] went to owner[i]; where each client's start."""
    names, first = np.unique(groups, return_index=True)
    strange = ~np.isin(tested, names)
    if strange.any():
        raise ConfigError(f"group {tested[strange.argmax()]} has test images but none to train on; drop them")
    return by_label(owner[first][np.searchsorted(names, tested)], clients)


def _cuts(total: int, parts: int) -> Ids:
    """Where parts start that differ in size by one at most."""
    return np.arange(parts + 1, dtype=np.int64) * total // parts


def _shuffled_by_label(labels: Ids, rng: np.random.Generator) -> Ids:
    shuffled = rng.permutation(len(labels))
    return shuffled[np.argsort(labels[shuffled], kind="stable")]


@dataclass(frozen=True, slots=True)
class Iid(Scheme):
    """All images shuffled and dealt evenly: every client is alike."""

    def _deal(self, labels: Ids, num_clients: int, rng: np.random.Generator, groups: Marks | None) -> Dealt:
        owner = np.repeat(np.arange(num_clients), np.diff(_cuts(len(labels), num_clients)))
        return owner, rng.permutation(len(labels))


@dataclass(frozen=True, slots=True)
class Labels(Scheme):
    """A few labels per client, as many images of each: on a ring of labels, or in fixed groups such as (0,1), (2,3)."""

    k: int = 2
    """Labels per client; fewer make clients more different."""
    samples: int | None = None
    """Training images per client, split evenly over its labels; none: all there are, dealt evenly."""
    pairs: Literal["ring", "fixed"] = "ring"
    """Client i's labels: i, i + 1, ... (mod classes), or the group i mod (classes / k) of k neighbours."""
    shares: ClassVar[bool] = True

    def _check(self) -> None:
        checks.at_least("k", self.k, 1)
        if self.samples is not None:
            checks.at_least("samples", self.samples, self.k)
        if self.pairs not in {"ring", "fixed"}:
            raise ConfigError(f"pairs={self.pairs!r} must be ring or fixed")

    def held(self, num_clients: int, classes: int) -> Ids:
        """Clients x k: which labels each client holds, as ranks among those there are."""
        checks.between("k", self.k, 1, classes)
        clients = np.arange(num_clients)[:, None]
        if self.pairs == "ring":
            return (clients + np.arange(self.k)) % classes
        if classes % self.k:
            raise ConfigError(f"pairs=fixed with k={self.k} does not divide {classes} labels; use pairs=ring")
        return clients % (classes // self.k) * self.k + np.arange(self.k)

    def _deal(self, labels: Ids, num_clients: int, rng: np.random.Generator, groups: Marks | None) -> Dealt:
        values, supply = np.unique(labels, return_counts=True)
        label = self.held(num_clients, len(values)).ravel()
        owner = np.repeat(np.arange(num_clients), self.k)
        slot = np.tile(np.arange(self.k), num_clients)
        rows = np.argsort(label, kind="stable")
        label, owner, slot = label[rows], owner[rows], slot[rows]
        holders = np.bincount(label, minlength=len(values))
        first = np.concatenate([[0], np.cumsum(holders)])
        if self.samples is None:
            rank = np.arange(len(label)) - first[label]
            share = supply[label] // holders[label] + (rank < supply[label] % holders[label])
        else:
            share = self.samples // self.k + (slot < self.samples % self.k)
        short = share > supply[label]
        if short.any():
            which = label[short.argmax()]
            raise ConfigError(
                f"samples={self.samples} asks for {share[short.argmax()]} images of label {values[which]} per client, "
                f"but only {supply[which]} are there; lower samples or raise k"
            )
        before = np.concatenate([[0], np.cumsum(share)])
        row = np.repeat(np.arange(len(share)), share)
        place = np.arange(before[-1]) - before[first[label[row]]]
        start = np.concatenate([[0], np.cumsum(supply)])
        image = _shuffled_by_label(labels, rng)[start[label[row]] + place % supply[label[row]]]
        return owner[row], image


@dataclass(frozen=True, slots=True)
class Shards(Scheme):
    """Images sorted by label and cut into shards of equal size, a few shards per client."""

    shards: int = 2
    """Shards per client; fewer make clients more different."""
    reference: ClassVar[str] = "McMahan et al., AISTATS 2017, arXiv 1602.05629"

    def _check(self) -> None:
        checks.at_least("shards", self.shards, 1)

    def _deal(self, labels: Ids, num_clients: int, rng: np.random.Generator, groups: Marks | None) -> Dealt:
        total = num_clients * self.shards
        if total > len(labels):
            raise ConfigError(
                f"{num_clients} clients x {self.shards} shards need {total} images, {len(labels)} are there; "
                "lower clients or shards"
            )
        image = _shuffled_by_label(labels, rng)
        return np.repeat(rng.permutation(total) // self.shards, np.diff(_cuts(len(labels), total))), image


@dataclass(frozen=True, slots=True)
class DirichletShares(Scheme):
    """Each label's images in shares drawn from Dirichlet(alpha): a small alpha gives few clients per label."""

    alpha: float = 0.5
    """Concentration of the shares; lower makes clients more different in labels and sizes."""
    min_samples: int = 1
    """Fewest images per client; shares are drawn again, up to 100 times, until everybody has them."""
    reference: ClassVar[str] = "Yurochkin et al., ICML 2019, arXiv 1905.12022; Li et al., ICDE 2022, arXiv 2102.02079"

    def _check(self) -> None:
        checks.positive("alpha", self.alpha)
        checks.at_least("min_samples", self.min_samples, 1)

    def _deal(self, labels: Ids, num_clients: int, rng: np.random.Generator, groups: Marks | None) -> Dealt:
        supply = np.unique(labels, return_counts=True)[1]
        for _ in range(TRIES):
            counts = self._counts(supply, num_clients, rng)
            if counts.sum(axis=0).min() >= self.min_samples:
                break
        else:
            raise ConfigError(
                f"alpha={self.alpha:g} left a client with fewer than {self.min_samples} images in {TRIES} draws; "
                "raise alpha, or lower clients or min_samples"
            )
        owner = np.repeat(np.tile(np.arange(num_clients), len(supply)), counts.ravel())
        return owner, _shuffled_by_label(labels, rng)

    def _counts(self, supply: Ids, num_clients: int, rng: np.random.Generator) -> Ids:
        """Labels x clients."""
        shares = rng.dirichlet(np.full(num_clients, self.alpha), size=len(supply))
        ends = np.floor(np.cumsum(shares, axis=1) * supply[:, None] + 0.5).astype(np.int64)
        ends = np.minimum(ends, supply[:, None])
        ends[:, -1] = supply
        return np.diff(ends, axis=1, prepend=0)


@dataclass(frozen=True, slots=True)
class Quantity(Scheme):
    """Alike but for how much they hold: sizes follow a log-normal or a power law."""

    law: Literal["lognormal", "power"] = "lognormal"
    """Law of the sizes: log-normal, or a power of a client's rank."""
    skew: float = 1.0
    """The log-normal's sigma, or the power a in rank^-a; 0 is all alike, higher is more unequal."""

    def _check(self) -> None:
        if self.law not in {"lognormal", "power"}:
            raise ConfigError(f"law={self.law!r} must be lognormal or power")
        checks.between("skew", self.skew, 0, 100)

    def _weights(self, num_clients: int, rng: np.random.Generator) -> FloatArray:
        if self.law == "lognormal":
            log = self.skew * rng.standard_normal(num_clients)
        else:
            log = -self.skew * np.log1p(rng.permutation(num_clients))
        return np.asarray(np.exp(log - log.max()), dtype=np.float64)

    def _deal(self, labels: Ids, num_clients: int, rng: np.random.Generator, groups: Marks | None) -> Dealt:
        weights = self._weights(num_clients, rng)
        spare = len(labels) - num_clients  # one image each comes first
        exact = spare * weights / weights.sum()
        sizes = np.floor(exact).astype(np.int64)
        left = spare - int(sizes.sum())
        sizes[np.argsort(sizes - exact, kind="stable")[:left]] += 1
        return np.repeat(np.arange(num_clients), sizes + 1), rng.permutation(len(labels))


@dataclass(frozen=True, slots=True)
class Groups(Scheme):
    """Whole groups (writers, places) to clients: one each, or several so that clients hold about equally many."""

    whole: ClassVar[bool] = True

    def _deal(self, labels: Ids, num_clients: int, rng: np.random.Generator, groups: Marks | None) -> Dealt:
        if groups is None or groups.shape != labels.shape:
            found = "none is there" if groups is None else f"it has shape {groups.shape} for {len(labels)} images"
            raise ConfigError(f"partition groups needs one group per image, but {found}; add groups_train to the .npz")
        _, member, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        if len(sizes) < num_clients:
            raise ConfigError(
                f"{len(sizes)} groups are too few for {num_clients} clients; lower clients to {len(sizes)}"
            )
        owner = np.arange(len(sizes))
        if len(sizes) > num_clients:
            # The largest first, each to the client that holds least; equally large ones in random order.
            heap = [(0, client) for client in range(num_clients)]
            for g in np.lexsort((rng.random(len(sizes)), -sizes)).tolist():
                held, client = heap[0]
                owner[g] = client
                heapq.heapreplace(heap, (held + int(sizes[g]), client))
        return owner[member.reshape(-1)], np.arange(len(labels))


PARTITIONS: Registry[Scheme] = Registry(
    "partition",
    {
        "labels": Labels,
        "shards": Shards,
        "dirichlet": DirichletShares,
        "quantity": Quantity,
        "groups": Groups,
        "iid": Iid,
    },
    needs=Scheme,
)
