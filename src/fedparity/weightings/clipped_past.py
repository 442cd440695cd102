"""The mean of updates cut to what is usual among clients: robustness that remembers.

    1/m min(1, factor B / |delta_k|)      B = a quantile of the latest lengths of clients heard of in `window` rounds

`clipped` looks at one round alone, so whoever holds that round says what is usual. Here every client has one vote, its
latest length, so that rounds can be held without that, thin ones again and again: a longer B takes more than
1 - quantile of the clients heard of. A round's own median counts if it is lower. Updates of length 0 have no vote.
Before a fifth of the clients, or 30, were heard of, the shortest length so far is B: a few can then shorten steps, but
nobody lengthens them unless all are in it. The sign of an update is not looked at: a round that is held still takes one
step of the usual length in the wrong direction.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.ledger import NEVER, Ledger
from fedparity.core.marks import PER_CLIENT
from fedparity.core.protocols import Weighting
from fedparity.core.rows import squared_lengths
from fedparity.core.types import FloatArray, Rows

FIFTH, MANY = 0.2, 30
"""Votes that are needed before a quantile of them is trusted: of a fifth of the clients, or so many."""


@dataclass(slots=True)
class Lengths:
    """How long each client's latest update was, and in which round."""

    latest: FloatArray = field(metadata=PER_CLIENT)
    heard: NDArray[np.int32] = field(metadata=PER_CLIENT)


@dataclass(frozen=True, slots=True)
class ClippedPast(Weighting[Lengths]):
    """The mean of updates cut to a length that is usual among all clients of past rounds."""

    factor: float = 1.0
    """Longest update kept as it is, in usual lengths; lower shortens more of them."""
    window: int = 50
    """Rounds for which a client's length counts; more are harder to sway and slower to follow."""
    quantile: float = 0.5
    """Which length is usual: the median, or a lower one, which needs more attackers to be moved and shortens more."""

    def __post_init__(self) -> None:
        checks.positive("factor", self.factor)
        checks.at_least("window", self.window, 1, 1_000_000)
        checks.between("quantile", self.quantile, 0, 0.5)

    def init(self, num_clients: int) -> Lengths:
        """Nobody was heard of."""
        return Lengths(np.zeros(num_clients), np.full(num_clients, NEVER, np.int32))

    def weigh(self, state: Lengths, rows: Rows, ledger: Ledger) -> tuple[FloatArray, Lengths]:
        """1/m, less for longer updates."""
        if not len(rows.clients):
            return np.empty(0), state
        length = np.sqrt(squared_lengths(rows.deltas))
        votes = (rows.ages == 0) & (rows.clients >= 0) & (length > 0)
        latest, heard = state.latest.copy(), state.heard.copy()
        latest[rows.clients[votes]], heard[rows.clients[votes]] = length[votes], ledger.rounds
        known = latest[(heard != NEVER) & (heard > ledger.rounds - self.window)]
        cut = np.ones(len(length))
        if len(known):
            few = len(known) < min(FIFTH * len(latest), MANY)
            usual = float(known.min() if few else min(np.quantile(known, self.quantile), np.median(length[length > 0])))
            cut = np.minimum(1.0, self.factor * usual / np.maximum(length, 1e-300))
        return np.where(length > 0, cut, 1.0) / len(length), Lengths(latest, heard)
