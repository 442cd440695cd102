"""Section 4.2 of the paper: how much better the shared model became for each client, whoever took part.

    u_k(t) = a_k(w after round t) - a_k(w before it)       for all clients, of either sign

Credits are summed over all rounds, so they telescope: a client's cumulative utility is its final minus its initial
accuracy. It says nothing about who was asked; `accuracy_gain` credits participants alone. Cost: everybody's test data
once per round in which the model moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.core import checks
from fedparity.core.errors import RoundError
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Measure, Utility
from fedparity.core.types import ClientReport, Evals, FloatArray, Ids, Vector


@dataclass(frozen=True, slots=True)
class AccuracyChange(Utility[FloatArray]):
    """Change of the global model's accuracy on each client's data in the round, of either sign, for all clients."""

    bound: float = 1.0
    """Largest change credited per round, either way, in accuracy (0 to 1); lower limits what one round can do."""
    credits_all: ClassVar[bool] = True
    evaluates: ClassVar[Measure] = "accuracy"
    requires: ClassVar[tuple[str, ...]] = ("accuracy",)

    def __post_init__(self) -> None:
        checks.positive("bound", self.bound)

    def init(self, num_clients: int) -> FloatArray:
        """Everybody's accuracy after the last round; not known before the first."""
        return np.full(num_clients, np.nan)

    def credit(
        self, state: FloatArray, reports: Sequence[ClientReport], ledger: Ledger, evals: Evals | None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Refused: participants are credited together with everybody else."""
        raise RoundError("utility 'accuracy_change' credits all clients at once; pass evaluate= to absorb")

    def credit_all(
        self, state: FloatArray, evaluate: Callable[[Vector], Evals], before: Vector, after: Vector
    ) -> tuple[FloatArray, FloatArray]:
        """Accuracy now minus accuracy then."""
        last = evaluate(before).accuracy if np.isnan(state).any() else state
        now = last if after is before else evaluate(after).accuracy
        return np.clip(np.nan_to_num(now - last), -self.bound, self.bound), np.array(now)

    def would_credit(self, state: FloatArray, clients: Ids, ledger: Ledger, evals: Evals) -> FloatArray:
        """Nothing more: those that are not here have been credited already."""
        return np.zeros(len(clients))
