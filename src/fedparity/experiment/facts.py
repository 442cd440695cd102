"""What only a task can tell of a method after its last round: accuracies, local steps, and what the method keeps."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from fedparity.core.coordinator import State
from fedparity.core.types import FloatArray
from fedparity.store import Facts
from fedparity.store.facts import IntArray
from fedparity.store.tree import flatten

NOT_MEMORY = {"round", "params", "ledger", "utility", "client_models"}
"""What every method has, and what clients keep."""


def facts_of(task: Any, state: State, accuracy: FloatArray, own_accuracy: FloatArray) -> Facts:
    """The facts of one method with one seed."""
    kept = [f.name for f in dataclasses.fields(state) if f.name not in NOT_MEMORY]
    return Facts(
        accuracy=accuracy,
        own_accuracy=own_accuracy,
        local_steps=local_steps(task),
        parameters=len(state.params),
        server_words=sum(_words(getattr(state, name)) for name in kept),
        client_words=_words(state.client_models),
    )


def _words(value: Any) -> int:
    return sum(array.size for array in flatten(value)[1].values())


def local_steps(task: Any) -> IntArray | None:
    """Mini-batch steps that one participation of each client takes; None for a task that does not say."""
    clients: int = task.num_clients
    task = getattr(task, "task", task)  # batched: the same steps, many clients at a time
    if isinstance(steps := getattr(task, "steps", None), int):  # quadratic: gradient steps
        return np.full(clients, steps)
    training, samples = getattr(task, "training", None), getattr(task, "samples", None)
    if training is not None and samples is not None:  # a PyTorch task
        return np.array([training.num_batches(len(rows)) for rows in samples.train])
    x = getattr(task, "x", None)
    if isinstance(x, np.ndarray) and hasattr(task, "epochs") and hasattr(task, "batch"):  # logistic
        return np.full(clients, task.epochs * math.ceil(x.shape[1] / task.batch))
    return None
