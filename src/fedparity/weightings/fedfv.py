"""FedFV (Wang et al., IJCAI 2021): conflicting updates are projected before they are averaged.

    order PO: clients by ascending loss; those from place ceil((m - 1)(1 - alpha)) on keep their update
    internal: every other k, for i in PO:  if g_k . g_i < 0:  g_k -= (g_k . g_i) / |g_i|^2 g_i       (g_i as it came)
    external, if t >= tau: for age tau..1: the sum of earlier updates of that age against which the mean goes is
              projected out; of clients that are here, the update of this round is the last one, so they have no earlier
    the mean is rescaled to the length of the plain mean

Everything is a combination of rows, so weights come out, computed through the Gram matrix. External conflicts need rows
of earlier rounds: memory `last_updates` with max_age = tau. This is the May 2021 form of the authors' code; since
August 2021 it looks at the current round instead of the oldest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Weighting
from fedparity.core.rows import gram as inner_products
from fedparity.core.types import FloatArray, ReportField, Rows
from fedparity.weightings.ages import fresh_and_doubled
from fedparity.weightings.losses import losses_of


@dataclass(frozen=True, slots=True)
class FairVector(Weighting[None]):
    """Updates that pull against each other are projected, those of low loss first (FedFV)."""

    alpha: float = 0.1
    """Share of clients, those of highest loss, that keep their update as it is; higher projects fewer."""
    tau: int = 1
    """Rounds back to which updates can conflict, given a memory of that age; 0: only those of this round."""
    report_fields: ClassVar[tuple[ReportField, ...]] = ("loss_before",)
    reference: ClassVar[str] = "Wang et al., Federated Learning with Fair Averaging, IJCAI 2021"

    def __post_init__(self) -> None:
        checks.between("alpha", self.alpha, 0, 1)
        checks.at_least("tau", self.tau, 0)

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """Coefficients of the rescaled mean of projected updates."""
        fresh = np.flatnonzero(rows.ages == 0)
        weights = np.zeros(len(rows.clients))
        if not len(fresh):
            return weights, state
        gram = inner_products(rows.deltas)
        plain = weights.copy()
        plain[fresh] = 1 / len(fresh)
        weights = self._internal(gram, fresh, losses_of(rows)).mean(axis=0)
        _, doubled = fresh_and_doubled(rows)
        for age in range(self.tau, 0, -1) if ledger.rounds >= self.tau else ():
            weights = _project(gram, weights, np.flatnonzero((rows.ages == age) & ~doubled))
        length, target = _length(gram, weights), _length(gram, plain)
        return weights * (target / length) if length > 0 else weights, state

    def _internal(self, gram: NDArray[np.float64], fresh: NDArray[np.intp], losses: FloatArray) -> NDArray[np.float64]:
        order = fresh[np.argsort(losses[fresh], kind="stable")]
        m = len(order)
        kept = set(order[math.ceil((m - 1) * (1 - self.alpha)) :].tolist()) if self.alpha > 0 else set()
        combined = np.zeros((m, len(gram)))
        for place, k in enumerate(fresh.tolist()):
            combined[place, k] = 1.0
            for i in () if k in kept else order.tolist():
                against = float(combined[place] @ gram[i])
                if i != k and against < 0 < gram[i, i]:
                    combined[place, i] -= against / gram[i, i]
        return combined


def _project(gram: NDArray[np.float64], weights: FloatArray, earlier: NDArray[np.intp]) -> FloatArray:
    """The mean without what goes against the sum of the earlier rows that it conflicts with."""
    conflict = np.zeros(len(weights))
    conflict[earlier[(gram[earlier] @ weights) < 0]] = 1.0
    size = float(conflict @ gram @ conflict)
    against = float(weights @ gram @ conflict)
    return weights - against / size * conflict if against < 0 < size else weights


def _length(gram: NDArray[np.float64], weights: FloatArray) -> float:
    return math.sqrt(max(0.0, float(weights @ gram @ weights)))
