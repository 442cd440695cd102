"""Gradients of many models at once: each parameter is a stack of theirs, clients first.

A chain of linear layers with ReLU between them has its gradients written out as batched matrix products; any other
model without buffers goes through `torch.func`.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn

Stack: TypeAlias = list[Tensor]
"""Each parameter of the model for every client of a group: clients first."""


class Gradients(Protocol):
    """Gradients of every client's loss, and the losses."""

    def __call__(self, stack: Stack, x: Tensor, y: Tensor, share: Tensor, scale: float) -> tuple[Stack, Tensor]:
        """Of the sum of `share` times the cross-entropy of samples `scale * x` with labels `y`.

        x is clients x samples x features, y and share are clients x 1 x samples; a stack of one model is everybody's.
        """


def chain_of(module: nn.Module) -> list[nn.Linear] | None:
    """The linear layers of a module that is nothing but flatten, linear layers and ReLU between them; else None."""
    layers = [m for m in module.modules() if not list(m.children()) and not isinstance(m, (nn.Flatten, nn.Identity))]
    kinds = [type(layer) for layer in layers]
    expected = [nn.Linear if i % 2 == 0 else nn.ReLU for i in range(len(kinds))]
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    if not kinds or len(kinds) % 2 == 0 or kinds != expected or any(layer.bias is None for layer in linear):
        return None
    return linear


def chain_forward(stack: Stack, x: Tensor, scale: float = 1.0) -> list[Tensor]:
    """What each layer of a chain takes, and at the end the logits: clients x features x samples.

    Samples are columns: with few outputs W x^T is a faster product than x W^T.
    """
    seen = [x.flatten(2).transpose(1, 2)]
    last = len(stack) // 2 - 1
    for i in range(last + 1):
        weight, bias = stack[2 * i].expand(len(x), -1, -1), stack[2 * i + 1].unsqueeze(2)
        h = torch.baddbmm(bias, weight, seen[-1], alpha=1.0 if i else scale)  # rather than scale what goes in
        seen.append(h.relu_() if i < last else h)
    return seen


def chain_gradients(stack: Stack, x: Tensor, y: Tensor, share: Tensor, scale: float) -> tuple[Stack, Tensor]:
    """`Gradients` of a chain, written out."""
    seen = chain_forward(stack, x, scale)
    logs = torch.log_softmax(seen.pop(), dim=1)
    loss = logs.gather(1, y).mul_(share).sum((1, 2)).neg_()
    back = logs.exp_()
    back.scatter_add_(1, y, back.new_full((1, 1, 1), -1.0).expand(y.shape))
    back *= share
    found: Stack = []
    for i in reversed(range(len(seen))):
        sums = back.sum(2)
        found[:0] = [torch.bmm(back if i else back.mul_(scale), seen[i].transpose(1, 2)), sums]
        if i:
            back = torch.bmm(stack[2 * i].expand(len(x), -1, -1).transpose(1, 2), back).mul_(seen[i] > 0)
    return found, loss


def func_gradients(module: nn.Module, *, compiled: bool) -> Gradients:
    """The same for any module without buffers, through `torch.func`."""
    names = [name for name, _ in module.named_parameters()]

    def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor, share: Tensor) -> Tensor:
        logits = torch.func.functional_call(module, parameters, (x,))
        return (nn.functional.cross_entropy(logits, y[0], reduction="none") * share[0]).sum()

    def all_clients(
        parameters: dict[str, Tensor], x: Tensor, y: Tensor, share: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        found: tuple[dict[str, Tensor], Tensor] = torch.func.vmap(torch.func.grad_and_value(loss))(
            parameters, x, y, share
        )
        return found

    run: Any = torch.compile(all_clients, dynamic=False) if compiled else all_clients

    def gradients(stack: Stack, x: Tensor, y: Tensor, share: Tensor, scale: float) -> tuple[Stack, Tensor]:
        everybody = [part.expand(len(x), *part.shape[1:]) for part in stack]
        found, losses = run(dict(zip(names, everybody, strict=True)), x * scale, y, share)
        return [found[name].detach() for name in names], losses.detach()

    return gradients
