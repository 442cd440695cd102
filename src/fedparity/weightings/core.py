"""CoreFed (Ray Chaudhury, Li, Kang, Li, Mehta, NeurIPS 2022): a step towards core stability.

    u_k(w) = M - F_k(w),    w <- w + (1/|S|) sum_k (w_k - w) / (M - F_k(w))

Equations from a public reading of the paper. M bounds the loss and controls everything: large M is FedAvg with the step
divided by M. Cross-entropy has no bound, so M - F_k is kept at or above `margin` x M: with M = 5 a client whose loss
reaches M counts 20 times as much as one at M - 1. `normalise` divides by the sum of weights to compare at equal step
size, which the paper does not.
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
class Core(Weighting[None]):
    """Weights 1 / (M - loss): the gradient of the product of utilities (CoreFed)."""

    bound: float = 5.0
    """M, the largest loss assumed; higher is closer to FedAvg with its step divided by M."""
    margin: float = 0.01
    """Least M - loss, as a share of M; higher limits the weight of clients that lose most."""
    normalise: bool = False
    """Whether weights are divided by their sum, to compare at equal step length; the paper does not."""
    report_fields: ClassVar[tuple[ReportField, ...]] = ("loss_before",)
    reference: ClassVar[str] = "Ray Chaudhury et al., Fairness in Federated Learning via Core-Stability, NeurIPS 2022"

    def __post_init__(self) -> None:
        checks.positive("bound", self.bound)
        checks.between("margin", self.margin, 1e-9, 1)

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """1 / (|S| (M - F_k))."""
        room = np.maximum(self.bound - losses_of(rows), self.margin * self.bound)
        raw = 1 / (max(1, len(room)) * room)
        return raw / raw.sum() if self.normalise and len(raw) else raw, state
