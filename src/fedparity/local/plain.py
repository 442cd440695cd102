"""Nothing special: the client trains from the model it received, and keeps nothing."""

from __future__ import annotations

from dataclasses import dataclass

from fedparity.core.protocols import Local


@dataclass(frozen=True, slots=True)
class Plain(Local):
    """Local training as the task does it."""
