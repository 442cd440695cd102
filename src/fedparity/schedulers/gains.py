"""What asking a client now is expected to gain: the population's recent gain times the client's own relative one.

    g_k = G rho_k          G: mean credit of the last rounds (half-life `HALF_LIFE`); for clients not yet credited, that
                           of the last first credits, if it is higher
    rho_k = (kappa + sum of y) / (kappa + number of y)          y: a credit / G at its time, at most `LARGEST`

How much of rho_k is the client's own and how much is luck or timing follows from an analysis of variance of the y, one
class per client: `explained` e is the share of their variance that the client explains, and kappa = (1 - e) / e. No
figure is set for a population: nothing credited means unit gains, and a client of which nothing is known has rho_k = 1.

**Outstanding** is what the next credit may be. Where utility is a drop of loss since the last credit, it waits for its
client: one that was asked early and stayed away since gets all that the model has learned in one credit, long after G
has fallen. How much of a last known loss the next credit is, is learned: a line through the recent pairs of both, of
slope 0 where the one says nothing about the other. A client not yet credited will get a first credit and then leave
something outstanding: both are counted.

**Skew** is the mean loss after a round over clients, each counted 1 / pi_k, over the mean over participations: 1 if who
is rare fares like everybody else, above 1 if availability tells the data.

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
PAIRS = 3
"""Credits with a loss known before them that make a line."""
MOST_OWN = 2 / 3
"""Of rho_k: one credit never counts for more than two of an unknown client."""
URGENT, MOST_URGENT = 1.5, 2.0
"""How much, and at most how many times, what waits for a client counts beside its usual gain."""
RIPE, DOUBTFUL, SURE = 5, 0.55, 0.65
"""Credits per client, and shares of variance, between which gains come to be taken for the clients' own."""
LEARNED, OFTEN = (0.3, 0.6), (4.0, 8.0)
"""Shares learned, or credits per client, between which who is left behind would have been seen."""


def ramp(value: float, none: float, whole: float) -> float:
    """From 0 at `none` to 1 at `whole`, in a straight line."""
    return min(max((value - none) / (whole - none), 0.0), 1.0)


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
class Line:
    """A fading regression of y on x, its slope between 0 and 1."""

    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0

    def add(self, x: FloatArray, y: FloatArray, fade: float) -> None:
        """Take in some pairs, after the older ones have faded."""
        self.weight = self.weight * fade + len(x)
        self.x = self.x * fade + float(x.sum())
        self.y = self.y * fade + float(y.sum())
        self.xx = self.xx * fade + float((x * x).sum())
        self.xy = self.xy * fade + float((x * y).sum())

    def at(self, x: FloatArray) -> FloatArray:
        """The line at `x`, not below 0; 0 before there are pairs enough."""
        if self.weight < PAIRS:
            return np.zeros(len(x))
        mean, height = self.x / self.weight, self.y / self.weight
        spread = self.xx / self.weight - mean**2
        slope = (self.xy / self.weight - mean * height) / spread if spread > 1e-12 else 0.0
        return np.maximum(height + min(max(slope, 0.0), 1.0) * (x - mean), 0.0)


@dataclass(slots=True)
class Gains:
    """What was credited, per client and over all."""

    taken: FloatArray = field(metadata=PER_CLIENT)
    """Utility of each client that has been taken in."""
    relative: FloatArray = field(metadata=PER_CLIENT)
    """Sum of each client's y."""
    times: NDArray[np.int32] = field(metadata=PER_CLIENT)
    """How many y each client has."""
    loss: FloatArray = field(metadata=PER_CLIENT)
    """Each client's last known loss; NaN before the first."""
    recent: Mean
    first: Mean
    ever: Mean
    next: Line
    """Credit over the loss known before."""
    lately: Mean
    """Loss after the round, of each participation."""
    start: Mean
    """What each client lost before its first credit."""
    evenly: Mean
    """The same, each client counted 1 / pi_k."""
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
        zeros, times, unknown = np.zeros, np.zeros(num_clients, np.int32), np.full(num_clients, np.nan)
        means = (Mean(), Mean(), Mean(), Line(), Mean(), Mean(), Mean())
        return cls(zeros(num_clients), zeros(num_clients), times, unknown, *means, 0, 0.0, 0.0, 0.0, 0.0)

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
        self._learn_losses(clients, credit, ledger)
        usual = self.recent.value()
        if usual > 0:
            self._compare(clients, np.minimum(credit / usual, LARGEST))

    def _learn_losses(self, clients: Ids, credit: FloatArray, ledger: Ledger) -> None:
        fade, before, now = 0.5 ** (1 / HALF_LIFE), self.loss[clients], ledger.loss[clients]
        again = ~np.isnan(before)
        self.next.add(before[again], credit[again], fade)
        rarity = ledger.rounds / ledger.online[clients]
        self.lately.add(now, fade)
        self.start.add(now[~again] + credit[~again], 1.0)
        self.evenly.add(now * rarity, fade, float(rarity.sum()))
        self.loss[clients] = now

    def _compare(self, clients: Ids, y: FloatArray) -> None:
        times, total = self.times[clients], self.relative[clients]
        self.between += float(((total + y) ** 2 / (times + 1) - total**2 / np.maximum(times, 1)).sum())
        self.imbalance += float((2 * times + 1).sum())
        self.number += len(y)
        self.sum += float(y.sum())
        self.squares += float((y * y).sum())
        self.relative[clients] += y
        self.times[clients] += 1

    @property
    def clients(self) -> int:
        """How many clients have a y."""
        return int(np.count_nonzero(self.times))

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
        ripe = self.number >= RIPE * self.clients
        return ramp(self.explained(), DOUBTFUL, SURE) if ripe else 0.0

    def spread(self) -> float:
        """Squared coefficient of variation of relative gains."""
        return max(self.squares * self.number / self.sum**2 - 1, 0.0) if self.sum > 0 else 0.0

    def skew(self) -> float:
        """How much more clients lose, each counted alike, than those that are there; 1 while nothing is known."""
        return self.evenly.value() / self.lately.value() if self.lately.value() > 0 else 1.0

    def seen(self) -> float:
        """From 0, nobody can tell yet who is left behind, to 1: losses have fallen, or everybody was credited often."""
        before = self.start.value()
        learned = 1 - self.lately.value() / before if before > 0 else 0.0
        return max(ramp(learned, *LEARNED), ramp(self.number / max(self.clients, 1), *OFTEN))

    def last_losses(self, clients: Ids) -> FloatArray:
        """What each client lost when it was last heard of; the usual of late, if it never was."""
        return np.nan_to_num(self.loss[clients], nan=self.lately.value())

    def outstanding(self, clients: Ids) -> FloatArray:
        """What each client's loss says that its next credit may be; of one not yet credited, its first two."""
        known = self.loss[clients]
        two = self.first.value() + float(self.next.at(np.array([self.lately.value()]))[0])
        return np.where(np.isnan(known), two, self.next.at(np.nan_to_num(known)))

    def urgency(self, clients: Ids) -> FloatArray:
        """What waits for each client beside its gain, relative to the others, as far as there is loss left to lose."""
        gain, _ = self.expected(clients)
        waiting = np.maximum(gain, self.outstanding(clients)) / gain
        left = min(self.lately.value() / self.start.value(), 1.0) if self.start.value() > 0 else 0.0
        apart = np.clip(waiting / np.median(waiting), 1 / MOST_URGENT, MOST_URGENT)
        return np.asarray(apart ** (URGENT * left), dtype=np.float64)

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
