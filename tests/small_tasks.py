"""Small networks on the digits, for tests that need something to train."""

import itertools

from torch import nn

from fedparity.data import open_data
from fedparity.experiment.own import own_samples
from fedparity.tasks.torch_task import TorchTask
from fedparity.tasks.training import Training


def mlp(sizes):
    """Linear layers with ReLU between them."""
    layers = [part for a, b in itertools.pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def digits_task(num_clients, labels=2, *, hidden=32, seed=0, workers=1, training=None):
    """A 64-hidden-10 network on the digits as 64 floats, `labels` labels per client."""
    data = open_data("digits")
    x_train, x_test = ((x.reshape(len(x), 64) / 16).astype("float32") for x in (data.x_train, data.x_test))
    samples = own_samples(
        x_train, data.y_train, num_clients, f"labels:k={labels}", test=(x_test, data.y_test), seed=seed
    )
    return TorchTask(mlp([64, hidden, 10]), samples, training or Training(), workers=workers)
