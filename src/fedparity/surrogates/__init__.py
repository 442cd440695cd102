"""Who stands in for those that are not there: one file a rule, one line each in `SURROGATES`."""

from typing import Any

from fedparity.core.protocols import Surrogate
from fedparity.core.registry import Registry
from fedparity.surrogates.decayed import Decayed
from fedparity.surrogates.echo import Echo
from fedparity.surrogates.memory import Memory
from fedparity.surrogates.none import NoSurrogate
from fedparity.surrogates.prototype import Prototype
from fedparity.surrogates.running_sum import RunningSum
from fedparity.surrogates.utility import UtilitySurrogate

SURROGATES: Registry[Surrogate[Any]] = Registry(
    "surrogate",
    {
        "none": NoSurrogate,
        "utility": UtilitySurrogate,
        "memory": Memory,
        "decayed": Decayed,
        "prototype": Prototype,
        "running_sum": RunningSum,
        "echo": Echo,
    },
    needs=("init", "stand_in"),
)

__all__ = [
    "SURROGATES",
    "Decayed",
    "Echo",
    "Memory",
    "NoSurrogate",
    "Prototype",
    "RunningSum",
    "UtilitySurrogate",
]
