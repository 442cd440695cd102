"""An approximation of PHP-FL for one architecture (`fedparity.local.PhpFl`); not verified against official code.

    CE((z_local + z_aux) / 2) + lam T^2 [KL(local || aux) + KL(aux || local)],    softened by T

Both models learn from one loss; the auxiliary one is the client's update, the local one stays with the client.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from fedparity.core.types import Job, Vector
from fedparity.local.rules import PhpFl
from fedparity.tasks.flat import Replica
from fedparity.tasks.optimise import Optimiser

if TYPE_CHECKING:
    from fedparity.tasks.torch_task import Own, TorchTask


def train_pair(
    task: TorchTask, rule: PhpFl, job: Job, pair: tuple[Replica, Replica], data: Own
) -> tuple[Vector, Vector | None, str | None]:
    """Train the auxiliary and the local model together: the former, what the client keeps, and what went wrong."""
    auxiliary, local = pair
    before, importance, times = rule.take_over(job.own, job.params)
    auxiliary.load(job.start)
    local.load(before)
    optimisers = [Optimiser(task.training, replica.gradient, job.rate, replica.trained) for replica in pair]
    for replica in pair:
        replica.prepare()
    for step, batch in enumerate(task.training.batches(len(data.x), job.rng())):
        inputs = task.floats(data.x[batch])
        loss = pair_loss(rule, local.module(inputs), auxiliary.module(inputs), data.y[batch])
        if not math.isfinite(loss.item()):
            failure = f"loss is not finite in {task.training.place(step, len(data.x))}"
            return auxiliary.vector(), None, failure
        for replica in pair:
            replica.gradient.zero_()
        torch.autograd.backward(loss)
        for replica, optimiser in zip(pair, optimisers, strict=True):
            optimiser.step(replica.parameters, replica.gradient)
    return auxiliary.vector(), rule.remember(before, local.vector(), importance, times), None


def pair_loss(rule: PhpFl, z_local: Tensor, z_aux: Tensor, y: Tensor) -> Tensor:
    """The ensemble's loss and how far the two models are apart, both ways."""
    ensemble = nn.functional.cross_entropy((z_local + z_aux) / 2, y)
    a = nn.functional.log_softmax(z_local / rule.temperature, dim=1)
    b = nn.functional.log_softmax(z_aux / rule.temperature, dim=1)
    apart = nn.functional.kl_div(b, a, reduction="batchmean", log_target=True)
    apart = apart + nn.functional.kl_div(a, b, reduction="batchmean", log_target=True)
    return ensemble + rule.lam * rule.temperature**2 * apart
