"""Deficit (a comparison named by the paper's authors): the largest debt first.

    debt_k = sum over rounds of (due_k - P_k)          P_k = 1 if k was there and was asked

    due = share          m/N: the target share
    due = missed         1: the authors' later code, sum of (1 - P)
    due = opportunity    min(1, m / |A_t|) in the rounds in which k is there, else 0 (our own)

In the first two everybody is due the same, so both rank by who was asked least, and choose alike; only the third lets
a client off that was not there. Ties are drawn by lot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedparity.core.protocols import CUP, Scheduler
from fedparity.core.types import Cohort, FloatArray, RoundView
from fedparity.schedulers.draws import lowest


@dataclass(frozen=True, slots=True)
class Deficit(Scheduler[FloatArray]):
    """The largest difference between what was due and what was given comes first."""

    due: Literal["share", "missed", "opportunity"] = "share"
    """What a client is owed per round: m/N (share), 1 (missed), or m/|A_t| in rounds online (opportunity)."""
    reference: ClassVar[str] = CUP

    def init(self, num_clients: int) -> FloatArray:
        """What each client was due so far."""
        return np.zeros(num_clients)

    def select(self, state: FloatArray, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, FloatArray]:
        """Add what is due this round, then rank by debt."""
        ids = view.available
        if self.due == "opportunity":
            state[ids] += min(1.0, view.cohort / max(1, len(ids)))
        else:
            state += 1.0 if self.due == "missed" else min(1.0, view.cohort / len(state))
        # Equal debts must be equal in every bit to be drawn by lot.
        debt = np.round(state[ids] - view.ledger.selected[ids], 9)
        return lowest(ids, -debt, view.cohort, rng), state
