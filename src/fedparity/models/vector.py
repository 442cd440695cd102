"""What of a module is shared, in which order, and with which values it starts.

First weights come from a NumPy stream, so they do not depend on the build of torch:

    a layer with a bias       uniform within 1 / sqrt(fan in), weight and bias alike: what PyTorch does
    one without               normal, variance 2 / fan out (He et al., ICCV 2015): a norm and a ReLU follow it
    everything else           as the module has it; a norm is built with scale 1, shift 0, mean 0, variance 1
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from fedparity.types import Vector

if TYPE_CHECKING:
    from torch import nn

Kind: TypeAlias = Literal["parameter", "buffer"]


def layout(module: nn.Module) -> list[tuple[str, tuple[int, ...], Kind]]:
    """(name, shape, kind) of every tensor of the federated vector, in its order; a tied tensor comes once.

    Parameters first, then floating-point buffers, which are averaged like parameters. Not shared: whole-number buffers,
    and those that a state dict leaves out.
    """
    kept = module.state_dict()
    found: list[tuple[str, tuple[int, ...], Kind]] = [
        (name, tuple(p.shape), "parameter") for name, p in module.named_parameters()
    ]
    for name, buffer in module.named_buffers():
        if name in kept and buffer.is_floating_point():
            found.append((name, tuple(buffer.shape), "buffer"))
    return found


def first_weights(module: nn.Module, rng: np.random.Generator) -> Vector:
    """A vector to start from, in the order of `layout`; its values are exact in float32."""
    from torch import nn

    kept = module.state_dict()
    parts = []
    for name, shape, _ in layout(module):
        owner = module.get_submodule(name.rpartition(".")[0])
        if not isinstance(owner, nn.Linear | nn.Conv2d):
            parts.append(kept[name].double().numpy().ravel())
        elif owner.bias is not None:
            bound = 1 / math.sqrt(owner.weight[0].numel())
            parts.append(rng.uniform(-bound, bound, math.prod(shape)))
        else:
            fan_out = shape[0] * math.prod(shape[2:]) / getattr(owner, "groups", 1)
            parts.append(rng.normal(0, math.sqrt(2 / fan_out), math.prod(shape)))
    return np.concatenate(parts).astype(np.float32).astype(np.float64)
