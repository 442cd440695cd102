"""REFL's informed selection (Abdelmoniem, Sahu, Canini, Fahmy, EuroSys 2023): now those who will not be there later.

    the m available clients with the least  E[rounds online among the next `window`],  ties by lot
    a client asked in round t is not asked again before round t + `hold`, unless slots would stay empty

This is the selection half of REFL. REFL asks clients for the forecast of the next window; here it is the server's own,
from what it saw. Its other half, the weights of updates that come late, has nothing to act on where a round waits for
nobody, and is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import NEVER
from fedparity.core.protocols import Scheduler
from fedparity.core.types import Cohort, RoundView
from fedparity.schedulers.draws import lowest


@dataclass(frozen=True, slots=True)
class Refl(Scheduler[None]):
    """Who is least likely to be there in the next rounds comes first (REFL)."""

    forecasts: ClassVar[bool] = True
    window: int = 1
    """Rounds looked ahead; more of them favour clients that will stay away for long."""
    hold: int = 5
    """Rounds until a client that was asked may be asked again, if others are there; 0 or 1: the next round may."""
    reference: ClassVar[str] = "Abdelmoniem et al., REFL: Resource-Efficient Federated Learning, EuroSys 2023"

    def __post_init__(self) -> None:
        checks.at_least("window", self.window, 1)
        checks.at_least("hold", self.hold, 0)

    def select(self, state: None, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, None]:
        """Rank by expected presence, or by estimated availability if nobody forecasts, and the held off after all."""
        ahead = view.pi if view.expected is None else view.expected(self.window)
        last = view.ledger.last_selected[view.available]
        held = (last != NEVER) & (view.round - last < self.hold)
        return lowest(view.available, ahead + held * (self.window + 1), view.cohort, rng), state
