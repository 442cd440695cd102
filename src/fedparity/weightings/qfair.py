"""q-FedAvg (Li, Sanjabi, Beirami, Smith, ICLR 2020): clients that still lose more count more.

    w <- w - sum_k F_k^q g_k / sum_k (q F_k^(q-1) |g_k|^2 + L F_k^q),    g_k = L (w - w_k)

F_k is the loss of the model the client *received*; L is 1 / the local learning rate. A larger q also shrinks the step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Weighting
from fedparity.core.rows import squared_lengths
from fedparity.core.types import FloatArray, ReportField, Rows
from fedparity.weightings.losses import losses_of

TINY = 1e-10
"""Added to a loss before it is raised to a power: q - 1 may be negative."""


@dataclass(frozen=True, slots=True)
class QFair(Weighting[None]):
    """Weights grow with the loss a client received, to the power q (q-FedAvg)."""

    q: float = 1.0
    """Power of the loss in a weight; 0 is FedAvg, higher favours clients that lose more and shortens the step."""
    lipschitz: float | None = None
    """L; higher shortens the step; none: 1 / the local learning rate, which a spec knows (10 without one)."""
    report_fields: ClassVar[tuple[ReportField, ...]] = ("loss_before",)
    reference: ClassVar[str] = "Li et al., Fair Resource Allocation in Federated Learning, ICLR 2020"

    def __post_init__(self) -> None:
        checks.not_negative("q", self.q)
        if self.lipschitz is not None:
            checks.positive("lipschitz", self.lipschitz)

    def with_rate(self, rate: float) -> QFair:
        """The same rule for clients that train with this learning rate."""
        return self if self.lipschitz is not None else replace(self, lipschitz=1 / rate)

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """L F_k^q / sum of h_k."""
        lipschitz = 10.0 if self.lipschitz is None else self.lipschitz
        loss = losses_of(rows) + TINY
        norm2 = lipschitz**2 * squared_lengths(rows.deltas)
        h = self.q * loss ** (self.q - 1) * norm2 + lipschitz * loss**self.q
        return lipschitz * loss**self.q / max(float(h.sum()), TINY), state
