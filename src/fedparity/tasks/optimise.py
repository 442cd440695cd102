"""One optimiser step on flat tensors, in place."""

from __future__ import annotations

import torch
from torch import Tensor

from fedparity.tasks.training import Training

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


class Optimiser:
    """The memory of one local training."""

    __slots__ = ("_first", "_second", "_steps", "rate", "trained", "training")

    def __init__(self, training: Training, gradient: Tensor, scale: float, trained: Tensor | None = None) -> None:
        self.training = training
        self.trained = trained
        self.rate = training.rate * scale
        self._steps = 0
        adam = training.optimiser == "adam"
        self._first = torch.zeros_like(gradient) if adam or training.momentum else None
        self._second = torch.zeros_like(gradient) if adam else None

    @torch.no_grad()
    def step(self, weights: Tensor, gradient: Tensor) -> None:
        """Move `weights`; `gradient` may be changed."""
        t = self.training
        if t.weight_decay:
            gradient.add_(weights, alpha=t.weight_decay)
        if self.trained is not None:
            gradient.mul_(self.trained)
        if t.clip is not None:
            length = torch.linalg.vector_norm(gradient)
            gradient.mul_(torch.clamp(t.clip / (length + 1e-12), max=1.0))
        if self._second is not None and self._first is not None:
            self._steps += 1
            self._first.lerp_(gradient, 1 - BETA1)
            self._second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
            root = (self._second / (1 - BETA2**self._steps)).sqrt_().add_(EPS)
            weights.addcdiv_(self._first, root, value=-self.rate / (1 - BETA1**self._steps))
        elif self._first is not None:
            weights.sub_(self._first.mul_(t.momentum).add_(gradient), alpha=self.rate)
        else:
            weights.sub_(gradient, alpha=self.rate)
