"""Comparison with chance: every round draws as many clients as it asked, uniformly among those who were there.

Round t asks a_t of n_t clients online, each with chance p_t = a_t / n_t. Then S_k is a sum of independent Bernoulli
numbers with mean E_k = sum p_t and variance V_k = sum p_t (1 - p_t) over the rounds in which k was there, and a group
gets a sum of independent hypergeometric numbers. Tests:

    all clients   X2 = sum_k (S_k - E_k)^2 / V_k, against drawn logs: p = (1 + #{X2* >= X2}) / (1 + draws). Where
                  drawing would take too long, a gamma distribution with the mean and variance of X2.
    one client    the exact tail of S_k, or a normal one with its skewness (Volkova 1996) if there are many; corrected
                  over clients by Holm's steps. Counts are whole, so a client reaches few levels: where tails are
                  exact, a step asks whether sum_j max{levels of j that are at most p} <= .05, which is never more than
                  Holm's N p. Those named are set aside and the others compared among themselves, until nobody is
                  named: else the slots that the named did not get, or took, would hide more of them.
    a group       the exact distribution of its sum, or a normal one; two-sided, Holm's correction over groups.

A small p says that chance alone does not make such a log. It does not say that somebody meant it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import BoolArray, FloatArray, Ids
from fedparity.metrics.paired import LEVEL

DRAWS, FEWEST_DRAWS = 999, 199
PASSES = 5
"""How often those named are set aside."""
WORK = 100_000_000
"""Entries that may be drawn in all; steps that an exact distribution may take."""


@dataclass(frozen=True, slots=True, eq=False)
class Null:
    """Uniform selection among those online, with as many asked in each round as there were."""

    online: Trace
    taken: NDArray[np.int64]
    """a_t."""

    @property
    def chance(self) -> FloatArray:
        """p_t."""
        sizes = self.online.sizes()
        return np.divide(self.taken, sizes, out=np.zeros(len(sizes)), where=sizes > 0)

    def _sum(self, per_round: FloatArray) -> FloatArray:
        """Of each client, the sum of a number per round over the rounds in which it was there."""
        weights = np.repeat(per_round, self.online.sizes())
        counts = np.bincount(self.online.clients, weights=weights, minlength=self.online.num_clients)
        return counts.astype(np.float64)

    def moments(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Mean, variance, third and fourth cumulant of every S_k."""
        p = self.chance
        v = p * (1 - p)
        return self._sum(p), self._sum(v), self._sum(v * (1 - 2 * p)), self._sum(v * (1 - 6 * v))

    def upto(self, width: int) -> FloatArray:
        """P(S_k <= s) of every client for s from 0 to `width` - 1."""
        mass = np.zeros((self.online.num_clients, width))  # what lies above is not kept
        mass[:, 0] = 1.0
        for t, p in enumerate(self.chance.tolist()):
            if p > 0:
                ids = self.online.online(t)
                part = mass[ids]
                mass[ids] = part * (1 - p)
                mass[ids, 1:] += part[:, :-1] * p
        return np.cumsum(mass, axis=1)

    def draw(self, draws: int, seed: int, key: int) -> NDArray[np.int64]:
        """Counts of logs drawn by chance, one row each; round by round, so that all of them are drawn at once."""
        n = self.online.num_clients
        counts = np.zeros((draws, n), np.int64)
        for t, taken in enumerate(self.taken.tolist()):
            ids = self.online.online(t)
            if taken == len(ids):
                counts[:, ids] += 1
            elif taken:
                lots = stream(seed, f"audit.chance/{key}", t).random((draws, len(ids)), dtype=np.float32)
                chosen = ids[np.argpartition(lots, taken - 1, axis=1)[:, :taken]]
                counts[np.arange(draws)[:, None], chosen] += 1  # nobody twice in a row
        return counts


@dataclass(frozen=True, slots=True, eq=False)
class Chance:
    """How a log compares with chance."""

    expected: FloatArray
    variance: FloatArray
    statistic: float
    p: float
    method: str
    """`monte carlo (999 draws)`, or `gamma approximation`."""
    gini: float | None
    """Mean over drawn logs; None: none was drawn."""
    gini_range: tuple[float, float] | None
    """Where 95 % of drawn logs lie."""
    fewer: FloatArray
    """P(S <= S_k) of each client; 1 where nothing is left to chance."""
    more: FloatArray
    """P(S >= S_k)."""

    def outliers(self, tail: FloatArray) -> Ids:
        """Clients whose tail is too small to be chance, after Holm's correction over all that chance decides on."""
        return np.sort(_holm(tail, np.flatnonzero(self.variance > 0)))


