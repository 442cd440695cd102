"""REFL's informed selection (Abdelmoniem, Sahu, Canini, Fahmy, EuroSys 2023): now those who will not be there later.

    the m available clients with the least  E[rounds online among the next `window`],  ties by lot

REFL asks clients for the forecast of the next window; here it is the server's own, from what it saw. Its weights for
late updates are not part of this rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.core import checks
from fedparity.core.protocols import Scheduler
from fedparity.core.types import Cohort, RoundView
from fedparity.schedulers.draws import lowest


@dataclass(frozen=True, slots=True)
class Refl(Scheduler[None]):
    """Who is least likely to be there in the next rounds comes first (REFL)."""

    forecasts: ClassVar[bool] = True
    window: int = 1
    """Rounds looked ahead; more of them favour clients that will stay away for long."""
    reference: ClassVar[str] = "Abdelmoniem et al., REFL: Resource-Efficient Federated Learning, EuroSys 2023"

    def __post_init__(self) -> None:
        checks.at_least("window", self.window, 1)

    def init(self, num_clients: int) -> None:
        """No memory of its own: the estimator has it."""

    def select(self, state: None, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, None]:
        """Rank by expected presence; by estimated availability if nobody forecasts."""
        ahead = view.pi if view.expected is None else view.expected(self.window)
        return lowest(view.available, ahead, view.cohort, rng), state
