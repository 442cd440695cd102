"""Clients that train a PyTorch classifier on their own samples, one after the other (Algorithm 2 of the paper).

Bits depend on the key of the random stream and on `threads`, never on how many clients train at a time: each call has a
model to itself. Importing this module imports torch; importing `fedparity.tasks` does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedparity.core.errors import ConfigError
from fedparity.core.types import ClientReport, Descent, Job, JointLoss, Prototypes, Vector
from fedparity.tasks.flat import Replica
from fedparity.tasks.scored import ClientData, Scored

try:
    import torch
    from torch import Tensor, nn

    from fedparity.tasks.optimise import Optimiser
except ImportError as error:
    raise ConfigError("this task trains with PyTorch; pip install 'fedparity[torch]'") from error


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TorchTask(Scored):
    """Clients that train a classifier; the module takes batches of samples as floats, shaped as they are kept."""

    def train(self, job: Job) -> ClientReport:
        """Train as the job's rule says; the update is relative to `job.params`."""
        torch.set_num_threads(self.threads)
        data = self._own(self.samples.train[job.row])
        told = self._before(job, data)
        ends, failure = self._descend_all(job, data)
        if failure is None and "loss_after" in job.report_fields:
            with self.flat.lend(ends[0][1]) as replica:
                told["loss_after"] = float(self._losses(replica, data).mean())
            if not math.isfinite(told["loss_after"]):
                failure = f"loss is {_word(told['loss_after'])} after training"
        if failure is not None:
            return ClientReport(job.client, failure=f"client {job.client}, round {job.round}: {failure}")
        return job.report(ends[0][1] - job.params, ends[1:], num_samples=len(data.x), **told)

    def _before(self, job: Job, data: ClientData) -> dict[str, Any]:
        """What the report says about the model received, as far as anybody wants to know."""
        told: dict[str, Any] = {}
        if "accuracy_before" in job.report_fields:
            told["accuracy_before"] = float(self._hits(job.params, self.samples.test[job.row]).mean())
        with self.flat.lend(job.params) as replica:
            if job.report_fields & {"loss_before", "loss_rms"}:
                losses = self._losses(replica, data)
                told["loss_before"] = float(losses.mean())
                told["loss_rms"] = float(np.sqrt((losses**2).mean()))
            if "prototypes" in job.report_fields:
                told["prototypes"] = self._prototypes(replica, data)
        return told

    def _descend_all(self, job: Job, data: ClientData) -> tuple[list[tuple[Vector, Vector]], str | None]:
        """Where each descent started and ended, and what went wrong; one after the other unless they share a loss."""
        rng, joint, descents = job.rng(), job.joint, job.descents()
        if joint is not None:
            return self._descend(job, data, rng, descents, joint)
        ends: list[tuple[Vector, Vector]] = []
        for descent in descents:
            found, failure = self._descend(job, data, rng, [descent], _of_one)
            if failure is not None:
                return ends, failure
            ends += found
        return ends, None

    def _descend(
        self, job: Job, data: ClientData, rng: np.random.Generator, descents: Sequence[Descent], joint: JointLoss
    ) -> tuple[list[tuple[Vector, Vector]], str | None]:
        """Train models by one loss: where each started and ended, and what went wrong if something did."""
        with ExitStack() as lent:
            replicas = [lent.enter_context(self.flat.lend(descent.start)) for descent in descents]
            centres = [self._centre(job, descent) for descent in descents]
            optimisers = [Optimiser(self.training, r.gradient, r.trained) for r in replicas]
            rate = self.training.rate * job.rate
            for replica in replicas:
                replica.prepare()
            for step, batch in enumerate(self.training.batches(len(data.x), rng)):
                x = self.floats(data.x[batch])
                loss = joint([replica.module(x) for replica in replicas], data.y[batch])
                value = loss.item()
                if not math.isfinite(value):
                    return [], f"loss is {_word(value)} in {self.training.place(step, len(data.x))}"
                for replica in replicas:
                    replica.gradient.zero_()
                torch.autograd.backward(loss)
                for replica, descent, centre, optimiser in zip(replicas, descents, centres, optimisers, strict=True):
                    if centre is not None:
                        replica.gradient.add_(replica.parameters.detach() - centre, alpha=descent.pull)
                    optimiser.step(replica.parameters, replica.gradient, rate)
            return [(d.start, replica.vector()) for d, replica in zip(descents, replicas, strict=True)], None

    def _centre(self, job: Job, descent: Descent) -> Tensor | None:
        """What a model is pulled towards, in the memory format of replicas."""
        if not descent.pull:
            return None
        with self.flat.lend(job.params if descent.centre is None else descent.centre) as replica:
            return replica.parameters.clone()

    def _prototypes(self, replica: Replica, data: ClientData) -> Prototypes:
        """Class means of what the last linear layer takes."""
        head = _head(replica.module)
        seen: list[Tensor] = []
        handle = head.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0].detach()))
        try:
            self._losses(replica, data)
        finally:
            handle.remove()
        features = torch.cat(seen).double().cpu().numpy()
        labels = data.y.cpu().numpy()
        counts = np.bincount(labels, minlength=self.samples.classes)
        sums = np.zeros((self.samples.classes, features.shape[1]))
        np.add.at(sums, labels, features)
        return Prototypes(sums / np.maximum(counts, 1)[:, None], counts, _place(replica.module, head))


def _of_one(logits: Sequence[Tensor], y: Tensor) -> Tensor:
    """The loss of a model that trains by itself."""
    return nn.functional.cross_entropy(logits[0], y)


def _head(module: nn.Module) -> nn.Linear:
    layers = [part for part in module.modules() if isinstance(part, nn.Linear)]
    if not layers:
        raise ConfigError("prototypes need a model whose last layer is linear; use another memory")
    return layers[-1]


def _place(module: nn.Module, head: nn.Linear) -> int:
    """Where a layer begins in the model's vector."""
    if head.bias is None:
        raise ConfigError("prototypes need a last layer with biases; use another memory")
    at = 0
    for parameter in module.parameters():
        if parameter is head.weight:
            break
        at += parameter.numel()
    return at


def _word(value: float) -> str:
    return "NaN" if math.isnan(value) else "infinite"
