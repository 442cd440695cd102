"""What taking part was worth: one file per rule, one line each in `UTILITIES`; a comparison uses one rule for all."""

from typing import Any

from fedparity.core.protocols import Utility
from fedparity.core.registry import Registry
from fedparity.utility.accuracy_change import AccuracyChange
from fedparity.utility.authors_drop import AuthorsLossDrop
from fedparity.utility.global_drop import AccuracyGain, GlobalLossDrop
from fedparity.utility.loss_drop import LossDrop
from fedparity.utility.none import NoUtility

UTILITIES: Registry[Utility[Any]] = Registry(
    "utility",
    {
        "loss_drop": LossDrop,
        "global_loss_drop": GlobalLossDrop,
        "accuracy_gain": AccuracyGain,
        "accuracy_change": AccuracyChange,
        "authors_loss_drop": AuthorsLossDrop,
        "none": NoUtility,
    },
    group="utilities",
    needs=Utility,
)

__all__ = ["UTILITIES", "GlobalLossDrop", "LossDrop", "NoUtility"]
