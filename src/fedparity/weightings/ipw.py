"""Inverse probability weights: participation-reweighted FedAvg, which is how the paper describes PHP-FL.

    p_k = (a + completed_k + 1) / (a + b + t + 1)                p = "ledger"
    p_k = q_k (a + online_k + 1) / (a + b + t + 1)               p = "plan": q_k = the chance of being asked when online
    omega_k = min(1 / p_k, clip)
    Horvitz-Thompson:  (1/N) omega_k      unbiased if p is known and unclipped, high variance
    Hajek:             omega_k / sum of omega_j        bounded step, biased

p_k estimates *participation*, available and asked, this round included: from how often the client took part, or from
the scheduler's own probabilities where they are exact. The published PHP-FL (Wu et al., NeurIPS 2025) re-weights
nothing: see docs/methods.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Weighting
from fedparity.core.types import FloatArray, Rows
from fedparity.weightings.ages import Source, participation


@dataclass(frozen=True, slots=True)
class InverseProbability(Weighting[None]):
    """An update counts 1 / how often its client takes part."""

    form: Literal["ht", "hajek"] = "hajek"
    """ht divides by N (unbiased, high variance); hajek by the sum of weights (bounded step, biased)."""
    clip: float | None = 100.0
    """Largest weight before dividing; lower means less variance and more bias; none: any."""
    a: float = 1.0
    """Prior participations in the estimate; higher takes everybody for less rare, so weights differ less."""
    b: float = 1.0
    """Prior absences in the estimate; higher takes everybody for rarer, so weights are larger."""
    most: float | None = None
    """Largest weight after dividing; lower means less variance and more bias; none: any."""
    p: Source = "ledger"
    """Source of a client's chance to take part: ledger (how often it did) or plan (the scheduler's probability)."""
    reference: ClassVar[str] = "Horvitz and Thompson, JASA 1952"

    def __post_init__(self) -> None:
        if self.clip is not None:
            checks.between("clip", self.clip, 1, 1e9)
        if self.most is not None:
            checks.positive("most", self.most)
        checks.not_negative("a", self.a)
        checks.not_negative("b", self.b)

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """Clipped 1/p, over N or over their sum."""
        omega = 1 / participation(rows, ledger, self.p, self.a, self.b)
        omega = omega if self.clip is None else np.minimum(omega, self.clip)
        scale = ledger.num_clients if self.form == "ht" else max(float(omega.sum()), 1e-300)
        return np.minimum(omega / scale, np.inf if self.most is None else self.most), state
