"""FedAWE's clients (Xiang et al., NeurIPS 2024): training goes on from the last model received before this round.

A client that was never here goes on from the first model of the run, as all of them do in the authors' code. Goes with
memory `echo`, which says how far that model is behind, and weighting `fedawe`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from fedparity.core.protocols import Local
from fedparity.core.types import ClientReport, Descent, Vector


@dataclass(frozen=True, slots=True)
class Received(Local):
    """Training starts from the last model that the client received, before this round (FedAWE)."""

    begins_with_first: ClassVar[bool] = True
    goes_with: ClassVar[Mapping[str, str]] = {"memory": "echo"}
    reference: ClassVar[str] = "Xiang et al., Efficient Federated Learning against Heterogeneous Client Unavailability"

    def descents(self, kept: Vector | None, params: Vector) -> tuple[Descent, ...]:
        """One from the last model received."""
        return (Descent(params if kept is None else kept),)

    def keep(self, params: Vector, report: ClientReport, result: Vector) -> Vector:
        """The model that this round ended with: it is sent back to those that took part."""
        return result
