"""How available each client is, and how often it will be back, from what the server saw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fedparity.core.errors import ConfigError, unknown
from fedparity.core.imports import allowed
from fedparity.core.protocols import Estimator
from fedparity.core.registry import Registry
from fedparity.estimators.averages import BetaPosterior, Exponential, RunningMean, SlidingWindow
from fedparity.estimators.forecast import ORACLE, Forecast, Oracle

ESTIMATORS: Registry[Estimator[Any]] = Registry(
    "estimator",
    {
        "mean": RunningMean,
        "window": SlidingWindow,
        "exponential": Exponential,
        "beta": BetaPosterior,
        "forecast": Forecast,
    },
    needs=Estimator,
)


def estimator_of(given: str | Mapping[str, Any]) -> Estimator[Any] | Literal["oracle"]:
    """What a text or a table asks for; the oracle is made once there is a trace for it to know."""
    name = ESTIMATORS.name_in(given)
    if given in (ORACLE, {"name": ORACLE}):
        return ORACLE
    if name == ORACLE:
        raise ConfigError(f"estimator {given!r}: an oracle has no settings; write {ORACLE}")
    if ":" not in name and allowed() and name not in ESTIMATORS:
        raise unknown("estimator", name, (*ESTIMATORS, ORACLE))
    return ESTIMATORS.of(given)


__all__ = ["ESTIMATORS", "ORACLE", "Forecast", "Oracle", "RunningMean", "estimator_of"]
