"""Cumulative utility parity in the average: whoever has gained less per opportunity counts more. Ours.

    v_k = u_k / pi_k (credited utility over availability, as recorded before this round)
    w_k ~ 1 + gamma max(0, (mean v - v_k) / mean v)                the mean over clients seen online

A client at or above the mean counts 1, one that has gained nothing 1 + gamma: no weight is more than 1 + gamma times
another, whatever the utilities. gamma = 0, and everybody equal, is the plain mean bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Weighting
from fedparity.core.types import FloatArray, Rows


@dataclass(frozen=True, slots=True)
class UtilityCompensated(Weighting[None]):
    """Updates of clients that have gained less per round online count more, up to 1 + gamma."""

    gamma: float = 1.0
    """Extra weight of a client that has gained nothing so far; 0 is the plain mean."""

    def __post_init__(self) -> None:
        checks.between("gamma", self.gamma, 0, 1e6)

    def weigh(self, state: None, rows: Rows, ledger: Ledger) -> tuple[FloatArray, None]:
        """1 + gamma x how far below the mean, normalised."""
        seen = ledger.normalised_utility()
        mean = float(seen.mean()) if len(seen) else 0.0
        raw = np.ones(len(rows.clients))
        if mean > 0:
            own = ledger.utility[rows.clients] * ledger.rounds / np.maximum(ledger.online[rows.clients], 1)
            raw += self.gamma * np.clip((mean - own) / mean, 0.0, 1.0)
        return raw / max(float(raw.sum()), 1e-300), state
