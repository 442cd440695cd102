"""How unevenly something is spread over clients: plain functions of one vector, one entry per client.

    Jain    J = (sum x)^2 / (n sum x^2) = 1 / (1 + CV^2)       CV = std / (|mean| + eps), population std
    Gini    G = sum_i sum_j |x_i - x_j| / (2 n sum x)          Hoover H = sum |x_i - mean| / (2 |sum x|) <= G

The same rules hold for all of them:

* empty: NaN, since there is nobody to be unequal;
* one client: nothing is unequal (J = 1, everything else that measures spread is 0);
* all zeros: everybody has the same (J = 1, CV = Gini = Hoover = 0);
* a NaN or infinite entry is refused by its index: leaving clients out is the caller's decision;
* negative entries: Gini and Lorenz are not defined and refuse them, the others take them. CV and Hoover divide by
  the size of the mean, so that a spread is never a negative number, and are infinite where a spread has mean 0.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.reprs import one_line
from fedparity.core.types import FloatArray

NAN = float("nan")


def as_vector(x: ArrayLike, name: str = "x", *, negative: bool = True) -> FloatArray:
    """`x` as float64 with one entry per client; refuses NaN, infinity and, unless `negative`, numbers below 0."""
    try:
        values = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name}={one_line(x)} must be numbers, one per client in a flat vector") from error
    if values.ndim != 1:
        raise ConfigError(f"{name} has {values.ndim} dimensions; give a flat vector with one entry per client")
    bad = ~np.isfinite(values) if negative else ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        at = int(np.argmax(bad))
        rule = "a finite number" if negative else "a finite number of at least 0"
        raise ConfigError(f"{name}[{at}]={values[at]} must be {rule}; leave that client out, or give it a value")
    return values


def _scaled(values: FloatArray) -> tuple[FloatArray, int]:
    """`values` / 2^e, e with the largest below 1: squares can neither overflow nor vanish, and no digit is lost."""
    exponent = int(np.frexp(np.abs(values).max())[1])
    return np.ldexp(values, -exponent), exponent


def mean(x: ArrayLike) -> float:
    """The mean."""
    values = as_vector(x)
    return float(values.mean()) if len(values) else NAN


def variance(x: ArrayLike) -> float:
    """The population variance, sum (x - mean)^2 / n: the clients are all there are, not a sample."""
    values = as_vector(x)
    return float(values.var()) if len(values) else NAN


def std(x: ArrayLike) -> float:
    """The population standard deviation."""
    values = as_vector(x)
    if not len(values):
        return NAN
    scaled, exponent = _scaled(values)
    return math.ldexp(float(scaled.std()), exponent)


def jain(x: ArrayLike) -> float:
    """Jain's index, (sum x)^2 / (n sum x^2): 1 if all are equal (all zeros too), 1/n if one has everything."""
    values = as_vector(x)
    if not len(values):
        return NAN
    scaled, _ = _scaled(values)
    squares = float(scaled @ scaled)
    return min(1.0, float(scaled.sum()) ** 2 / (len(values) * squares)) if squares else 1.0


def cv(x: ArrayLike, eps: float = 0.0) -> float:
    """The coefficient of variation, std / (|mean| + eps): 0 for all zeros, infinite for a spread of mean 0."""
    checks.not_negative("eps", eps)
    spread, size = std(x), abs(mean(x)) + eps
    if size == 0.0:
        return 0.0 if spread == 0.0 else math.inf
    return spread / size


def gini(x: ArrayLike) -> float:
    """The Gini coefficient, in [0, 1 - 1/n]: mean difference of two clients over twice the mean; 0 for all zeros."""
    values = as_vector(x, negative=False)
    n = len(values)
    if not n:
        return NAN
    scaled = np.sort(_scaled(values)[0])
    total = float(scaled.sum())
    # Sorted, x_i is the larger of a pair i times and the smaller n-1-i times: O(n log n) in place of all pairs.
    rank = 2.0 * np.arange(n) - (n - 1)
    return max(0.0, float(rank @ scaled) / (n * total)) if total else 0.0


def hoover(x: ArrayLike) -> float:
    """The Hoover index, sum |x - mean| / (2 |sum x|): the share that would have to move to make all equal."""
    values = as_vector(x)
    if not len(values):
        return NAN
    scaled, _ = _scaled(values)
    moved, total = float(np.abs(scaled - scaled.mean()).sum()), abs(float(scaled.sum()))
    if total == 0.0:
        return 0.0 if moved == 0.0 else math.inf
    return moved / (2 * total)


def max_minus_min(x: ArrayLike) -> float:
    """The distance between who has most and who has least."""
    values = as_vector(x)
    return float(values.max() - values.min()) if len(values) else NAN


def worst(x: ArrayLike, share: float = 0.1) -> float:
    """The mean of the lowest ceil(share * n) entries, at least one; `share` in (0, 1]."""
    checks.positive("share", share)
    checks.between("share", share, 0, 1)
    values = as_vector(x)
    if not len(values):
        return NAN
    # .07 * 100 is 7.000000000000001 in floats, and is meant to be 7 clients.
    count = max(1, math.ceil(share * len(values) - 1e-9))
    return float(np.sort(values)[:count].mean())


def best(x: ArrayLike, share: float = 0.1) -> float:
    """The mean of the highest ceil(share * n) entries, at least one; `share` in (0, 1]."""
    return -worst(-as_vector(x), share)


def lorenz(x: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Population share and the share of the total that the poorest so many hold, from (0, 0) to (1, 1).

    Gini = 1 - 2 * area under it. All zeros give the diagonal, as everybody has the same; empty gives one NaN each.
    """
    values = as_vector(x, negative=False)
    n = len(values)
    if not n:
        return np.array([NAN]), np.array([NAN])
    population = np.arange(n + 1) / n
    held = np.concatenate([[0.0], np.cumsum(np.sort(_scaled(values)[0]))])
    return population, held / held[-1] if held[-1] else population.copy()
