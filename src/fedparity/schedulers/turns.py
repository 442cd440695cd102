"""Taking turns: the simplest schedulers that close the loop on what was already given.

round_robin:   the next m available clients in order of their number, going round
least_served:  the m available clients with the fewest selections, the rarer first among equals
               (FedGS with alpha = 0; the simplest strong baseline)
oldest_first:  the m available clients that were asked longest ago, never asked first, ties by lot (FedLaAvg, which
               ranks by the last participation: here one that always fails does not keep its place)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.core.protocols import Scheduler
from fedparity.core.types import Cohort, RoundView
from fedparity.schedulers.draws import lowest


@dataclass(frozen=True, slots=True)
class RoundRobin(Scheduler[int]):
    """The next available clients in order of their number."""

    def init(self, num_clients: int) -> int:
        """The number to go on from."""
        return 0

    def select(self, state: int, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, int]:
        """The m available clients from number `state` on, going round."""
        online = view.available
        count = min(view.cohort, len(online))
        if not count:
            return Cohort(online[:0], np.empty(0), "deterministic"), state
        places = (np.searchsorted(online, state) + np.arange(count)) % len(online)
        return Cohort(online[np.sort(places)], np.ones(count), "deterministic"), int(online[places[-1]]) + 1


@dataclass(frozen=True, slots=True)
class LeastServed(Scheduler[None]):
    """The fewest selections first, the rarer client first among equals."""

    reference: ClassVar[str] = "Wang et al., FedGS: Federated Graph-Based Sampling, AAAI 2023 (alpha = 0)"

    def select(self, state: None, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, None]:
        """Rank by (selections, estimated availability)."""
        # pi <= 1, so half of it never outweighs a whole selection.
        keys = view.ledger.selected[view.available] + view.pi / 2
        return lowest(view.available, keys, view.cohort, rng), state


@dataclass(frozen=True, slots=True)
class OldestFirst(Scheduler[None]):
    """Who was asked longest ago comes first (FedLaAvg)."""

    reference: ClassVar[str] = (
        "Yan et al., Federated Optimization under Intermittent Client Availability, INFORMS J. Computing 2023"
    )

    def select(self, state: None, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, None]:
        """Rank by the last round asked."""
        return lowest(view.available, view.ledger.last_selected[view.available].astype(float), view.cohort, rng), state
