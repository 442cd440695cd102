"""Models that see an image as a list of numbers: softmax regression, and a perceptron with hidden layers.

    logits = A_L relu(... relu(A_1 x + b_1) ...) + b_L

McMahan et al. (AISTATS 2017) train the 784-200-200-10 network as their "2NN".
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedparity.core import checks
from fedparity.models import shapes

if TYPE_CHECKING:
    from fedparity.models.chain import Chain


@dataclass(frozen=True, slots=True)
class Logistic:
    """Softmax regression: one linear layer on the pixels."""

    def build(self, shape: tuple[int, ...], classes: int) -> Chain:
        """Stages flatten, fc."""
        shapes.check(shape, classes)
        from fedparity.models.chain import chain, fixed_start, nn

        with fixed_start():
            return chain(("flatten", nn.Flatten()), ("fc", nn.Linear(math.prod(shape), classes)))


@dataclass(frozen=True, slots=True)
class MLP:
    """A perceptron: linear layers on the pixels, with ReLU between them."""

    hidden: tuple[int, ...] = (200, 200)
    """Sizes of the hidden layers; larger or more of them fit more and cost more."""
    reference: ClassVar[str] = "McMahan et al., Communication-Efficient Learning of Deep Networks, AISTATS 2017"

    def __post_init__(self) -> None:
        for size in self.hidden:
            checks.at_least("hidden", size, 1)

    def build(self, shape: tuple[int, ...], classes: int) -> Chain:
        """Stages flatten, fc1, relu1, fc2, ..."""
        shapes.check(shape, classes)
        from fedparity.models.chain import chain, fixed_start, nn

        sizes = (math.prod(shape), *self.hidden, classes)
        stages: list[tuple[str, nn.Module]] = [("flatten", nn.Flatten())]
        with fixed_start():
            for i, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes), 1):
                stages += [(f"fc{i}", nn.Linear(fan_in, fan_out)), (f"relu{i}", nn.ReLU())]
        return chain(*stages[:-1])
