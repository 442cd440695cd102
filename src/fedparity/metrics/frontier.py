"""The physical limit: what no scheduler that fills its slots could have beaten, given who was there.

Among all schedules that fill min(m, online) slots every round, one sorted count profile is majorised by all others (the
lexicographically optimal base of a polymatroid): whatever number of clients one looks at, those served least have in
total at least as much as under any other schedule. So it minimises Gini, CV, the l1 selection gap, max - min and the
number never served *together*, and maximises Jain: one limit serves for all of these measures. The least sum of S_k^2
finds it, since its minimiser is majorised by every other (`exchange`). It is a limit in hindsight, for counts, not for
utilities.

A scheduler that used only M slots is compared at its own total: empty slots can go below the full limit. The
least-majorised profile at total M is the full one cut down from the top, since F(c) = sum_k min(S_k, c) slots can be
filled when nobody may have more than c, whatever the total.

For targets S_k proportional to w_k = pi_k^beta, beta > 0, there is no common optimum in integers: `weighted_frontier`
solves for a named objective, `fractional_frontier` gives the one fractional vector that minimises every sum_k w_k g(S_k
/ w_k).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.reprs import brief, one_line
from fedparity.core.trace import Trace
from fedparity.core.types import FloatArray, Ids
from fedparity.metrics.exchange import Cost, Exchange

Objective = Literal["squares", "cv"]
CLOSE = 1e-12
"""Relative size below which two sums are equal."""


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """The best counts, and one schedule that has them."""

    counts: NDArray[np.int64]
    schedule: tuple[Ids, ...]
    """Who is in which round: replay it with the `fixed` scheduler."""
    num_clients: int

    @property
    def total(self) -> int:
        """Slots used."""
        return int(self.counts.sum())

    def __repr__(self) -> str:
        return f"Frontier({self.num_clients} clients, {self.total} slots in {len(self.schedule)} rounds)"

    def at_total(self, total: int) -> Frontier:
        """The same limit for schedules that used only `total` slots."""
        checks.at_least("total", total, 0)
        if total > self.total:
            raise ConfigError(f"total={total} must be between 0 and the {self.total} slots that can be filled")
        if total == self.total:
            return self
        return self._cut_to(_cut_from_the_top(self.counts, total))

    def _cut_to(self, counts: NDArray[np.int64]) -> Frontier:
        """The schedule thinned out to `counts` (never more than there are), early rounds kept first."""
        used = np.zeros(self.num_clients, dtype=np.int64)
        schedule = []
        for ids in self.schedule:
            kept = ids[used[ids] < counts[ids]]
            used[kept] += 1
            schedule.append(kept)
        return Frontier(counts, tuple(schedule), self.num_clients)


def _cut_from_the_top(counts: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    filled = np.cumsum(np.bincount(counts)[::-1])[::-1][1:]  # how many clients have at least 1, 2, ...
    up_to = np.cumsum(filled)  # sum of min(S_k, c) for c = 1, 2, ...
    level = int(np.searchsorted(up_to, total, side="right"))  # everybody keeps this much
    cut = np.minimum(counts, level)
    extra = np.flatnonzero(counts > level)[: total - int(cut.sum())]
    cut[extra] += 1
    return cut


def frontier(trace: Trace, cohort: int, *, total: int | None = None) -> Frontier:
    """The least-majorised counts of any schedule that fills every slot it can (or, with `total`, that many slots)."""
    _checked(trace, cohort)
    problem = Exchange(trace, cohort, Cost.squares(trace.num_clients))
    problem.solve()
    best = _frontier(problem)
    return best if total is None else best.at_total(total)


def _frontier(problem: Exchange) -> Frontier:
    schedule = tuple(np.sort(ids).astype(np.int64) for ids in problem.chosen)
    return Frontier(problem.counts.copy(), schedule, len(problem.counts))


def weighted_frontier(trace: Trace, cohort: int, weights: FloatArray, objective: Objective = "squares") -> Frontier:
    """Integer counts that are best for S_k proportional to `weights`, filling every slot.

    squares: the least sum of S_k^2 / w_k. cv: the lowest CV of S_k / w_k over clients with w_k > 0. Both exactly.
    """
    _checked(trace, cohort)
    checks.one_of("objective", objective, get_args(Objective))
    known = _weights(trace, weights)
    if objective == "cv":
        return _lowest_cv(trace, cohort, known)
    problem = Exchange(trace, cohort, Cost(1 / known, np.zeros(len(known))))
    problem.solve()
    return _frontier(problem)


@dataclass(frozen=True, slots=True, eq=False)
class _Corner:
    """The schedule with the least A - slope B, where A = sum_k x_k^2, B = sum_k x_k and x_k = S_k / w_k."""

    slope: float
    a: float
    b: float
    best: Frontier

    @property
    def ratio(self) -> float:
        """A / B^2 = (1 + CV^2) / N."""
        return self.a / self.b**2


def _lowest_cv(trace: Trace, cohort: int, weights: FloatArray) -> Frontier:
    """The schedule with the least A / B^2: branch and bound over the corners of the convex hull of all (B, A).

    The sets {A >= c B^2} are convex, so the least is at a corner. All of the hull lies above the parabola through it,
    so it has the least A - slope B at slope = 2 A / B. Corners that belong to slopes between two given ones lie in the
    triangle of the two corners there and the point where the two lines meet: none is below the lowest of these three.
    """
    seen = trace.counts() > 0
    if not seen.any():
        raise ConfigError("nobody is ever online in this trace; there is nothing to share")

    def corner(slope: float) -> _Corner:
        problem = Exchange(trace, cohort, Cost(1 / weights**2, slope / weights))
        problem.solve()
        share = problem.counts[seen] / weights[seen]
        return _Corner(slope, float((share**2).sum()), float(share.sum()), _frontier(problem))

    worth = [np.sort(1 / weights[trace.online(t)]) for t in range(trace.num_rounds)]
    least, most = (sum(float(w[cut].sum()) for w in worth) for cut in (slice(cohort), slice(-cohort, None)))
    best = corner(2 * int(np.minimum(trace.sizes(), cohort).sum()) / float(weights[seen].sum()))
    found = [best]
    while (again := corner(2 * best.a / best.b)).ratio < best.ratio:
        found.append(best := again)
    # A / B^2 is at least 1 / N and at most what was found, B between what the cheapest and the dearest clients make it.
    found += [corner(2 * least / int(seen.sum())), corner(2 * best.ratio * most)]
    open_pairs = list(pairwise(sorted(found, key=lambda c: c.slope)))
    while open_pairs:
        left, right = open_pairs.pop()
        best = min(best, left, right, key=lambda c: c.ratio)
        if right.b - left.b <= CLOSE * right.b or right.slope <= left.slope:
            continue
        b = (left.a - left.slope * left.b - right.a + right.slope * right.b) / (right.slope - left.slope)
        a = left.a + left.slope * (b - left.b)
        if a >= best.ratio * b**2 * (1 - CLOSE):
            continue
        middle = corner((right.a - left.a) / (right.b - left.b))
        if middle.a - left.a < middle.slope * (middle.b - left.b) - CLOSE * left.a:
            open_pairs += [(left, middle), (middle, right)]
    return best.best


def _checked(trace: object, cohort: int) -> None:
    checks.instance("trace", trace, Trace, "Trace.from_matrix(online) makes one")
    checks.at_least("cohort", cohort, 1)


def _weights(trace: Trace, given: object) -> FloatArray:
    try:
        weights = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"weights={one_line(given)} must be numbers, one per client") from error
    if weights.shape != (trace.num_clients,):
        raise ConfigError(f"weights of shape {weights.shape} for {trace.num_clients} clients; give one per client")
    if not (np.isfinite(weights).all() and (weights[trace.counts() > 0] > 0).all()):
        raise ConfigError("weights must be finite, and above 0 for every client that is ever online")
    return np.where(weights > 0, weights, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Fractional:
    """The optimum when slots may be shared."""

    shares: FloatArray
    """S_k, not whole numbers."""
    gap: float
    """How far above the optimum sum_k S_k^2 / w_k can be at most, relative to it."""

    __repr__ = brief


def fractional_frontier(
    trace: Trace, cohort: int, weights: FloatArray, *, tolerance: float = 1e-6, sweeps: int = 2000
) -> Fractional:
    """The fractional minimiser of sum_k S_k^2 / w_k, round by round (exact in each) until the duality gap is small."""
    _checked(trace, cohort)
    checks.not_negative("tolerance", tolerance)
    checks.at_least("sweeps", sweeps, 0)
    known = _weights(trace, weights)
    online = [trace.online(t) for t in range(trace.num_rounds)]
    slots = [min(cohort, len(ids)) for ids in online]
    # Everybody online has an equal part of a round at first; then one round at a time is made best given the others.
    parts = [np.full(len(ids), s / max(1, len(ids))) for ids, s in zip(online, slots, strict=True)]
    shares = np.zeros(trace.num_clients)
    for ids, part in zip(online, parts, strict=True):
        shares[ids] += part
    gap = _duality_gap(shares, known, online, slots)
    for _ in range(sweeps):
        if gap <= tolerance:
            break
        for t, ids in enumerate(online):
            if slots[t] < len(ids):
                others = shares[ids] - parts[t]
                parts[t] = _level(others, known[ids], slots[t])
                shares[ids] = others + parts[t]
        gap = _duality_gap(shares, known, online, slots)
    return Fractional(shares, gap)


def _level(others: FloatArray, weights: FloatArray, slots: int) -> FloatArray:
    """The x = clip(theta w - others, 0, 1) that sums to `slots`: a piecewise linear sum in theta is solved for it."""
    # Client k begins to fill at theta = others / w, is full at (others + 1) / w, and grows at rate w in between.
    knots = np.concatenate([others / weights, (others + 1) / weights])
    slopes = np.concatenate([weights, -weights])
    order = np.argsort(knots)
    knots, slope = knots[order], np.cumsum(slopes[order])
    filled = np.concatenate([[0.0], np.cumsum(np.diff(knots) * slope[:-1])])
    at = max(1, int(np.searchsorted(filled, slots)))
    at = min(at, len(knots) - 1)
    theta = knots[at - 1] + (slots - filled[at - 1]) / max(slope[at - 1], 1e-300)
    return np.asarray(np.clip(theta * weights - others, 0.0, 1.0), dtype=np.float64)


def _duality_gap(shares: FloatArray, weights: FloatArray, online: list[Ids], slots: list[int]) -> float:
    # Frank-Wolfe's bound: by convexity nothing lies further below than if the slopes stayed as they are everywhere.
    slope = 2 * shares / weights
    value = float((shares**2 / weights).sum())
    if value == 0:
        return 0.0
    least = sum(float(np.partition(slope[ids], s - 1)[:s].sum()) for ids, s in zip(online, slots, strict=True) if s)
    return max(0.0, float((slope * shares).sum()) - least) / value
