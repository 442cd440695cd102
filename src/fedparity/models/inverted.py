"""The modules of EfficientNet-Lite; see `efficientnet_lite` for what it is."""

from __future__ import annotations

from collections import OrderedDict

from fedparity.models.chain import Chain, Tensor, fixed_start, nn, prefix_of
from fedparity.models.efficientnet_lite import FEATURES

BLOCKS = (  # repeats, kernel, stride of the first, growth inside, channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


class EfficientNet(Chain):
    """A chain that can give what its last layer sees."""

    def features(self, x: Tensor) -> Tensor:
        """1,280 numbers per image."""
        result: Tensor = prefix_of(self, ["fc"])[0](x)
        return result


class SameConv2d(nn.Conv2d):
    """A convolution without bias, padded so that stride 1 keeps the size and stride 2 halves it, rounded up.

    An odd padding has its extra row and column at the end: TensorFlow's SAME.
    """

    def __init__(self, fan_in: int, fan_out: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        padding = kernel // 2 if stride == 1 else 0
        super().__init__(fan_in, fan_out, kernel, stride, padding=padding, groups=groups, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """The convolution of the padded image."""
        (kernel, _), (stride, _) = self.kernel_size, self.stride
        if stride == 1:
            return super().forward(input)
        rows, columns = (max(0, (-(-n // stride) - 1) * stride + kernel - n) for n in input.shape[-2:])
        edges = (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2)
        return super().forward(nn.functional.pad(input, edges))


class InvertedBlock(nn.Module):
    """Wide inside, narrow outside; added to its input where shapes allow."""

    def __init__(self, fan_in: int, fan_out: int, kernel: int, stride: int, growth: int) -> None:
        super().__init__()
        wide = fan_in * growth
        self.grows = growth != 1
        if self.grows:
            self.expand_conv = SameConv2d(fan_in, wide, 1)
            self.bn0 = _norm(wide)
        self.depthwise_conv = SameConv2d(wide, wide, kernel, stride, groups=wide)
        self.bn1 = _norm(wide)
        self.project_conv = SameConv2d(wide, fan_out, 1)
        self.bn2 = _norm(fan_out)
        self.relu = nn.ReLU6()
        self.adds = stride == 1 and fan_in == fan_out

    def forward(self, x: Tensor) -> Tensor:
        """Expand, filter, project."""
        inner = self.relu(self.bn0(self.expand_conv(x))) if self.grows else x
        inner = self.relu(self.bn1(self.depthwise_conv(inner)))
        result: Tensor = self.bn2(self.project_conv(inner))
        return x + result if self.adds else result


def lite0(channels: int, classes: int) -> EfficientNet:
    """The smallest of the Lite variants."""
    with fixed_start():
        fan_in, blocks = 32, []
        for repeats, kernel, first, growth, fan_out in BLOCKS:
            for i in range(repeats):
                blocks.append(InvertedBlock(fan_in, fan_out, kernel, first if i == 0 else 1, growth))
                fan_in = fan_out
        stages: list[tuple[str, nn.Module]] = [
            ("conv_stem", SameConv2d(channels, 32, 3, 2)),
            ("bn0", _norm(32)),
            ("relu0", nn.ReLU6()),
            ("blocks", nn.Sequential(*blocks)),
            ("conv_head", SameConv2d(fan_in, FEATURES, 1)),
            ("bn1", _norm(FEATURES)),
            ("relu1", nn.ReLU6()),
            ("avgpool", nn.AdaptiveAvgPool2d(1)),
            ("flatten", nn.Flatten()),
            ("fc", nn.Linear(FEATURES, classes)),
        ]
        return EfficientNet(OrderedDict(stages))


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)
