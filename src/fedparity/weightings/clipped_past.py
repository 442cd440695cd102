"""The mean of updates cut to what was usual over past rounds: robustness that remembers.

    1/m min(1, factor B / |delta_k|)        B = median over the last `window` rounds of each round's median length

`clipped` looks at one round alone, so whoever holds that round says what is usual. Here a round can be held without
that: B moves only with half of the rounds. A round's own median counts if it is lower. Before the second round B is
that of the round itself. The sign of an update is not looked at: a round that is held still takes one step of the usual
length in the wrong direction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Weighting
from fedparity.core.rows import squared_lengths
from fedparity.core.types import FloatArray, Rows


@dataclass(slots=True)
class Lengths:
    """The median length of each of the last rounds, oldest first; NaN: there was no such round."""

    medians: FloatArray


@dataclass(frozen=True, slots=True)
class ClippedPast(Weighting[Lengths]):
    """The mean of updates cut to the median length of past rounds."""

    factor: float = 1.0
    """Longest update kept as it is, in usual lengths; lower shortens more of them."""
    window: int = 50
    """Rounds that say what is usual; more are harder to sway and slower to follow."""

    def __post_init__(self) -> None:
        checks.positive("factor", self.factor)
        checks.at_least("window", self.window, 1, 1_000_000)

    def init(self, num_clients: int) -> Lengths:
        """No round was seen."""
        return Lengths(np.full(self.window, np.nan))

    def weigh(self, state: Lengths, rows: Rows, ledger: Ledger) -> tuple[FloatArray, Lengths]:
        """1/m, less for longer updates."""
        if not len(rows.clients):
            return np.empty(0), state
        length = np.sqrt(squared_lengths(rows.deltas))
        here = float(np.median(length))
        past = state.medians[~np.isnan(state.medians)]
        usual = min(here, float(np.median(past))) if len(past) else here
        cut = np.minimum(1.0, self.factor * usual / np.maximum(length, 1e-300))
        return np.where(length > 0, cut, 1.0) / len(length), Lengths(np.append(state.medians[1:], here))
