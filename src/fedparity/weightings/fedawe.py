"""FedAWE (Xiang, Ioannidis, Yeh, Joe-Wong, Su, NeurIPS 2024): an update is echoed for the rounds its client missed.

    x_k+ = x_k + rate (t - tau_k) (w_k - x_k),    new w = mean of x_k+ over S_t,    tau_k <- t   (-1 at first)

x_k is the last model that k received and w_k what it made of it: local rule `received`, memory `echo`. In our rows,
delta_k = w_k - w and e_k = x_k - w, so with gap g the fresh row counts g/m and the echo row (1 - g)/m. tau_k is the
last round that k completed. The gap explodes after a long absence, which is why the authors' code clips the mean of
g (w_k - x_k) to length .5, for FedAWE only and not for what it is compared with: `clip`, on as there, and off with
clip=none. Method `fedawe` also has the code's decay of the local rate (`schedule = "sqrt"`). Its evaluation on the mean
of all clients' models is not reproduced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Weighting
from fedparity.core.rows import combine, dot
from fedparity.core.types import FloatArray, Rows


@dataclass(frozen=True, slots=True)
class FedAwe(Weighting[None]):
    """An update counts once for every round since its client was last here (FedAWE)."""

    rate: float = 1.0
    """Weight of an update per round since its client was last here; higher moves further after an absence."""
    clip: float | None = 0.5
    """Longest mean of echoed updates; lower shortens steps after long absences; none: any length."""
    goes_with: ClassVar[Mapping[str, str]] = {"memory": "echo", "local": "received"}
    reference: ClassVar[str] = "Xiang et al., Efficient Federated Learning against Heterogeneous Client Unavailability"

    def __post_init__(self) -> None:
        checks.positive("rate", self.rate)
        if self.clip is not None:
            checks.positive("clip", self.clip)

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """gap/m for a fresh row, (1 - gap)/m for an echo row."""
        fresh = rows.ages == 0
        m = max(1, int(fresh.sum()))
        gap = self.rate * (ledger.rounds - ledger.last_completed[rows.clients].astype(np.float64))
        if self.clip is not None and len(rows.clients):
            new = combine(np.where(fresh, gap, -gap) / m, rows.deltas, len(rows.deltas[0]))
            length = math.sqrt(dot(new, new))
            gap *= min(1.0, self.clip / length) if length > 0 else 1.0
        return np.where(fresh, gap, 1 - gap) / m, state
