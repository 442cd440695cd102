"""What the models share: rates between two bounds, and rounds drawn from one rate per client.

A round's draw has its own stream, so the first rounds of a long trace are the rounds of a short one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedparity.core.checks import at_least, between
from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import FloatArray


def check_bounds(low: float, high: float) -> None:
    """Refuse rates outside 0 <= low <= high <= 1."""
    between("low", low, 0, 1)
    between("high", high, low, 1)


def check_size(num_clients: int, rounds: int) -> None:
    """Refuse a trace without clients or rounds before anything is drawn."""
    at_least("clients", num_clients, 1)
    at_least("rounds", rounds, 1)


def uniform_rates(num_clients: int, low: float, high: float, seed: int) -> FloatArray:
    """One rate per client, uniform between `low` and `high`."""
    at_least("clients", num_clients, 1)
    return stream(seed, "rates").uniform(low, high, num_clients)


def independent_rounds(num_clients: int, rounds: int, seed: int, rate: Callable[[int], FloatArray]) -> Trace:
    """A trace in which, given the rates of a round, every client flips its own coin."""
    check_size(num_clients, rounds)

    return Trace.from_rounds(
        num_clients,
        (np.flatnonzero(stream(seed, "availability", t).random(num_clients) < rate(t)) for t in range(rounds)),
    )
