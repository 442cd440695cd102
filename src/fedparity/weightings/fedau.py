"""FedAU (Wang and Ji, ICLR 2024): the mean interval between participations, without knowing any probability.

    each round, after the weights were used:  S_k += 1
    if k took part or S_k = K:  omega_k <- S_k if M_k = 0 else (M_k omega_k + S_k) / (M_k + 1);  M_k += 1;  S_k <- 0
    w <- w + (1/N) sum_k omega_k delta_k

K caps an interval: bias for variance. The first participation always weighs 1. A stale row is no participation and
counts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.marks import PER_CLIENT
from fedparity.core.protocols import Weighting
from fedparity.core.types import FloatArray, Rows


@dataclass(slots=True)
class Intervals:
    """omega_k, the open interval S_k, and the number of closed ones M_k."""

    omega: FloatArray = field(metadata=PER_CLIENT)
    waiting: NDArray[np.int32] = field(metadata=PER_CLIENT)
    closed: NDArray[np.int32] = field(metadata=PER_CLIENT)


@dataclass(frozen=True, slots=True)
class FedAU(Weighting[Intervals]):
    """An update counts the mean number of rounds between its client's participations."""

    cap: int | None = 50
    """Longest interval counted, in rounds; higher means less bias and more variance; none: any."""
    reference: ClassVar[str] = (
        "Wang and Ji, A Lightweight Method for Tackling Unknown Participation Statistics, ICLR 2024"
    )

    def __post_init__(self) -> None:
        if self.cap is not None:
            checks.at_least("cap", self.cap, 1)

    def init(self, num_clients: int) -> Intervals:
        """Every weight is 1."""
        return Intervals(np.ones(num_clients), np.zeros(num_clients, np.int32), np.zeros(num_clients, np.int32))

    def weigh(self, state: Intervals, rows: Rows, ledger: Ledger) -> tuple[FloatArray, Intervals]:
        """Use the weights as they are, then close the intervals of those that took part or waited long enough."""
        fresh = rows.ages == 0
        weights = np.where(fresh, state.omega[rows.clients] / ledger.num_clients, 0.0)
        state.waiting += 1
        ends = state.waiting == (0 if self.cap is None else self.cap)
        ends[rows.clients[fresh]] = True
        m, s = state.closed[ends], state.waiting[ends]
        state.omega[ends] = (m * state.omega[ends] + s) / (m + 1)
        state.closed[ends] += 1
        state.waiting[ends] = 0
        return weights, state
