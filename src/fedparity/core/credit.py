"""What a round was worth to whom: the utility rule, asked for participants alone or for everybody."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fedparity.core.errors import RoundError
from fedparity.core.protocols import Evaluate, Utility
from fedparity.core.state import State
from fedparity.core.types import NO_FLOATS, ClientReport, Credit, FloatArray, Ids, Vector


class Worth(NamedTuple):
    """Utility and last known loss of the participants, and what the others are credited with."""

    utility: FloatArray
    loss: FloatArray
    others: Credit


def credit(
    rule: Utility[Any], state: State, used: list[ClientReport], before: Vector, evaluate: Evaluate | None
) -> Worth:
    """Credit a round that began with the model `before` and ended with that of the state."""
    completed = np.array([r.client for r in used], dtype=np.int64)
    if rule.credits_all:
        return _everybody(rule, state, completed, before, evaluate)
    if not used:
        return Worth(NO_FLOATS, NO_FLOATS, Credit())
    evals = None
    if rule.needs_evaluation and evaluate is not None:
        evals = evaluate(state.params, completed)
    utility, loss, state.utility = rule.credit(state.utility, used, state.ledger, evals)
    return Worth(utility, np.where(np.isfinite(loss), loss, np.nan), Credit())  # a diverged model has no known loss


def _everybody(rule: Utility[Any], state: State, completed: Ids, before: Vector, evaluate: Evaluate | None) -> Worth:
    if evaluate is None:
        raise RoundError("a utility rule that credits all clients needs models evaluated; pass evaluate= to absorb")
    everybody = np.arange(state.ledger.num_clients)
    gained, state.utility = rule.credit_all(
        state.utility, lambda params: evaluate(params, everybody), before, state.params
    )
    rest = gained.copy()
    rest[completed] = 0.0
    others = np.flatnonzero(rest)
    return Worth(gained[completed], np.full(len(completed), np.nan), Credit(others, rest[others]))
