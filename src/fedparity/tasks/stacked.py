"""Gradients of many models at once: each parameter is a stack of theirs, clients first.

A chain of linear layers with ReLU between them has its gradients written out as batched matrix products; any other
model without buffers goes through `torch.func`.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn

FEW = 64
"""Outputs of a layer up to which W x^T is the faster way to x W^T."""

Stack: TypeAlias = list[Tensor]
"""Each parameter of the model for every client of a group: clients first."""


class Gradients(Protocol):
    """Gradients of every client's loss, and the losses."""

    def __call__(self, stack: Stack, x: Tensor, y: Tensor, share: Tensor, scale: float) -> tuple[Stack, Tensor]:
        """Of the sum of `share` times the cross-entropy of samples `scale * x` with labels `y`.

        x is clients x samples x features, y and share are clients x samples x 1; a stack of one model is everybody's.
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
    """What each layer of a chain takes, and at the end the logits; one model for everybody makes one large product."""
    seen = [x.flatten(2)]
    layers = len(stack) // 2
    for i in range(layers):
        weight, bias = stack[2 * i], stack[2 * i + 1]
        h, alpha = seen[-1], 1.0 if i else scale  # scaling what a product gives spares a pass over its input
        if len(weight) == len(h) > 1:
            h = torch.baddbmm(bias.unsqueeze(2), weight, h.transpose(1, 2), alpha=alpha).transpose(1, 2)
        elif bias.shape[1] <= FEW:
            h = torch.addmm(bias.t(), weight[0], h.flatten(0, 1).t(), alpha=alpha).t().view(*h.shape[:2], -1)
        else:
            h = torch.addmm(bias, h.flatten(0, 1), weight[0].t(), alpha=alpha).view(*h.shape[:2], -1)
        seen.append(h.relu_() if i < layers - 1 else h)
    return seen


def chain_gradients(stack: Stack, x: Tensor, y: Tensor, share: Tensor, scale: float) -> tuple[Stack, Tensor]:
    """`Gradients` of a chain, written out."""
    seen = chain_forward(stack, x, scale)
    logs = torch.log_softmax(seen[-1], dim=-1)
    loss = logs.gather(2, y).mul_(share).sum((1, 2))
    back = logs.exp_()
    back.scatter_add_(2, y, back.new_full((1, 1, 1), -1.0).expand(y.shape))
    back *= share
    found: Stack = []
    for i in reversed(range(len(stack) // 2)):
        sums = back.sum(1)
        if not i:
            return [torch.bmm(back.mul_(scale).transpose(1, 2), seen[0]), sums, *found], loss.neg_()
        found[:0] = [torch.bmm(back.transpose(1, 2), seen[i]), sums]
        w = stack[2 * i]
        to = torch.bmm(back, w) if len(w) == len(back) else torch.mm(back.flatten(0, 1), w[0]).view(*back.shape[:2], -1)
        back = to.mul_(seen[i] > 0)
    raise AssertionError("a chain has a first layer")


def func_gradients(module: nn.Module, *, compiled: bool) -> Gradients:
    """The same for any module without buffers, through `torch.func`."""
    names = [name for name, _ in module.named_parameters()]

    def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor, share: Tensor) -> Tensor:
        logits = torch.func.functional_call(module, parameters, (x,))
        return (nn.functional.cross_entropy(logits, y[:, 0], reduction="none") * share[:, 0]).sum()

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
