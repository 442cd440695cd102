"""The rule of the authors' public code: what the model gained for a client between two of its selections.

    dF_k = min(M, max(0, F_k(w received last time) - F_k(w received now)))

Both losses are of models *before* a step that the client takes part in, so its own update is credited only when it is
selected again, and nothing is credited at its first selection. `global_loss_drop` looks after the step instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import CUP, Utility
from fedparity.core.types import ClientReport, Evals, FloatArray, ReportField


@dataclass(frozen=True, slots=True)
class AuthorsLossDrop(Utility[None]):
    """Drop of the received model's loss since the last selection, nothing at the first, within [0, bound]."""

    bound: float = 10.0
    """Largest credit per participation, in units of loss; lower limits what one report can claim."""
    report_fields: ClassVar[tuple[ReportField, ...]] = ("loss_before",)
    reference: ClassVar[str] = CUP

    def __post_init__(self) -> None:
        checks.positive("bound", self.bound)

    def credit(
        self, state: None, reports: Sequence[ClientReport], ledger: Ledger, evals: Evals | None
    ) -> tuple[FloatArray, FloatArray, None]:
        """The loss received last time minus the one received now."""
        now = np.array([r.loss_before for r in reports], dtype=np.float64)
        drop = np.nan_to_num(ledger.loss[[r.client for r in reports]] - now, nan=0.0)
        return np.clip(drop, 0.0, self.bound), now, state
