"""Who took part, how often, and whose data moved the model.

    Selection gap = (1/T) sum_k |S_k / m - T / N|

S_k is how often client k was selected in T rounds of m slots. With every slot filled, gap / 2 is the Hoover index of
the counts and gap / 2 <= Gini. Clients that were never online count as zeros, except where a count is divided by
availability. Counts follow the rules of `inequality`: empty gives NaN, and a NaN or negative count is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.types import FloatArray, Ids, RoundRecord
from fedparity.metrics.inequality import NAN, as_vector, std


def selection_gap(counts: ArrayLike, cohort: int, rounds: int) -> float:
    """(1/T) sum_k |S_k / m - T / N|: 0 if all m T slots are shared equally, at most 2 - 2/N if they are all filled."""
    checks.at_least("cohort", cohort, 1)
    checks.at_least("rounds", rounds, 1)
    served = as_vector(counts, "counts", negative=False)
    return float(np.abs(served / cohort - rounds / len(served)).sum() / rounds) if len(served) else NAN


def never_served(counts: ArrayLike) -> int:
    """How many clients were never selected, those that were never online included."""
    return int((as_vector(counts, "counts", negative=False) == 0).sum())


def coverage(counts: ArrayLike) -> float:
    """The share of clients selected at least once."""
    served = as_vector(counts, "counts", negative=False)
    return float((served > 0).mean()) if len(served) else NAN


def per_opportunity(counts: ArrayLike, online: ArrayLike) -> FloatArray:
    """S_k / (rounds online) of the clients online at least once, in client order."""
    served, there = as_vector(counts, "counts", negative=False), as_vector(online, "online", negative=False)
    if len(served) != len(there):
        raise ConfigError(f"counts has {len(served)} clients but online has {len(there)}; give both for the same ones")
    if (served > there).any():
        at = int(np.argmax(served > there))
        raise ConfigError(
            f"client {at} was selected in {served[at]:g} rounds but online in {there[at]:g}; "
            "count only selections of clients that were there"
        )
    seen = there > 0
    return np.asarray(served[seen] / there[seen], dtype=np.float64)


def participation_std(counts: ArrayLike, rounds: int | NDArray[np.int64]) -> float:
    """The standard deviation across clients of the participation frequency S_k / T, T since each registered."""
    checks.at_least("rounds", int(np.min(rounds, initial=1)), 1)
    return std(as_vector(counts, "counts", negative=False) / rounds)


def fill(total: float, cohort: int, rounds: int) -> float:
    """Slots used over slots there were, total / (m T)."""
    checks.not_negative("total", total)
    checks.at_least("cohort", cohort, 1)
    checks.at_least("rounds", rounds, 1)
    return float(total / (cohort * rounds))


def windowed(selected_per_round: Sequence[Ids], num_clients: int, window: int) -> Iterator[NDArray[np.int64]]:
    """The counts of every `window` consecutive rounds: T - W + 1 arrays, of which one is held at a time."""
    checks.at_least("window", window, 1)
    rounds = len(selected_per_round)
    if window > rounds:
        raise ConfigError(f"window={window} but there are only {rounds} rounds; lower it to {rounds}")
    for ids in selected_per_round:
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < num_clients:
            raise ConfigError(f"clients={num_clients} but a round names client {int(ids.max())}; ids are 0..clients-1")
    return _slide(selected_per_round, num_clients, window)  # a generator would check only once it is read


def _slide(selected_per_round: Sequence[Ids], num_clients: int, window: int) -> Iterator[NDArray[np.int64]]:
    counts = np.zeros(num_clients, dtype=np.int64)
    for t, ids in enumerate(selected_per_round):
        counts[ids] += 1
        if t >= window:
            counts[selected_per_round[t - window]] -= 1
        if t >= window - 1:
            yield counts.copy()


def windowed_gap(selected_per_round: Sequence[Ids], num_clients: int, window: int, cohort: int) -> FloatArray:
    """The selection gap of every `window` consecutive rounds (appendix C): fair for a while, not only in the end."""
    windows = windowed(selected_per_round, num_clients, window)
    return np.array([selection_gap(counts, cohort, window) for counts in windows], dtype=np.float64)


def tenths(online: ArrayLike) -> list[Ids]:
    """The clients in ten groups of equal size (fewer clients: one each), the least available first."""
    there = as_vector(online, "online", negative=False)
    return np.array_split(np.argsort(there, kind="stable"), min(10, max(1, len(there))))


def span_gap(
    selected_per_round: Sequence[Ids], num_clients: int, cohort: int, since: NDArray[np.integer] | None = None
) -> float:
    """The mean selection gap of consecutive spans of ceil(N/m) rounds; NaN if there is no whole one.

    Fair for a while, not only in the end: in such a span everybody could be asked once. Of a span those count who were
    registered when it began (`since`; None: everybody).
    """
    checks.at_least("cohort", cohort, 1)
    there = np.zeros(num_clients, np.int64) if since is None else np.asarray(since)
    gaps, first = list[float](), 0
    while len(known := np.flatnonzero(there <= first)):
        window = math.ceil(len(known) / cohort)
        if first + window > len(selected_per_round):
            break
        ids = np.concatenate(selected_per_round[first : first + window])
        gaps.append(selection_gap(np.bincount(ids, minlength=num_clients)[known], cohort, window))
        first += window
    return float(np.mean(gaps)) if gaps else NAN


def influence(records: Iterable[RoundRecord], num_clients: int) -> FloatArray:
    """How much each client's data moved the model: its share of the weights of a round, summed over rounds.

    The rows of one client are added before the absolute value is taken, since a fresh and a stale row of opposite
    weights are a difference that one client made. A round with any weight adds 1 in total, one without adds nothing. A
    row that is nobody's (client -1: a running sum over clients) has its share, which is no client's and is left out.
    """
    moved = np.zeros(num_clients)
    for record in records:
        if not np.isfinite(record.row_weights).all():
            at = int(record.row_clients[np.argmin(np.isfinite(record.row_weights))])
            raise ConfigError(f"round {record.round}: the weight of client {at} must be a finite number")
        # Over the clients of this round, not over all: a round costs what its rows cost, whatever the population.
        clients, owner = np.unique(record.row_clients, return_inverse=True)
        size = np.abs(np.bincount(owner, weights=record.row_weights, minlength=len(clients)))
        if size.any():
            known = clients >= 0
            moved[clients[known]] += size[known] / size.sum()
    return moved
