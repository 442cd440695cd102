"""Nobody stands in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedparity.core.ledger import Ledger
from fedparity.core.types import ClientReport, Evals, FloatArray, Ids, Rows, SurrogateCredit, Vector


@dataclass(frozen=True, slots=True)
class NoSurrogate:
    """Clients that are not there get nothing."""

    def init(self, num_clients: int) -> None:
        """No memory."""

    def stand_in(
        self, state: None, round: int, available: Ids, ledger: Ledger, evaluate: Callable[[Ids], Evals] | None
    ) -> tuple[SurrogateCredit, None]:
        """Nothing is added."""
        return SurrogateCredit(), state

    def complete(self, state: None, round: int, rows: Rows, params: Vector, ledger: Ledger) -> tuple[Rows, None]:
        """The model's step is made of this round's updates alone."""
        return rows, state

    def remember(self, state: None, reports: Sequence[ClientReport], utility: FloatArray) -> None:
        """Nothing is kept."""
