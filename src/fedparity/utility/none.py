"""Nothing is credited: for training alone, where nobody asks what it was worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Utility
from fedparity.core.types import ClientReport, Evals, FloatArray


@dataclass(frozen=True, slots=True)
class NoUtility(Utility[None]):
    """Taking part is worth nothing: no loss is ever computed for it."""

    bound: float = 1.0
    """Largest credit per participation; without effect, since nothing is credited."""

    def __post_init__(self) -> None:
        checks.positive("bound", self.bound)

    def credit(
        self, state: None, reports: Sequence[ClientReport], ledger: Ledger, evals: Evals | None
    ) -> tuple[FloatArray, FloatArray, None]:
        """0 for everybody; losses stay unknown."""
        return np.zeros(len(reports)), np.full(len(reports), np.nan), state
