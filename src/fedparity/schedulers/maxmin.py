"""Max-min rates (Behfar and Mortier, Lemma 2 in the form of their later code, 050d8ca: `oracle_maxmin`).

    rate_k = tau / mu_k,    tau = min(min_k mu_k, m / sum_k (pi_k / mu_k))        asked with chance rate_k when online

mu_k is what one participation of k is worth on average: with these rates E[u_k / pi_k] is tau for everybody. Nobody
knows mu; it is given, so this is a yardstick. As in that code the rates of those that are there are water-filled to the
cohort's size and drawn by the pivotal method, so that only their ratios count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.protocols import CUP, Scheduler
from fedparity.core.types import Cohort, FloatArray, RoundView
from fedparity.schedulers.draws import pivotal


def maxmin_rates(pi: FloatArray, mu: FloatArray, budget: float) -> FloatArray:
    """Tau / mu_k of every client, for `budget` slots a round."""
    tau = min(float(mu.min()), budget / float((pi / mu).sum()))
    return np.asarray(tau / mu, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class OracleMaxMin(Scheduler[None]):
    """Chance proportional to 1 / what a participation is worth, which must be known (max-min rates)."""

    mu: tuple[float, ...] = (1.0,)
    """Worth of one participation: one number for all clients, or one per client; higher is asked less."""
    reference: ClassVar[str] = CUP

    def __post_init__(self) -> None:
        for value in self.mu:
            checks.positive("mu", value)

    def init(self, num_clients: int) -> None:
        """No memory."""
        if len(self.mu) not in (1, num_clients):
            raise ConfigError(f"mu has {len(self.mu)} numbers but there are {num_clients} clients; give 1 or all")

    def select(self, state: None, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, None]:
        """Draw by the rates of those that are there."""
        mu = np.broadcast_to(np.array(self.mu), (view.ledger.num_clients,))[view.available]
        rates = maxmin_rates(view.pi, mu, view.cohort) if len(mu) else mu
        return pivotal(view.available, rates, view.cohort, rng), state
