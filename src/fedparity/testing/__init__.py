"""What holds somebody else's component to the laws that ours obey: checkers, attacks on schedulers, disks that fail."""

from __future__ import annotations

from typing import Any

from fedparity.testing.attacks import ATTACKS, Arena, Attack, Result, attack
from fedparity.testing.disks import FaultyDisk
from fedparity.testing.engines import check_engine
from fedparity.testing.laws import LawError
from fedparity.testing.populations import check_availability, check_estimator
from fedparity.testing.schedulers import check_scheduler
from fedparity.testing.weightings import check_weighting

__all__ = [
    "ATTACKS",
    "Arena",
    "Attack",
    "FakeGrid",
    "FaultyDisk",
    "LawError",
    "Result",
    "attack",
    "check_availability",
    "check_engine",
    "check_estimator",
    "check_scheduler",
    "check_weighting",
]


def __getattr__(name: str) -> Any:
    """`FakeGrid` is imported when it is asked for: it needs Flower."""
    if name == "FakeGrid":
        from fedparity.testing.grids import FakeGrid

        return FakeGrid
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
