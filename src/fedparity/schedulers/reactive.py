"""Reactive weights (Theorem 2 and section 3.2 of the paper): inverse availability times missed rounds.

    p_k(t) = alpha / (pi_k + eps) * (1 + lam * missed_k(t))

The paper leaves two things open, so both are named. `missed`: rounds *offline* so far (Theorem 2), rounds
*since_selected* (t - last, and t for a client never selected, rounds counted from 0), or rounds *not_selected*. `draw`:
*sample* with chances proportional to p_k (Lemma 2) or take the *top* m (section 3.2). With `offline` and `top` a score
never falls when its client is chosen: the least fair reading.

`cup_authors` is the selection of the authors' first public code (stefankam/CumulativeParticipationParity, a8f2283) to
the letter: since_selected, pi = rounds online / t without a prior, no eps, lam = .5, ties in list order. The rule has
no lot in it. (The code adds label coverage, which changes no choice: it stops once m clients are chosen, and until then
takes everyone.)

`cup_later` is that of their later code (050d8ca): min(1 / (pi + .001), 100) (1 + .1 debt), debt = sum of (1 - P),
water-filled into inclusion probabilities and drawn by the pivotal method. Its pi has no prior: estimator
`mean:a=0,b=0`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.protocols import CUP, Scheduler
from fedparity.core.types import Cohort, FloatArray, RoundView
from fedparity.schedulers.draws import everybody, lowest, pivotal, proportional


@dataclass(frozen=True, slots=True)
class Reactive(Scheduler[None]):
    """Inverse availability times (1 + lam x missed rounds) (Theorem 2)."""

    missed: Literal["offline", "since_selected", "not_selected"] = "offline"
    """Rounds that raise a client's weight: those offline, those since its last selection, or those not selected."""
    draw: Literal["sample", "top", "pivotal"] = "top"
    """Draw with chances proportional to weight (sample, or pivotal), or take the largest weights (top)."""
    lam: float = 0.7
    """Weight of one missed round; 0 is inverse availability alone, higher favours those that missed more."""
    eps: float = 1e-3
    """Added to availability before dividing by it; higher favours rare clients less."""
    clip: float | None = None
    """Largest 1 / availability; lower favours the rarest clients less; none: any."""
    pi: Literal["estimator", "counts"] = "estimator"
    """Availability: what the estimator says, or rounds online over rounds so far, without a prior (counts)."""
    ties: Literal["lot", "order"] = "lot"
    """top: equal weights are drawn by lot, or taken in the order of client numbers (the authors' code)."""
    alpha: tuple[float, ...] = (1.0,)
    """Factor on a client's weight: one number for all clients, or one per client; higher is asked more."""
    reference: ClassVar[str] = CUP

    def __post_init__(self) -> None:
        checks.not_negative("lam", self.lam)
        checks.not_negative("eps", self.eps)
        if self.clip is not None:
            checks.positive("clip", self.clip)
        for value in self.alpha:
            checks.positive("alpha", value)

    def init(self, num_clients: int) -> None:
        """No memory of its own: the ledger has it all."""
        if len(self.alpha) not in (1, num_clients):
            raise ConfigError(f"alpha has {len(self.alpha)} numbers but there are {num_clients} clients; give 1 or all")

    def missed_rounds(self, view: RoundView) -> FloatArray:
        """missed_k(t) of the available clients, in the chosen reading."""
        ledger, ids = view.ledger, view.available
        if self.missed == "offline":
            return (ledger.rounds - ledger.online[ids]).astype(np.float64)
        if self.missed == "since_selected":
            return (view.round - np.maximum(ledger.last_selected[ids], 0)).astype(np.float64)
        return (ledger.rounds - ledger.selected[ids]).astype(np.float64)

    def select(self, state: None, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, None]:
        """Sample by p_k, or take the largest."""
        alpha = np.array(self.alpha)[view.available if len(self.alpha) > 1 else 0]
        # Who is available was online at least once, this round, so neither availability is 0.
        pi = (view.ledger.online[view.available] + 1) / max(1, view.round) if self.pi == "counts" else view.pi
        inverse = 1 / (pi + self.eps) if self.clip is None else np.minimum(1 / (pi + self.eps), self.clip)
        weight = alpha * inverse * (1 + self.lam * self.missed_rounds(view))
        if self.draw != "top":
            draw = proportional if self.draw == "sample" else pivotal
            return draw(view.available, weight, view.cohort, rng), state
        if self.ties == "order":
            first = np.sort(np.argsort(-weight, kind="stable")[: view.cohort])
            return everybody(view.available[first]), state
        return lowest(view.available, -weight, view.cohort, rng), state
