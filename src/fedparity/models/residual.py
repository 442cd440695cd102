"""The modules of a residual network; see `resnet` for what it is."""

from __future__ import annotations

from collections.abc import Sequence

from fedparity.core.errors import ConfigError
from fedparity.models.chain import Chain, Tensor, chain, fixed_start, nn

GROUPS = 32


class Block(nn.Module):
    """relu(x + F(x)); where the shape changes, x passes a 1 x 1 convolution first."""

    def __init__(self, fan_in: int, fan_out: int, stride: int, norm: str) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(fan_in, fan_out, 3, stride, padding=1, bias=False)
        self.bn1 = _norm(norm, fan_out)
        self.conv2 = nn.Conv2d(fan_out, fan_out, 3, padding=1, bias=False)
        self.bn2 = _norm(norm, fan_out)
        self.relu = nn.ReLU()
        self.downsample: nn.Sequential | None = None
        if stride != 1 or fan_in != fan_out:
            self.downsample = nn.Sequential(nn.Conv2d(fan_in, fan_out, 1, stride, bias=False), _norm(norm, fan_out))

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both ways."""
        inner = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        short = x if self.downsample is None else self.downsample(x)
        result: Tensor = self.relu(inner + short)
        return result


def resnet(depths: Sequence[int], channels: int, classes: int, norm: str, stem: str) -> Chain:
    """Four layers of so many blocks, of 64, 128, 256 and 512 channels."""
    if stem not in {"cifar", "imagenet"}:
        raise ConfigError(f"stem={stem!r} must be cifar or imagenet")
    with fixed_start():
        stages = _stem(channels, norm, stem)
        fan_in = 64
        for i, depth in enumerate(depths):
            fan_out = 64 << i
            blocks = [Block(fan_in, fan_out, 1 if i == 0 else 2, norm)]
            blocks += [Block(fan_out, fan_out, 1, norm) for _ in range(depth - 1)]
            stages.append((f"layer{i + 1}", nn.Sequential(*blocks)))
            fan_in = fan_out
        stages += [("avgpool", nn.AdaptiveAvgPool2d(1)), ("flatten", nn.Flatten()), ("fc", nn.Linear(fan_in, classes))]
        for _, stage in stages:
            for module in stage.modules():
                if isinstance(module, nn.Conv2d):
                    nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return chain(*stages)


def _stem(channels: int, norm: str, stem: str) -> list[tuple[str, nn.Module]]:
    small = stem == "cifar"
    conv = nn.Conv2d(channels, 64, *((3, 1, 1) if small else (7, 2, 3)), bias=False)
    stages: list[tuple[str, nn.Module]] = [("conv1", conv), ("bn1", _norm(norm, 64)), ("relu", nn.ReLU())]
    return stages if small else [*stages, ("maxpool", nn.MaxPool2d(3, 2, padding=1))]


def _norm(norm: str, channels: int) -> nn.Module:
    if norm == "group":
        return nn.GroupNorm(GROUPS, channels)
    if norm == "batch":
        return nn.BatchNorm2d(channels)
    raise ConfigError(f"norm={norm!r} must be group or batch")
