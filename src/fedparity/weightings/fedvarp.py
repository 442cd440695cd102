"""FedVARP (Jhunjhunwala, Sharma, Nagarkatti, Joshi, UAI 2022): remembered updates as control variates (SAGA).

    v = (1/N) sum_j y_j + (1/m) sum_{k in S} (delta_k - y_k),   w <- w + v,   then y_k <- delta_k for k in S

Unbiased for *uniform* sampling only; under unequal availability use `fedstale`. A round in which nobody came steps
along the memory, as the equation says; IBM/fedau's code makes no step then (`empty = "stay"`). Goes with memory
`last_updates:own=keep`. We changed nothing by default; with `at = now` an old update counts at the learning rate of
today, as MIFA's: where rates decay, memories at the rate of their day would outweigh what is fresh.
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
class FedVarp(Weighting[None]):
    """The mean of all remembered updates, corrected by what is new (FedVARP)."""

    empty: Literal["memory", "stay"] = "memory"
    """What a round in which nobody came does: step along the memory, or stay."""
    at: Literal["then", "now"] = "then"
    """At which learning rate an old update counts: that of its day, or that of today."""
    goes_with: ClassVar[Mapping[str, str]] = {"memory": "last_updates:own=keep"}
    reference: ClassVar[str] = "Jhunjhunwala et al., FedVARP: Tackling the Variance Due to Partial Client Participation"

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """1/m for what is fresh; 1/N for what is remembered, less 1/m for those that are here."""
        fresh, doubled = fresh_and_doubled(rows)
        m = int(fresh.sum())
        if not m and self.empty == "stay":
            return np.zeros(len(fresh)), state
        share = 1 / max(1, m)
        today = 1.0 if self.at == "then" or rows.rates is None else rows.rate / rows.rates
        return np.where(fresh, share, (1 / ledger.num_clients - share * doubled) * today), state
