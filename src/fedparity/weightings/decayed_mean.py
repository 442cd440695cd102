"""A mean in which an update counts less the older it is (Behfar and Mortier, Lemma 3 and Theorem 3).

    eta_k = 1 for a fresh row, eta0 exp(-lam age) for a stale one
    form = "mean":   w <- w + sum eta_k n_k delta_k / sum eta_k n_k        n_k = 1, or the number of samples
    form = "paper":  w <- w + sum over S of delta_k n_k / (sum over S of n_j) + sum over the others of eta_k delta_k

The paper's aggregate is not normalised: with many clients missing its step grows with their number, so the mean is the
default (Lemma 3's bound then is eps sum of eta over m + sum of eta). Goes with memory `decayed` of the same eta0 and
lam, or with `prototype` (by = "size": eta times count). Without stale rows it is the plain mean, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import CUP, Weighting
from fedparity.core.types import FloatArray, Rows


@dataclass(frozen=True, slots=True)
class DecayedMean(Weighting[None]):
    """A mean of fresh updates and decayed earlier ones (Lemma 3, Theorem 3)."""

    eta0: float = 1.0
    """Weight of a stale update before decay, a fresh one being 1; higher lets the absent count more."""
    lam: float = 0.5
    """Decay of that weight per round of age; higher forgets faster, 0 never."""
    form: Literal["mean", "paper"] = "mean"
    """mean divides by the sum of weights; paper adds stale updates undivided, so that steps grow with absences."""
    by: Literal["equal", "size"] = "equal"
    """Whether clients count equally or by their number of samples."""
    reference: ClassVar[str] = CUP

    def __post_init__(self) -> None:
        checks.not_negative("eta0", self.eta0)
        checks.not_negative("lam", self.lam)

    @property
    def goes_with(self) -> Mapping[str, str]:
        """Earlier updates: without them it is the mean."""
        return {"memory": f"decayed:eta0={self.eta0},lam={self.lam} or any"}

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """Eta over its sum, or the paper's sum."""
        fresh = rows.ages == 0
        eta = np.where(fresh, 1.0, self.eta0 * np.exp(-self.lam * rows.ages))
        raw = eta if self.by == "equal" else eta * rows.sizes
        if self.form == "mean":
            return raw / max(float(raw.sum()), 1e-300), state
        return np.where(fresh, raw / max(float(raw[fresh].sum()), 1e-300), eta), state
