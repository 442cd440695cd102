"""The server side of FedLaAvg (Yan et al., arXiv 2002.07399): one vector, the sum of everybody's latest update.

    s <- s + sum over S of d_k,      d_k = delta_k / rate - k's last one, as the local rule `difference` sends it

The row of s belongs to nobody: its client is -1, its age 1 (as it stood before this round). The fresh rows are the
differences, so weighting `fedlaavg` (rate/N each) steps along (rate/N)(s + sum of d_k). Memory: D x 8 bytes at the
server; each client keeps its own last update. Erasing a client cannot take its part out of the sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from fedparity.core.ledger import Ledger
from fedparity.core.marks import PER_CLIENT
from fedparity.core.protocols import Memory
from fedparity.core.types import ClientReport, Rows, Vector
from fedparity.memory.stale import NOBODY


@dataclass(slots=True)
class Sum:
    """The sum, under the number of nobody; empty before the first update."""

    kept: dict[int, Vector] = field(metadata=PER_CLIENT)


@dataclass(frozen=True, slots=True)
class RunningSum(Memory[Sum]):
    """The sum of everybody's latest update, for clients that send differences (FedLaAvg)."""

    goes_with: ClassVar[Mapping[str, str]] = {"weighting": "fedlaavg", "local": "difference"}
    reference: ClassVar[str] = "Yan et al., Federated Optimization under Intermittent Client Availability, 2023"

    def init(self, num_clients: int) -> Sum:
        """Nothing was sent."""
        return Sum({})

    def complete(self, state: Sum, round: int, rows: Rows, params: Vector, ledger: Ledger) -> tuple[Rows, Sum]:
        """One row for the sum as it was before this round."""
        total = state.kept.get(NOBODY)
        if total is None:
            return rows, state
        return replace(
            rows,
            clients=np.concatenate([[NOBODY], rows.clients]),
            deltas=[total, *rows.deltas],
            ages=np.concatenate([[1], rows.ages]),
            sizes=np.concatenate([[0.0], rows.sizes]),
            losses=np.concatenate([[np.nan], rows.losses]),
            probs=np.concatenate([[1.0], rows.probs]),
        ), state

    def remember(self, state: Sum, reports: Sequence[ClientReport]) -> Sum:
        """Add this round's differences, in client order."""
        deltas = [r.delta for r in sorted(reports, key=lambda r: r.client) if r.delta is not None]
        if deltas:
            total = np.zeros(len(deltas[0])) if NOBODY not in state.kept else state.kept[NOBODY].copy()
            for delta in deltas:
                total += delta
            total.setflags(write=False)
            state.kept[NOBODY] = total
        return state
