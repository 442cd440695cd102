"""The paper's utility surrogate (section 3.3): a decayed stand-in for the utility of a missing client.

    eta_k(t) = eta0 exp(-lam delta_k),   delta_k = rounds since k last completed one
    credited to `surrogate_utility`:  eta_k g_k        |bias| <= eps * sum of eta_k   (Lemma 3)

It never touches the model. Where the utility rule credits everybody nobody is missing, and nothing is credited twice.
g = "gain" is the client's last credited utility; g = "level" is the loss of its own last model (the authors' reading: a
frozen model on fixed data has a constant loss, so one number replaces a stored network; note that a *worse* model then
earns more). eps is given, or measured where the truth can be evaluated: the largest distance between g_k and what the
missing client would be credited (gain) or would lose (level) under the model as it is now. What it would be credited is
the utility rule's to say: `global_loss_drop` and `accuracy_gain` know it from the model alone, `loss_drop` only from
training, so the bound is then empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import CUP, Surrogate
from fedparity.core.types import ClientReport, Evals, FloatArray, Ids, ReportField, SurrogateCredit


@dataclass(frozen=True, slots=True)
class UtilitySurrogate(Surrogate[FloatArray]):
    """Decayed last utility of clients that are offline; never touches the model (section 3.3)."""

    g: Literal["gain", "level"] = "gain"
    """What is credited: the client's last gain, or the loss of its own last model (level)."""
    eta0: float = 1.0
    """Weight of what stands in for a client just gone; higher lets the absent count more."""
    lam: float = 0.5
    """Decay of that weight per round of absence; higher forgets faster."""
    epsilon: float | None = None
    """Bound on the surrogate's error; none: measured where the engine can evaluate."""
    reference: ClassVar[str] = CUP

    def __post_init__(self) -> None:
        checks.positive("eta0", self.eta0)
        checks.positive("lam", self.lam)
        if self.epsilon is not None:
            checks.not_negative("epsilon", self.epsilon)

    @property
    def report_fields(self) -> tuple[ReportField, ...]:
        """A level is the loss of the client's own last model."""
        return ("loss_after",) if self.g == "level" else ()

    def init(self, num_clients: int) -> FloatArray:
        """g_k of each client; the round it stems from is the ledger's `last_completed`."""
        return np.zeros(num_clients)

    def stand_in(
        self, state: FloatArray, round: int, available: Ids, ledger: Ledger, evaluate: Callable[[Ids], Evals] | None
    ) -> tuple[SurrogateCredit, FloatArray]:
        """Credit every offline client that has taken part before."""
        absent = ledger.last_completed >= 0
        absent[available] = False
        missing = np.flatnonzero(absent)
        eta = self.eta0 * np.exp(-self.lam * (round - ledger.last_completed[missing]))
        total = float(eta.sum())
        return SurrogateCredit(
            missing, eta * state[missing], total, self._error(state, missing, evaluate) * total
        ), state

    def _error(self, state: FloatArray, missing: Ids, evaluate: Callable[[Ids], Evals] | None) -> float:
        if self.epsilon is not None:
            return self.epsilon
        if not len(missing):
            return 0.0
        if evaluate is None:
            return math.nan
        now = evaluate(missing)
        truth = now.loss if self.g == "level" else now.credit
        if truth is None:
            return math.nan
        error = float(np.abs(state[missing] - truth).max())
        return error if math.isfinite(error) else math.nan

    def remember(self, state: FloatArray, reports: Sequence[ClientReport], utility: FloatArray) -> FloatArray:
        """Keep g_k of this round's participants."""
        clients = [r.client for r in reports]
        state[clients] = utility if self.g == "gain" else [np.nan_to_num(r.loss_after) for r in reports]
        return state
