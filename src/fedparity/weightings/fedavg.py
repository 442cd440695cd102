"""FedAvg's three averages, which papers silently mix (McMahan et al., AISTATS 2017).

mean:     1 / |S_t| each                     biased towards clients that are often there
by_size:  n_k / sum of n_j over S_t
all:      1 / N each                         the step shrinks with participation
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Weighting
from fedparity.core.types import FloatArray, Rows

FEDAVG = "McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017"


@dataclass(frozen=True, slots=True)
class Mean(Weighting[None]):
    """Every update that came in counts the same."""

    reference: ClassVar[str] = FEDAVG

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """1 / number of rows."""
        return np.full(len(rows.clients), 1 / max(1, len(rows.clients))), state


@dataclass(frozen=True, slots=True)
class BySize(Weighting[None]):
    """An update counts as much as the samples behind it."""

    reference: ClassVar[str] = FEDAVG

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """n_k / sum of n_j."""
        return rows.sizes / max(1.0, float(rows.sizes.sum())), state


@dataclass(frozen=True, slots=True)
class OverAll(Weighting[None]):
    """Every update counts 1/N, so that those missing shrink the step."""

    reference: ClassVar[str] = FEDAVG

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """1 / N."""
        return np.full(len(rows.clients), 1 / ledger.num_clients), state
