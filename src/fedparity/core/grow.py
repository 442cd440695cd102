"""A state for more clients than it was made for: their entries are as in a fresh one, everybody else's stay.

Which arrays have one entry per client is marked where they are declared (`marks`), so that this works for every
component, and for own ones. A component that keeps more of the number of clients than that (`Grows`) does it itself.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from fedparity.core.marks import ENTRIES, MARK

S = TypeVar("S")


@runtime_checkable
class Grows(Protocol[S]):
    """A component whose memory holds more of the number of clients than one entry each, such as shares of 1."""

    def grow(self, state: S, num_clients: int) -> S:
        """The state for more clients, of which nothing is known yet."""
        ...


def grown(part: Any, fresh: Any, mark: str | None = None) -> Any:
    """A part of a state, laid over the same part of a fresh one for more clients."""
    if isinstance(part, np.ndarray):
        if mark != ENTRIES or not isinstance(fresh, np.ndarray):
            return part
        longer = fresh.astype(part.dtype, copy=True)
        longer[: len(part)] = part
        return longer
    if is_dataclass(part) and not isinstance(part, type):
        return replace(
            part,
            **{
                f.name: grown(getattr(part, f.name), getattr(fresh, f.name, None), f.metadata.get(MARK))
                for f in fields(part)
            },
        )
    return part
