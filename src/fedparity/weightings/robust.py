"""Robust averages that are weights over rows, computed through distances between updates.

    clipped:           1/m min(1, median length / |delta_k|)
    geometric_median:  a_k / |delta_k - z|, iterated (Weiszfeld), normalised; a_k = 1
    rfa:               the same with a_k = n_k and 4 iterations                               (Pillutla et al. 2022)
    krum:              1/c for the c rows closest to their m - f - 2 nearest neighbours       (Blanchard et al. 2017)

Coordinate-wise rules (medians, trimmed means) are not weights over rows and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Weighting
from fedparity.core.rows import gram as inner_products
from fedparity.core.rows import squared_lengths
from fedparity.core.types import FloatArray, Rows


@dataclass(frozen=True, slots=True)
class Clipped(Weighting[None]):
    """The mean of updates cut to the median length."""

    factor: float = 1.0
    """Longest update kept as it is, in median lengths; lower shortens more of them."""

    def __post_init__(self) -> None:
        checks.positive("factor", self.factor)

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """1/m, less for longer updates."""
        if not len(rows.clients):
            return np.empty(0), state
        length = np.sqrt(squared_lengths(rows.deltas))
        cut = np.minimum(1.0, self.factor * float(np.median(length)) / np.maximum(length, 1e-300))
        return np.where(length > 0, cut, 1.0) / len(length), state


@dataclass(frozen=True, slots=True)
class GeometricMedian(Weighting[None]):
    """The point with the least sum of distances to all updates, as weights (smoothed Weiszfeld)."""

    steps: int = 32
    """Weiszfeld iterations; more come closer to the median."""
    smooth: float = 1e-6
    """Least distance divided by, relative to the longest update; higher is steadier and less exact."""
    by: Literal["equal", "size"] = "equal"
    """Whether distances count equally or by the number of samples behind an update."""
    reference: ClassVar[str] = "Pillutla et al., Robust Aggregation for Federated Learning, IEEE TSP 2022"

    def __post_init__(self) -> None:
        checks.at_least("steps", self.steps, 1, 10_000)
        checks.positive("smooth", self.smooth)

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """Weights 1 / distance to the weighted mean, until they settle."""
        m = len(rows.clients)
        if not m:
            return np.empty(0), state
        gram = inner_products(rows.deltas)
        mass = np.ones(m) if self.by == "equal" else np.maximum(rows.sizes, 1) / max(1.0, float(rows.sizes.max()))
        weights = mass / mass.sum()
        floor = self.smooth * max(float(np.sqrt(np.diag(gram).max())), 1e-300)
        for _ in range(self.steps):
            squared = np.diag(gram) - 2 * gram @ weights + weights @ gram @ weights
            raw = mass / np.maximum(np.sqrt(np.maximum(squared, 0.0)), floor)
            weights = raw / raw.sum()
        return weights, state


@dataclass(frozen=True, slots=True)
class Krum(Weighting[None]):
    """The mean of the updates that have the closest neighbours (multi-Krum)."""

    bad: float = 0.2
    """Share of updates that may be hostile; higher leaves out more of them."""
    reference: ClassVar[str] = "Blanchard et al., Machine Learning with Adversaries, NeurIPS 2017"

    def __post_init__(self) -> None:
        checks.between("bad", self.bad, 0, 0.49)

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """1/c for the c = m - f rows with the lowest scores."""
        m = len(rows.clients)
        f = int(self.bad * m)
        if m - f < 3:
            return np.full(m, 1 / max(1, m)), state
        squared = _distances(inner_products(rows.deltas))
        scores = np.sort(squared, axis=1)[:, 1 : m - f - 1].sum(axis=1)
        weights = np.zeros(m)
        weights[np.argsort(scores, kind="stable")[: m - f]] = 1 / (m - f)
        return weights, state


def _distances(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    size = np.diag(gram)
    return np.maximum(size[:, None] + size - 2 * gram, 0.0)
