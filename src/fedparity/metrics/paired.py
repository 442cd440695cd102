"""Methods compared on the same seeds: one number per method and seed, and what the difference is worth.

A seed fixes data, availability and initial model for all methods, so d_s = method_s - reference_s has none of the
spread between seeds in it. Reported are

    mean d with the paired t interval, mean +- t_{n-1} s / sqrt(n) (Student 1908), wins / ties / losses,
    p of the sign-flip test (Fisher 1935): the share of sign patterns of d with at least the |sum| that was seen,
    p after Holm's correction (1979) over all methods of one table: noise has a star in at most 5 % of tables,
    mean ranks over seeds, 1 the best, ties sharing the mean of their places (Demšar, JMLR 2006).

Two methods are *told apart* if p after Holm is at most .05, and never by fewer than 6 pairs. The smallest p of n pairs
is 2^(1-n), so k comparisons need n with k 2^(1-n) <= .05 (`pairs_needed`). The interval is of one comparison alone, and
holds for differences that are about normal; the test needs only that plus and minus are equally likely if nothing
differs. A seed for which a value is missing (NaN or infinite) is left out, of a difference if one of its two is
missing, of the ranks if any is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedparity.core import checks
from fedparity.core.errors import ConfigError, unknown
from fedparity.core.rng import stream
from fedparity.core.types import FloatArray
from fedparity.metrics.inequality import NAN

CONFIDENCE = 0.95
LEVEL = 0.05
"""The share of tables of pure noise in which any two methods are told apart, at most."""
FEWEST = 6
"""Pairs below which nothing is told apart: 5 cannot have a p-value below .05."""
EXACT, DRAWS = 14, 10_000
"""Up to so many pairs all sign patterns are counted; beyond, so many drawn ones."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A method against the reference, over the seeds that both have."""

    method: str
    reference: str
    pairs: int
    mean: float
    """Mean of method - reference; NaN without pairs."""
    low: float
    """The paired t interval; NaN with fewer than two pairs, of which nothing can be told."""
    high: float
    wins: int
    """Pairs in which the method is better."""
    ties: int
    losses: int
    p: float = NAN
    """Sign-flip test, two-sided; NaN with fewer than six pairs."""
    p_holm: float = NAN
    """The same after Holm's correction over the methods of the table."""

    @property
    def told_apart(self) -> bool:
        """Whether the two differ by more than chance explains: what stars and sentences go by."""
        return self.p_holm <= LEVEL


@dataclass(frozen=True, slots=True)
class MeanRanks:
    """The mean place of each method, 1 the best, over the seeds that all of them have; NaN without any."""

    ranks: dict[str, float]
    seeds: int


def align_seeds(values: Mapping[str, Mapping[int, float]]) -> tuple[tuple[int, ...], dict[str, FloatArray]]:
    """All seeds in order, and one vector per method with NaN where it has not run."""
    seeds = tuple(sorted({seed for found in values.values() for seed in found}))
    return seeds, {name: np.array([found.get(s, NAN) for s in seeds], dtype=float) for name, found in values.items()}


def compare_methods(
    values: Mapping[str, ArrayLike],
    reference: str,
    *,
    higher_is_better: bool = True,
    tie: float = 0.0,
    confidence: float = CONFIDENCE,
    comparisons: int | None = None,
) -> dict[str, PairedDifference]:
    """Every other method against `reference`; `values` has one entry per seed, in the same order for all.

    Differences of at most `tie` are ties. `comparisons` is what Holm's correction is over, unless it is those made
    here: all pairs, for a reference that was itself chosen by these values.
    """
    checks.not_negative("tie", tie)
    columns = _columns(values)
    if reference not in columns:
        raise unknown("reference method", reference, columns)
    sign = 1 if higher_is_better else -1
    apart = {name: differences(columns[name], columns[reference]) for name in columns if name != reference}
    p = {name: sign_flip(d) for name, d in apart.items()}
    corrected = holm(p, comparisons)
    found = {}
    for name, d in apart.items():
        low, high = t_interval(d, confidence)
        wins, losses = int((sign * d > tie).sum()), int((sign * d < -tie).sum())
        mean = float(d.mean()) if len(d) else NAN
        ties = len(d) - wins - losses
        tested = (p[name], corrected[name])
        found[name] = PairedDifference(name, reference, len(d), mean, low, high, wins, ties, losses, *tested)
    return found


def differences(method: ArrayLike, reference: ArrayLike) -> FloatArray:
    """What `method` has more than `reference`, of the seeds for which both are finite."""
    columns = _columns({"method": method, "reference": reference})
    there = np.isfinite(columns["method"]) & np.isfinite(columns["reference"])
    return columns["method"][there] - columns["reference"][there]


def t_interval(d: ArrayLike, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Student's interval of the mean; NaN with fewer than two differences."""
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence={confidence} must be above 0 and below 1")
    values = _finite(d)
    n = len(values)
    if n < 2:
        return NAN, NAN
    from scipy.special import stdtrit

    mean, half = values.mean(), stdtrit(n - 1, (1 + confidence) / 2) * values.std(ddof=1) / math.sqrt(n)
    return float(mean - half), float(mean + half)


def sign_flip(d: ArrayLike) -> float:
    """The two-sided p-value of the sign-flip test on the mean; NaN with fewer than six differences."""
    values = _finite(d)
    n = len(values)
    if n < FEWEST:
        return NAN
    if n <= EXACT:  # a pattern and its opposite have the same |sum|: half of them will do
        flips = np.arange(2 ** (n - 1))[:, None] >> np.arange(n) & 1
    else:
        flips = stream(0, "paired.signs").integers(2, size=(DRAWS, n))
        flips[0] = 0  # what was seen is one of the patterns
    sums = np.abs((1 - 2 * flips) @ values)
    return float((sums >= sums[0] - 1e-9 * np.abs(values).sum()).mean())


def holm(p: Mapping[str, float], comparisons: int | None = None) -> dict[str, float]:
    """Each p-value after Holm's correction over all that are known, or over `comparisons`; NaN stays NaN."""
    known = sorted((value, name) for name, value in p.items() if math.isfinite(value))
    over = len(known) if comparisons is None else comparisons
    if over < len(known):
        raise ConfigError(f"comparisons={over} but {len(known)} are made; give at least that")
    found, highest = dict.fromkeys(p, NAN), 0.0
    for place, (value, name) in enumerate(known):
        found[name] = highest = max(highest, min(1.0, (over - place) * value))
    return found


def pairs_needed(comparisons: int) -> int:
    """With fewer pairs no difference, however clear, can be told from chance after Holm's correction."""
    checks.at_least("comparisons", comparisons, 1)
    return max(FEWEST, math.ceil(1 + math.log2(comparisons / LEVEL)))


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


def _finite(d: ArrayLike) -> FloatArray:
    values = np.asarray(d, dtype=np.float64)
    return values[np.isfinite(values)]


def _columns(values: Mapping[str, ArrayLike]) -> dict[str, FloatArray]:
    columns = {name: np.asarray(given, dtype=np.float64) for name, given in values.items()}
    shapes = {column.shape for column in columns.values()}
    if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
        sizes = ", ".join(f"{name} {column.shape}" for name, column in columns.items())
        raise ConfigError(f"methods must have one value per seed, as many for all (NaN: missing); there are {sizes}")
    return columns
