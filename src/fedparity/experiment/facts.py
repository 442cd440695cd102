"""What only a task can tell of a method after its last round: accuracies, local steps, and what the method keeps."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from fedparity.core.protocols import Task
from fedparity.core.state import State
from fedparity.core.tree import flatten
from fedparity.core.types import FloatArray
from fedparity.store import Facts

NOT_MEMORY = {"round", "params", "ledger", "utility", "kept"}
"""What every method has, and what clients keep."""


def facts_of(task: Task, state: State, accuracy: FloatArray, own_accuracy: FloatArray) -> Facts:
    """The facts of one method with one seed."""
    steps = task.local_steps()
    kept = [f.name for f in dataclasses.fields(state) if f.name not in NOT_MEMORY]
    return Facts(
        accuracy=accuracy,
        own_accuracy=own_accuracy,
        local_steps=None if steps is None else steps.astype(np.int64),
        parameters=len(state.params),
        server_words=sum(_words(getattr(state, name), name) for name in kept),
        client_words=_words(state.kept, "kept"),
        recall=task.recall(state.params),
    )


def _words(value: Any, name: str) -> int:
    return sum(array.size for array in flatten(value, f"/{name}")[1].values())
