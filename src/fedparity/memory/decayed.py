"""The paper's memory in the model's step (Behfar and Mortier, Lemma 3 and Theorem 3): last updates, decayed.

    eta_k = eta0 exp(-lam delta_k),   delta_k = rounds since k last completed one      |bias| <= eps sum of eta_k

A stale row for each remembered client that has no fresh one and is not older than `max_age`; weighting `decayed_mean`,
given the same eta0 and lam, makes eta_k its weight. Logged: the sum of eta_k over the rows added, and Lemma 3's bound.
eps is given, or *measured* as the largest distance so far between a remembered update and the one that its client came
back with. That is what the server can know: of those that stay away it is an estimate, and no bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import CUP, Memory
from fedparity.core.rows import combine, dot
from fedparity.core.spill import GIGABYTE
from fedparity.core.types import ClientReport, Rows, Vector
from fedparity.memory.last_updates import LastUpdates
from fedparity.memory.stale import Kept


@dataclass(slots=True)
class Decaying:
    """Everybody's last update, the sum of eta in this round, and the error measured so far."""

    last: Kept
    eta_sum: float = 0.0
    epsilon: float = math.nan


@dataclass(frozen=True, slots=True)
class Decayed(Memory[Decaying]):
    """Last updates of those that are missing, for weights that decay with age (Lemma 3, Theorem 3)."""

    eta0: float = 1.0
    """Weight of what stands in for a client just gone; higher lets the absent count more."""
    lam: float = 0.5
    """Decay of that weight per round of absence; higher forgets faster."""
    max_age: int | None = 20
    """Oldest update used, in rounds; higher lets the absent take part for longer; none: any age."""
    epsilon: float | None = None
    """Bound on the distance between a stale and the true update; none: measured on those that come back."""
    ram: int = GIGABYTE
    """Bytes of updates held in memory; the rest lies in temporary files."""
    updates: LastUpdates = field(init=False, repr=False, compare=False, metadata={"settable": False})
    reference: ClassVar[str] = CUP

    def __post_init__(self) -> None:
        checks.positive("eta0", self.eta0)
        checks.positive("lam", self.lam)
        if self.epsilon is not None:
            checks.not_negative("epsilon", self.epsilon)
        object.__setattr__(self, "updates", LastUpdates(own="replace", max_age=self.max_age, ram=self.ram))

    @property
    def goes_with(self) -> Mapping[str, str]:
        """The bound is that of weights which decay alike."""
        return {"weighting": f"decayed_mean:eta0={self.eta0},lam={self.lam}"}

    def init(self, num_clients: int) -> Decaying:
        """Nobody was seen."""
        return Decaying(self.updates.init(num_clients))

    def complete(
        self, state: Decaying, round: int, rows: Rows, params: Vector, ledger: Ledger
    ) -> tuple[Rows, Decaying]:
        """Stale rows for those without a fresh one; what came back is compared with what stood in for it."""
        if self.epsilon is None:
            for client, delta in zip(rows.clients.tolist(), rows.deltas, strict=True):
                if client in state.last.kept:
                    apart = combine(np.array([1.0, -1.0]), (delta, state.last.kept[client]), len(delta))
                    state.epsilon = float(np.fmax(state.epsilon, math.sqrt(dot(apart, apart))))
        found, state.last = self.updates.complete(state.last, round, rows, params, ledger)
        ages = found.ages[found.ages > 0]
        state.eta_sum = float((self.eta0 * np.exp(-self.lam * ages)).sum())
        return found, state

    def bias(self, state: Decaying) -> tuple[float, float]:
        """The sum of eta over the rows added in this round, and Lemma 3's bound."""
        epsilon = state.epsilon if self.epsilon is None else self.epsilon
        return state.eta_sum, epsilon * state.eta_sum if state.eta_sum else 0.0

    def remember(self, state: Decaying, reports: Sequence[ClientReport]) -> Decaying:
        """Keep this round's updates in place of earlier ones."""
        state.last = self.updates.remember(state.last, reports)
        return state
