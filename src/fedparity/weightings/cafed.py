"""CA-Fed (Rodio, Faticanti, Marfoq, Neglia, Leonardi, INFOCOM 2023): clients that bias less than they cost are dropped.

    every client a 2-state chain with availability pi_k and second eigenvalue nu_k = P(on|on) - P(on|off)
    q_k = alpha_k / pi_k,  effective p_k ~ pi_k q_k;   score = sum p_k gap_k + kappa max gap d_TV(alpha, p)^2
    q_k <- 0 if that lowers the score by at least tau: by descending |nu|, then by ascending pi
    w <- w + sum of q_k delta_k over those that came; not renormalised

With exclusion set K, p is alpha renormalised on K and d_TV = 1 - alpha(K). gap_k = F_k - F_k*, F_k a moving average of
the loss received (smooth = 0: the last), F_k* = 0; those without a loss count as the mean of the others. pi and nu are
estimated from who was online in earlier rounds with Beta(1, 1) priors (the authors' prior is built from the truth).
Where not everybody online is asked, q_k is also divided by the chance of being asked. It drops rare, hard clients *by
design*: a contrast, not a fair method.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.ledger import Ledger
from fedparity.core.marks import PER_CLIENT
from fedparity.core.types import BoolArray, FloatArray, Rows
from fedparity.weightings.losses import losses_of


@dataclass(slots=True)
class Chains:
    """How often each client went from off (0) or on (1) to off or on, where it was, and its mean loss."""

    moves: NDArray[np.int32] = field(metadata=PER_CLIENT)
    was: NDArray[np.int8] = field(metadata=PER_CLIENT)
    loss: FloatArray = field(metadata=PER_CLIENT)


def score(kept: BoolArray, alpha: FloatArray, gaps: FloatArray, kappa: float = 1.0) -> float:
    """Error of training with the kept clients alone: their mean gap, and what leaving others out biases."""
    share = float(alpha[kept].sum())
    return float(alpha[kept] @ gaps[kept]) / share + kappa * float(gaps.max()) * (1 - share) ** 2


def keep(
    alpha: FloatArray, pi: FloatArray, nu: FloatArray, gaps: FloatArray, *, kappa: float = 1.0, tau: float = 0.0
) -> BoolArray:
    """Who is not left out; the last one always stays."""
    kept = np.ones(len(alpha), dtype=np.bool_)
    best = score(kept, alpha, gaps, kappa)
    for order in (np.argsort(-np.abs(nu), kind="stable"), np.argsort(pi, kind="stable")):
        for k in order.tolist():
            if not kept[k] or kept.sum() == 1:
                continue
            kept[k] = False
            without = score(kept, alpha, gaps, kappa)
            if without < best and best - without >= tau:
                best = without
            else:
                kept[k] = True
    return kept


@dataclass(frozen=True, slots=True)
class CaFed:
    """Inverse availability, without the clients whose absence lowers an error bound (CA-Fed)."""

    kappa: float = 1.0
    tau: float = 0.0
    smooth: float = 0.0
    """How much of a client's earlier mean loss stays."""
    report_fields: ClassVar[tuple[str, ...]] = ("loss_before",)
    reference: ClassVar[str] = "Rodio et al., Federated Learning under Heterogeneous and Correlated Client Availability"

    def __post_init__(self) -> None:
        checks.not_negative("kappa", self.kappa)
        checks.not_negative("tau", self.tau)
        checks.between("smooth", self.smooth, 0, 1)

    def init(self, num_clients: int) -> Chains:
        """Nothing was seen."""
        n = num_clients
        return Chains(np.zeros((n, 2, 2), np.int32), np.full(n, -1, np.int8), np.full(n, np.nan))

    def weigh(self, state: Chains, rows: Rows, ledger: Ledger) -> tuple[FloatArray, Chains]:
        """alpha/pi of those that came and are not left out; a stale row counts nothing."""
        self._observe(state, ledger)
        fresh = rows.ages == 0
        here, found = rows.clients[fresh], losses_of(rows)[fresh]
        old = state.loss[here]
        state.loss[here] = np.where(np.isnan(old), found, self.smooth * old + (1 - self.smooth) * found)
        if not len(here):
            return np.zeros(len(fresh)), state
        alpha = np.full(ledger.num_clients, 1 / ledger.num_clients)
        pi = (ledger.online + 1) / (ledger.rounds + 2)
        on = (state.moves[:, :, 1] + 1) / (state.moves.sum(axis=2) + 2)
        gaps = np.where(np.isnan(state.loss), np.nanmean(state.loss), state.loss)
        kept = keep(alpha, pi, on[:, 1] - on[:, 0], gaps, kappa=self.kappa, tau=self.tau)
        q = alpha[rows.clients] / (pi[rows.clients] * np.maximum(rows.probs, 1e-9))
        return np.where(fresh & kept[rows.clients], q, 0.0), state

    @staticmethod
    def _observe(state: Chains, ledger: Ledger) -> None:
        """Who was online in the last recorded round, and where each came from."""
        if ledger.rounds:
            now = (ledger.last_online == ledger.rounds - 1).astype(np.int8)
            known = np.flatnonzero(state.was >= 0)
            state.moves[known, state.was[known], now[known]] += 1
            state.was = now
