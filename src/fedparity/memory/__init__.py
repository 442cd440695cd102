"""Rows for those that are not there: what earlier updates add to the model's step, one line each in `MEMORIES`."""

from typing import Any

from fedparity.core.protocols import Memory
from fedparity.core.registry import Registry
from fedparity.memory.decayed import Decayed
from fedparity.memory.echo import Echo
from fedparity.memory.last_updates import LastUpdates
from fedparity.memory.none import NoMemory
from fedparity.memory.prototype import Prototype
from fedparity.memory.running_sum import RunningSum

MEMORIES: Registry[Memory[Any]] = Registry(
    "memory",
    {
        "none": NoMemory,
        "last_updates": LastUpdates,
        "decayed": Decayed,
        "prototype": Prototype,
        "running_sum": RunningSum,
        "echo": Echo,
    },
    group="memories",
    needs=Memory,
)

__all__ = ["MEMORIES", "NoMemory"]
