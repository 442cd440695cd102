"""Measures of how evenly benefit was shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedparity.core.types import FloatArray
from fedparity.metrics import inequality as spread
from fedparity.metrics.measure import Direction, Measure, Of


def _of_utility(of: Callable[[FloatArray], float], *, aided: bool = False) -> Of:
    return lambda o: of(o.ledger.normalised_utility(with_surrogates=aided))


def _utility(name: str, says: str, of: Callable[[FloatArray], float], head: str, **how: Any) -> tuple[Measure, Measure]:
    """A measure of normalised utility, without and with what surrogates credited."""
    better: Direction = how.pop("better", "lower")
    kinds: dict[str, Any] = {"scope": "utility", "normaliser": "availability", "better": better}
    title = how.pop("title", head)
    return (
        Measure(name, says, _of_utility(of), head, title=title, **kinds, **how),
        Measure(
            f"{name}_with_surrogates",
            f"{says}; u_k with what surrogates credited",
            _of_utility(of, aided=True),
            f"{head}+",
            title=f"{title}, surrogates counted",
            **kinds,
            **how,
        ),
    )


UTILITY = (
    *_utility(
        "utility_cv",
        "coefficient of variation of u_k/pi_k, over clients online at least once",
        spread.cv,
        "CV(u/pi)",
        title="Utility CV",
    ),
    *_utility(
        "jain_utility",
        "Jain's index of u_k/pi_k, over clients online at least once; 1 is equal",
        spread.jain,
        "Jain(u/pi)",
        title="Jain, utility",
        better="higher",
    ),
    *_utility(
        "fairness_variance",
        "V_T: population variance of u_k/pi_k, over clients online at least once; 0 is equal",
        spread.variance,
        "V_T",
        title="V_T, variance of u/π",
        form="brief",
    ),
)
