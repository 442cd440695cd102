"""FedProx (Li et al., MLSys 2020): mu/2 |w - w received|^2 is added to the local loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedparity.core import checks
from fedparity.core.protocols import Local
from fedparity.core.types import Descent, Vector


@dataclass(frozen=True, slots=True)
class Prox(Local):
    """A pull of strength mu towards the model received (FedProx)."""

    mu: float = 0.01
    """Strength of the pull towards the model received; 0 is plain training, higher stays closer."""
    reference: ClassVar[str] = "Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020"

    def __post_init__(self) -> None:
        checks.not_negative("mu", self.mu)

    def descents(self, kept: Vector | None, params: Vector) -> tuple[Descent, ...]:
        """One, pulled."""
        return (Descent(params, self.mu),)
