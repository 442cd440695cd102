"""AFL, agnostic federated learning (Mohri, Sivek, Suresh, ICML 2019): weights that chase the worst mixture of clients.

    lambda <- projection onto the simplex of (lambda + rate F)           form = "projected"
    lambda <- lambda e^(rate F) / sum                                    form = "exponentiated" (as in FedJAX)
    w <- w + sum_k lambda_k delta_k

The paper assumes everybody every round and has no rule for partial participation. Here F_k of a client that took part
is divided by its chance p_k, so that rarely seen clients do not lose weight by renormalisation; the step uses lambda
renormalised over those that came.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Weighting
from fedparity.core.types import FloatArray, ReportField, Rows
from fedparity.weightings.losses import losses_of


def project_to_simplex(y: FloatArray) -> FloatArray:
    """The nearest point with entries of at least 0 that sum to 1 (Duchi et al., ICML 2008)."""
    u = np.sort(y)[::-1]
    shift = (1 - np.cumsum(u)) / np.arange(1, len(u) + 1)
    return np.asarray(np.maximum(y + shift[np.flatnonzero(u + shift > 0)[-1]], 0.0), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Agnostic(Weighting[FloatArray]):
    """Mixture weights that move towards whoever loses most (AFL)."""

    rate: float = 0.1
    """Step length of the mixture weights per round; higher moves faster towards the worst-off clients."""
    form: Literal["projected", "exponentiated"] = "projected"
    """How the weights stay a mixture: projected onto the simplex, or by exponentiated gradient."""
    report_fields: ClassVar[tuple[ReportField, ...]] = ("loss_before",)
    reference: ClassVar[str] = "Mohri et al., Agnostic Federated Learning, ICML 2019"

    def __post_init__(self) -> None:
        checks.positive("rate", self.rate)

    def init(self, num_clients: int) -> FloatArray:
        """Lambda, uniform."""
        return np.full(num_clients, 1 / num_clients)

    def grow(self, state: FloatArray, num_clients: int) -> FloatArray:
        """Newcomers get the share they would have at the start, from everybody alike: lambda stays a mixture."""
        new = np.full(num_clients, 1 / num_clients)
        new[: len(state)] = state * (len(state) / num_clients)
        return new

    def weigh(self, state: FloatArray, rows: Rows, ledger: Ledger) -> tuple[FloatArray, FloatArray]:
        """Lambda over those that came; then one step of lambda."""
        if not len(rows.clients):
            return np.empty(0), state
        here = state[rows.clients]
        weights = here / here.sum() if here.sum() > 0 else np.full(len(here), 1 / len(here))
        online = (ledger.online[rows.clients] + 1) / (ledger.rounds + 1)
        push = np.zeros(len(state))
        push[rows.clients] = self.rate * losses_of(rows) / np.maximum(rows.probs * online, 1e-9)
        if self.form == "projected":
            return weights, project_to_simplex(state + push)
        grown = state * np.exp(push - push.max())
        return weights, np.asarray(grown / grown.sum(), dtype=np.float64)
