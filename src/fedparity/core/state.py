"""All memory of a run between two rounds, as one value that can be copied, saved and loaded."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fedparity.core import checks, tree
from fedparity.core.errors import RoundError
from fedparity.core.ledger import Ledger
from fedparity.core.marks import PER_CLIENT
from fedparity.core.types import ClientReport, RoundPlan, Vector

if TYPE_CHECKING:
    from fedparity.core.coordinator import Coordinator


@dataclass(slots=True)
class State:
    """All memory of a run between two rounds: a checkpoint is a saved State.

    A component whose memory is a bare array has one entry per client in it.
    """

    round: int
    params: Vector
    ledger: Ledger
    estimator: Any = field(metadata=PER_CLIENT)
    scheduler: Any = field(metadata=PER_CLIENT)
    weighting: Any = field(metadata=PER_CLIENT)
    utility: Any = field(metadata=PER_CLIENT)
    surrogate: Any = field(metadata=PER_CLIENT)
    memory: Any = field(metadata=PER_CLIENT)
    kept: dict[int, Vector] = field(metadata=PER_CLIENT)
    """What each client keeps from round to round, as the local rule says."""
    server: Any = None
    first: Vector | None = None
    """The run's first model, for local rules that begin with it."""
    offers: dict[int, tuple[int, float]] = field(default_factory=dict, metadata=PER_CLIENT)
    """Who was asked and has not answered, while an answer can still be used: the round, and how likely it was asked."""
    names: dict[int, str] = field(default_factory=dict, metadata=PER_CLIENT)
    """What clients are called outside, where they are real: a client that returns is told by its name."""

    def kept_by(self, clients: Iterable[int]) -> dict[int, Vector]:
        """What each of them kept from its last round, or begins with; of most runs nothing."""
        if not self.kept and self.first is None:
            return {}
        return {k: kept for k in clients if (kept := self.kept.get(k, self.first)) is not None}

    def copy(self) -> State:
        """An independent snapshot."""
        return copy.deepcopy(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a safetensors file, which `State.load` reads back to the bit."""
        tree.save(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str], coordinator: Coordinator) -> State:
        """The state in a file, for the method that it belongs to; nothing in the file can name code to import."""

        def fresh(arrays: tree.Arrays) -> State:
            return coordinator.init(len(arrays["/ledger/online"]), np.zeros_like(arrays["/params"]))

        state: State = tree.load(path, fresh)
        return state

    def __repr__(self) -> str:
        return f"State(round {self.round}, {self.ledger.num_clients} clients, a model of {len(self.params)} numbers)"


def check_answers(state: State, plan: RoundPlan, reports: Iterable[ClientReport]) -> None:
    """Whether these are the answers to a plan of this state's round, or an error that says what was given instead."""
    checks.instance("state", state, State, "Coordinator.plan returns it")
    checks.instance("plan", plan, RoundPlan, "Coordinator.plan makes one")
    checks.instance("reports", reports, Iterable, "give the ClientReports of the round")
    if plan.round != state.round:
        raise RoundError(f"plan is of round {plan.round} but the state is at {state.round}; absorb plans in order")
