"""Fitting the `phones` population to any trace: a seeded search over its parameters, and how far off each figure is.

    distance = root mean square of (figure of the phones - figure of the trace) / tolerance

over mean availability, deciles, shares below 5 % and never ready, sessions per day, session lengths, the hours of the
day and the autocorrelation. The search draws points of the whole box, then moves the best of them by ever smaller
random steps in a few coordinates; all draws share one seed, so that points differ and not their luck.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from fedparity.availability.phones import Phones
from fedparity.core.checks import at_least
from fedparity.core.rng import stream
from fedparity.core.types import FloatArray, Ids
from fedparity.traces.intervals import DAY, Intervals
from fedparity.traces.stats import TraceStats, trace_stats

BOX: dict[str, tuple[float, float, bool]] = {
    "never": (0.0, 0.9, False),
    "wifi": (0.02, 0.98, False),
    "wifi_concentration": (0.2, 20.0, True),
    "nights": (0.0, 1.0, False),
    "night_hour": (0.0, 24.0, False),
    "night_seconds": (600.0, 43200.0, True),
    "day_charges": (0.05, 40.0, True),
    "day_hour": (0.0, 24.0, False),
    "day_seconds": (60.0, 36000.0, True),
    "day_sigma": (0.2, 2.2, False),
    "phase_spread": (0.0, 8.0, False),
    "breaks": (0.02, 10.0, True),
}
"""Lowest, highest, and whether steps are by factors."""
HOURS = ("night_hour", "day_hour")
SPREAD = 40
"""Points drawn from the whole box before the search goes on from the best."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Phones that resemble a trace, and the figures of both."""

    phones: Phones
    distance: float
    """1: a typical figure is off by its tolerance."""
    trace: dict[str, float]
    found: dict[str, float]
    drawn: Intervals
    """A draw of the fitted phones, as large as the search used."""

    def component(self) -> str:
        """As `--availability` and specs take it."""
        default = Phones()
        given = ((f.name, getattr(self.phones, f.name)) for f in fields(Phones))
        parts = [f"{name}={value:.4g}" for name, value in given if value != getattr(default, name)]
        return f"phones:{','.join(parts)}" if parts else "phones"

    def toml(self, source: str) -> str:
        """Component, parameters and figures as TOML."""
        said = "".join(c if c.isprintable() else "?" for c in source)
        lines = [
            f"# The population `phones` fitted to {said} (fedparity trace synth).",
            "# Put the next line under [population] of a spec.",
            f'availability = "{self.component()}"',
            f"distance = {self.distance:.4g}",
            "",
            "[phones]",
            *(f"{f.name} = {getattr(self.phones, f.name):.6g}" for f in fields(Phones)),
            "",
            "[figures]",
        ]
        lines += [f'"{k}" = {{ trace = {self.trace[k]:.6g}, phones = {self.found[k]:.6g} }}' for k in self.trace]
        return "\n".join(lines) + "\n"


