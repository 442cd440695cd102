"""Many models at once: each parameter is a stack of theirs, clients first; a stack of one model is everybody's.

Small models are slow one by one: a client's matrix products are over before the processor is busy, and calling PyTorch
costs more than they do. Stacked, one call does the same product for every client of a group. A chain of linear layers
with ReLU between them has its gradients written out as such batched products (`Chain`); any other model without buffers
goes through `torch.func` (`AnyModel`).
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn

Stack: TypeAlias = list[Tensor]
"""Each parameter of the model for every client of a group: clients first."""


class Stacked(Protocol):
    """What can be done with a stack of models.

    x is clients x samples x features, not yet multiplied by `scale`; y, the labels, and share, what part of its
    client's loss (the cross-entropy) each sample is, are clients x 1 x samples.
    """

    written_out: bool
    """Whether gradients are: then PyTorch need note nothing, and several threads may work at a time."""

    def forward(self, stack: Stack, x: Tensor, scale: float) -> Tensor:
        """Logits: clients x labels x samples."""

    def gradients(self, stack: Stack, x: Tensor, y: Tensor, share: Tensor, scale: float) -> tuple[Stack, Tensor]:
        """Gradients of every client's loss, and the losses."""


def chain_of(module: nn.Module) -> list[nn.Linear] | None:
    """The linear layers of a module that is nothing but flatten, linear layers and ReLU between them; else None."""
    layers = [m for m in module.modules() if not list(m.children()) and not isinstance(m, (nn.Flatten, nn.Identity))]
    kinds = [type(layer) for layer in layers]
    expected = [nn.Linear if i % 2 == 0 else nn.ReLU for i in range(len(kinds))]
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    if not kinds or len(kinds) % 2 == 0 or kinds != expected or any(layer.bias is None for layer in linear):
        return None
    return linear


class Chain:
    """Linear layers with ReLU between them.

    Samples are columns: with few outputs W x^T is a faster product than x W^T.
    """

    written_out = True

    def forward(self, stack: Stack, x: Tensor, scale: float) -> Tensor:
        """As `Stacked` says."""
        return self._taken(stack, x, scale)[-1]

    def _taken(self, stack: Stack, x: Tensor, scale: float) -> list[Tensor]:
        """What each layer takes, and at the end the logits: clients x features x samples."""
        seen = [x.flatten(2).transpose(1, 2)]
        last = len(stack) // 2 - 1
        # h = W x + b for all clients in one call. A stack of one model is expanded, not copied: all share its memory.
        for i in range(last + 1):
            weight, bias = stack[2 * i].expand(len(x), -1, -1), stack[2 * i + 1].unsqueeze(2)
            h = torch.baddbmm(bias, weight, seen[-1], alpha=1.0 if i else scale)  # rather than scale what goes in
            seen.append(h.relu_() if i < last else h)
        return seen

    def gradients(self, stack: Stack, x: Tensor, y: Tensor, share: Tensor, scale: float) -> tuple[Stack, Tensor]:
        """As `Stacked` says."""
        seen = self._taken(stack, x, scale)
        logs = torch.log_softmax(seen.pop(), dim=1)
        loss = logs.gather(1, y).mul_(share).sum((1, 2)).neg_()
        # The gradient of a cross-entropy in its logits is softmax - one-hot; it is written over the logarithms.
        back = logs.exp_()
        back.scatter_add_(1, y, back.new_full((1, 1, 1), -1.0).expand(y.shape))
        back *= share
        found: Stack = []
        # From the last layer to the first: dL/dW = back x^T, dL/db = sum of back, and back through W and the ReLU. The
        # sums come first, since the first layer's product, whose input was not scaled, scales `back` in place.
        for i in reversed(range(len(seen))):
            sums = back.sum(2)
            found[:0] = [torch.bmm(back if i else back.mul_(scale), seen[i].transpose(1, 2)), sums]
            if i:
                back = torch.bmm(stack[2 * i].expand(len(x), -1, -1).transpose(1, 2), back).mul_(seen[i] > 0)
        return found, loss


class AnyModel:
    """Any module without buffers: `torch.func`, vmap over clients of the gradient, compiled if asked for."""

    written_out = False

    def __init__(self, module: nn.Module, *, compiled: bool) -> None:
        self._module = module
        self._names = [name for name, _ in module.named_parameters()]
        self._run: Any = torch.compile(self._all_clients, dynamic=False) if compiled else self._all_clients

    def _named(self, stack: Stack, clients: int) -> dict[str, Tensor]:
        # vmap needs every parameter to have a client axis of full length; expanding takes no memory.
        return {n: part.expand(clients, *part.shape[1:]) for n, part in zip(self._names, stack, strict=True)}

    def _logits(self, parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(self._module, parameters, (x,))
        return found

    def _loss(self, parameters: dict[str, Tensor], x: Tensor, y: Tensor, share: Tensor) -> Tensor:
        return (nn.functional.cross_entropy(self._logits(parameters, x), y[0], reduction="none") * share[0]).sum()

    def _all_clients(
        self, parameters: dict[str, Tensor], x: Tensor, y: Tensor, share: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        found: tuple[dict[str, Tensor], Tensor] = torch.func.vmap(torch.func.grad_and_value(self._loss))(
            parameters, x, y, share
        )
        return found

    def forward(self, stack: Stack, x: Tensor, scale: float) -> Tensor:
        """As `Stacked` says."""
        found: Tensor = torch.func.vmap(self._logits)(self._named(stack, len(x)), x * scale)
        return found.transpose(1, 2)

    def gradients(self, stack: Stack, x: Tensor, y: Tensor, share: Tensor, scale: float) -> tuple[Stack, Tensor]:
        """As `Stacked` says."""
        found, losses = self._run(self._named(stack, len(x)), x * scale, y, share)
        return [found[name].detach() for name in self._names], losses.detach()
