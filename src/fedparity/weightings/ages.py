"""Fresh and stale rows told apart, and how likely a client was to take part."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from fedparity.core.ledger import Ledger
from fedparity.core.types import BoolArray, FloatArray, Rows

Source: TypeAlias = Literal["ledger", "plan"]
"""ledger: how often the client took part so far. plan: how often it was online, times its chance of being asked."""


def fresh_and_doubled(rows: Rows) -> tuple[BoolArray, BoolArray]:
    """Which rows were made in this round, and which are earlier ones of a client that has such a row."""
    fresh = np.asarray(rows.ages == 0, dtype=np.bool_)
    return fresh, ~fresh & np.isin(rows.clients, rows.clients[fresh])


def participation(rows: Rows, ledger: Ledger, source: Source, a: float, b: float) -> FloatArray:
    """Estimated chance that each row's client takes part in a round, this round included, with a Beta(a, b) prior."""
    count = ledger.completed if source == "ledger" else ledger.online
    fresh = rows.ages == 0
    seen = (a + count[rows.clients] + fresh) / (a + b + ledger.rounds + 1)
    return np.asarray(np.maximum(seen if source == "ledger" else seen * rows.probs, 1e-9), dtype=np.float64)