def fit_phones(
    intervals: Intervals,
    *,
    seed: int = 0,
    steps: int = 240,
    phones: int = 400,
    progress: Callable[[int, int], None] | None = None,
) -> Fit:
    """The phones that come nearest to a trace in `steps` tries of `phones` phones each."""
    at_least("steps", steps, 1)
    at_least("phones", phones, 10)
    wanted = trace_stats(intervals, pairs=False)
    days = int(np.clip(round(wanted.days), 1, 10))
    rng = stream(seed, "trace-fit")
    best = Phones()
    found = _drawn(best, phones, days, seed)
    least = _distance(trace_stats(found, pairs=False), wanted)
    width = 0.25
    for step in range(steps):
        point = rng.random(len(BOX))
        if step >= min(SPREAD, steps // 4):
            moved = rng.random(len(BOX)) < 0.3
            moved[rng.integers(len(BOX))] = True
            point = _inside(_unit(best) + moved * width * rng.standard_normal(len(BOX)))
        trial = _phones(point)
        drawn = _drawn(trial, phones, days, seed)
        distance = _distance(trace_stats(drawn, pairs=False), wanted)
        if distance < least:
            best, found, least = trial, drawn, distance
            width = min(0.3, width * 1.5)
        else:
            width = max(0.01, width * 0.95)
        if progress is not None:
            progress(step + 1, steps)
    return Fit(best, least, figures(wanted), figures(trace_stats(found, pairs=False)), found)


def figures(stats: TraceStats) -> dict[str, float]:
    """The figures that are compared, by name."""
    n = stats.devices
    found = {
        "mean": stats.mean,
        "below_5pct": stats.below_5pct / n,
        "below_half": stats.below_half / n,
        "never": stats.never / n,
        **{f"decile_{k}": value for k, value in enumerate(stats.deciles, 1)},
        "sessions_per_day": stats.sessions_per_day,
        "median_session_s": stats.median_session_s or 0.0,
        "mean_session_s": stats.mean_session_s or 0.0,
        "busiest_hour": float(np.argmax(stats.hours)),
        "quietest_hour": float(np.argmin(stats.hours)),
    }
    return found | {f"autocorrelation_{lag}": value or 0.0 for lag, value in stats.autocorrelation.items()}


def _distance(found: TraceStats, wanted: TraceStats) -> float:
    a, b = figures(found), figures(wanted)
    parts = [(a["mean"] - b["mean"]) / max(0.005, 0.05 * b["mean"])]
    parts += [(a[key] - b[key]) / 0.03 for key in ("below_5pct", "never")]
    parts += [_rms([(x - y) / 0.02 for x, y in zip(found.deciles, wanted.deciles, strict=True)])] * 2
    parts += [
        math.log((a[key] + floor) / (b[key] + floor)) / 0.15
        for key, floor in (("sessions_per_day", 0.01), ("median_session_s", 1.0), ("mean_session_s", 1.0))
    ]
    scale = max(wanted.mean, 1e-3)
    parts.append(_rms([(x - y) / scale / 0.15 for x, y in zip(found.hours, wanted.hours, strict=True)]))
    lags = [key for key in a if key.startswith("autocorrelation")]
    parts.append(_rms([(a[key] - b[key]) / 0.05 for key in lags]))
    return _rms(parts)


def _rms(values: list[float]) -> float:
    return math.sqrt(sum(v * v for v in values) / len(values))


def _drawn(phones: Phones, count: int, days: int, seed: int) -> Intervals:
    device, start, stop = phones.sessions(count, days, seed)
    return phones_intervals(count, days, device, start, stop)


def phones_intervals(count: int, days: int, device: Ids, start: FloatArray, stop: FloatArray) -> Intervals:
    """Sessions of phones as a trace that begins at midnight."""
    names = tuple(map(str, range(count)))
    return Intervals(names, np.zeros(count), np.full(count, days * DAY), device, start, stop)


def _unit(phones: Phones) -> FloatArray:
    """The parameters as a point of the unit cube."""
    point = np.empty(len(BOX))
    for k, (name, (low, high, factors)) in enumerate(BOX.items()):
        value = float(np.clip(getattr(phones, name), low, high))
        point[k] = math.log(value / low) / math.log(high / low) if factors else (value - low) / (high - low)
    return point


def _inside(point: FloatArray) -> FloatArray:
    """Hours go round the clock, the rest stops at its bounds."""
    turns = np.array([name in HOURS for name in BOX])
    return np.where(turns, np.mod(point, 1.0), np.clip(point, 0.0, 1.0))


def _phones(point: FloatArray) -> Phones:
    given: Mapping[str, float] = {
        name: float(f"{low * (high / low) ** x if factors else low + x * (high - low):.4g}")
        for (name, (low, high, factors)), x in zip(BOX.items(), point.tolist(), strict=True)
    }
    return replace(Phones(), **given)
