"""How much each row counts: one file a rule, one line each in `WEIGHTINGS`."""

from typing import Any

from fedparity.protocols import Weighting
from fedparity.table import Table
from fedparity.weightings.agnostic import Agnostic
from fedparity.weightings.core import Core
from fedparity.weightings.fedau import FedAU
from fedparity.weightings.fedavg import BySize, Mean, OverAll
from fedparity.weightings.fedfv import FairVector
from fedparity.weightings.ipw import InverseProbability
from fedparity.weightings.qfair import QFair
from fedparity.weightings.robust import Clipped, GeometricMedian, Krum
from fedparity.weightings.tilted import Tilted

WEIGHTINGS: Table[Weighting[Any]] = Table(
    "weighting",
    {
        "mean": Mean,
        "by_size": BySize,
        "all": OverAll,
        "qfair": QFair,
        "agnostic": Agnostic,
        "fair_vector": FairVector,
        "core": Core,
        "tilted": Tilted,
        "ipw": InverseProbability,
        "fedau": FedAU,
        "clipped": Clipped,
        "geometric_median": GeometricMedian,
        "krum": Krum,
    },
)

__all__ = [
    "WEIGHTINGS",
    "Agnostic",
    "BySize",
    "Clipped",
    "Core",
    "FairVector",
    "FedAU",
    "GeometricMedian",
    "InverseProbability",
    "Krum",
    "Mean",
    "OverAll",
    "QFair",
    "Tilted",
]
