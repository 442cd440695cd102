"""Who the improvement is owed to: Shapley values of players, and of the clients of one round.

    s_i = sum over S without i of  |S|! (m - |S| - 1)! / m!  (v(S + i) - v(S))

Exact for few players (every coalition is valued once: 2^m evaluations); beyond that the mean of v(S + i) - v(S) over
random orders in which the players arrive, with what GTG-Shapley (Liu, Chen, Yu, Liu, Cui, ACM TIST 2022) saves:

* between rounds: if |v(all) - v(nobody)| < `eps_round`, everybody gets 0 for two evaluations;
* within a round: as soon as |v(all) - v(those who came)| < `eps`, those who come later in that order get 0 from it;
* guided: every m orders start once with each player, as the first to come makes most of the difference.

What we changed: who starts is drawn in a random order too, so that any number of orders is unbiased, and nothing stops
the orders early. Values add up to v(all) - v(nobody), to within `eps` when sampled.

The federated value (Wang, Rausch, Zhang, Jia, Song 2020, arXiv 2009.06192) of a coalition is by how much the server's
validation loss drops with the mean of its updates; a client's contribution is the sum of its values over rounds.
Federated Fairness Analytics' code sums over non-empty S only: `empty="exclude"` leaves out (v({i}) - v(nobody)) / m, so
that values add up to v(all) - mean_i v({i}), and a client alone in its round is worth 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedparity.core import checks
from fedparity.core.errors import ConfigError, unknown
from fedparity.core.types import FloatArray, Vector

Value: TypeAlias = Callable[[tuple[int, ...]], float]
"""What a coalition is worth, given its players in ascending order."""
Empty: TypeAlias = Literal["include", "exclude"]
EXACT = 10
"""Players up to which all coalitions are valued."""
MOST_EXACT = 20
"""A million coalitions: nobody waits for more."""


def shapley(
    value: Value,
    players: int,
    *,
    samples: int | None = None,
    rng: np.random.Generator | None = None,
    limit: int = EXACT,
    eps: float = 0.0,
    eps_round: float = 0.0,
    empty: Empty = "include",
) -> FloatArray:
    """The Shapley value of each of `players`: exact up to `limit` of them, beyond it over `samples` random orders.

    `value` is asked at most once for a coalition. The same `rng` gives the same numbers; `limit=0` always samples.
    """
    checks.at_least("players", players, 0)
    checks.at_least("limit", limit, 0)
    checks.between("limit", limit, 0, MOST_EXACT)
    checks.not_negative("eps", eps)
    checks.not_negative("eps_round", eps_round)
    if empty not in ("include", "exclude"):
        raise unknown("empty", empty, ("include", "exclude"))
    if players == 0:
        return np.zeros(0)

    @cache
    def worth(mask: int) -> float:
        """`value` by bit mask, asked once for each."""
        coalition = tuple(i for i in range(mask.bit_length()) if mask >> i & 1)
        found = float(value(coalition))
        if not math.isfinite(found):
            raise ConfigError(f"the value of coalition {coalition} is {found}; it must be a finite number")
        return found

    everybody = (1 << players) - 1
    if eps_round and abs(worth(everybody) - worth(0)) < eps_round:
        return np.zeros(players)
    if players <= limit:
        return _exact(worth, players, empty)
    if samples is None or rng is None:
        raise ConfigError(
            f"players={players} is above limit={limit}, the most for exact values; give samples and rng, or raise limit"
        )
    checks.at_least("samples", samples, 1)
    return _sampled(worth, _orders(players, samples, rng), eps, empty)


def coalition_model(
    params: Vector, deltas: NDArray[np.float64], coalition: tuple[int, ...], weights: FloatArray | None = None
) -> Vector:
    """`params` plus the mean of the coalition's rows of `deltas`, uniform or by `weights`; of nobody: `params`."""
    if not coalition:
        return params.copy()
    rows = list(coalition)
    return np.asarray(params + np.average(deltas[rows], axis=0, weights=None if weights is None else weights[rows]))


def federated_shapley(
    params: ArrayLike,
    deltas: ArrayLike,
    loss: Callable[[Vector], float],
    *,
    weights: ArrayLike | None = None,
    samples: int | None = None,
    rng: np.random.Generator | None = None,
    limit: int = EXACT,
    eps: float = 0.0,
    eps_round: float = 0.0,
    empty: Empty = "include",
) -> FloatArray:
    """What each row of `deltas` did for `loss`, the server's validation loss of a model: higher is better.

    A coalition is worth loss(params) - loss(params + mean of its rows), nobody 0. `weights` (sample counts, say) are
    above 0, one per row; without them the mean is uniform. The other options are those of `shapley`.
    """
    start, rows = np.asarray(params, dtype=np.float64), np.asarray(deltas, dtype=np.float64)
    if start.ndim != 1 or rows.ndim != 2 or rows.shape[1] != len(start):
        raise ConfigError(f"params of shape {start.shape} and deltas of {rows.shape} do not fit; give (d,) and (m, d)")
    counts = None if weights is None else np.asarray(weights, dtype=np.float64)
    if counts is not None and (counts.shape != (len(rows),) or not (np.isfinite(counts) & (counts > 0)).all()):
        raise ConfigError(f"weights={counts} must be finite numbers above 0, one for each of {len(rows)} updates")
    before = float(loss(start.copy())) if len(rows) else 0.0

    def drop(coalition: tuple[int, ...]) -> float:
        return before - float(loss(coalition_model(start, rows, coalition, counts))) if coalition else 0.0

    return shapley(drop, len(rows), samples=samples, rng=rng, limit=limit, eps=eps, eps_round=eps_round, empty=empty)


def _exact(worth: Callable[[int], float], players: int, empty: Empty) -> FloatArray:
    first = 1 if empty == "exclude" else 0
    values = np.array([0.0] * first + [worth(mask) for mask in range(first, 1 << players)])
    masks = np.arange(1 << players)
    sizes = np.array([mask.bit_count() for mask in range(1 << players)])
    share = np.array([1 / (players * math.comb(players - 1, size)) for size in range(players)])
    found = np.zeros(players)
    for i in range(players):
        without = masks[(masks >> i & 1) == 0][first:]
        found[i] = (share[sizes[without]] * (values[without | 1 << i] - values[without])).sum()
    return found


def _sampled(worth: Callable[[int], float], orders: list[list[int]], eps: float, empty: Empty) -> FloatArray:
    players = len(orders[0])
    everybody = worth((1 << players) - 1)
    total = np.zeros(players)
    for order in orders:
        mask, before = 0, worth(0)
        for place, i in enumerate(order):
            if abs(everybody - before) < eps:
                break
            mask |= 1 << i
            after = worth(mask)
            if place or empty == "include":
                total[i] += after - before
            before = after
    return total / len(orders)


def _orders(players: int, samples: int, rng: np.random.Generator) -> list[list[int]]:
    """Random orders; every `players` of them start once with each player."""
    starts = np.concatenate([rng.permutation(players) for _ in range(-(-samples // players))])[:samples].tolist()
    return [[first, *(i for i in rng.permutation(players).tolist() if i != first)] for first in starts]
