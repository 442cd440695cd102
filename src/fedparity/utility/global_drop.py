"""What the shared model gained for a client since it was last credited.

    dF_k = min(M, max(0, F_k(w at k's last credit) - F_k(w now)))       w now: after this round's step

At its first credit a client is compared with the model it received in that round. The accuracy rule is the same with
accuracy gained instead of loss lost: participants alone, gains alone. Section 4.2's own rule is `accuracy_change`, that
of the authors' public code `authors_loss_drop`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.core import checks
from fedparity.core.errors import RoundError
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Measure, Utility
from fedparity.core.types import ClientReport, Evals, FloatArray, Ids, ReportField


def _required(evals: Evals | None, rule: str) -> Evals:
    if evals is None:
        raise RoundError(
            f"utility {rule!r} needs the new model evaluated on the participants; pass evaluate= to absorb"
        )
    return evals


@dataclass(frozen=True, slots=True)
class GlobalLossDrop(Utility[None]):
    """Drop of the global model's loss on the client's data since its last credit, within [0, bound]."""

    bound: float = 10.0
    """Largest credit per participation, in units of loss; lower limits what one report can claim."""
    needs_evaluation: ClassVar[bool] = True
    evaluates: ClassVar[Measure] = "loss"
    report_fields: ClassVar[tuple[ReportField, ...]] = ("loss_before",)

    def __post_init__(self) -> None:
        checks.positive("bound", self.bound)

    def credit(
        self, state: None, reports: Sequence[ClientReport], ledger: Ledger, evals: Evals | None
    ) -> tuple[FloatArray, FloatArray, None]:
        """Last credited loss minus the loss now."""
        now = _required(evals, "global_loss_drop").loss
        last = ledger.loss[[r.client for r in reports]]
        received = np.array([r.loss_before for r in reports], dtype=np.float64)
        drop = np.nan_to_num(np.where(np.isnan(last), received, last) - now, nan=0.0)
        return np.clip(drop, 0.0, self.bound), now, state

    def would_credit(self, state: None, clients: Ids, ledger: Ledger, evals: Evals) -> FloatArray:
        """The same for clients that are not here; NaN for one that was never credited."""
        return np.asarray(np.clip(ledger.loss[clients] - evals.loss, 0.0, self.bound), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class AccuracyGain(Utility[FloatArray]):
    """Gain of the global model's accuracy on the client's data since its last credit, within [0, bound]."""

    bound: float = 1.0
    """Largest credit per participation, in accuracy (0 to 1); lower limits what one credit can be."""
    needs_evaluation: ClassVar[bool] = True
    requires: ClassVar[tuple[str, ...]] = ("accuracy",)
    report_fields: ClassVar[tuple[ReportField, ...]] = ("accuracy_before",)

    def __post_init__(self) -> None:
        checks.positive("bound", self.bound)

    def init(self, num_clients: int) -> FloatArray:
        """The last credited accuracy of each client."""
        return np.full(num_clients, np.nan)

    def credit(
        self, state: FloatArray, reports: Sequence[ClientReport], ledger: Ledger, evals: Evals | None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Accuracy now minus the last credited accuracy."""
        scored = _required(evals, "accuracy_gain")
        clients = [r.client for r in reports]
        received = np.array([r.accuracy_before for r in reports], dtype=np.float64)
        last = np.where(np.isnan(state[clients]), received, state[clients])
        state[clients] = scored.accuracy
        gain = np.nan_to_num(scored.accuracy - last, nan=0.0)
        return np.clip(gain, 0.0, self.bound), scored.loss, state

    def would_credit(self, state: FloatArray, clients: Ids, ledger: Ledger, evals: Evals) -> FloatArray:
        """The same for clients that are not here; NaN for one that was never credited."""
        return np.clip(evals.accuracy - state[clients], 0.0, self.bound)
