"""A small convolutional network: two 5 x 5 convolutions without padding, each halved by pooling, then two layers.

    conv 5x5 -> 32, relu, maxpool 2, conv 5x5 -> 64, relu, maxpool 2, fc 512, relu, fc

It is the network of McMahan et al. (AISTATS 2017) for MNIST, without padding: 878,538 parameters for 3 x 32 x 32 images
and 10 classes, 582,026 for 1 x 28 x 28.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedparity.models import shapes

if TYPE_CHECKING:
    from fedparity.models.chain import Chain


@dataclass(frozen=True, slots=True)
class CNN:
    """Two 5 x 5 convolutions with pooling, and a hidden layer of 512."""

    reference: ClassVar[str] = "McMahan et al., Communication-Efficient Learning of Deep Networks, AISTATS 2017"

    def build(self, shape: tuple[int, ...], classes: int) -> Chain:
        """Stages conv1, relu1, pool1, conv2, relu2, pool2, flatten, fc1, relu3, fc2."""
        channels, *sides = shapes.image("cnn", shape, classes, least=16)
        from fedparity.models.chain import chain, fixed_start, nn

        height, width = (((side - 4) // 2 - 4) // 2 for side in sides)
        with fixed_start():
            return chain(
                ("conv1", nn.Conv2d(channels, 32, 5)),
                ("relu1", nn.ReLU()),
                ("pool1", nn.MaxPool2d(2)),
                ("conv2", nn.Conv2d(32, 64, 5)),
                ("relu2", nn.ReLU()),
                ("pool2", nn.MaxPool2d(2)),
                ("flatten", nn.Flatten()),
                ("fc1", nn.Linear(64 * height * width, 512)),
                ("relu3", nn.ReLU()),
                ("fc2", nn.Linear(512, classes)),
            )
