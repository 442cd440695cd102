"""AFL, agnostic federated learning (Mohri, Sivek, Suresh, ICML 2019): weights that chase the worst mixture of clients.

    lambda <- lambda e^(rate F) / sum                                    form = "exponentiated" (as in FedJAX)
    lambda <- projection onto the simplex of (lambda + rate F)           form = "projected", the paper's
    w <- w + sum_k lambda_k delta_k

The paper assumes everybody every round and has no rule for partial participation: here F_k moves the lambda of those
that took part, and the step uses lambda renormalised over them. The exponentiated form is the default, since a
projected step among many clients pushes most of lambda to 0 for good: with a small cohort nobody that comes has any,
and the step falls back to the plain mean. Such fallbacks are counted in the state, and noted in the round's record.
`unbiased` divides F_k by the chance to take part, so that clients seldom seen do not lose lambda by renormalisation;
where chances are small it needs a small rate.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.marks import PER_CLIENT
from fedparity.core.protocols import Weighting
from fedparity.core.types import FloatArray, ReportField, Rows
from fedparity.weightings.losses import losses_of

FALLBACK = "weighed everybody alike, since nobody that came had any weight"


def project_to_simplex(y: FloatArray) -> FloatArray:
    """The nearest point with entries of at least 0 that sum to 1 (Duchi et al., ICML 2008)."""
    y = y - y.max()  # the same point, and no rounding takes away the 1 that is shared out
    u = np.sort(y)[::-1]
    shift = (1 - np.cumsum(u)) / np.arange(1, len(u) + 1)
    return np.asarray(np.maximum(y + shift[np.flatnonzero(u + shift > 0)[-1]], 0.0), dtype=np.float64)


@dataclass(slots=True)
class Mixture:
    """Lambda, and in how many rounds nobody that came had any of it."""

    lam: FloatArray = field(metadata=PER_CLIENT)
    fallbacks: int = 0


@dataclass(frozen=True, slots=True)
class Agnostic(Weighting[Mixture]):
    """Mixture weights that move towards whoever loses most (AFL)."""

    rate: float = 0.1
    """Step length of the mixture weights per round; higher moves faster towards the worst-off clients."""
    form: Literal["exponentiated", "projected"] = "exponentiated"
    """How the weights stay a mixture: by exponentiated gradient, or projected onto the simplex."""
    unbiased: bool = False
    """Whether losses are divided by the chance to take part, so that clients seldom seen do not lose weight."""
    report_fields: ClassVar[tuple[ReportField, ...]] = ("loss_before",)
    reference: ClassVar[str] = "Mohri et al., Agnostic Federated Learning, ICML 2019"

    def __post_init__(self) -> None:
        checks.positive("rate", self.rate)

    def init(self, num_clients: int) -> Mixture:
        """Lambda, uniform."""
        return Mixture(np.full(num_clients, 1 / num_clients))

    def grow(self, state: Mixture, num_clients: int) -> Mixture:
        """Newcomers get the share they would have at the start, from everybody alike: lambda stays a mixture."""
        new = np.full(num_clients, 1 / num_clients)
        new[: len(state.lam)] = state.lam * (len(state.lam) / num_clients)
        return replace(state, lam=new)

    def notes(self, state: Mixture, rows: Rows) -> tuple[str, ...]:
        """That all count the same, since nobody that came has any weight."""
        return (FALLBACK,) if len(rows.clients) and not state.lam[rows.clients].sum() > 0 else ()

    def weigh(self, state: Mixture, rows: Rows, ledger: Ledger) -> tuple[FloatArray, Mixture]:
        """Lambda over those that came; then one step of lambda."""
        if not len(rows.clients):
            return np.empty(0), state
        here = state.lam[rows.clients]
        if here.sum() > 0:
            weights = here / here.sum()
        else:
            weights = np.full(len(here), 1 / len(here))
            state.fallbacks += 1
        push = np.zeros(len(state.lam))
        push[rows.clients] = self.rate * losses_of(rows)
        if self.unbiased:
            online = (ledger.online[rows.clients] + 1) / (ledger.rounds + 1)
            push[rows.clients] /= np.maximum(rows.probs * online, 1e-9)
        if self.form == "projected":
            state.lam = project_to_simplex(state.lam + push)
        else:
            # Relative to the most of those that have any weight: at any rate one of them keeps some.
            push = np.where(state.lam > 0, push, -np.inf)
            grown = state.lam * np.exp(push - push.max())
            state.lam = np.asarray(grown / grown.sum(), dtype=np.float64)
        return weights, state
