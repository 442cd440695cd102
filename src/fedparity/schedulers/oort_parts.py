"""The pieces of Oort's score that can be worked out by hand, and its pacer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from fedparity.core.types import FloatArray

Pacer: TypeAlias = Literal["falling", "flat"]


def statistical_utility(samples: float, loss_rms: float) -> float:
    """|B| sqrt(mean loss^2)."""
    return max(0.0, samples * loss_rms) if math.isfinite(samples * loss_rms) else math.nan


def slowness(duration: FloatArray, preferred: float, penalty: float) -> FloatArray:
    """(T / t)^penalty for those slower than T, 1 for the others and where t is not known."""
    late = duration > preferred
    ratio = np.divide(preferred, duration, out=np.ones(len(duration)), where=late)
    return np.asarray(ratio**penalty, dtype=np.float64)


def uncertainty(round: int, last: FloatArray) -> FloatArray:
    """sqrt(.1 ln R / L): the longer ago a client was used, the larger; rounds count from 1."""
    return np.asarray(np.sqrt(0.1 * math.log(round) / np.maximum(last, 1)), dtype=np.float64)


def clipped(utility: FloatArray, clip: float, *, normalise: bool) -> FloatArray:
    """Utilities cut at their `clip` quantile and, as the released code has it, scaled to [0, 1]."""
    ranked = np.sort(utility)
    cut = np.minimum(utility, ranked[min(int(len(ranked) * clip), len(ranked) - 1)])
    low = 0.999 * ranked[0]
    return np.asarray((cut - low) / max(ranked[-1] - low, 1e-4) if normalise else cut, dtype=np.float64)


def preferred_duration(durations: FloatArray, threshold: float) -> float:
    """T: the duration at that percentile of the known ones; without end at 100, or if none is known."""
    known = np.sort(durations[~np.isnan(durations)])
    if threshold >= 100 or not len(known):
        return math.inf
    return float(known[min(int(len(known) * threshold / 100), len(known) - 1)])


def paced(pacer: Pacer, threshold: float, delta: float, earlier: Sequence[float], later: Sequence[float]) -> float:
    """The percentile to use from now on, given the utilities of two windows of rounds."""
    past, now = sum(earlier), sum(later)
    up = min(100.0, threshold + delta)
    if pacer == "falling":
        return up if past > now else threshold
    if abs(now - past) <= 0.1 * past:
        return up
    return max(delta, threshold - delta) if abs(now - past) >= 5 * past else threshold
