"""Nobody is credited."""

from __future__ import annotations

from dataclasses import dataclass

from fedparity.core.protocols import Surrogate


@dataclass(frozen=True, slots=True)
class NoSurrogate(Surrogate[None]):
    """Clients that are not there get nothing."""
