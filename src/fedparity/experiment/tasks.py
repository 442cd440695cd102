"""From a spec's [task] to a task: data, how it is dealt, the model, and how clients train it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedparity.core.errors import ConfigError
from fedparity.core.protocols import Task
from fedparity.core.rng import stream
from fedparity.core.types import Ids
from fedparity.data import DataSet, fetch, fetch_weights, load_npz
from fedparity.data.dataset import Progress, silent
from fedparity.data.features import FeatureCache
from fedparity.data.partitions import PARTITIONS
from fedparity.experiment.spec import Spec
from fedparity.experiment.spec import Task as TaskSpec
from fedparity.models import MODELS
from fedparity.models.features import EXTRACTORS
from fedparity.tasks import Logistic, Quadratic

if TYPE_CHECKING:
    from torch import nn

    from fedparity.tasks.samples import Samples

Features: TypeAlias = Callable[[NDArray[Any], Ids], NDArray[np.float32]]
"""Some rows of images as features, a row each."""


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def build_task(spec: Spec, seed: int, workers: int = 1, progress: Progress = silent) -> Task:
    """What the clients learn, with data dealt by `seed`."""
    t, clients = spec.resolved().task, spec.population.clients
    if t.dataset == "quadratic":
        return Quadratic.random(clients, seed=seed, rate=t.rate, steps=t.epochs)
    if t.dataset == "logistic":
        return replace(Logistic.synthetic(clients, seed=seed), rate=t.rate, epochs=t.epochs, batch=t.batch)
    return _torch_task(t, clients, seed, workers, progress)


def _torch_task(t: TaskSpec, clients: int, seed: int, workers: int, progress: Progress) -> Task:
    from fedparity.tasks.batched import Batched
    from fedparity.tasks.torch_task import TorchTask
    from fedparity.tasks.training import Training

    samples = _samples(t, clients, seed, progress)
    module, given = _module(t, samples)
    if t.trains:
        module, samples = _cut(t, module, samples, progress)
    batched = t.path in {"batched", "compiled"}
    kind = partial(Batched, compiled=t.path == "compiled") if batched else TorchTask
    return kind(
        module,
        samples,
        Training(t.epochs, t.batch, t.rate, t.steps, t.optimiser, t.momentum, t.weight_decay, t.clip),
        threads=t.threads or 1,
        workers=workers,
        channels_last=bool(t.channels_last),
        device=t.device,
        first=_values(module) if given else None,
    )


def _values(module: nn.Module) -> NDArray[Any]:
    from fedparity.tasks.flat import vector_of

    return vector_of(module)


def _samples(t: TaskSpec, clients: int, seed: int, progress: Progress) -> Samples:
    from fedparity.tasks.samples import Samples
    from fedparity.tasks.torch_task import digits_samples

    if t.partition is None:
        samples = digits_samples(clients, t.labels_per_client, seed)
    else:
        data = load_npz(t.dataset) if t.dataset.endswith(".npz") else fetch(t.dataset, progress=progress)
        dealt = PARTITIONS.build(t.partition).split(data.y_train, data.y_test, clients, seed, data.groups)
        samples = Samples(
            x_train=_channels_first(data.x_train),
            y_train=data.y_train,
            x_test=_channels_first(data.x_test),
            y_test=data.y_test,
            train=[dealt.train_of(k) for k in range(clients)],
            test=_shared([dealt.test_of(k) for k in range(clients)]),
            classes=max(data.classes, dealt.classes),
            held_out=np.arange(len(data.y_test)),
            peak=data.peak,
        )
        if t.features is not None:
            samples = _featured(t.features, data, samples, progress)
    return _hold_back(samples, t.validation or 0.0, seed)


def _channels_first(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)


def _shared(tests: list[Ids]) -> list[Ids]:
    """Equal test sets as one array: clients with the same labels have the same one."""
    kept: dict[bytes, Ids] = {}
    return [kept.setdefault(rows.tobytes(), rows) for rows in tests]


def _hold_back(samples: Samples, share: float, seed: int) -> Samples:
    """A share of all training samples, drawn at random, becomes the server's; each client must keep at least one."""
    if not share:
        return samples
    rng = stream(seed, "validation")
    pool = np.unique(np.concatenate(samples.train))
    held = np.sort(rng.choice(pool, max(1, round(share * len(pool))), replace=False))
    kept = [rows[~np.isin(rows, held)] for rows in samples.train]
    short = next((client for client, rows in enumerate(kept) if not len(rows)), None)
    if short is not None:
        raise ConfigError(f"task.validation={share} leaves client {short} without training samples; lower it")
    return replace(samples, train=kept, validation=held)


