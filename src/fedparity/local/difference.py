"""FedLaAvg's clients (Yan et al., arXiv 2002.07399): each sends its update minus its last one, and keeps the last.

The server then needs one running sum only: memory `running_sum`, weighting `fedlaavg`. A difference that is lost would
leave the two memories apart for good, so the last update is kept once it was used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedparity.core.protocols import Local
from fedparity.core.types import ClientReport, Vector


@dataclass(frozen=True, slots=True)
class Difference(Local):
    """The client sends how its update differs from its last one (FedLaAvg)."""

    goes_with: ClassVar[Mapping[str, str]] = {"memory": "running_sum"}
    reference: ClassVar[str] = "Yan et al., Federated Optimization under Intermittent Client Availability"

    def outcome(
        self, kept: Vector | None, delta: Vector, beside: Sequence[tuple[Vector, Vector]]
    ) -> tuple[Vector, Vector | None]:
        """The difference; the update itself stays."""
        return delta if kept is None else delta - kept, delta

    def keep(self, params: Vector, report: ClientReport, result: Vector) -> Vector | None:
        """The update itself."""
        return report.kept

    def personal(self, kept: Vector, size: int) -> None:
        """An update is not a model."""
