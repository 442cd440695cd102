"""ResNet-18 and ResNet-34 (He, Zhang, Ren, Sun, CVPR 2016): y = relu(x + F(x)), F two 3 x 3 convolutions with norms.

Two choices are ours. `norm=group` (32 groups; Wu and He, ECCV 2018) by default: batch norm takes the statistics of one
client's few labels for those of all (Hsieh et al., ICML 2020). `stem=cifar` by default: a 3 x 3 convolution of stride 1
and no pooling, for images of about 32 x 32 pixels; `stem=imagenet` is the paper's 7 x 7 of stride 2 with pooling.

Tensors are named as torchvision names them (conv1, bn1, layer1.0.conv1, layer2.0.downsample.0, fc), also where the norm
is a group norm, so that weights in its naming load as they are. First weights as there too: He's normal, by fan out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from fedparity.models import shapes

if TYPE_CHECKING:
    from fedparity.models.chain import Chain


@dataclass(frozen=True, slots=True)
class ResNet18:
    """Residual network of 18 layers, with group norm and a stem for small images unless told otherwise."""

    norm: Literal["group", "batch"] = "group"
    """group: independent of a client's batch; batch: batch norm, whose running means clients share."""
    stem: Literal["cifar", "imagenet"] = "cifar"
    """First layer: cifar for images of about 32 x 32 pixels; imagenet (7 x 7, stride 2, pooling) for larger ones."""
    name: ClassVar[str] = "resnet18"
    blocks: ClassVar[tuple[int, ...]] = (2, 2, 2, 2)
    """Of two convolutions, in each of four stages."""
    reference: ClassVar[str] = "He, Zhang, Ren, Sun, Deep Residual Learning for Image Recognition, CVPR 2016"

    def build(self, shape: tuple[int, ...], classes: int) -> Chain:
        """Stages conv1, bn1, relu, (maxpool,) layer1 .. layer4, avgpool, flatten, fc."""
        channels, _, _ = shapes.image(self.name, shape, classes)
        from fedparity.models.residual import resnet

        return resnet(self.blocks, channels, classes, self.norm, self.stem)


@dataclass(frozen=True, slots=True)
class ResNet34(ResNet18):
    """Residual network of 34 layers, with group norm and a stem for small images unless told otherwise."""

    name: ClassVar[str] = "resnet34"
    blocks: ClassVar[tuple[int, ...]] = (3, 4, 6, 3)