def _featured(text: str, data: DataSet, samples: Samples, progress: Progress) -> Samples:
    """Frozen features of all images that anybody holds, computed once and kept."""
    chosen = EXTRACTORS.build(text)
    extract = chosen.extractor(fetch_weights(chosen.weights, progress=progress), data.peak)

    def features(images: NDArray[np.uint8], rows: Ids) -> NDArray[np.float32]:
        return FeatureCache(images, extract, extract.digest, extract.width).rows(rows, progress)

    return _replaced(samples, features, data.x_train, data.x_test)


def _replaced(samples: Samples, features: Features, x_train: NDArray[Any], x_test: NDArray[Any]) -> Samples:
    """The same samples with features instead of images, renumbered: clients', the server's own, and all held out."""
    held = np.unique(np.concatenate([*samples.train, samples.validation]))
    tested = np.unique(np.concatenate([*samples.test, samples.held_out]))
    at, there = _places(held, len(x_train)), _places(tested, len(x_test))
    return replace(
        samples,
        x_train=features(x_train, held),
        y_train=samples.y_train[held],
        x_test=features(x_test, tested),
        y_test=samples.y_test[tested],
        train=[at[rows] for rows in samples.train],
        test=_shared([there[rows] for rows in samples.test]),
        held_out=there[samples.held_out],
        validation=at[samples.validation],
        peak=1.0,
    )


def _places(rows: Ids, total: int) -> Ids:
    """Where each of `rows` stands among them."""
    found = np.zeros(total, dtype=np.int64)
    found[rows] = np.arange(len(rows))
    return found


def _module(t: TaskSpec, samples: Samples) -> tuple[nn.Module, bool]:
    """The model, and whether its values were given."""
    module = MODELS.build(str(t.model)).build(tuple(samples.x_train.shape[1:]), samples.classes)
    if t.weights is None:
        return module, False
    from fedparity.models.weights import load_weights

    load_weights(module, t.weights, head=t.head)
    return module, True


def _cut(t: TaskSpec, module: Any, samples: Samples, progress: Progress) -> tuple[nn.Module, Samples]:
    """Only the named parts are trained: what lies before them is computed once for every image, and kept."""
    from fedparity.models.chain import prefix_of, trained
    from fedparity.models.extract import frozen_prefix

    parts = [part.strip() for part in t.trains.split(",")]
    names = set(trained(module, parts))
    for name, parameter in module.named_parameters():
        parameter.requires_grad = name in names
    prefix, rest = prefix_of(module, parts)
    if not len(prefix):
        return module, samples
    shape = tuple(samples.x_train.shape[1:])
    extract, width, inner = frozen_prefix(prefix, shape, samples.peak)
    digest = hashlib.sha256(_values(prefix).tobytes() + extract.digest.encode()).hexdigest()

    def features(images: NDArray[np.uint8], rows: Ids) -> NDArray[np.float32]:
        found = FeatureCache(np.moveaxis(images, 1, -1), extract, digest, width).rows(rows, progress)
        return found.reshape(len(rows), *inner)

    return rest, _replaced(samples, features, samples.x_train, samples.x_test)
