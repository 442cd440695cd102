"""What a trace is like: how available its devices are, when in the day, for how long at a time.

Availability is the share of a device's own span that it was ready; a device whose span has no length was never ready.
Sessions are times ready; those that touch are one. The autocorrelation of being ready, h hours apart, is pooled over
the devices k that are seen for longer, for w_k hours more:

    sum_k w_k (P(ready at t and t + h) - P(ready at t) P(ready at t + h)) / sum_k w_k a_k (1 - a_k)

The correlation of pairs is the mean over all pairs of a sample of devices, seen every half an hour of the replay.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedparity.core.rng import stream
from fedparity.core.types import FloatArray, Ids
from fedparity.traces.intervals import DAY, ROUND_SECONDS, Intervals

HOUR = 3600.0
LAGS = (0.5, 1.0, 2.0, 4.0, 12.0, 24.0)
"""Hours."""
MOST_DEVICES = 2_000
"""For the autocorrelation; of a larger trace a sample is taken."""
PAIRED = 100
"""Devices whose pairs are correlated."""
MOST_DAYS = 14
"""Of a replay for the correlation of pairs."""


@dataclass(frozen=True, slots=True)
class TraceStats:
    """The figures of a trace; those of sessions are None if there are none."""

    devices: int
    events: int | None
    """Events behind it, if it was read from events."""
    below_5pct: int
    """Devices that are ready less than 5 % of the time."""
    below_40pct: int
    below_half: int
    never: int
    mean: float
    deciles: tuple[float, ...]
    sessions_per_device: float
    sessions_per_day: float
    median_session_s: float | None
    mean_session_s: float | None
    hours: tuple[float, ...]
    """Mean availability in each hour of the day."""
    autocorrelation: dict[str, float | None]
    pair_correlation: float | None
    days: float
    """Mean span of a device."""

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


def availability(intervals: Intervals) -> FloatArray:
    """The share of its span that each device was ready."""
    span = intervals.last_seen - intervals.first_seen
    ready = np.bincount(intervals.device, intervals.end - intervals.start, len(span))
    return np.divide(ready, span, out=np.zeros(len(span)), where=span > 0)


def session_lengths(intervals: Intervals) -> FloatArray:
    """Seconds of each time ready."""
    if not len(intervals.device):
        return np.empty(0)
    new = np.ones(len(intervals.device), dtype=np.bool_)
    new[1:] = (np.diff(intervals.device) != 0) | (intervals.start[1:] != intervals.end[:-1])
    head = np.flatnonzero(new)
    lengths: FloatArray = intervals.end[np.append(head[1:], len(new)) - 1] - intervals.start[head]
    return lengths


def trace_stats(intervals: Intervals, *, events: int | None = None, seed: int = 0, pairs: bool = True) -> TraceStats:
    """All figures; `seed` chooses the devices of what is measured on a sample, `pairs=False` leaves pairs out."""
    share, lengths = availability(intervals), session_lengths(intervals)
    days = float((intervals.last_seen - intervals.first_seen).sum() / DAY)
    return TraceStats(
        devices=len(share),
        events=events,
        below_5pct=int(np.count_nonzero(share < 0.05)),
        below_40pct=int(np.count_nonzero(share < 0.4)),
        below_half=int(np.count_nonzero(share < 0.5)),
        never=int(np.count_nonzero(share == 0)),
        mean=float(share.mean()),
        deciles=tuple(np.quantile(share, np.arange(1, 10) / 10).tolist()),
        sessions_per_device=len(lengths) / len(share),
        sessions_per_day=len(lengths) / days if days else 0.0,
        median_session_s=float(np.median(lengths)) if len(lengths) else None,
        mean_session_s=float(lengths.mean()) if len(lengths) else None,
        hours=tuple(hour_profile(intervals).tolist()),
        autocorrelation={f"{lag:g}h": value for lag, value in zip(LAGS, autocorrelation(intervals, seed), strict=True)},
        pair_correlation=pair_correlation(intervals, seed) if pairs else None,
        days=days / len(share),
    )


def hour_profile(intervals: Intervals) -> FloatArray:
    """Mean over devices of the share of each hour of the day that they were ready."""
    span = intervals.last_seen - intervals.first_seen
    weight = np.divide(1.0, span, out=np.zeros(len(span)), where=span > 0)
    ready = _by_hour(intervals.end, w := weight[intervals.device]) - _by_hour(intervals.start, w)
    seen = _by_hour(intervals.last_seen, weight) - _by_hour(intervals.first_seen, weight)
    seen += np.count_nonzero(span == 0) / 24  # ready at no hour, like everybody who never is
    return np.divide(ready, seen, out=np.zeros(24), where=seen > 0)


def _by_hour(times: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted seconds of each hour of the day from 0 to each of `times`, summed."""
    into = np.mod(times, DAY)
    hour = np.minimum((into // HOUR).astype(np.int64), 23)
    passed = np.bincount(hour, weights, 24)  # who is in this hour has left all earlier ones behind
    partly = np.bincount(hour, weights * (into - hour * HOUR), 24)
    whole = float(((times - into) / DAY * weights).sum())
    later = np.append(np.cumsum(passed[::-1])[::-1][1:], 0.0)
    return np.asarray(HOUR * (whole + later) + partly, dtype=np.float64)


def autocorrelation(intervals: Intervals, seed: int = 0) -> list[float | None]:
    """The autocorrelation of being ready at each of `LAGS`; None if no device that is seen for longer changes."""
    if len(intervals.names) > MOST_DEVICES:
        intervals = intervals.sample(MOST_DEVICES, seed)
    share, span, device = availability(intervals), intervals.last_seen - intervals.first_seen, intervals.device
    offset = np.append(0.0, np.cumsum(span + 1.0))[:-1]  # one axis, a stretch of it for each device
    into = intervals.start - intervals.first_seen[device], intervals.end - intervals.first_seen[device]
    low, high = (x + offset[device] for x in into)
    covered = np.append(0.0, np.cumsum(high - low))
    everyone = np.arange(len(span))
    opening = covered[np.searchsorted(device, everyone)]

    def before(who: Ids, times: FloatArray) -> FloatArray:
        """Seconds that devices were ready in their first `times` seconds."""
        place = np.clip(times, 0.0, span[who]) + offset[who]
        k = np.searchsorted(low, place, side="right")
        over = np.maximum(high[k - 1] - place, 0.0) if len(high) else np.zeros(len(who))
        return np.asarray(covered[k] - np.where(k > 0, over, 0.0) - opening[who], dtype=np.float64)

    found: list[float | None] = []
    for lag in (hours * HOUR for hours in LAGS):
        window = np.maximum(span - lag, 0.0)
        both = before(device, into[1] + lag) - before(device, into[0] + lag)
        early = before(everyone, window)
        late = share * span - before(everyone, np.full(len(span), lag))
        spread = float((window * share * (1 - share)).sum())
        safe = np.where(window > 0, window, 1.0)
        excess = np.where(window > 0, np.bincount(device, both, len(span)) - early * late / safe, 0.0)
        found.append(float(excess.sum() / spread) if spread > 0 else None)
    return found


def pair_correlation(intervals: Intervals, seed: int = 0) -> float | None:
    """Mean correlation over pairs of a sample of devices; None if fewer than two of them ever change."""
    changing = np.flatnonzero((share := availability(intervals)) * (1 - share) > 0)
    chosen: Ids = changing
    if len(changing) > PAIRED:
        chosen = np.sort(stream(seed, "trace-pairs").choice(changing, PAIRED, replace=False))
    if len(chosen) < 2:
        return None
    some = intervals.pick(chosen)
    span = float((some.last_seen - some.first_seen).max())
    rounds = max(2, int(min(span, MOST_DAYS * DAY) // ROUND_SECONDS))
    online = some.replay(rounds).matrix().astype(np.float64)
    online = online[:, online.std(axis=0) > 0]
    if online.shape[1] < 2:
        return None
    found, n = np.corrcoef(online, rowvar=False), online.shape[1]
    return float((found.sum() - n) / (n * (n - 1)))
