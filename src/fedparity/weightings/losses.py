"""Losses that a rule weighs by, whatever clients report."""

from __future__ import annotations

import numpy as np

from fedparity.core.types import FloatArray, Rows


def losses_of(rows: Rows) -> FloatArray:
    """The loss of the model each client received; a client that reports none counts as the mean of those that do.

    A missing number must not end a round, nor move a client's weight away from the others'.
    """
    known = rows.losses[~np.isnan(rows.losses)]
    usual = float(known.mean()) if len(known) else 1.0
    return np.maximum(np.where(np.isnan(rows.losses), usual, rows.losses), 0.0)
