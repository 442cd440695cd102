"""FairFedCS (Shi, Liu, Shi, Yu, ICME 2023, arXiv 2307.10738): reputation plus a queue for those kept waiting.

    r_k = (a_k + 1) / (a_k + b_k + 2)       a_k: rounds in which k helped, b_k: in which it harmed; both start at 1
    Psi_k = sigma r_k + Q_k                 the m largest are asked

    queue = reputation    Q_k <- max(0, Q_k + (m/N) r_k (1 - x_k) - x_k)      x_k = 1 if k was asked
    queue = share         Q_k <- max(0, Q_k + m/N - x_k)

There is no official code; the two queues are those of two independent re-implementations (the first cites equations 3
and 4). Whether k helped is the sign of its Shapley value among the round's participants on the server's own data:
exact up to `exact` of them, over `orders` random orders beyond (the paper approximates too, by GTG-Shapley). Without
data of the server's own a contribution is unknown, and an unknown contribution counts as help: reputation then only
says how often a client took part. A model that a coalition drives out of the finite numbers has the loss `HUGE`.

The paper knows no absence. `offline=grow` applies its queue to everybody, so that a client comes back with a claim to
be asked; `freeze` stops the queue of those that are not there. Ties are drawn by lot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from fedparity.core import checks
from fedparity.core.marks import PER_CLIENT
from fedparity.core.protocols import Feedback
from fedparity.core.rng import stream
from fedparity.core.shapley import MOST_EXACT, federated_shapley
from fedparity.core.types import BoolArray, Cohort, FloatArray, RoundView, Vector
from fedparity.schedulers.draws import lowest

HUGE = 1e12


@dataclass(slots=True)
class Standing:
    """Rounds in which each client helped (a) and harmed (b), and its queue (Q)."""

    helped: FloatArray = field(metadata=PER_CLIENT)
    harmed: FloatArray = field(metadata=PER_CLIENT)
    queue: FloatArray = field(metadata=PER_CLIENT)

    def reputation(self) -> FloatArray:
        """The mean of Beta(a + 1, b + 1)."""
        return np.asarray((self.helped + 1) / (self.helped + self.harmed + 2), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class FairFedCS:
    """Those that helped before or were kept waiting come first (FairFedCS)."""

    sigma: float = 0.6
    queue: Literal["reputation", "share"] = "reputation"
    offline: Literal["grow", "freeze"] = "grow"
    exact: int = 5
    """Participants up to which Shapley values are exact: 2^exact validations a round."""
    orders: int = 20
    """Random orders beyond that: about that many validations a participant."""
    requires: ClassVar[tuple[str, ...]] = ("validation",)
    reference: ClassVar[str] = "Shi et al., Fairness-Aware Client Selection for Federated Learning, ICME 2023"

    def __post_init__(self) -> None:
        checks.not_negative("sigma", self.sigma)
        checks.between("exact", self.exact, 0, MOST_EXACT)
        checks.at_least("exact", self.exact, 0)
        checks.at_least("orders", self.orders, 1)

    def init(self, num_clients: int) -> Standing:
        """Everybody has reputation 1/2 and an empty queue."""
        return Standing(np.ones(num_clients), np.ones(num_clients), np.zeros(num_clients))

    def select(self, state: Standing, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, Standing]:
        """The largest sigma r + Q; then the queues move on."""
        ids, reputation = view.available, state.reputation()
        index = self.sigma * reputation[ids] + state.queue[ids]
        cohort = lowest(ids, -index, view.cohort, rng)
        asked = np.zeros(len(reputation))
        asked[cohort.clients] = 1
        share = min(1.0, view.cohort / len(reputation))
        grown = share if self.queue == "share" else share * reputation * (1 - asked)
        queue = np.maximum(0, state.queue + grown - asked)
        if self.offline == "freeze":
            state.queue[ids] = queue[ids]
        else:
            state.queue = queue
        return cohort, state

    def learn(self, state: Standing, feedback: Feedback) -> Standing:
        """Count who helped and who harmed."""
        clients = np.array([report.client for report in feedback.reports], dtype=np.int64)
        helped = self._helped(feedback)
        state.helped[clients[helped]] += 1
        state.harmed[clients[~helped]] += 1
        return state

    def _helped(self, feedback: Feedback) -> BoolArray:
        """Whose contribution is at least 0, or unknown."""
        validate, reports = feedback.validate, feedback.reports
        if validate is None or not reports or not math.isfinite(validate(feedback.params)):
            return np.ones(len(reports), dtype=np.bool_)

        def loss(params: Vector) -> float:
            found = validate(params)
            return min(found, HUGE) if math.isfinite(found) else HUGE

        values = federated_shapley(
            feedback.params,
            np.stack([np.asarray(report.delta, dtype=np.float64) for report in reports]),
            loss,
            samples=self.orders,
            rng=stream(0, "contribution", feedback.round),
            limit=self.exact,
        )
        return np.asarray(values >= 0)
