"""The yardstick: federated averaging as a plain PyTorch loop with two threads and nothing around it."""

from __future__ import annotations

import numpy as np
import torch
from protocol import arguments, serve
from workloads import WORKLOADS, accuracies_in_one_pass, accuracy_of, build, train, training_data


def main() -> None:
    """Serve rounds."""
    torch.set_num_threads(2)
    name, one_pass = arguments()
    workload = WORKLOADS[name]
    images, labels = training_data(workload)
    model, rng = build(workload), np.random.default_rng(0)
    parameters = list(model.parameters())

    def once() -> None:
        start = [p.detach().clone() for p in parameters]
        mean = [torch.zeros_like(p) for p in start]
        cohort = rng.choice(workload.clients, workload.cohort, replace=False)
        weight = workload.samples / (len(cohort) * workload.samples)
        for client in cohort.tolist():
            put(start)
            train(model, images[workload.rows(client)], labels[workload.rows(client)])
            for total, p in zip(mean, parameters, strict=True):
                total.add_(p.detach(), alpha=weight)
        put(mean)
        if workload.tested and one_pass:
            accuracies_in_one_pass(workload, model)
        elif workload.tested:
            for client in range(workload.clients):
                accuracy_of(workload, model, client)

    @torch.no_grad()
    def put(values: list[torch.Tensor]) -> None:
        for p, value in zip(parameters, values, strict=True):
            p.copy_(value)

    serve(once, contender="bare", torch=torch.__version__, threads=torch.get_num_threads())


if __name__ == "__main__":
    main()
