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
    if rule.credits_all:
        completed = np.array([r.client for r in used], dtype=np.int64)
        return _everybody(rule, state, completed, before, evaluate)
    return Worth(*_participants(rule, state, used, evaluate), Credit())


def credit_late(
    rule: Utility[Any], state: State, late: list[ClientReport], evaluate: Evaluate | None
) -> tuple[FloatArray, FloatArray]:
    """Utility and loss of those whose updates came late; a rule that credits all has credited them already."""
    if rule.credits_all:
        return np.zeros(len(late)), np.full(len(late), np.nan)
    return _participants(rule, state, late, evaluate)


def _participants(
    rule: Utility[Any], state: State, used: list[ClientReport], evaluate: Evaluate | None
) -> tuple[FloatArray, FloatArray]:
    if not used:
        return NO_FLOATS, NO_FLOATS
    evals = None
    if rule.needs_evaluation and evaluate is not None:
        evals = evaluate(state.params, np.array([r.client for r in used], dtype=np.int64))
    utility, loss, state.utility = rule.credit(state.utility, used, state.ledger, evals)
    if len(state.params):  # who sends the model back has done nothing, whatever it says that it gained
        idle = [i for i in np.flatnonzero(utility).tolist() if not np.any(used[i].delta)]
        utility = np.where(np.isin(np.arange(len(used)), idle), 0.0, utility)
    return utility, np.where(np.isfinite(loss), loss, np.nan)  # a diverged model has no known loss


def _everybody(rule: Utility[Any], state: State, completed: Ids, before: Vector, evaluate: Evaluate | None) -> Worth:
    if evaluate is None:
        raise RoundError("a utility rule that credits all clients needs models evaluated; pass evaluate= to absorb")
    everybody = np.arange(state.ledger.num_clients)
    gained, state.utility = rule.credit_all(state.utility, lambda w: evaluate(w, everybody), before, state.params)
    rest = gained.copy()
    rest[completed] = 0.0
    others = np.flatnonzero(rest)
    return Worth(gained[completed], np.full(len(completed), np.nan), Credit(others, rest[others]))
