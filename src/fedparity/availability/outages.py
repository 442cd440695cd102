"""Correlated outages: a Bernoulli base from which whole groups vanish together.

    A_k(t) = Bernoulli(pi_k) * [the group of k is not out in round t]

An outage starts with probability `rate` per round and group and lasts `length` rounds, so a group is up in the long run
in a share (1 - rate)^length of rounds. With by="label" a group is all clients of one smallest label: a class vanishes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedparity.availability.rates import check_bounds, check_size, uniform_rates
from fedparity.core.checks import at_least, between
from fedparity.core.errors import ConfigError
from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import Ids

MOST_GROUPS = 1_000_000


@dataclass(frozen=True, slots=True)
class Outages:
    """Independent clients in groups that vanish together for some rounds, by block or by class."""

    groups: int = 5
    """Blocks of neighbouring ids that vanish together; with by=label there are `classes` groups instead."""
    rate: float = 0.05
    """Chance per round and group that an outage starts; higher gives more outages."""
    length: int = 5
    """Rounds that an outage lasts."""
    low: float = 0.5
    """Lowest rate (share of rounds online) that a client can draw."""
    high: float = 1.0
    """Highest rate (share of rounds online) that a client can draw."""
    by: Literal["block", "label"] = "block"
    """Groups are blocks of neighbouring ids, or clients with the same smallest label."""
    classes: int = 10
    """Number of labels with by=label: client k's is k mod `classes`."""

    def __post_init__(self) -> None:
        at_least("groups", self.groups, 1, MOST_GROUPS)
        between("rate", self.rate, 0, 1)
        at_least("length", self.length, 1)
        check_bounds(self.low, self.high)
        if self.by not in ("block", "label"):
            raise ConfigError(f"by={self.by!r} must be block or label")
        at_least("classes", self.classes, 1, MOST_GROUPS)

    def group(self, num_clients: int) -> Ids:
        """The group of each client."""
        clients = np.arange(num_clients, dtype=np.int64)
        return clients * self.groups // num_clients if self.by == "block" else clients % self.classes

    def draw(self, num_clients: int, rounds: int, seed: int) -> Trace:
        """One realisation for `num_clients` clients over `rounds` rounds."""
        check_size(num_clients, rounds)
        rates = uniform_rates(num_clients, self.low, self.high, seed)
        group = self.group(num_clients)
        back = np.zeros(self.groups if self.by == "block" else self.classes, dtype=np.int64)
        ids = []
        for t in range(rounds):
            back[stream(seed, "outages", t).random(len(back)) < self.rate] = t + self.length
            online = stream(seed, "availability", t).random(num_clients) < rates
            ids.append(np.flatnonzero(online & (back <= t)[group]).astype(np.int32))
        return Trace.from_rounds(num_clients, ids)
