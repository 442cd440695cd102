"""MIFA (Gu, Huang, Zhang, Huang, NeurIPS 2021): the mean of everybody's latest update, also when nobody came.

    w <- w + (1/N) sum_k y_k rate_t / rate_s,    y_k = the latest update of k, of round s      over = "all"
    w <- w + mean of the same over the clients seen so far                                     over = "seen"

Papers and code mix the two denominators; y_k = 0 of clients never seen shrinks the early steps. As in the paper, what
is remembered are gradients: an update of round s counts at the learning rate of today. (IBM/fedau and FedAWE replay it
at the rate of its day: the same where rates are constant.) Goes with memory `last_updates:own=replace`; with own=keep
the older of a client's two rows counts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Weighting
from fedparity.core.types import FloatArray, Rows
from fedparity.weightings.ages import fresh_and_doubled


@dataclass(frozen=True, slots=True)
class MemoryMean(Weighting[None]):
    """The mean of everybody's latest update, fresh or not (MIFA)."""

    over: Literal["all", "seen"] = "all"
    """Divide by all clients, or by those with an update (seen), which makes early steps longer."""
    goes_with: ClassVar[Mapping[str, str]] = {"memory": "last_updates"}
    reference: ClassVar[str] = "Gu et al., Fast Federated Learning in the Presence of Arbitrary Device Unavailability"

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """1 / N, or 1 / the number of clients with a row."""
        _, doubled = fresh_and_doubled(rows)
        count = ledger.num_clients if self.over == "all" else max(1, int((~doubled).sum()))
        today = 1.0 if rows.rates is None else rows.rate / rows.rates
        return np.where(doubled, 0.0, today / count), state
