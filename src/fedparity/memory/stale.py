"""What memories share: what is kept of each client, and rows put into order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from fedparity.core.marks import PER_CLIENT
from fedparity.core.types import FloatArray, Ids, Rows, Vector

NOBODY = -1
"""The client of what is not one client's."""


@dataclass(slots=True)
class Kept:
    """A vector of every client seen, replaced and never changed, and what its report said."""

    kept: dict[int, Vector] = field(metadata=PER_CLIENT)
    sizes: FloatArray = field(metadata=PER_CLIENT)
    losses: FloatArray = field(metadata=PER_CLIENT)
    rates: FloatArray = field(metadata=PER_CLIENT)
    """What the client's learning rate was multiplied by."""
    rate: float = 1.0
    """The same in the round that is under way."""

    @classmethod
    def empty(cls, num_clients: int) -> Self:
        """Nobody was seen."""
        return cls({}, np.zeros(num_clients), np.full(num_clients, np.nan), np.ones(num_clients))


def with_stale(  # noqa: PLR0917 - each is a column
    rows: Rows, state: Kept, clients: Ids, deltas: Sequence[Vector], ages: Ids, rates: FloatArray | None = None
) -> Rows:
    """Rows in client order, a fresh one before a stale one; a stale row's inclusion probability counts as 1.

    `rates` are those of the stale rows; None: they are of this round.
    """
    if not len(clients):
        return rows
    ids, age = np.concatenate([rows.clients, clients]), np.concatenate([rows.ages, ages])
    order = np.lexsort((age, ids))
    everything = [*rows.deltas, *deltas]
    return replace(
        rows,
        clients=ids[order],
        deltas=[everything[i] for i in order],
        ages=age[order],
        sizes=np.concatenate([rows.sizes, state.sizes[clients]])[order],
        losses=np.concatenate([rows.losses, state.losses[clients]])[order],
        probs=np.concatenate([rows.probs, np.ones(len(clients))])[order],
        rates=None if rates is None else np.concatenate([np.full(len(rows.clients), rows.rate), rates])[order],
    )
