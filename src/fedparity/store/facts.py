"""What only a task can tell of a finished method: stored with its run, so that nobody has to build the task again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedparity.core.reprs import brief
from fedparity.core.types import FloatArray, Ids
from fedparity.store.arrays import packed, unpacked
from fedparity.store.database import DamagedError, decoding

IntArray: TypeAlias = NDArray[np.int64]
WORDS = ("parameters", "server_words", "client_words")


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """One method with one seed after its last round."""

    accuracy: FloatArray
    """Test accuracy of the last global model for each client; NaN where there is none."""
    own_accuracy: FloatArray
    """The same of each client's own model, where it keeps one; else that of the global model."""
    local_steps: IntArray | None
    """Mini-batch steps that one participation of each client takes; None: the task does not say."""
    parameters: int
    """Numbers in the model."""
    server_words: int
    """Numbers that the method's rules keep."""
    client_words: int
    """Numbers that its clients keep."""
    recall: FloatArray | None = None
    """Share of each label's test samples that the last global model recognises; None: the task does not say."""

    __repr__ = brief

    def without(self, clients: Ids) -> Facts:
        """The same without what is known of these clients."""
        accuracy, own = self.accuracy.copy(), self.own_accuracy.copy()
        accuracy[clients] = own[clients] = np.nan
        steps = None if self.local_steps is None else self.local_steps.copy()
        if steps is not None:
            steps[clients] = 0
        return replace(self, accuracy=accuracy, own_accuracy=own, local_steps=steps)

    def to_bytes(self) -> bytes:
        """As they are stored: the same bytes for the same facts."""
        arrays = {
            "accuracy": np.asarray(self.accuracy, np.float64),
            "own_accuracy": np.asarray(self.own_accuracy, np.float64),
            "words": np.array([getattr(self, name) for name in WORDS], np.int64),
        }
        if self.local_steps is not None:
            arrays["local_steps"] = np.asarray(self.local_steps, np.int64)
        if self.recall is not None:
            arrays["recall"] = np.asarray(self.recall, np.float64)
        return packed(arrays)

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Facts:
        """From what was stored."""
        with decoding(where):
            found = unpacked(data, where)
            words = dict(zip(WORDS, found["words"].tolist(), strict=True))
            told: dict[str, Any] = {name: found.get(name) for name in ("local_steps", "recall")}
            facts = cls(found["accuracy"], found["own_accuracy"], **words, **told)
        if facts.accuracy.shape != facts.own_accuracy.shape or facts.accuracy.dtype != np.float64:
            raise DamagedError(f"{where}: makes no sense (accuracies of other clients)")
        return facts
