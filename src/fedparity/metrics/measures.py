"""Every number that is reported, each defined once: its name, what it says, its formula, heading, digits, direction.

A measure of a run is a function of an `Outcome`, what one method left behind with one seed. Where a limit is known the
measure splits into an unavoidable and an avoidable part, `NAME_limit` and `NAME_avoidable`: the limit is the measure of
the least unequal schedule that the same availability and the same number of filled slots allow (`metrics.frontier`).

`MEASURES` is what terminal, page, CSV, JSON and LaTeX read; a number that is not in it is not reported.
S_k: selections of client k; m slots, T rounds, N clients; u_k: cumulative utility; pi_k: share of rounds online.
"""

from __future__ import annotations

from collections.abc import Mapping

from fedparity.core.registry import Named
from fedparity.metrics.measure import AVOIDABLE, LIMIT, Measure, Outcome
from fedparity.metrics.of_model import MODEL
from fedparity.metrics.of_rounds import COST, ROUND, TIME
from fedparity.metrics.of_shares import SHARES
from fedparity.metrics.of_utility import UTILITY

_MEASURES = (*MODEL, *SHARES, *UTILITY, *ROUND, *COST, *TIME)
MEASURES: Mapping[str, Measure] = Named("measure", {measure.name: measure for measure in _MEASURES})
"""Every reported number by name."""

_ENDS = ("counts", "utility", "model")
SCHEDULED: tuple[Measure, ...] = tuple(m for m in _MEASURES if m.scope in _ENDS[:2])
"""What is known without training."""
RUN: tuple[Measure, ...] = tuple(m for m in _MEASURES if m.scope in _ENDS)


def numbers(outcome: Outcome, measures: tuple[Measure, ...] = RUN) -> dict[str, float]:
    """Every measure of one outcome with its parts, by name; NaN where undefined."""
    return {name: float(value) for measure in measures for name, value in measure.parts(outcome)}


def measure_of(key: str) -> Measure:
    """The measure that a name with or without a suffix belongs to."""
    return MEASURES[key.removesuffix(AVOIDABLE).removesuffix(LIMIT)]


def heading(key: str, *, narrow: bool = False) -> str:
    """How a column is headed: that of its measure, or which part of it."""
    measure = measure_of(key)
    if key.endswith(LIMIT):
        return "limit" if narrow else f"{measure.heading}, limit"
    if key.endswith(AVOIDABLE):
        return "avoidable" if narrow else f"{measure.heading}, avoidable"
    return measure.head if narrow else measure.heading


def higher_is_better(key: str) -> bool:
    """Which way a column is better; an avoidable part always should be small."""
    return not key.endswith(AVOIDABLE) and measure_of(key).better == "higher"
