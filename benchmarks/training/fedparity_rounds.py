"""This library, as its users run it: the same rounds through `Coordinator`, `InProcess` and a task."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import torch
from protocol import arguments, serve
from torch import nn
from workloads import BATCH, RATE, WORKLOADS, Workload, pairs, test_data, training_data

from fedparity import Coordinator, InProcess, stream
from fedparity.core.protocols import Task
from fedparity.experiment.spec_parts import PATHS
from fedparity.models import MODELS
from fedparity.schedulers import Uniform
from fedparity.tasks.batched import Batched
from fedparity.tasks.samples import Samples
from fedparity.tasks.torch_task import TorchTask
from fedparity.tasks.training import Training
from fedparity.utility import NoUtility
from fedparity.weightings import BySize

FAMILY = {"a": "cnn", "b": "resnet18", "c": "logistic", "d": "mlp", "e": "cnn"}
WORKERS = 2


def samples_of(workload: Workload) -> Samples:
    """The same data, in our shape."""
    images, labels = (t.numpy() for t in training_data(workload))
    tested, answers = (t.numpy() for t in test_data(workload)) if workload.tested else (images[:10], labels[:10])
    train = [np.arange(rows.start, rows.stop) for rows in map(workload.rows, range(workload.clients))]
    own = [np.flatnonzero(np.isin(answers, pair)) for pair in pairs(workload).numpy()]
    test = own if workload.tested else [np.arange(10)] * workload.clients
    return Samples(images, labels, tested, answers, train, test, 10, np.arange(len(answers)), peak=255)


def task_of(name: str, workload: Workload, path: str | None = None) -> Task:
    """The task on the path that the table of paths gives its model."""
    chosen, threads, channels_last = PATHS[FAMILY[name]]
    module: nn.Module = MODELS.build(FAMILY[name]).build(workload.shape, 10)
    chosen = path or chosen
    kind = TorchTask if chosen == "sequential" else partial(Batched, compiled=chosen == "compiled")
    return kind(
        module,
        samples_of(workload),
        Training(epochs=1, batch=BATCH, rate=RATE),
        threads=threads,
        workers=WORKERS,
        channels_last=channels_last,
    )


def main() -> None:
    """Serve rounds."""
    name, _ = arguments()
    workload = WORKLOADS[name]
    start = time.perf_counter()
    task = task_of(name, workload)
    engine = InProcess(task, workers=1 if PATHS[FAMILY[name]][1] > 1 else WORKERS)
    coordinator = Coordinator(workload.cohort, scheduler=Uniform(), weighting=BySize(), utility=NoUtility())
    state = coordinator.init(workload.clients, task.init(stream(0, "init")))
    everybody = np.arange(workload.clients)

    def once() -> None:
        nonlocal state
        plan, state = coordinator.plan(state, engine.available(state.round))
        _, state = coordinator.absorb(state, plan, engine.train(plan))
        if workload.tested:
            engine.evaluate(state.params, everybody, "accuracy")

    prepared = time.perf_counter() - start
    serve(once, contender="fedparity", torch=torch.__version__, prepared_s=prepared, path=PATHS[FAMILY[name]])


if __name__ == "__main__":
    main()
