"""A log over time: windows of rounds, points where something changed, and clients that waited.

A change point is where the running sum of (what happened - what chance expected) leaves a straight line: its distance
from the line, over its spread, follows Kolmogorov's distribution if nothing changed. Series are cut at the farthest
point while that is too far for chance (level .01, corrected over all series), at most `MOST_POINTS` times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedparity.audit.chance import Null
from fedparity.core.trace import Trace
from fedparity.core.types import BoolArray, FloatArray, Ids
from fedparity.metrics import frontier, gini

WINDOWS, SHORTEST = 12, 10
"""The most windows, and the fewest rounds of one (and between two change points)."""
MOST_POINTS = 4
LEVEL = 0.01
MOST_ENTRIES = 3_000_000
"""Entries up to which every window has its own limit."""


@dataclass(frozen=True, slots=True)
class Window:
    """Some rounds in a row; `first` and `last` as they are called outside."""

    first: int
    last: int
    online: float | None
    """Clients there per round."""
    asked: float
    """Clients asked per round."""
    gini: float
    gini_limit: float | None


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """From this round on it went otherwise than before."""

    round: int
    what: str
    before: float
    """Requests over those expected by chance, before and after."""
    after: float
    p: float


def windows(online: Trace | None, asked: Trace, slots: int, first: int) -> list[Window]:
    """The log cut into windows of equal length."""
    total = asked.num_rounds
    count = max(1, min(WINDOWS, total // SHORTEST))
    edges = np.linspace(0, total, count + 1).round().astype(np.int64).tolist()
    limits = online is not None and len(online.clients) <= MOST_ENTRIES
    found = []
    for start, end in pairwise(edges):
        part = _between(asked, start, end)
        there = None if online is None else _between(online, start, end)
        limit = None
        if there is not None and limits:
            best = frontier(there, slots)
            limit = gini(best.at_total(min(len(part.clients), best.total)).counts)
        mean = None if there is None else float(there.sizes().mean())
        found.append(
            Window(first + start, first + end - 1, mean, float(part.sizes().mean()), gini(part.counts()), limit)
        )
    return found


def _between(trace: Trace, start: int, end: int) -> Trace:
    low, high = trace.starts[start], trace.starts[end]
    return Trace(trace.num_clients, trace.starts[start : end + 1] - low, trace.clients[low:high])


def asked_flags(online: Trace, asked: Trace) -> BoolArray:
    """Of each entry of `online`, whether the client was asked."""
    hit = np.zeros(len(online.clients), np.bool_)
    keys = _keys(online)
    place = np.searchsorted(keys, _keys(asked))
    hit[place[place < len(keys)]] = True
    return hit


def _keys(trace: Trace) -> NDArray[np.int64]:
    rounds = np.repeat(np.arange(trace.num_rounds, dtype=np.int64), trace.sizes())
    return rounds * trace.num_clients + trace.clients


def change_points(online: Trace, asked: Trace, members: Mapping[str, BoolArray], first: int) -> list[ChangePoint]:
    """Where sets of clients began to be asked more or less often than before, measured by chance."""
    null = Null(online, asked.sizes())
    chance, sizes = null.chance, online.sizes()
    rounds = np.repeat(np.arange(online.num_rounds), sizes)
    asked_in = np.repeat(np.arange(asked.num_rounds), asked.sizes())
    level = LEVEL / max(1, len(members))
    found = []
    for what, member in members.items():
        inside = np.bincount(rounds, weights=member[online.clients], minlength=len(sizes))
        got = np.bincount(asked_in, weights=member[asked.clients], minlength=len(sizes)).astype(np.float64)
        expected = chance * inside
        share = np.divide(inside, sizes, out=np.zeros(len(sizes)), where=sizes > 0)
        rest = np.divide(sizes - null.taken, np.maximum(1, sizes - 1))
        spread = null.taken * share * (1 - share) * rest
        cuts = _cuts(got - expected, spread, 0, len(sizes), level)
        edges = [0, *sorted(at for at, _ in cuts), len(sizes)]
        for at, p in sorted(cuts):
            i = edges.index(at)
            before, after = (_ratio(got, expected, *pair) for pair in ((edges[i - 1], at), (at, edges[i + 1])))
            found.append(ChangePoint(first + at, what, before, after, p))
    return sorted(found, key=lambda point: (point.round, point.what))


def _ratio(got: FloatArray, expected: FloatArray, start: int, end: int) -> float:
    wanted = float(expected[start:end].sum())
    return float(got[start:end].sum()) / wanted if wanted else float("nan")


def _cuts(excess: FloatArray, spread: FloatArray, start: int, end: int, level: float) -> list[tuple[int, float]]:
    """Places where a series changes, with their p: the farthest first, then those within its two parts."""
    found: list[tuple[int, float]] = []
    open_parts = [(start, end)]
    while open_parts and len(found) < MOST_POINTS:
        low, high = open_parts.pop(0)
        at, p = farthest(excess[low:high], spread[low:high])
        if p <= level and at >= SHORTEST and high - low - at >= SHORTEST:
            found.append((low + at, p))
            open_parts += [(low, low + at), (low + at, high)]
    return found


def farthest(excess: FloatArray, spread: FloatArray) -> tuple[int, float]:
    """Where the running sum is farthest from a straight line, and how likely chance goes that far."""
    from scipy.special import kolmogorov

    clock = np.cumsum(spread)
    total = float(clock[-1]) if len(clock) else 0.0
    if total <= 0:
        return 0, 1.0
    path = np.cumsum(excess)
    away = np.abs(path - clock / total * path[-1])
    at = int(np.argmax(away))
    return at + 1, float(kolmogorov(float(away[at]) / np.sqrt(total)))


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """How long clients were there without being asked, in rounds online; one entry per client."""

    longest: Ids
    longest_from: Ids
    """Round in which the longest wait began (number from 0)."""
    now: Ids
    """The wait that was still on when the log ended."""


def waits(online: Trace, asked: Trace) -> Waits:
    """Every client's longest and last wait."""
    n = online.num_clients
    order = np.argsort(online.clients, kind="stable")
    client = online.clients[order]
    when = np.repeat(np.arange(online.num_rounds), online.sizes())[order]
    hit = asked_flags(online, asked)[order]
    place = np.arange(len(client))
    begins = np.searchsorted(client, np.arange(n))
    # Of each entry, how many in a row up to it went by without a request: from the last request, or the client's first.
    last = np.maximum.accumulate(np.where(hit, place, -1)) if len(place) else place
    waited = np.where(hit, 0, place - np.maximum(last, begins[client] - 1))
    longest, at, now = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    there = np.flatnonzero(np.bincount(client, minlength=n))
    if len(there):
        starts = begins[there]
        longest[there] = np.maximum.reduceat(waited, starts)
        ends = np.append(starts[1:], len(client)) - 1
        now[there] = waited[ends]
        reached = np.flatnonzero(waited == longest[client])[::-1]
        peak = np.zeros(n, np.int64)
        peak[client[reached]] = reached  # the first of equals is written last
        at[there] = when[np.maximum(peak[there] - np.maximum(longest[there], 1) + 1, starts)]
    return Waits(longest, at, now)
