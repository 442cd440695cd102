"""What asking a client now is expected to gain: the population's recent gain times the client's own relative one.

    g_k = G rho_k          G: mean credit of the last rounds (half-life `HALF_LIFE`); for clients not yet credited, that
                           of the last first credits, if it is higher
    rho_k = (kappa + sum of y) / (kappa + number of y)          y: a credit / G at its time, at most `LARGEST`

How much of rho_k is the client's own and how much is luck or timing follows from an analysis of variance of the y, one
class per client: `explained` e is the share of their variance that the client explains, and kappa = (1 - e) / e. No
figure is set for a population: nothing credited means unit gains, and a client of which nothing is known has rho_k = 1.

A credit counts as known if the utility rule knows the client's loss. Slots without a known credit (of a client that
failed, or that reports no loss) are charged at the mean of all known credits, so that silence attracts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedparity.core.ledger import Ledger
from fedparity.core.marks import PER_CLIENT
from fedparity.core.types import FloatArray, Ids

HALF_LIFE = 10.0
LARGEST = 5.0
ENOUGH = 10
"""Credits beyond the first of each client before the analysis of variance says anything."""
MOST_OWN = 2 / 3
"""Of rho_k: one credit never counts for more than two of an unknown client."""
RIPE, DOUBTFUL, SURE = 2, 0.55, 0.65
"""Credits per client, and shares of variance, between which gains come to be taken for the clients' own."""


@dataclass(slots=True)
class Mean:
    """A fading mean."""

    total: float = 0.0
    weight: float = 0.0

    def add(self, values: FloatArray, fade: float, weight: float | None = None) -> None:
        """Take in some values, of weight 1 each or `weight` in all, after the older ones have faded."""
        self.total = self.total * fade + float(values.sum())
        self.weight = self.weight * fade + (len(values) if weight is None else weight)

    def value(self) -> float:
        """The mean; 0 without values."""
        return self.total / self.weight if self.weight else 0.0


@dataclass(slots=True)
class Gains:
    """What was credited, per client and over all."""

    taken: FloatArray = field(metadata=PER_CLIENT)
    """Utility of each client that has been taken in."""
    relative: FloatArray = field(metadata=PER_CLIENT)
    """Sum of each client's y."""
    times: NDArray[np.int32] = field(metadata=PER_CLIENT)
    """How many y each client has."""
    recent: Mean
    first: Mean
    ever: Mean
    clients: int
    """How many clients have a y."""
    number: int
    """How many y there are."""
    sum: float
    squares: float
    between: float
    """Sum over clients of (sum of y)^2 / number."""
    imbalance: float
    """Sum over clients of number^2."""

    @classmethod
    def none(cls, num_clients: int) -> Gains:
        """Nothing was credited."""
        zeros, times = np.zeros, np.zeros(num_clients, np.int32)
        return cls(zeros(num_clients), zeros(num_clients), times, Mean(), Mean(), Mean(), 0, 0, 0.0, 0.0, 0.0, 0.0)

    def learn(self, clients: Ids, ledger: Ledger) -> None:
        """Take in the credits of a round."""
        credit = np.maximum(ledger.utility[clients] - self.taken[clients], 0.0)
        self.taken[clients] = ledger.utility[clients]
        known = np.isfinite(ledger.loss[clients]) & np.isfinite(credit)
        clients, credit = clients[known], credit[known]
        if not len(clients):
            return
        new = self.times[clients] == 0
        # Who was asked changes from round to round: G is the gain of a client with rho = 1.
        self.recent.add(credit, 0.5 ** (1 / HALF_LIFE), float(self._own(clients).sum()))
        self.first.add(credit[new], 0.5 ** (np.count_nonzero(new) / HALF_LIFE))
        self.ever.add(credit, 1.0)
        usual = self.recent.value()
        if usual > 0:
            self._compare(clients, np.minimum(credit / usual, LARGEST))

    def _compare(self, clients: Ids, y: FloatArray) -> None:
        times, total = self.times[clients], self.relative[clients]
        self.between += float(((total + y) ** 2 / (times + 1) - total**2 / np.maximum(times, 1)).sum())
        self.imbalance += float((2 * times + 1).sum())
        self.clients += int(np.count_nonzero(times == 0))
        self.number += len(y)
        self.sum += float(y.sum())
        self.squares += float((y * y).sum())
        self.relative[clients] += y
        self.times[clients] += 1

    def explained(self) -> float:
        """e: the share of the variance of relative gains that the client explains."""
        n, k = self.number, self.clients
        if k < 2 or n - k < ENOUGH:
            return 0.0
        within = max((self.squares - self.between) / (n - k), 1e-12)
        among = (self.between - self.sum**2 / n) / (k - 1)
        excess = max((among - within) * (k - 1) / (n - self.imbalance / n), 0.0)
        return excess / (excess + within)

    def own(self) -> float:
        """From 0, gains are luck and timing, to 1, they are the client's own and last."""
        if self.number < RIPE * self.clients:
            return 0.0
        return min(max((self.explained() - DOUBTFUL) / (SURE - DOUBTFUL), 0.0), 1.0)

    def spread(self) -> float:
        """Squared coefficient of variation of relative gains."""
        return max(self.squares * self.number / self.sum**2 - 1, 0.0) if self.sum > 0 else 0.0

    def expected(self, clients: Ids) -> tuple[FloatArray, FloatArray]:
        """The gain that asking each client now is expected to have, and the same relative to the usual."""
        usual = self.recent.value()
        relative = np.where(self.times[clients] > 0, self._own(clients), max(1.0, self.first.value() / usual))
        return usual * relative, relative

    def _own(self, clients: Ids) -> FloatArray:
        e = min(self.explained(), MOST_OWN)
        return np.asarray((1 - e + e * self.relative[clients]) / (1 - e + e * self.times[clients]), dtype=np.float64)

    def given(self, clients: Ids, ledger: Ledger) -> FloatArray:
        """What each client has got: its credits, and the mean credit for each slot of which none is known."""
        unknown = np.maximum(ledger.selected[clients] - self.times[clients], 0)
        return np.asarray(ledger.utility[clients] + unknown * self.ever.value(), dtype=np.float64)
