"""Two-state Markov chains (CA-Fed: Rodio, Faticanti, Marfoq, Neglia, Leonardi, INFOCOM 2023): clients stay as they are.

    P(on | on) = nu + (1 - nu) pi,    P(on | off) = (1 - nu) pi

pi is the stationary rate and nu the correlation of one round with the next (the second eigenvalue): nu = 0 is
Bernoulli. The chains start stationary, so every round has the same rates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.availability.rates import check_bounds, check_size, uniform_rates
from fedparity.core.checks import at_least, between
from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import FloatArray


@dataclass(frozen=True, slots=True)
class Markov:
    """On-off Markov chains with stationary rate pi and correlation nu from round to round."""

    pi: float | None = None
    """Rate of all clients; none: one per client, uniform between `low` and `high`."""
    nu: float = 0.8
    """Correlation of one round with the next; 0 is a coin per round, closer to 1 gives longer sessions and absences."""
    low: float = 0.2
    """Lowest rate (share of rounds online) that a client can draw."""
    high: float = 1.0
    """Highest rate (share of rounds online) that a client can draw."""
    reference: ClassVar[str] = "CA-Fed: Rodio et al., INFOCOM 2023, arXiv 2301.04632"

    def __post_init__(self) -> None:
        if self.pi is not None:
            between("pi", self.pi, 0, 1)
        between("nu", self.nu, 0, 1)
        check_bounds(self.low, self.high)

    def client_rates(self, num_clients: int, seed: int) -> FloatArray:
        """How often each client is online in the long run."""
        at_least("clients", num_clients, 1)
        if self.pi is not None:
            return np.full(num_clients, self.pi)
        return uniform_rates(num_clients, self.low, self.high, seed)

    def draw(self, num_clients: int, rounds: int, seed: int) -> Trace:
        """One realisation for `num_clients` clients over `rounds` rounds."""
        check_size(num_clients, rounds)
        rate = self.client_rates(num_clients, seed)
        appear = (1 - self.nu) * rate
        online = stream(seed, "availability", 0).random(num_clients) < rate
        ids = [np.flatnonzero(online).astype(np.int32)]
        for t in range(1, rounds):
            online = stream(seed, "availability", t).random(num_clients) < np.where(online, self.nu + appear, appear)
            ids.append(np.flatnonzero(online).astype(np.int32))
        return Trace.from_rounds(num_clients, ids)
