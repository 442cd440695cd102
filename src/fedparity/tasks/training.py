"""Local training, Algorithm 2 of the paper: how long, with which batches, and how each step is taken.

    sgd:   v <- momentum v + g;  w <- w - rate v                   (v = 0 at the start of every round)
    adam:  bias-corrected moments with b1 = .9, b2 = .999, eps = 1e-8, fresh in every round

g is the gradient of the mean cross-entropy of a mini-batch, plus weight_decay w, plus what the local rule adds (a pull
of FedProx or Ditto), cut to length `clip`. A client keeps no optimiser state from round to round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedparity.core import checks
from fedparity.core.types import Ids


@dataclass(frozen=True, slots=True)
class Training:
    """What a client does with its data in one round."""

    epochs: int = 2
    """Passes over a client's data per round; more move further from the shared model."""
    batch: int = 16
    """Samples per step; more make fewer and steadier steps."""
    rate: float = 0.1
    """Local learning rate; higher takes longer steps."""
    steps: int | None = None
    """Mini-batches per round instead of whole epochs, going through the data again when it ends; none: epochs."""
    optimiser: Literal["sgd", "adam"] = "sgd"
    """How a step is taken: sgd, or adam with fresh moments in every round."""
    momentum: float = 0.0
    """Part of the last step that is kept (sgd); closer to 1 moves more smoothly and further."""
    weight_decay: float = 0.0
    """Pull of the weights towards 0, as a factor on them in the gradient; higher keeps them smaller."""
    clip: float | None = None
    """Longest gradient used as it is; lower shortens more steps; none: any length."""

    def __post_init__(self) -> None:
        checks.at_least("epochs", self.epochs, 1)
        checks.at_least("batch", self.batch, 1)
        checks.positive("rate", self.rate)
        checks.one_of("optimiser", self.optimiser, ("sgd", "adam"))
        if self.steps is not None:
            checks.at_least("steps", self.steps, 1)
        checks.between("momentum", self.momentum, 0, 0.999)
        checks.not_negative("weight_decay", self.weight_decay)
        if self.clip is not None:
            checks.positive("clip", self.clip)

    def num_batches(self, samples: int) -> int:
        """How many steps a client with so many samples takes."""
        return self.steps if self.steps is not None else self.epochs * math.ceil(samples / self.batch)

    def batches(self, samples: int, rng: np.random.Generator) -> Iterator[Ids]:
        """The samples of each step: a new order in every pass over the data, the last batch of a pass may be small."""
        left = self.num_batches(samples)
        while left:
            order = rng.permutation(samples)
            for first in range(0, samples, self.batch):
                if left:
                    yield order[first : first + self.batch]
                    left -= 1

    def place(self, step: int, samples: int) -> str:
        """Where a step stands, as people count."""
        epoch, number = divmod(step, math.ceil(samples / self.batch))
        return f"epoch {epoch + 1} batch {number + 1}"