def _holm(tail: FloatArray, tested: Ids) -> Ids:
    order = tested[np.argsort(tail[tested], kind="stable")]
    passed = tail[order] * (len(order) - np.arange(len(order))) <= LEVEL
    return order[: int(np.argmin(passed)) if not passed.all() else len(order)]


def named(online: Trace, asked: Trace, found: Chance, *, fewer: bool) -> Ids:
    """Clients asked too seldom (else: too often) for chance, corrected over all; see above."""
    counts = asked.counts()
    width = int(counts.max(initial=0)) + 2
    if len(online.clients) * width > WORK:  # tails are approximate, and levels many
        return found.outliers(found.fewer if fewer else found.more)
    left = np.ones(len(counts), np.bool_)
    for _ in range(PASSES):
        part, taken = _without(online, left), _without(asked, left).sizes()
        null = Null(part, taken)
        tested = np.flatnonzero((null.moments()[1] > 1e-12) & left)
        new = _steps(_levels(null, width, fewer=fewer), counts, tested)
        if not len(new):
            break
        left[new] = False
    return np.flatnonzero(~left)


def _without(trace: Trace, left: BoolArray) -> Trace:
    """The same rounds with some of the clients."""
    keep = left[trace.clients]
    starts = np.concatenate([[0], np.cumsum(keep)])[trace.starts]
    return Trace(trace.num_clients, starts, trace.clients[keep])


def _levels(null: Null, width: int, *, fewer: bool) -> FloatArray:
    """What p a client has with so many selections, for 0 to `width` - 1 of them."""
    upto = null.upto(width)
    if fewer:
        return upto
    return np.concatenate([np.ones((len(upto), 1)), 1 - upto[:, :-1]], axis=1)


def _steps(levels: FloatArray, counts: NDArray[np.int64], tested: Ids) -> Ids:
    """Whom the steps name: as far as Holm's go at once, then one by one with what each client can reach."""
    p = levels[np.arange(len(counts)), counts]
    order = tested[np.argsort(p[tested], kind="stable")]
    at = len(_holm(p, tested))
    while at < len(order):
        most = p[order[at]] * (1 + 1e-9)
        rest = levels[order[at:]]
        reached = np.where(rest <= most, rest, 0.0).max(axis=1)
        beyond = most * (rest[:, -1] <= most)  # levels that are not kept may be reached as well, up to `most`
        if float(np.maximum(reached, beyond).sum()) > LEVEL:
            break
        at += 1
    return order[:at]


