"""Inverse-availability sampling (Lemma 2 of the paper): rare clients are more likely to be asked when they show up.

    q_k(t) = 1 / pi_k(t),    P(k asked | A_t) proportional to q_k over the available

Lemma 2 draws m times independently (`replace=true`, so fewer than m are asked when one is drawn twice); the default
draws m distinct clients with probabilities min(1, c q_k). Neither equalises selection at m/N in general: see
docs/paper.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.core.protocols import CUP, Scheduler
from fedparity.core.types import Cohort, RoundView
from fedparity.schedulers.draws import proportional, with_replacement


@dataclass(frozen=True, slots=True)
class Inverse(Scheduler[None]):
    """Chance proportional to 1/availability among the available (Lemma 2)."""

    replace: bool = False
    """Draw m times independently, so that a client drawn twice costs a slot (Lemma 2); false: m distinct clients."""
    reference: ClassVar[str] = CUP

    def select(self, state: None, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, None]:
        """Draw with weights 1/pi."""
        draw = with_replacement if self.replace else proportional
        return draw(view.available, 1 / view.pi, view.cohort, rng), state
