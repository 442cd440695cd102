"""pfl-research, as its users write it: FederatedAveraging over a PyTorchModel in the simulated backend.

pfl owns the loop, so a callback waits for our `go`. On workload (e) pfl tests the validation users at the beginning of
an iteration, with the model the iteration before made, and the cohort before and after its training: that is how its
own evaluation works. A round still holds one cohort's training and one test of every user.
"""

from __future__ import annotations

import numpy as np
import pfl
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.common_types import Population
from pfl.context import UserContext
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, TrainMetricName, Weighted
from pfl.model.pytorch import PyTorchModel
from pfl.postprocessor.base import Postprocessor
from protocol import Turns, arguments
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from workloads import (
    BATCH,
    RATE,
    TEST_BATCH,
    WORKLOADS,
    Workload,
    accuracies_in_one_pass,
    build,
    test_data,
    test_rows,
    training_data,
)

FOREVER = 10**9


class Learner(nn.Module):
    """A model with the two methods pfl asks for."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """What a batch minimises."""
        self.net.train()
        return cross_entropy(self.net(images), labels)

    @torch.inference_mode()
    def metrics(self, images: Tensor, labels: Tensor) -> dict[str, Weighted]:
        """What a batch counts."""
        self.net.eval()
        right = int((self.net(images).argmax(1) == labels).sum())
        return {"accuracy": Weighted(right, len(labels))}


class Accuracies(Postprocessor):  # type: ignore[misc,unused-ignore]
    """Every validation user's accuracy, which pfl would otherwise only sum up."""

    name = TrainMetricName("accuracy", Population.VAL, after_training=False)

    def __init__(self) -> None:
        self.found: dict[int, float] = {}

    def postprocess_one_user_metrics(self, *, user_context: UserContext) -> Metrics:
        """Keep this user's."""
        if self.name in user_context.metrics:
            self.found[int(user_context.user_id)] = user_context.metrics[self.name].overall_value
        return Metrics()


class TakingTurns(TrainingProcessCallback):  # type: ignore[misc,unused-ignore]
    """Ends a round when the new model is there (and tested), and waits for the next turn."""

    def __init__(self, workload: Workload, turns: Turns, accuracies: Accuracies, *, one_pass: bool) -> None:
        self.workload, self.turns, self.accuracies = workload, turns, accuracies
        self.one_pass = workload.tested and one_pass

    def on_train_begin(self, *, model: PyTorchModel) -> Metrics:
        """The warm-up round begins."""
        self.turns.begin()
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """The model is updated by now."""
        found = self.accuracies.found
        if self.one_pass:
            found.update(enumerate(accuracies_in_one_pass(self.workload, model.pytorch_model.net)))
        if self.workload.tested and len(found) != self.workload.clients:
            raise RuntimeError(f"{len(found)} of {self.workload.clients} users were tested")
        found.clear()
        self.turns.end()
        return not self.turns.begin(), Metrics()


def federated(workload: Workload) -> tuple[FederatedDataset, FederatedDataset]:
    """Training users, in a fresh random order every time they are asked, and validation users with their test images."""
    images, labels = training_data(workload)

    def training_user(client: int) -> Dataset:
        order = torch.randperm(workload.samples) + client * workload.samples
        return Dataset((images[order], labels[order]), user_id=str(client))

    def validation_user(client: int) -> Dataset:
        rows = test_rows(workload, client)
        return Dataset(tuple(part[rows] for part in test_data(workload)), user_id=str(client))

    users = range(workload.clients)
    return (
        FederatedDataset(training_user, get_user_sampler("minimize_reuse", users)),
        FederatedDataset(validation_user, get_user_sampler("minimize_reuse", users)),
    )


def main() -> None:
    """Serve rounds."""
    torch.set_num_threads(2)
    name, one_pass = arguments()
    workload = WORKLOADS[name]
    federated_test = workload.tested and not one_pass
    turns = Turns(contender="pfl", pfl=pfl.__version__, torch=torch.__version__, threads=torch.get_num_threads())
    np.random.seed(0)  # noqa: NPY002 (pfl samples users by the global generator)
    learner, accuracies = Learner(build(workload)), Accuracies()
    # A rate of 1 on the mean difference makes the server's step the weighted mean of the models.
    model = PyTorchModel(learner, torch.optim.SGD, torch.optim.SGD(learner.parameters(), lr=1.0))
    training, validation = federated(workload)
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=FOREVER,
            # pfl tests in iteration 0 whatever the frequency: that one is the warm-up, and not timed.
            evaluation_frequency=1 if federated_test else FOREVER,
            train_cohort_size=workload.cohort,
            val_cohort_size=workload.clients if federated_test else 0,
        ),
        backend=SimulatedBackend(training, validation, postprocessors=[WeightByDatapoints(), accuracies]),
        model=model,
        model_train_params=NNTrainHyperParams(local_batch_size=BATCH, local_num_epochs=1, local_learning_rate=RATE),
        model_eval_params=NNEvalHyperParams(local_batch_size=TEST_BATCH),
        callbacks=[TakingTurns(workload, turns, accuracies, one_pass=one_pass)],
        send_metrics_to_platform=False,
    )


if __name__ == "__main__":
    main()
