"""How much each row counts: one file per rule, one line each in `WEIGHTINGS`."""

from functools import partial
from typing import Any

from fedparity.core.protocols import Weighting
from fedparity.core.registry import Registry
from fedparity.weightings.aaggff import AAggFF
from fedparity.weightings.adjusted import AvailabilityAdjusted
from fedparity.weightings.agnostic import Agnostic
from fedparity.weightings.cafed import CaFed
from fedparity.weightings.clipped_past import ClippedPast
from fedparity.weightings.compensated import UtilityCompensated
from fedparity.weightings.core import Core
from fedparity.weightings.decayed_mean import DecayedMean
from fedparity.weightings.f3ast import F3ast
from fedparity.weightings.fedau import FedAU
from fedparity.weightings.fedavg import BySize, Mean, OverAll
from fedparity.weightings.fedawe import FedAwe
from fedparity.weightings.fedfv import FairVector
from fedparity.weightings.fedlaavg import FedLaAvg
from fedparity.weightings.fedstale import FedStale
from fedparity.weightings.fedvarp import FedVarp
from fedparity.weightings.ipw import InverseProbability
from fedparity.weightings.memory_mean import MemoryMean
from fedparity.weightings.qfair import QFair
from fedparity.weightings.robust import Clipped, GeometricMedian, Krum
from fedparity.weightings.tilted import Tilted

WEIGHTINGS: Registry[Weighting[Any]] = Registry(
    "weighting",
    {
        "mean": Mean,
        "by_size": BySize,
        "all": OverAll,
        "qfair": QFair,
        "agnostic": Agnostic,
        "aaggff": AAggFF,
        "fair_vector": FairVector,
        "core": Core,
        "tilted": Tilted,
        "ipw": InverseProbability,
        "fedau": FedAU,
        "clipped": Clipped,
        "clipped_past": ClippedPast,
        "geometric_median": GeometricMedian,
        "rfa": partial(GeometricMedian, steps=4, by="size"),
        "krum": Krum,
        "memory_mean": MemoryMean,
        "fedvarp": FedVarp,
        "fedstale": FedStale,
        "fedlaavg": FedLaAvg,
        "decayed_mean": DecayedMean,
        "f3ast": F3ast,
        "fedawe": FedAwe,
        "cafed": CaFed,
        "utility_compensated": UtilityCompensated,
        "availability_adjusted": AvailabilityAdjusted,
    },
    needs=Weighting,
)

__all__ = ["WEIGHTINGS", "BySize", "Mean", "QFair"]
