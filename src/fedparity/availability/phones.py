"""Phones that are charging and on Wi-Fi: a synthetic population with the marginals of a real one.

A phone charges for long on some nights and for short spells around a favourite hour of the day; whether a charge counts
is up to Wi-Fi, which some phones always have, some never, and most now and then; loose cables and weak signals break a
charge into pieces. Nothing else is needed to get the figures of "charging and on Wi-Fi" on devices 0-99 of FLASH (Yang
et al., WWW 2021), to which the defaults are fitted (no device of it is in here).

Mean of 4 draws of 4,000 phones over 10 days, beside FLASH's 100 devices over 1 to 10 days each:

                        here                                                FLASH
    mean availability   .096                                                .098
    below 5 %, never    51 %, 28 %                                          52 %, 26 %
    deciles             0 0 .002 .019 .048 .086 .132 .189 .269              0 0 .001 .017 .042 .085 .124 .185 .275
    session             868 s median, 3,661 s mean, 2.27 per day            922 s, 3,423 s, 2.34 per day
    hour of day         .117 at 2 h, .064 at 11 h, .112 at 21 h             .124 at 1 h, .062 at 11 h, .124 at 18 h
    autocorrelation     .56, .34, .12, .04 after 1, 2, 4 and 24 h           .57, .36, .14, .07

What it does not have: weekends, households, and the 100 devices' bump of short charges at six in the morning.
A short run sees fewer phones: 52 % never appear in 50 rounds of half an hour (48 of FLASH's 100), 35 % in 200.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import BoolArray, FloatArray, Ids

Intervals: TypeAlias = tuple[Ids, FloatArray, FloatArray]
"""Who, from when (s), until when (s)."""

HOUR = 3600.0
DAY = 24 * HOUR
MOST_DAYS = 100_000

# Shapes that change little when they are changed: not worth a parameter.
NIGHT_JITTER = 0.75  # hours by which a phone's nights differ
NIGHT_SIGMA = 0.5  # of the log of a night's length
NIGHT_CONCENTRATION = 2.0  # of the Beta law of `nights` over phones
DAY_SHAPE = 2.0  # of the Gamma law of `day_charges` over phones
CUT_SHAPE = 0.12  # of the symmetric Beta law of where a charge breaks: near its ends
BREAK_SECONDS, BREAK_SIGMA = 9.0, 1.8  # log-normal length of a break


@dataclass(frozen=True, slots=True)
class Phones:
    """Phones that charge at night and in the evening, some of them seldom or never on Wi-Fi (fitted to FLASH)."""

    round_seconds: float = 1800.0
    """Seconds from one round's start to the next; more cover more days with the same rounds."""
    work_seconds: float = 0.0
    """Seconds a client must stay online to finish a round; leaving earlier counts as a dropout (0: none do)."""
    start_hour: float = 0.0
    """Time of day of round 0, in hours."""
    never: float = 0.12
    """Share of phones that are never on Wi-Fi while they charge, so never available."""
    wifi: float = 0.4
    """Chance that a charge is on Wi-Fi: mean over the other phones; higher makes them more available."""
    wifi_concentration: float = 0.9
    """How alike phones are in that: Beta(wifi c, (1 - wifi) c); below 2, most are near 0 or 1."""
    nights: float = 0.58
    """Chance of a long charge in a night: mean over phones; higher fills the nights."""
    night_hour: float = 5.0
    """Middle of a long charge, time of day in hours."""
    night_seconds: float = 10800.0
    """Median length of a long charge, in seconds."""
    day_charges: float = 4.5
    """Short charges per day: mean over phones; higher gives more short sessions."""
    day_hour: float = 20.0
    """Time of day, in hours, around which short charges gather."""
    day_width: float = 4.5
    """Standard deviation, in hours, of a phone's short charges around its own hour; higher flattens the day."""
    day_seconds: float = 1800.0
    """Median length of a short charge, in seconds."""
    day_sigma: float = 1.37
    """Standard deviation of the log of that length; higher gives more very short and very long ones."""
    phase_spread: float = 3.5
    """Standard deviation, in hours, of how early or late a phone's whole day is."""
    breaks: float = 1.6
    """Interruptions per charge: mean over phones, exponentially distributed; higher gives shorter sessions."""

    def __post_init__(self) -> None:
        for name in ("round_seconds", "wifi_concentration", "night_seconds", "day_seconds"):
            checks.positive(name, getattr(self, name))
        for name in ("work_seconds", "day_charges", "day_width", "day_sigma", "phase_spread", "breaks"):
            checks.not_negative(name, getattr(self, name))
        for name in ("never", "wifi", "nights"):
            checks.between(name, getattr(self, name), 0, 1)
        for name in ("start_hour", "night_hour", "day_hour"):
            checks.between(name, getattr(self, name), 0, 24)
        for name, most in (
            ("day_charges", 1000),
            ("breaks", 1000),
            ("round_seconds", 7 * DAY),
            ("work_seconds", 7 * DAY),
        ):
            checks.between(name, getattr(self, name), 0, most)

    def draw(self, num_clients: int, rounds: int, seed: int) -> Trace:
        """Who is ready at each round's instant, and who still is `work_seconds` later."""
        checks.at_least("clients", num_clients, 1)
        checks.at_least("rounds", rounds, 1)
        first = self.start_hour * HOUR
        end = first + (rounds - 1) * self.round_seconds + self.work_seconds
        if end > MOST_DAYS * DAY:
            raise ConfigError(f"{rounds} rounds of {self.round_seconds:g} s are more than {MOST_DAYS} days; lower one")
        device, start, stop = self.sessions(num_clients, math.floor(end / DAY) + 1, seed)

        # An interval covers the rounds from `low` up to, but without, `high`.
        low = np.clip(np.ceil((start - first) / self.round_seconds), 0, rounds).astype(np.int64)
        high = np.clip(np.ceil((stop - first) / self.round_seconds), 0, rounds).astype(np.int64)
        client, t = np.repeat(device, high - low), _ranges(low, high - low)
        order = np.argsort(t, kind="stable")  # devices are sorted already
        starts = np.zeros(rounds + 1, dtype=np.int64)
        np.cumsum(np.bincount(t, minlength=rounds), out=starts[1:])
        stays: BoolArray | None = None
        if self.work_seconds > 0:
            done = first + t * self.round_seconds + self.work_seconds
            stays = (done <= np.repeat(stop, high - low))[order]
        return Trace(num_clients, starts, client[order].astype(np.int32), stays)

    def sessions(self, num_clients: int, days: int, seed: int) -> Intervals:
        """Device, start and end of every session in `days` days from midnight: disjoint, sorted by device and start.

        Each day has its own stream, so a longer run begins like a shorter one.
        """
        checks.at_least("clients", num_clients, 1)
        checks.at_least("days", days, 1)
        rng = stream(seed, "phones")
        on_wifi = _beta(rng, self.wifi, self.wifi_concentration, num_clients) * (rng.random(num_clients) >= self.never)
        nightly = on_wifi * _beta(rng, self.nights, NIGHT_CONCENTRATION, num_clients)
        daily = on_wifi * rng.gamma(DAY_SHAPE, self.day_charges / DAY_SHAPE, num_clients)
        phase = self.phase_spread * rng.standard_normal(num_clients)
        breaks = rng.exponential(self.breaks, num_clients)

        long_charge = np.array([[self.night_hour], [NIGHT_JITTER], [self.night_seconds], [NIGHT_SIGMA]])
        short_charge = np.array([[self.day_hour], [self.day_width], [self.day_seconds], [self.day_sigma]])

        parts = []
        for day in range(-1, days + 1):  # a charge may begin the day before its middle, or end the day after
            rng = stream(seed, "phones", day)
            night = np.flatnonzero(rng.random(num_clients) < nightly)
            short = np.repeat(np.arange(num_clients), rng.poisson(daily))
            who = np.concatenate([night, short])
            at_night = np.arange(len(who)) < len(night)
            hour, width, median, sigma = np.where(at_night, long_charge, short_charge)
            middle = day * DAY + (hour + phase[who] + width * rng.standard_normal(len(who))) % 24 * HOUR
            length = np.minimum(median * np.exp(sigma * rng.standard_normal(len(who))), DAY)
            parts.append(_broken(rng, who, middle - length / 2, length, rng.poisson(breaks[who])))
        device, start, stop = (np.concatenate(column) for column in zip(*parts, strict=True))
        return _merged(device, *(np.clip(np.rint(x), 0, days * DAY) for x in (start, stop)))


