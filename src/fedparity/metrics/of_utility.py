"""Measures of how evenly benefit was shared, in three readings of what a client's utility is compared by.

availability    u_k / pi_k      what it got per round online: the default
participation   u_k / S_k       what it got per selection (section 3.1 estimates pi from selections)
imputed         u_k + û_k       with what surrogates credited: everybody had T opportunities, real or imputed
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, get_args

from fedparity.core.ledger import Normaliser
from fedparity.core.types import FloatArray
from fedparity.metrics import inequality as spread
from fedparity.metrics.measure import NAN, Measure, Of, Outcome

OVER = "over clients online at least once"


class Reading(NamedTuple):
    """How a reading is headed, what it is of, over whom, and in plain words."""

    head: str
    of: str
    over: str
    plain: str

    @property
    def symbol(self) -> str:
        """Its head as pages print it."""
        return self.head.replace("pi", "π")

    @property
    def full(self) -> str:
        """What headings say after `utility`."""
        return f"{self.plain.rstrip(',')}, {self.symbol}"


READINGS: dict[Normaliser, Reading] = {
    "availability": Reading("u/pi", "u_k/pi_k", OVER, "per round online"),
    "participation": Reading("u/S", "u_k T/S_k", "over clients selected at least once", "per selection"),
    "imputed": Reading("u+û", "u_k with what surrogates credited, undivided", OVER, "in all, surrogates counted,"),
}


def in_reading(name: str, normaliser: Normaliser = "availability") -> str:
    """The name of a measure of utility in one of its readings."""
    return name if normaliser == "availability" else f"{name}_{normaliser}"


def _of(of: Callable[[FloatArray], float], by: Normaliser, *, aided: bool = False) -> Of:
    def measured(o: Outcome) -> float:
        values = o.ledger.normalised_utility(by, with_surrogates=aided)
        return of(values) if values.any() else NAN  # nothing was credited, which is not the same as evenly

    return measured


def _utility(
    name: str, says: str, of: Callable[[FloatArray], float], heads: tuple[str, str], **how: Any
) -> Iterator[Measure]:
    """A measure of utility in every reading; per round online also with what surrogates credited."""
    how = {"scope": "utility", "better": "lower"} | how
    head, title = heads
    for by in get_args(Normaliser):
        read = READINGS[by]
        long = title.format(read.symbol)
        named: dict[str, Any] = {"head": head.format(read.head), "title": long, "normaliser": by}
        text = says.format(f"{read.of}, {read.over}")
        yield Measure(in_reading(name, by), text, _of(of, by), **named, **how)
        if by == "availability":
            named |= {"head": f"{named['head']}+", "title": f"{named['title']}, surrogates counted"}
            aided = f"{text}; u_k with what surrogates credited"
            yield Measure(f"{name}_with_surrogates", aided, _of(of, by, aided=True), **named, **how)


UTILITY = (
    *_utility("utility_cv", "coefficient of variation of {}", spread.cv, ("CV({})", "Utility CV, {}")),
    *_utility("jain_utility", "Jain's index of {}; 1 is equal", spread.jain, ("Jain({})", "Jain, {}"), better="higher"),
    *_utility(
        "fairness_variance",
        "V_T: population variance of {}; 0 is equal",
        spread.variance,
        ("V({})", "V_T, variance of {}"),
        form="brief",
    ),
    Measure(
        "fairness_variance_per_round",
        f"V_T / T^2, the variance of u_k/(T pi_k), {OVER}: what the authors' code logs",
        lambda o: _of(spread.variance, "availability")(o) / o.rounds**2,
        "V/T^2",
        title="V_T / T^2",
        better="lower",
        form="brief",
        scope="utility",
        normaliser="availability",
    ),
)
