"""F3AST (Ribero, Vikalo, de Veciana, IEEE JSTSP 2023, arXiv 2205.06730): whose participation is worth most in variance.

    r_k <- (1 - beta) r_k + beta 1[k asked]            how often k takes part, learnt as it goes; starts at p_k
    the M available clients with the largest  -d/dr_k (sum_j p_j^2 / r_j) = p_k^2 / r_k^2

p_k is the share of all samples if clients have said what they hold, else 1/N. The released code fills a thin round with
clients that are not there (their score is 0) and uses beta = .01; we ask only who is there, and keep the paper's .001.
The weights p_k / r_k of its aggregation are not part of this rule. Ties are drawn by lot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedparity.core import checks
from fedparity.core.protocols import Scheduler
from fedparity.core.types import Cohort, FloatArray, RoundView
from fedparity.schedulers.draws import lowest, shares

TINY = 1e-100
"""Where a rate that fades for ever would reach 0."""


def priority(p: FloatArray, r: FloatArray) -> FloatArray:
    """p^2 / r^2: by how much the variance falls with a little more of each client."""
    return np.asarray((p / np.maximum(r, TINY)) ** 2)


@dataclass(frozen=True, slots=True)
class F3ast(Scheduler[FloatArray]):
    """The largest (objective weight / participation rate) first (F3AST)."""

    beta: float = 0.001
    """Weight of the newest round in a client's rate of taking part; higher forgets faster."""
    reference: ClassVar[str] = (
        "Ribero et al., Federated Learning under Intermittent Client Availability and Time-Varying Communication"
        " Constraints, IEEE JSTSP 2023"
    )

    def __post_init__(self) -> None:
        checks.positive("beta", self.beta)
        checks.between("beta", self.beta, 0, 1)

    def init(self, num_clients: int) -> FloatArray:
        """r_k; NaN stands for the p_k that it starts with."""
        return np.full(num_clients, np.nan)

    def select(self, state: FloatArray, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, FloatArray]:
        """The largest p^2 / r^2 among the available; then every rate moves on."""
        p, ids = shares(view), view.available
        r = np.where(np.isnan(state), p, state)
        cohort = lowest(ids, -priority(p[ids], r[ids]), view.cohort, rng)
        r *= 1 - self.beta
        r[cohort.clients] += self.beta
        return cohort, r
