"""FedLaAvg (Yan et al., arXiv 2002.07399; INFORMS J. Computing 2023): MIFA with the memory at the clients.

    clients send d_k = delta_k / rate - their last one;   s <- s + sum of d_k;   w <- w + (rate/N) s

The server holds one vector instead of N: memory `running_sum`, whose row stands for s as it was, and local rule
`difference`. The paper asks the clients that have waited longest (a scheduler's business) and scales updates by
N n_k / n; here everybody counts the same. A difference that gets lost would leave the two memories apart for good, so a
client's last update is replaced only once its difference was used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Weighting
from fedparity.core.types import FloatArray, Rows


@dataclass(frozen=True, slots=True)
class FedLaAvg(Weighting[None]):
    """The mean over all clients of their latest updates, from one running sum (FedLaAvg)."""

    goes_with: ClassVar[Mapping[str, str]] = {"memory": "running_sum", "local": "difference"}
    reference: ClassVar[str] = "Yan et al., Federated Optimization under Intermittent Client Availability, 2023"

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """Rate / N for the sum so far and for every difference."""
        return np.full(len(rows.clients), rows.rate / ledger.num_clients), state
