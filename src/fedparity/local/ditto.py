"""Ditto (Li et al., ICML 2021): a personal model v beside the shared one, which is FedAvg's.

    v <- v - rate (grad F_k(v) + lam (v - w received));    the client keeps v

v starts as the first model of the run, as in the authors' code (`start=first`), or as the model that the client
receives when it first takes part (`received`). It moves only when its client takes part. A client that never took part
is scored with the shared model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from fedparity.core import checks
from fedparity.core.protocols import Local
from fedparity.core.types import ClientReport, Descent, Vector


@dataclass(frozen=True, slots=True)
class Ditto(Local):
    """A personal model beside the shared one, pulled towards it with strength lam."""

    lam: float = 1.0
    """Strength of the personal model's pull towards the shared one; 0 trains it alone, higher keeps it closer."""
    start: Literal["first", "received"] = "first"
    """Where a personal model starts: the first model of the run, or the one its client first receives."""
    reference: ClassVar[str] = "Li et al., Ditto: Fair and Robust Federated Learning, ICML 2021"

    def __post_init__(self) -> None:
        checks.not_negative("lam", self.lam)

    @property
    def begins_with_first(self) -> bool:
        """As `start` says."""
        return self.start == "first"

    def descents(self, kept: Vector | None, params: Vector) -> tuple[Descent, ...]:
        """The shared model, then the personal one from where it was left."""
        return Descent(params), Descent(params if kept is None else kept, self.lam)

    def outcome(
        self, kept: Vector | None, delta: Vector, beside: Sequence[tuple[Vector, Vector]]
    ) -> tuple[Vector, Vector | None]:
        """FedAvg's update; the personal model stays."""
        return delta, beside[0][1]

    def keep(self, params: Vector, report: ClientReport, result: Vector) -> Vector | None:
        """The personal model."""
        return report.kept
