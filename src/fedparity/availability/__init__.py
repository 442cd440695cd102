"""Who is there: models that draw a trace, files that replay into one, estimators and forecasts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from fedparity.availability.always import Always
from fedparity.availability.bernoulli import Bernoulli, BetaRates, LabelSkewed, LogNormalRates, PaperLike
from fedparity.availability.bursty import Adversarial, Bursty
from fedparity.availability.diurnal import Cyclic, Diurnal, Staircase
from fedparity.availability.estimators import BetaPosterior, Exponential, RunningMean, SlidingWindow
from fedparity.availability.forecast import ORACLE, Forecast, Oracle
from fedparity.availability.intervals import Intervals
from fedparity.availability.markov import Markov
from fedparity.availability.outages import Outages
from fedparity.availability.phones import Phones
from fedparity.availability.plain import save_trace
from fedparity.availability.readers import load_trace, open_intervals
from fedparity.errors import ConfigError, unknown
from fedparity.protocols import Availability, Estimator
from fedparity.table import Table

AVAILABILITY: Table[Availability] = Table(
    "availability",
    {
        "phones": Phones,
        "always": Always,
        "bernoulli": Bernoulli,
        "beta": BetaRates,
        "lognormal": LogNormalRates,
        "label_skewed": LabelSkewed,
        "paper_like": PaperLike,
        "markov": Markov,
        "diurnal": Diurnal,
        "staircase": Staircase,
        "cyclic": Cyclic,
        "outages": Outages,
        "bursty": Bursty,
        "adversarial": Adversarial,
    },
)

ESTIMATORS: Table[Estimator[Any]] = Table(
    "estimator",
    {
        "mean": RunningMean,
        "window": SlidingWindow,
        "exponential": Exponential,
        "beta": BetaPosterior,
        "forecast": Forecast,
    },
)


def estimator_of(text: str) -> Estimator[Any] | Literal["oracle"]:
    """What `NAME[:key=value,...]` asks for; the oracle is made once there is a trace for it to know."""
    name = text.partition(":")[0].strip()
    if text == ORACLE:
        return ORACLE
    if name == ORACLE:
        raise ConfigError(f"estimator {text!r}: an oracle has no settings; write {ORACLE}")
    if name not in ESTIMATORS:
        raise unknown("estimator", name, (*ESTIMATORS, ORACLE))
    return ESTIMATORS.build(text)


def looks_like_a_path(text: str) -> bool:
    """Whether a text that says who is there names a file rather than a model."""
    name = text.partition(":")[0]
    return name not in AVAILABILITY and ("/" in name or "." in name or (name != "" and _is_there(name)))


def _is_there(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:  # too long to be a name
        return False


__all__ = [
    "AVAILABILITY",
    "ESTIMATORS",
    "ORACLE",
    "Adversarial",
    "Always",
    "Bernoulli",
    "BetaPosterior",
    "BetaRates",
    "Bursty",
    "Cyclic",
    "Diurnal",
    "Exponential",
    "Forecast",
    "Intervals",
    "LabelSkewed",
    "LogNormalRates",
    "Markov",
    "Oracle",
    "Outages",
    "PaperLike",
    "Phones",
    "RunningMean",
    "SlidingWindow",
    "Staircase",
    "estimator_of",
    "load_trace",
    "looks_like_a_path",
    "open_intervals",
    "save_trace",
]
