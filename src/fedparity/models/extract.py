"""Frozen features: images as bytes in, 1,280 numbers per image out.

Images are normalised as the network was trained, (x - 127) / 128, and enlarged to `size` pixels by bilinear
interpolation. Torch works in batches of 16 on one thread, and several batches at a time: measured here, that is faster
than two threads in one batch, keeps its speed beside busy neighbours, and an image's features are the same bits
wherever in a batch it stands, whoever stands beside it and however many workers there are (smaller batches are not, so
the last one is filled up). Another build of torch may round differently: its name is part of `digest`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.models.chain import prefix_of
from fedparity.models.efficientnet_lite import FEATURES, EfficientNetLite0, published
from fedparity.models.normalise import Normalise
from fedparity.models.weights import load_weights

BATCH = 16
LEAST = 32
"""The network halves an image five times."""


class Enlarge(nn.Module):
    """Images of `size` x `size` pixels, by bilinear interpolation; larger ones are averaged down."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        """Floats of the new size."""
        larger = max(x.shape[-2:]) > self.size
        return nn.functional.interpolate(x, (self.size, self.size), mode="bilinear", antialias=larger)


class Extractor:
    """A frozen network: call it with images (N x H x W or N x H x W x C, bytes); gives N x width floats."""

    def __init__(
        self, network: nn.Module, width: int, digest: str, workers: int | None = None, channels: int = 3
    ) -> None:
        """`workers` batches at a time; as many as there are processors if not given. Grey images fill all channels."""
        if workers is not None:
            checks.at_least("workers", workers, 1)
        self.network = network.eval().requires_grad_(requires_grad=False)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # its hints leave this out
        self.width = width
        self.channels = channels
        self.digest = digest
        """Names whatever decides about the numbers."""
        self.workers = workers or _processors()

    def __call__(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Features, one row per image."""
        fits = images.ndim == 3 or (images.ndim == 4 and images.shape[3] in {1, 3})
        if images.dtype != np.uint8 or not fits:
            raise ConfigError(
                f"images are {images.dtype} of shape {images.shape}; give uint8 of shape N x H x W, "
                "N x H x W x 1 or N x H x W x 3"
            )
        found = np.empty((len(images), self.width), dtype=np.float32)
        starts = range(0, len(images), BATCH)
        with _one_thread(), ThreadPoolExecutor(self.workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for at, part in zip(starts, pool.map(lambda i: self._batch(images[i : i + BATCH]), starts), strict=True):
                found[at : at + BATCH] = part
        return found

    def _batch(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        full = np.zeros((BATCH, *images.shape[1:3], self.channels), dtype=np.uint8)
        full[: len(images)] = images if images.ndim == 4 else images[..., None]
        with torch.inference_mode():
            # Channels stay last in memory, as they came: it is faster, too.
            result = self.network(torch.from_numpy(full).permute(0, 3, 1, 2))
        return np.asarray(result.numpy()[: len(images)])


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


@contextmanager
def _one_thread() -> Iterator[None]:
    """The workers pin torch, everywhere in the process; afterwards it is as it was."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def efficientnet_features(
    path: str | os.PathLike[str], size: int = 96, peak: int = 255, workers: int | None = None
) -> Extractor:
    """EfficientNet-Lite0 up to its last layer, with the published weights in `path` (`data.fetch_weights`)."""
    checks.at_least("size", size, LEAST)
    module = EfficientNetLite0().build((3, size, size), 1000)
    weights = load_weights(module, path, published)
    network = nn.Sequential(Normalise(127 / 255, 128 / 255, peak), Enlarge(size), prefix_of(module, ["fc"])[0])
    facts = {
        "network": "efficientnet_lite0 1",
        "weights": weights["sha256"],
        "size": size,
        "peak": peak,
        "torch": torch.__version__,
    }
    return Extractor(network, FEATURES, hashlib.sha256(json.dumps(facts).encode()).hexdigest(), workers)


def frozen_prefix(
    prefix: nn.Module, shape: tuple[int, ...], peak: float, workers: int | None = None
) -> tuple[Extractor, int, tuple[int, ...]]:
    """The frozen beginning of a model as an extractor: images in, its activations out, flat; their number and shape.

    `shape` is that of an image, channels first; images are divided by `peak`, as tasks do. Batch norm uses its running
    means, as everything that is frozen does.
    """
    with torch.inference_mode():
        inner = tuple(prefix.eval()(torch.zeros(1, *shape)).shape[1:])
    network = nn.Sequential(_Scale(peak), prefix, nn.Flatten())
    facts = {"prefix": [name for name, _ in prefix.named_modules()], "peak": peak, "torch": torch.__version__}
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    width = int(np.prod(inner))
    return Extractor(network, width, digest, workers, channels=shape[0]), width, inner


class _Scale(nn.Module):
    """Bytes as floats, a full pixel as 1."""

    def __init__(self, peak: float) -> None:
        super().__init__()
        self.peak = peak

    def forward(self, x: Tensor) -> Tensor:
        """Floats."""
        return x.float() / self.peak
