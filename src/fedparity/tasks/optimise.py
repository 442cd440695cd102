"""One optimiser step in place, on one flat model or on a stack of them, each with a rate of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from fedparity.tasks.training import Training

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


class Optimiser:
    """The memory of one local training; `like` has the shape of gradients."""

    __slots__ = ("_decay", "_first", "_second", "_steps", "trained", "training")

    def __init__(self, training: Training, like: Tensor, trained: Tensor | None = None) -> None:
        self.training = training
        self.trained = trained
        self._steps = 0
        adam = training.optimiser == "adam"
        self._first = torch.zeros_like(like) if adam or training.momentum else None
        self._second = torch.zeros_like(like) if adam else None
        decay = training.weight_decay
        self._decay = torch.tensor(decay, dtype=like.dtype) if like.ndim > 1 else decay

    @torch.no_grad()
    def step(self, weights: Tensor, gradient: Tensor, rate: float | Tensor) -> None:
        """Move `weights` by one `rate`, or by one per row; `gradient` may be changed."""
        t = self.training
        if t.weight_decay:
            _add(gradient, weights, self._decay)
        if self.trained is not None:
            gradient.mul_(self.trained)
        if t.clip is not None:
            length = torch.linalg.vector_norm(gradient, dim=-1, keepdim=True)
            gradient.mul_(torch.clamp(t.clip / (length + 1e-12), max=1.0))
        if self._second is not None and self._first is not None:
            self._steps += 1
            self._first.lerp_(gradient, 1 - BETA1)
            self._second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
            root = (self._second / (1 - BETA2**self._steps)).sqrt_().add_(EPS)
            unbiased = 1 - BETA1**self._steps
            if isinstance(rate, float):
                weights.addcdiv_(self._first, root, value=-rate / unbiased)
            else:
                _add(weights, self._first / root / unbiased, -rate)
        else:
            moved = gradient if self._first is None else self._first.mul_(t.momentum).add_(gradient)
            _add(weights, moved, -rate)


def _add(target: Tensor, other: Tensor, scale: float | Tensor) -> None:
    """Target += scale other: rounded once for a number, twice for a tensor of them."""
    if isinstance(scale, float):
        target.add_(other, alpha=scale)
    else:
        target.add_(scale * other)
