"""What local training gained: the loss on the client's own data before it minus after it (section 2 of the paper).

dF_k = min(M, max(0, F_k(w received) - F_k(w_k trained)))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Utility
from fedparity.core.types import ClientReport, Evals, FloatArray, ReportField


@dataclass(frozen=True, slots=True)
class LossDrop(Utility[None]):
    """Drop of the loss in local training, within [0, bound]."""

    bound: float = 10.0
    """Largest credit per participation, in units of loss; lower limits what one report can claim."""
    report_fields: ClassVar[tuple[ReportField, ...]] = ("loss_before", "loss_after")

    def __post_init__(self) -> None:
        checks.positive("bound", self.bound)

    def credit(
        self, state: None, reports: Sequence[ClientReport], ledger: Ledger, evals: Evals | None
    ) -> tuple[FloatArray, FloatArray, None]:
        """Loss before minus loss after; a client that reports no loss is credited nothing."""
        before = np.array([r.loss_before for r in reports], dtype=np.float64)
        after = np.array([r.loss_after for r in reports], dtype=np.float64)
        drop = np.nan_to_num(before - after, nan=0.0)
        return np.clip(drop, 0.0, self.bound), after, state
