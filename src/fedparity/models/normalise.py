"""Pixels as bytes in, numbers around 0 out: the first stage of a module whose images are kept as they came.

(x / peak - mean) / std,    mean and std of pixels in [0, 1]: one for all, or one per channel
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fedparity.core import checks
from fedparity.core.errors import ConfigError


class Normalise(nn.Module):
    """A fixed affine map of pixels; its two constants are in no state dict."""

    scale: Tensor
    shift: Tensor

    def __init__(self, mean: float | Sequence[float], std: float | Sequence[float], peak: float = 255) -> None:
        """`peak` is the value of a full pixel; a mean and std per channel need images (batch, channels, ...)."""
        super().__init__()
        checks.positive("peak", peak)
        means, stds = _numbers(mean), _numbers(std)
        if len(means) != len(stds):
            raise ConfigError(f"mean has {len(means)} and std {len(stds)} channels; give as many of either")
        for value in means:
            checks.between("mean", value, -1e6, 1e6)
        for value in stds:
            checks.positive("std", value)
        self.register_buffer("scale", torch.tensor([1 / (peak * s) for s in stds]), persistent=False)
        self.register_buffer(
            "shift", torch.tensor([-m / s for m, s in zip(means, stds, strict=True)]), persistent=False
        )

    def forward(self, x: Tensor) -> Tensor:
        """Floats of the shape of `x`."""
        channels = len(self.scale)
        if channels == 1:
            return x.float() * self.scale + self.shift
        if x.ndim < 2 or x.shape[1] != channels:
            raise ConfigError(
                f"images of shape {tuple(x.shape)} must be (batch, {channels}, ...): there are {channels} means"
            )
        wide = (channels, *(1 for _ in x.shape[2:]))
        return x.float() * self.scale.view(wide) + self.shift.view(wide)


def _numbers(value: float | Sequence[float]) -> list[float]:
    return [float(v) for v in value] if isinstance(value, Sequence) else [float(value)]
