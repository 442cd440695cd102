"""FedLaAvg's clients (Yan et al., arXiv 2002.07399): each sends its update minus its last one, and keeps the last.

    g_k = delta_k / rate,    sent: g_k - the last g_k        rate: what learning rates are multiplied by in this round

Gradients are compared, not steps: where rates decay, an old update counts as much as one of today.

The server then needs one running sum only: memory `running_sum`, weighting `fedlaavg`. A difference that is lost would
leave the two memories apart for good, so the last update is kept once it was used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from fedparity.core.protocols import Local
from fedparity.core.types import ClientReport, Vector


@dataclass(frozen=True, slots=True)
class Difference(Local):
    """The client sends how its update differs from its last one (FedLaAvg)."""

    rate: float = field(default=1.0, metadata={"settable": False})
    """What learning rates are multiplied by in this round."""
    goes_with: ClassVar[Mapping[str, str]] = {"memory": "running_sum"}
    reference: ClassVar[str] = "Yan et al., Federated Optimization under Intermittent Client Availability"

    def at_rate(self, rate: float) -> Difference:
        """The rule of a round."""
        return replace(self, rate=rate)

    def outcome(
        self, kept: Vector | None, delta: Vector, beside: Sequence[tuple[Vector, Vector]]
    ) -> tuple[Vector, Vector | None]:
        """The difference; the update itself stays, over its rate."""
        made = delta if self.rate == 1 else delta / self.rate
        return made if kept is None else made - kept, made

    def keep(self, params: Vector, report: ClientReport, result: Vector) -> Vector | None:
        """The update itself."""
        return report.kept

    def personal(self, kept: Vector, size: int) -> None:
        """An update is not a model."""