def _beta(rng: np.random.Generator, mean: float, concentration: float, size: int) -> FloatArray:
    if mean in (0, 1):
        return np.full(size, float(mean))
    return rng.beta(mean * concentration, (1 - mean) * concentration, size)


def _ranges(first: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """`first[i], first[i] + 1, ...`, `count[i]` of them, for one i after the other."""
    shift: NDArray[np.int64] = np.repeat(first - (np.cumsum(count) - count), count)
    return np.arange(len(shift)) + shift


def _broken(
    rng: np.random.Generator, who: Ids, start: FloatArray, length: FloatArray, cuts: NDArray[np.int64]
) -> Intervals:
    """Each interval as the pieces that its `cuts` breaks leave of it."""
    which = np.repeat(np.arange(len(who)), cuts)
    cut = start[which] + length[which] * rng.beta(CUT_SHAPE, CUT_SHAPE, len(which))
    resume = cut + BREAK_SECONDS * np.exp(BREAK_SIGMA * rng.standard_normal(len(which)))
    order = np.lexsort((cut, which))
    after = np.cumsum(cuts)  # pieces of i: from its start or the last break to the next break or its end
    begin = np.insert(resume[order], after - cuts, start)
    end = np.insert(cut[order], after, start + length)
    return np.repeat(who, cuts + 1), begin, end


def _merged(device: Ids, start: FloatArray, stop: FloatArray) -> Intervals:
    """The union of each device's intervals, sorted; empty ones are dropped."""
    order = np.lexsort((start, device))
    order = order[stop[order] > start[order]]
    if not len(order):
        return device[order], start[order], stop[order]
    device, start, stop = device[order], start[order], stop[order]
    offset = device * (stop.max() + 1)  # one time axis, a stretch of it for each device
    new = np.ones(len(device), dtype=np.bool_)
    new[1:] = (start + offset)[1:] > np.maximum.accumulate(stop + offset)[:-1]
    head = np.flatnonzero(new)
    return device[head], start[head], np.maximum.reduceat(stop, head)
