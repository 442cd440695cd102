"""F3AST's weights (Ribero, Vikalo, de Veciana, IEEE JSTSP 2023): objective weight over the learned rate of taking part.

    r_k <- (1 - beta) r_k + beta 1[k in S_t];     w <- w + sum over S of (p_k / r_k) delta_k      with the updated r

Its selection (largest p_k^2 / r_k^2 among the available) is a scheduler's business. The released code divides the sum
by M once more and starts from r = p, which sums to 1: as r grows to its true sum M, the step shrinks by up to M. `code`
does both; otherwise r starts from m p, with m the size of the first round that had anybody, so that the first steps are
means. p_k is the share of all samples if clients have said what they hold, else 1/N, as in the selection: one p for
both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.ledger import Ledger
from fedparity.core.marks import PER_CLIENT
from fedparity.core.protocols import Weighting
from fedparity.core.types import FloatArray, Rows


@dataclass(slots=True)
class Rates:
    """r_k, and whether anybody has taken part."""

    r: FloatArray = field(metadata=PER_CLIENT)
    started: bool = False


@dataclass(frozen=True, slots=True)
class F3ast(Weighting[Rates]):
    """An update counts its objective weight over how often its client takes part, learned (F3AST)."""

    beta: float = 0.001
    """Weight of the newest round in a client's rate of taking part; higher forgets faster."""
    code: bool = False
    """Whether to do as the released code: divide by the number of participants once more, and start r from p."""
    p: tuple[float, ...] | None = None
    """Objective weights, one per client, summing to 1; higher counts more; none: shares of all samples, or equal."""
    reference: ClassVar[str] = "Ribero et al., Federated Learning under Intermittent Client Availability, JSTSP 2023"

    def __post_init__(self) -> None:
        checks.between("beta", self.beta, 1e-9, 1)
        for value in self.p or ():
            checks.positive("p", value)

    def init(self, num_clients: int) -> Rates:
        """R as it starts in the code."""
        return Rates(self._objective(num_clients, None))

    def _objective(self, num_clients: int, shares: FloatArray | None) -> FloatArray:
        if self.p is None:
            return np.full(num_clients, 1 / num_clients) if shares is None else shares
        if len(self.p) != num_clients:
            raise ConfigError(f"p has {len(self.p)} numbers but there are {num_clients} clients; give one per client")
        return np.array(self.p, dtype=np.float64)

    def grow(self, state: Rates, num_clients: int) -> Rates:
        """Newcomers take part as often as all do on average."""
        usual = float(state.r.mean()) if state.started else 1 / num_clients
        r = np.full(num_clients, usual)
        r[: len(state.r)] = state.r if state.started else usual
        return Rates(r, state.started)

    def weigh(self, state: Rates, rows: Rows, ledger: Ledger) -> tuple[FloatArray, Rates]:
        """p/r of those that are here; a stale row counts nothing."""
        fresh = rows.ages == 0
        m = int(fresh.sum())
        p = self._objective(ledger.num_clients, rows.shares)
        if m and not state.started:
            state.started = True
            state.r = p.copy() if self.code else np.minimum(m * p, 1.0)
        state.r = (1 - self.beta) * state.r
        state.r[rows.clients[fresh]] += self.beta
        weights = np.where(fresh, p[rows.clients] / state.r[rows.clients], 0.0)
        return weights / max(1, m) if self.code else weights, state
