"""TERM (Li, Beirami, Sanjabi, Smith, ICLR 2021): exponential tilting towards high losses.

    weight_k = e^(t F_k) / sum_j e^(t F_j)

The authors' federated code divides by a moving average instead of the sum, which doubles the first round's weights, and
by m once more; we use the objective's own gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Weighting
from fedparity.core.types import FloatArray, ReportField, Rows
from fedparity.weightings.losses import losses_of


@dataclass(frozen=True, slots=True)
class Tilted(Weighting[None]):
    """Weights proportional to e^(t x loss) (TERM)."""

    t: float = 0.1
    """Strength of the tilt; 0 is the plain mean, higher favours high losses, negative favours low ones."""
    report_fields: ClassVar[tuple[ReportField, ...]] = ("loss_before",)
    reference: ClassVar[str] = "Li et al., Tilted Empirical Risk Minimization, ICLR 2021"

    def __post_init__(self) -> None:
        checks.between("t", self.t, -1e6, 1e6)

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """Softmax of t F_k."""
        tilt = self.t * losses_of(rows)
        raw = np.exp(tilt - tilt.max(initial=0.0))
        return raw / max(float(raw.sum()), 1e-300), state
