"""FedStale (Rodio and Neglia, 2024, arXiv 2405.04171): between inverse-probability FedAvg and FedVARP.

    d = sum_{k in S} (alpha_k / p_k)(delta_k - beta h_k) + beta sum_k alpha_k h_k,   then h_k <- delta_k for k in S

alpha_k = 1/N. beta = 0 is FedAvg with inverse probabilities, beta = 1 FedVARP for unequal ones. Unknown p_k:
"fedau" (the authors' choice) is 1 / FedAU's mean interval, used before this round enters it; "ledger" and "plan" as in
`ipw`. Goes with memory `last_updates:own=keep`; a round in which nobody came steps along beta times the memory, as the
equation has it (`empty=stay`: it does not, as in the authors' code). Intervals have no cap, as there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Weighting
from fedparity.core.types import FloatArray, Rows
from fedparity.weightings.ages import fresh_and_doubled, participation
from fedparity.weightings.fedau import FedAU, Intervals


@dataclass(frozen=True, slots=True)
class FedStale(Weighting[Intervals]):
    """Remembered updates count beta times as much as FedVARP lets them (FedStale)."""

    beta: float = 0.5
    """Weight of remembered updates; 0 is FedAvg with inverse probabilities, 1 is FedVARP."""
    p: Literal["fedau", "ledger", "plan"] = "fedau"
    """Source of a client's chance to take part: FedAU's intervals, or ledger and plan as in `ipw`."""
    cap: int | None = None
    """Longest interval that FedAU's estimate counts, in rounds; higher means less bias and more variance; none: any."""
    empty: Literal["memory", "stay"] = "memory"
    """What a round in which nobody came does: step along the memory, or stay."""
    a: float = 1.0
    """Prior participations where p is ledger or plan; higher takes everybody for less rare."""
    b: float = 1.0
    """Prior absences where p is ledger or plan; higher takes everybody for rarer."""
    goes_with: ClassVar[Mapping[str, str]] = {"memory": "last_updates:own=keep"}
    reference: ClassVar[str] = "Rodio and Neglia, FedStale: Leveraging Stale Client Updates, arXiv 2405.04171"

    def __post_init__(self) -> None:
        checks.between("beta", self.beta, 0, 1)
        if self.cap is not None:
            checks.at_least("cap", self.cap, 1)
        checks.not_negative("a", self.a)
        checks.not_negative("b", self.b)

    def init(self, num_clients: int) -> Intervals:
        """FedAU's intervals."""
        return FedAU(self.cap).init(num_clients)

    def weigh(self, state: Intervals, rows: Rows, ledger: Ledger) -> tuple[FloatArray, Intervals]:
        """1/(N p) for what is fresh; beta/N for what is remembered, less beta/(N p) for those that are here."""
        fresh, doubled = fresh_and_doubled(rows)
        omega, alpha = np.zeros(ledger.num_clients), 1 / ledger.num_clients
        here = rows.clients[fresh]
        if self.p == "fedau":
            omega[here] = state.omega[here]
        else:
            omega[here] = 1 / participation(rows, ledger, self.p, self.a, self.b)[fresh]
        _, state = FedAU(self.cap).weigh(state, rows, ledger)
        if not len(here) and self.empty == "stay":
            return np.zeros(len(fresh)), state
        own = omega[rows.clients]
        return np.where(fresh, alpha * own, self.beta * alpha * (1 - own * doubled)), state
