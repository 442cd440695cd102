"""Parity, our own: closed-loop on the ledger, towards a target that is named.

    S_k + 1/2 + r R_k
    -----------------  ->  the m smallest are asked          r = min(1, m / |A_t|)
         pi_k^beta

S_k is what client k has been given, R_k in how many of the remaining rounds it is expected online, and r the rate at
which an online round is turned into a selection now: the numerator is where k will end up if the loop did nothing more
for it, so a client that will seldom be back is asked before one that can wait. The half centres the step that a
selection makes.

    target = share        beta = 0: everybody the same S_k, as far as availability allows
    target = opportunity  beta = 1: everybody the same S_k / pi_k
    target = utility      the same u_k / pi_k: S_k is replaced by utility, one selection by the client's mean gain
    target = a number     that beta

Everything is observed by the server but utility, which clients report. `ratio` bounds what a report can do: mean gains
are clipped to a band around their median whose ends differ by that factor. A quota bounds what anything can do:
`with_quota` around parity; rates and medians stay those of everybody online, hidden or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedparity.core import checks
from fedparity.core.protocols import Scheduler
from fedparity.core.types import Cohort, FloatArray, RoundView
from fedparity.schedulers.draws import lowest


@dataclass(frozen=True, slots=True)
class Parity(Scheduler[None]):
    """Closed loop on what each client was given and will still get, towards a named target (the default)."""

    forecasts: ClassVar[bool] = True
    target: Literal["share", "opportunity", "utility"] | float = "share"
    """What is made equal: selections (share), selections or utility per round online, or S_k / pi_k^number."""
    ratio: float | None = None
    """Largest ratio of mean gains that reports can cause; higher trusts reports more; none: no such bound."""

    def __post_init__(self) -> None:
        if not isinstance(self.target, str):
            checks.between("target", self.target, 0, 4)
        if self.ratio is not None:
            checks.between("ratio", self.ratio, 1, 1e6)

    def init(self, num_clients: int) -> None:
        """No memory of its own: the ledger knows what each client was given."""

    def select(self, state: None, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, None]:
        """The available clients that are furthest behind."""
        return lowest(view.available, self._ends_up_with(view), view.cohort, rng), state

    def _ends_up_with(self, view: RoundView) -> FloatArray:
        ids, ledger = view.available, view.ledger
        beta = {"share": 0.0, "opportunity": 1.0, "utility": 1.0}.get(str(self.target))
        beta = float(self.target) if beta is None else beta
        whole = view.whole or view
        rate = min(1.0, whole.cohort / max(1, len(whole.available)))
        # Without a known end the outlook is one selection long: enough to prefer the rarer of two equals.
        outlook = view.pi if view.remaining is None else rate * view.remaining
        given = ledger.selected[ids] + 0.5 + outlook
        if self.target == "utility":
            given = given * self._mean_gain(view, whole)
        if beta == 0:
            return given
        online = (ledger.online[ids] + 1) / (ledger.rounds + 1)
        return np.asarray(given / online**beta, dtype=np.float64)

    def _mean_gain(self, view: RoundView, whole: RoundView) -> FloatArray:
        """What one selection has been worth to each client; the median of the others where it is not known."""
        gain = _gains(view)
        known = _gains(whole)
        known = known[~np.isnan(known)]
        middle = float(np.median(known)) if len(known) and np.median(known) > 0 else 1.0
        gain = np.where(np.isnan(gain), middle, gain)
        if self.ratio is None:
            # A client that gains nothing would otherwise be asked for ever.
            return np.maximum(gain, middle / 100)
        band = math.sqrt(self.ratio)
        return np.clip(gain, middle / band, middle * band)


def _gains(view: RoundView) -> FloatArray:
    """Utility per selection of the available clients; NaN for those never selected."""
    ids, ledger = view.available, view.ledger
    times = ledger.selected[ids]
    found: FloatArray = np.divide(ledger.utility[ids], times, out=np.full(len(ids), np.nan), where=times > 0)
    return found
