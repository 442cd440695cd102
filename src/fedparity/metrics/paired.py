"""Methods compared on the same seeds: one number a method and seed, and what the difference is worth.

A seed fixes data, availability and initial model for all methods, so d_s = method_s - reference_s has none of the
spread between seeds in it. Reported are

    mean d with a percentile bootstrap interval (Efron 1979) over seeds, wins / ties / losses,
    mean ranks over seeds, 1 the best, ties sharing the mean of their places (Demšar, JMLR 2006),
    on demand the Wilcoxon signed-rank p-value (two-sided): with n pairs at least 2^(1-n), so never below .05 with 5.

Few seeds make intervals that are too narrow: `pairs` stands beside every number. A seed for which a value is missing
(NaN or infinite) is left out, of a difference if one of its two is missing, of the ranks if any is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedparity.core import checks
from fedparity.core.errors import ConfigError, unknown
from fedparity.core.rng import stream
from fedparity.core.types import FloatArray
from fedparity.metrics.inequality import NAN

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A method against the reference, over the seeds that both have."""

    method: str
    reference: str
    pairs: int
    mean: float
    """Mean of method - reference; NaN without pairs."""
    low: float
    """The bootstrap interval; NaN with fewer than two pairs, of which nothing can be told."""
    high: float
    wins: int
    """Pairs in which the method is better."""
    ties: int
    losses: int
    p: float | None = None
    """Wilcoxon signed-rank, two-sided, over `p_pairs`; None if not asked for."""
    p_pairs: int | None = None
    """Pairs that differ: the test leaves out the others."""


@dataclass(frozen=True, slots=True)
class MeanRanks:
    """The mean place of each method, 1 the best, over the seeds that all of them have; NaN without any."""

    ranks: dict[str, float]
    seeds: int


def align_seeds(values: Mapping[str, Mapping[int, float]]) -> tuple[tuple[int, ...], dict[str, FloatArray]]:
    """All seeds in order, and a vector a method with NaN where it has not run."""
    seeds = tuple(sorted({seed for found in values.values() for seed in found}))
    return seeds, {name: np.array([found.get(s, NAN) for s in seeds], dtype=float) for name, found in values.items()}


def compare_methods(
    values: Mapping[str, ArrayLike],
    reference: str,
    *,
    higher_is_better: bool = True,
    tie: float = 0.0,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
    wilcoxon: bool = False,
) -> dict[str, PairedDifference]:
    """Every other method against `reference`; `values` has an entry a seed, in the same order for all.

    Differences of at most `tie` are ties. One `seed` gives the same intervals, with the same resamples for all methods.
    """
    checks.not_negative("tie", tie)
    columns = _columns(values)
    if reference not in columns:
        raise unknown("reference method", reference, columns)
    sign = 1 if higher_is_better else -1
    found = {}
    for name in columns:
        if name == reference:
            continue
        d = differences(columns[name], columns[reference])
        low, high = bootstrap_interval(d, confidence=confidence, resamples=resamples, seed=seed)
        p, p_pairs = signed_rank(d) if wilcoxon else (None, None)
        wins, losses = int((sign * d > tie).sum()), int((sign * d < -tie).sum())
        mean = float(d.mean()) if len(d) else NAN
        ties = len(d) - wins - losses
        found[name] = PairedDifference(name, reference, len(d), mean, low, high, wins, ties, losses, p, p_pairs)
    return found


def differences(method: ArrayLike, reference: ArrayLike) -> FloatArray:
    """What `method` has more than `reference`, of the seeds for which both are finite."""
    columns = _columns({"method": method, "reference": reference})
    there = np.isfinite(columns["method"]) & np.isfinite(columns["reference"])
    return columns["method"][there] - columns["reference"][there]


def bootstrap_interval(
    d: ArrayLike, *, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """The percentile bootstrap interval of the mean: quantiles of the means of `resamples` draws with replacement."""
    checks.positive("confidence", confidence)
    checks.between("confidence", confidence, 0, 1)
    checks.at_least("resamples", resamples, 1)
    values = _finite(d)
    n = len(values)
    if n < 2:
        return NAN, NAN
    means = values[stream(seed, "paired.bootstrap").integers(n, size=(resamples, n))].mean(axis=1)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def mean_ranks(values: Mapping[str, ArrayLike], *, higher_is_better: bool = True) -> MeanRanks:
    """The mean over seeds of each method's place; exactly equal values are ties, places add up to k (k + 1) / 2."""
    columns = _columns(values)
    table = np.array(list(columns.values()), dtype=np.float64)
    if not table.size or not (there := np.isfinite(table).all(axis=0)).any():
        return MeanRanks(dict.fromkeys(columns, NAN), 0)
    table = table[:, there]
    sign = 1 if higher_is_better else -1
    better = sign * table[None, :, :] > sign * table[:, None, :]  # [i, j, s]: j is better than i
    equal = table[None, :, :] == table[:, None, :]
    places = better.sum(axis=1) + (equal.sum(axis=1) + 1) / 2
    return MeanRanks({name: float(row.mean()) for name, row in zip(columns, places, strict=True)}, int(there.sum()))


def signed_rank(d: ArrayLike) -> tuple[float, int]:
    """The two-sided Wilcoxon signed-rank p-value, and the number of differences that are not 0; 1 without any."""
    values = _finite(d)
    values = values[values != 0]
    if not len(values):
        return 1.0, 0
    from scipy.stats import wilcoxon

    return float(wilcoxon(values).pvalue), len(values)


def _finite(d: ArrayLike) -> FloatArray:
    values = np.asarray(d, dtype=np.float64)
    return values[np.isfinite(values)]


def _columns(values: Mapping[str, ArrayLike]) -> dict[str, FloatArray]:
    columns = {name: np.asarray(given, dtype=np.float64) for name, given in values.items()}
    shapes = {column.shape for column in columns.values()}
    if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
        sizes = ", ".join(f"{name} {column.shape}" for name, column in columns.items())
        raise ConfigError(f"methods must have one value a seed, as many for all (NaN: missing); there are {sizes}")
    return columns
