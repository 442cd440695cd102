"""What every contender trains: the same synthetic data, models and settings, from NumPy and PyTorch alone.

Batch 32, SGD .05, one local epoch, weighted mean, uint8 data normalised in `forward`, float32. Images are random and
every client holds two labels: the time of a round does not depend on what the pixels show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu

BATCH, RATE, LABELS = 32, 0.05, 10
TEST_IMAGES = 10_000
TEST_BATCH = 64
"""The fastest of 32 to 2,000 for the CNN on two cores: larger batches leave the cache and take up to three times as long."""


@dataclass(frozen=True, slots=True)
class Workload:
    """`cohort` of `clients` clients with `samples` samples each train `model` every round."""

    clients: int
    cohort: int
    samples: int
    shape: tuple[int, ...]
    model: Callable[[], nn.Module]
    parameters: int
    tested: bool = False
    """Test every client on all test images of its two labels, every round."""

    def rows(self, client: int) -> slice:
        """Where a client's samples stand in the data."""
        return slice(client * self.samples, (client + 1) * self.samples)


class Normalised(nn.Module):
    """A network over bytes; they become floats in [-1, 1] here and nowhere else."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.net(images.float() / 127.5 - 1)
        return logits


def cnn() -> nn.Module:
    """Two 5×5 convolutions without padding and two dense layers: 878,538 parameters."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1600, 512), nn.ReLU(), nn.Linear(512, LABELS),
    )  # fmt: skip


class Block(nn.Module):
    """Two 3×3 convolutions beside a shortcut, which is a 1×1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(32, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(32, outputs)
        self.shortcut = nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.shortcut.append(nn.Conv2d(inputs, outputs, 1, stride, bias=False))
            self.shortcut.append(nn.GroupNorm(32, outputs))

    def forward(self, images: Tensor) -> Tensor:
        """Feature maps."""
        hidden = self.norm2(self.conv2(relu(self.norm1(self.conv1(images)))))
        return relu(hidden + self.shortcut(images))


def resnet18() -> nn.Module:
    """ResNet-18 for 32×32 images, group for batch normalisation: 11,173,962 parameters."""
    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    blocks = [Block(before, after, 1 if before == after else 2) for before, after in pairwise(widths)]
    stem = [nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.GroupNorm(32, 64), nn.ReLU()]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, LABELS))


def logistic() -> nn.Module:
    """One dense layer: 7,850 parameters."""
    return nn.Linear(784, LABELS)


def mlp() -> nn.Module:
    """Two hidden layers of 200: 199,210 parameters."""
    return nn.Sequential(
        nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, LABELS)
    )  # fmt: skip


WORKLOADS = {
    "a": Workload(100, 10, 500, (3, 32, 32), cnn, 878_538),
    "b": Workload(100, 4, 128, (3, 32, 32), resnet18, 11_173_962),
    "c": Workload(1000, 100, 50, (784,), logistic, 7_850),
    "d": Workload(1000, 100, 50, (784,), mlp, 199_210),
    "e": Workload(100, 10, 500, (3, 32, 32), cnn, 878_538, tested=True),
}


def build(workload: Workload) -> nn.Module:
    """The untrained model, the same one every time."""
    torch.manual_seed(0)
    model = Normalised(workload.model())
    found = sum(p.numel() for p in model.parameters())
    if found != workload.parameters:
        raise ValueError(f"the model has {found:,} parameters; the workload says {workload.parameters:,}")
    return model


@cache
def pairs(workload: Workload) -> Tensor:
    """The two labels of every client, N × 2."""
    rng = np.random.default_rng(0)
    return torch.from_numpy(np.stack([rng.choice(LABELS, 2, replace=False) for _ in range(workload.clients)]))


@cache
def training_data(workload: Workload) -> tuple[Tensor, Tensor]:
    """Everybody's images (uint8) and labels, client after client; made once a process."""
    draw = torch.Generator().manual_seed(1)
    count = workload.clients * workload.samples
    images = torch.randint(0, 256, (count, *workload.shape), dtype=torch.uint8, generator=draw)
    which = torch.randint(0, 2, (workload.clients, workload.samples), generator=draw)
    return images, pairs(workload).gather(1, which).flatten()


@cache
def test_data(workload: Workload) -> tuple[Tensor, Tensor]:
    """The distinct test images (uint8) and their labels, as many of each label."""
    draw = torch.Generator().manual_seed(2)
    images = torch.randint(0, 256, (TEST_IMAGES, *workload.shape), dtype=torch.uint8, generator=draw)
    return images, torch.arange(LABELS).repeat_interleave(TEST_IMAGES // LABELS)


@cache
def test_rows(workload: Workload, client: int) -> Tensor:
    """Which test images are a client's: all of its two labels, 2,000 of the 10,000."""
    return torch.isin(test_data(workload)[1], pairs(workload)[client]).nonzero().flatten()


def train(model: nn.Module, images: Tensor, labels: Tensor) -> None:
    """One local epoch in random order, the model changed in place: plain eager PyTorch, index tensors."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    model.train()
    for rows in torch.split(torch.randperm(len(labels)), BATCH):
        optimizer.zero_grad()
        cross_entropy(model(images[rows]), labels[rows]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


@torch.inference_mode()
def hits(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Which images the model gets right."""
    model.eval()
    batches = zip(torch.split(images, TEST_BATCH), torch.split(labels, TEST_BATCH), strict=True)
    return torch.cat([model(image).argmax(1) == label for image, label in batches])


def accuracy_of(workload: Workload, model: nn.Module, client: int) -> float:
    """A client's accuracy, from its own 2,000 test images."""
    images, labels = test_data(workload)
    rows = test_rows(workload, client)
    return float(hits(model, images[rows], labels[rows]).float().mean())


def accuracies_in_one_pass(workload: Workload, model: nn.Module) -> list[float]:
    """Everybody's accuracy from one pass over the distinct test images, gathered a client."""
    right = hits(model, *test_data(workload)).float()
    return [float(right[test_rows(workload, client)].mean()) for client in range(workload.clients)]