def compare_with_chance(online: Trace, asked: Trace, key: int, seed: int = 0) -> Chance:
    """Every test of single clients and of all together."""
    counts = asked.counts()
    null = Null(online, asked.sizes())
    mean, variance, skew, fourth = null.moments()
    free = variance > 1e-12
    variance = np.where(free, variance, 0.0)
    seen = float(((counts[free] - mean[free]) ** 2 / variance[free]).sum())
    draws = min(DRAWS, WORK // max(1, len(online.clients)))
    low, high = _tails(null, counts, (mean, variance, skew), free)
    if not free.any():
        return Chance(mean, variance, 0.0, 1.0, "nothing was left to chance", None, None, low, high)
    if draws < FEWEST_DRAWS:
        p = _gamma(seen, variance[free], fourth[free])
        return Chance(mean, variance, seen, p, "gamma approximation", None, None, low, high)
    drawn = null.draw(draws, seed, key)
    statistics = ((drawn[:, free] - mean[free]) ** 2 / variance[free]).sum(axis=1)
    ginis = _ginis(drawn)
    p = float((1 + (statistics >= seen - 1e-9 * seen).sum()) / (1 + draws))
    ends = (float(np.quantile(ginis, 0.025)), float(np.quantile(ginis, 0.975)))
    return Chance(mean, variance, seen, p, f"monte carlo ({draws} draws)", float(ginis.mean()), ends, low, high)


def _ginis(counts: NDArray[np.int64]) -> FloatArray:
    """The Gini coefficient of every row (`metrics.gini`, which takes one)."""
    n = counts.shape[1]
    rank = 2.0 * np.arange(n) - (n - 1)
    return np.asarray(np.sort(counts, axis=1) @ rank / (n * counts.sum(axis=1)))


def _gamma(seen: float, variance: FloatArray, fourth: FloatArray) -> float:
    """P(X2 >= seen): terms have mean 1 and variance 2 + k4 / V^2; since the counts of a round add up, N/(N-1) more."""
    from scipy.special import gammaincc

    n = len(variance)
    spread = float((2 + fourth / variance**2).sum()) * n / max(1, n - 1)
    return float(gammaincc(n * n / spread, seen * n / spread))


def _tails(
    null: Null, counts: NDArray[np.int64], moments: tuple[FloatArray, FloatArray, FloatArray], free: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """P(S <= S_k) and P(S >= S_k) of each client."""
    low, high = np.ones(len(counts)), np.ones(len(counts))
    width = int(counts.max(initial=0)) + 1
    if len(null.online.clients) * width <= WORK:
        upto = null.upto(width)
        at = np.arange(len(counts))
        below = np.where(counts > 0, upto[at, np.maximum(counts - 1, 0)], 0.0)
        low[free], high[free] = upto[at, counts][free], 1 - below[free]
    else:
        mean, variance, skew = moments
        sd = np.sqrt(variance[free])
        lean = skew[free] / sd**3
        low[free] = _normal((counts[free] + 0.5 - mean[free]) / sd, lean)
        high[free] = 1 - _normal((counts[free] - 0.5 - mean[free]) / sd, lean)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def _normal(z: FloatArray, skewness: FloatArray) -> FloatArray:
    """The normal distribution corrected by skewness."""
    from scipy.special import ndtr

    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(np.clip(ndtr(z) + skewness * (1 - z**2) * density / 6, 0, 1))


def group_test(null: Null, member: BoolArray, got: int) -> tuple[float, float]:
    """What a group would get by chance on average, and the two-sided p of what it got."""
    inside = np.add.reduceat(
        np.append(member[null.online.clients], False), null.online.starts[:-1].clip(max=len(null.online.clients))
    )
    sizes = null.online.sizes()
    inside = np.where(sizes > 0, inside, 0)
    expected = float((null.chance * inside).sum())
    free = (inside > 0) & (inside < sizes) & (null.taken > 0) & (null.taken < sizes)
    fixed = int(np.round((null.chance * inside)[~free].sum()))  # rounds in which chance had no say
    if not free.any():
        return expected, 1.0
    n, k, a = sizes[free], inside[free], null.taken[free]
    reach = np.minimum(k, a)
    if float(reach.sum()) * float(reach.max()) * len(n) <= WORK:
        low, high = _exact(n, k, a, got - fixed)
    else:
        p = k / n
        spread = float(np.sqrt((a * p * (1 - p) * (n - a) / np.maximum(1, n - 1)).sum()))
        z = np.array([(got + 0.5 - expected) / spread, (got - 0.5 - expected) / spread])
        none = np.zeros(2)
        low, high = float(_normal(z, none)[0]), float(1 - _normal(z, none)[1])
    return expected, float(min(1.0, 2 * min(low, high)))


def _exact(n: Ids, k: Ids, a: Ids, got: int) -> tuple[float, float]:
    """Both tails of a sum of hypergeometric numbers: a_t draws among n_t of which k_t are members."""
    from scipy.special import gammaln

    def ways(top: NDArray[np.float64], bottom: NDArray[np.float64]) -> FloatArray:
        return np.asarray(gammaln(top + 1) - gammaln(bottom + 1) - gammaln(top - bottom + 1))

    total = np.ones(1)
    for size, members, drawn in zip(n.tolist(), k.tolist(), a.tolist(), strict=True):
        hits = np.arange(max(0, drawn - (size - members)), min(members, drawn) + 1, dtype=np.float64)
        logs = ways(np.full_like(hits, members), hits) + ways(np.full_like(hits, size - members), drawn - hits)
        mass = np.exp(logs - ways(np.array([float(size)]), np.array([float(drawn)])))
        one = np.zeros(int(hits[-1]) + 1)
        one[int(hits[0]) :] = mass
        total = np.convolve(total, one)
    if got < 0:
        return 0.0, 1.0
    return float(min(1.0, total[: got + 1].sum())), float(min(1.0, total[got:].sum()))
