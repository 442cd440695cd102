"""Algorithm 2 of the paper (Behfar and Mortier): a client starts between its own last model and the one it received.

start = (1 - a) w_k + a w received;    the client keeps the w_k that it ends with
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedparity.core import checks
from fedparity.core.protocols import CUP, Local
from fedparity.core.types import ClientReport, Descent, Vector


@dataclass(frozen=True, slots=True)
class Mixed(Local):
    """Training starts from the client's own last model mixed with the one received (Algorithm 2)."""

    a: float = 0.5
    """Share of the model received; 1: start from it, and keep nothing."""
    reference: ClassVar[str] = CUP

    def __post_init__(self) -> None:
        checks.between("a", self.a, 0, 1)

    def descents(self, kept: Vector | None, params: Vector) -> tuple[Descent, ...]:
        """One, from the mixture."""
        if kept is None:
            return (Descent(params),)
        return (Descent(((1 - self.a) * kept + self.a * params).astype(params.dtype, copy=False)),)

    def keep(self, params: Vector, report: ClientReport, result: Vector) -> Vector | None:
        """The model that the client ended with."""
        return None if self.a == 1 or report.delta is None else params + report.delta
