"""AAggFF for many clients (Hahn, Kim, Lee, ICML 2024, arXiv 2405.20821; code vaseline555/AAggFF, 3932c3d).

    r_k = C cdf(F_k / mean of F over S) for k in S,    C = |S| / N,    r = mean of r_k over S
    estimate_k = (r_k - r) / C for k in S, r for the others                      estimate = "code"
                 r + (r_k - r) / C for k in S, r for the others                  estimate = "doubly_robust"
    G <- G + estimate / (1 + r);    p = softmax(G sqrt(ln N) / ((2 + C) sqrt(t + 1))),    t counted from 1
    w <- w + sum over S of p_k delta_k / sum over S of p_j                       with the new p

Aggregation as online decisions under partial observation: a leader that follows the regularised sum of what it saw. The
code leaves the mean out of the doubly robust estimate of those that came, so that the others gain weight beside them;
both are offered. A term of the code's gradient that is the same for all clients is left out: softmax does not see it.
`cdf`: weibull 1 - e^(-x^2), exponential 1 - e^-x, frechet e^(-1/x), gumbel e^-e^(1-x), logistic 1 / (1 + e^(1-x)); the
authors tune it. Their second form, for a few clients that are always there, needs a solver and is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from fedparity.core.ledger import Ledger
from fedparity.core.marks import PER_CLIENT
from fedparity.core.protocols import Weighting
from fedparity.core.types import FloatArray, ReportField, Rows
from fedparity.weightings.losses import losses_of

Cdf = Literal["weibull", "exponential", "frechet", "gumbel", "logistic"]


def bounded(x: FloatArray, cdf: Cdf) -> FloatArray:
    """A loss over the mean loss, as a number between 0 and 1."""
    if cdf == "weibull":
        return np.asarray(-np.expm1(-(x**2)))
    if cdf == "exponential":
        return np.asarray(-np.expm1(-x))
    if cdf == "frechet":
        return np.asarray(np.exp(-1 / np.maximum(x, 1e-3)))  # below, e^-1000 is 0
    if cdf == "gumbel":
        return np.asarray(np.exp(-np.exp(1 - x)))
    return np.asarray(1 / (1 + np.exp(1 - x)))


@dataclass(slots=True)
class Sums:
    """What each client's responses add up to."""

    total: FloatArray = field(metadata=PER_CLIENT)


@dataclass(frozen=True, slots=True)
class AAggFF(Weighting[Sums]):
    """Mixture weights from all losses seen so far, by online optimisation (AAggFF)."""

    cdf: Cdf = "weibull"
    """How a loss over the mean loss becomes a number between 0 and 1; frechet tells large losses apart least."""
    estimate: Literal["code", "doubly_robust"] = "code"
    """What stands for responses: the authors' code, or the doubly robust estimate with its mean."""
    report_fields: ClassVar[tuple[ReportField, ...]] = ("loss_before",)
    reference: ClassVar[str] = "Hahn et al., Pursuing Overall Welfare in Federated Learning, ICML 2024"

    def init(self, num_clients: int) -> Sums:
        """Nothing was seen."""
        return Sums(np.zeros(num_clients))

    def weigh(self, state: Sums, rows: Rows, ledger: Ledger) -> tuple[FloatArray, Sums]:
        """Take in the losses, then p over those that came."""
        if not len(rows.clients):
            return np.empty(0), state
        count, loss = len(state.total), losses_of(rows)
        share = min(1.0, len(rows.clients) / count)
        response = share * bounded(loss / max(float(loss.mean()), 1e-300), self.cdf)
        mean = float(response.mean())
        seen = np.full(count, mean)
        seen[rows.clients] = (response - mean) / share + (mean if self.estimate == "doubly_robust" else 0.0)
        state.total = state.total + seen / (1 + mean)
        score = state.total[rows.clients] * math.sqrt(math.log(max(2, count)) / (ledger.rounds + 2)) / (2 + share)
        raw = np.exp(score - score.max())
        return raw / raw.sum(), state
