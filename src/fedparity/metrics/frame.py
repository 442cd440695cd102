"""One value per client, and what is asked of it: over all clients, or group by group.

What is measured (`values`), over whom (`groups`) and how it is summed up (the methods) are kept apart, as in
fairlearn's MetricFrame: `ClientFrame(accuracy, groups=device).by_group()["phone"].worst(0.1)`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedparity.core.errors import ConfigError
from fedparity.core.reprs import brief
from fedparity.core.types import FloatArray
from fedparity.metrics import inequality


@dataclass(frozen=True, slots=True, eq=False, init=False)
class ClientFrame:
    """Values of some clients; `groups` and `names` have one entry per client, or are None."""

    values: FloatArray
    groups: tuple[Hashable, ...] | None
    names: tuple[str, ...] | None

    __repr__ = brief

    def __init__(
        self, values: ArrayLike, groups: Iterable[Hashable] | None = None, names: Iterable[str] | None = None
    ) -> None:
        # The copy keeps a frozen frame frozen when the caller goes on writing to the ledger column it came from.
        vector = inequality.as_vector(values, "values").copy()
        vector.flags.writeable = False
        object.__setattr__(self, "values", vector)
        object.__setattr__(self, "groups", _column("groups", groups, len(vector)))
        object.__setattr__(self, "names", _column("names", names, len(vector)))

    def __len__(self) -> int:
        return len(self.values)

    def mean(self) -> float:
        """The mean over clients."""
        return inequality.mean(self.values)

    def variance(self) -> float:
        """The population variance."""
        return inequality.variance(self.values)

    def std(self) -> float:
        """The population standard deviation."""
        return inequality.std(self.values)

    def cv(self, eps: float = 0.0) -> float:
        """The coefficient of variation."""
        return inequality.cv(self.values, eps)

    def jain(self) -> float:
        """Jain's index."""
        return inequality.jain(self.values)

    def gini(self) -> float:
        """The Gini coefficient; refuses negative values."""
        return inequality.gini(self.values)

    def worst(self, share: float = 0.1) -> float:
        """The mean of the lowest `share` of the clients."""
        return inequality.worst(self.values, share)

    def by_group(self) -> dict[Hashable, ClientFrame]:
        """One frame per group, in the order in which the groups first appear."""
        if self.groups is None:
            raise ConfigError("this frame has no groups; give one per client: ClientFrame(values, groups=...)")
        members: dict[Hashable, list[int]] = {}
        for client, group in enumerate(self.groups):
            members.setdefault(group, []).append(client)
        return {
            group: ClientFrame(
                self.values[np.array(ids)],
                groups=[group] * len(ids),
                names=None if self.names is None else [self.names[i] for i in ids],
            )
            for group, ids in members.items()
        }

    def group_gap(self) -> float:
        """The highest group mean minus the lowest; NaN without clients."""
        return inequality.max_minus_min([frame.mean() for frame in self.by_group().values()])

    def summary(self) -> dict[str, float]:
        """Every number above by name; `gini` is NaN if a value is negative, `group_gap` is there if groups are."""
        found = {
            "clients": float(len(self)),
            "mean": self.mean(),
            "variance": self.variance(),
            "std": self.std(),
            "cv": self.cv(),
            "jain": self.jain(),
            "gini": inequality.NAN if (self.values < 0).any() else self.gini(),
            "worst": self.worst(),
        }
        return found if self.groups is None else {**found, "group_gap": self.group_gap()}


def _column(name: str, given: Iterable[Hashable] | None, clients: int) -> tuple[Hashable, ...] | None:
    if given is None:
        return None
    column = tuple(given.tolist() if isinstance(given, np.ndarray) else given)
    if len(column) != clients:
        raise ConfigError(f"{name} has {len(column)} entries for {clients} clients; give one per client")
    return column
