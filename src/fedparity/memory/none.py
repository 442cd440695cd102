"""Nothing is remembered: the model's step is made of this round's updates alone."""

from __future__ import annotations

from dataclasses import dataclass

from fedparity.core.protocols import Memory


@dataclass(frozen=True, slots=True)
class NoMemory(Memory[None]):
    """No rows but this round's."""
