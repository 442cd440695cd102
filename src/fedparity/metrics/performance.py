"""One value per client, summed up as the fair-FL literature prints it.

FederatedScope (`Results_fairness`): std, bottom and top decile, min, max, mean of the lowest and highest tenth,

    cos1 = mean x / sqrt(mean x^2) = cos(x, 1) = sqrt(Jain)          entropy = -sum p_k log p_k,  p_k = x_k / sum x

q-FFL (Li et al., ICLR 2020) and FedFV (Wang et al., IJCAI 2021): mean, worst and best 10 % or 5 %, and the variance of
accuracies *in percent*: 10^4 times that of shares. Shares of clients are rounded up, at least one; FederatedScope
rounds its lowest tenth down, which is empty below ten clients. It adds 1e-9 before the entropy; we take 0 log 0 = 0.
Worst is lowest: give accuracies, or losses with a minus.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedparity.core.types import FloatArray
from fedparity.metrics import inequality
from fedparity.metrics.inequality import NAN, as_vector


@dataclass(frozen=True, slots=True)
class PerformanceSummary:
    """How one value per client is spread; NaN everywhere without clients."""

    clients: int
    mean: float
    std: float
    """Population, as `variance`."""
    variance: float
    variance_percent2: float
    """The variance of 100 x: what papers print for accuracies, in percent squared."""
    min: float
    max: float
    bottom_decile: float
    """Sorted ascending, entry n // 10 (from 0)."""
    top_decile: float
    """Entry 9 n // 10."""
    worst5: float
    """Mean of the lowest 5 % of clients."""
    best5: float
    worst10: float
    best10: float
    cos1: float
    """Cosine to equal values: 1 is equal, below 0 if the mean is."""
    entropy: float
    """Nats: log n is equal (all zeros too); NaN if a value is negative."""


def summarise_performance(values: ArrayLike) -> PerformanceSummary:
    """Every number above of one value per client, accuracies as shares of 1."""
    x = np.sort(as_vector(values, "values"))
    n = len(x)
    return PerformanceSummary(
        clients=n,
        mean=inequality.mean(x),
        std=inequality.std(x),
        variance=inequality.variance(x),
        variance_percent2=inequality.variance(100 * x),
        min=float(x[0]) if n else NAN,
        max=float(x[-1]) if n else NAN,
        bottom_decile=float(x[n // 10]) if n else NAN,
        top_decile=float(x[9 * n // 10]) if n else NAN,
        worst5=inequality.worst(x, 0.05),
        best5=inequality.best(x, 0.05),
        worst10=inequality.worst(x, 0.1),
        best10=inequality.best(x, 0.1),
        cos1=math.copysign(math.sqrt(inequality.jain(x)), x.sum()) if n else NAN,
        entropy=_entropy(x),
    )


def _entropy(x: FloatArray) -> float:
    if not len(x) or x[0] < 0:
        return NAN
    if not x[-1]:
        return math.log(len(x))
    p = x[x > 0] / x[-1]
    p /= p.sum()
    return float(-(p[p > 0] * np.log(p[p > 0])).sum())
