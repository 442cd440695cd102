"""Who is there: models that draw a trace."""

from __future__ import annotations

from pathlib import Path

from fedparity.availability.always import Always
from fedparity.availability.arrivals import Arrivals
from fedparity.availability.bernoulli import Bernoulli, BetaRates, LabelSkewed, LogNormalRates, PaperLike
from fedparity.availability.bursty import Adversarial, Bursty
from fedparity.availability.diurnal import Cyclic, Diurnal, Staircase
from fedparity.availability.markov import Markov
from fedparity.availability.outages import Outages
from fedparity.availability.phones import Phones
from fedparity.core.imports import names_code
from fedparity.core.protocols import Availability
from fedparity.core.registry import Registry

AVAILABILITY: Registry[Availability] = Registry(
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
        "arrivals": Arrivals,
    },
    group="availability",
    needs=Availability,
)


def looks_like_a_path(text: str) -> bool:
    """Whether a text that says who is there names a file rather than a model."""
    name = text.partition(":")[0]
    if names_code(text) and not _is_there(text):
        return False
    return name not in AVAILABILITY and ("/" in name or "." in name or (name != "" and _is_there(name)))


def shown_name(text: str) -> str:
    """A model as it is written; of a file its name alone, for its folders tell whose machine it was."""
    return Path(text).name if looks_like_a_path(text) else text


def _is_there(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:  # too long to be a name
        return False


__all__ = ["AVAILABILITY", "Bernoulli", "Phones", "looks_like_a_path", "shown_name"]
