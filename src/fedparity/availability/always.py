"""Everybody is always there: the setting most federated learning papers assume."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.availability.rates import check_size
from fedparity.core.trace import Trace


@dataclass(frozen=True, slots=True)
class Always:
    """Every client is online in every round."""

    def draw(self, num_clients: int, rounds: int, seed: int) -> Trace:
        """One realisation for `num_clients` clients over `rounds` rounds."""
        check_size(num_clients, rounds)
        everybody = np.arange(num_clients, dtype=np.int32)
        return Trace.from_rounds(num_clients, (everybody for _ in range(rounds)))
