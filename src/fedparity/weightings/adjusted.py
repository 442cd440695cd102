"""Availability-adjusted losses F_k / pi_k (Behfar and Mortier, section 2) as what a round's participants minimise.

    w <- w + (1/N) sum over S of delta_k / pi_k^power               form = "ht"
    w <- w + sum of delta_k pi_k^-power / sum of pi_j^-power        form = "hajek": bounded step, biased

pi_k is estimated from the rounds in which k was online, this one included. Since k is there in a share pi_k of the
rounds, 1/pi_k makes everybody count the same in the long run; to minimise sum of F_k / pi_k in the long run takes
power = 2. The paper does not say which it means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import CUP, Weighting
from fedparity.core.types import FloatArray, Rows


@dataclass(frozen=True, slots=True)
class AvailabilityAdjusted(Weighting[None]):
    """An update counts 1 / how often its client is online."""

    form: Literal["ht", "hajek"] = "hajek"
    """ht divides by N (unbiased, high variance); hajek by the sum of weights (bounded step, biased)."""
    power: float = 1.0
    """Power of 1 / availability in a weight; higher favours rare clients more, 0 is the plain mean."""
    clip: float = 100.0
    """Largest weight before dividing; lower means less variance and more bias."""
    a: float = 1.0
    """Prior rounds online in the estimate; higher takes everybody for less rare, so weights differ less."""
    b: float = 1.0
    """Prior rounds offline in the estimate; higher takes everybody for rarer, so weights are larger."""
    reference: ClassVar[str] = CUP

    def __post_init__(self) -> None:
        checks.between("power", self.power, 0, 10)
        checks.between("clip", self.clip, 1, 1e9)
        checks.not_negative("a", self.a)
        checks.not_negative("b", self.b)

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """Clipped pi^-power, over N or over their sum."""
        online = ledger.online[rows.clients] + (rows.ages == 0)
        pi = np.maximum((self.a + online) / (self.a + self.b + ledger.rounds + 1), 1e-9)
        omega = np.minimum(pi**-self.power, self.clip)
        scale = ledger.num_clients if self.form == "ht" else max(float(omega.sum()), 1e-300)
        return omega / scale, state
