"""From a spec to a task: data, how it is dealt, the model, and how clients train it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedparity.availability.speeds import Clock
from fedparity.core.errors import ConfigError
from fedparity.core.protocols import Component as Part
from fedparity.core.protocols import Measure, Task
from fedparity.core.rng import stream
from fedparity.core.types import Ids, Job, ReportField
from fedparity.data import DataSet, fetch_weights, open_data
from fedparity.data.dataset import Progress, silent
from fedparity.data.features import FeatureCache
from fedparity.engines.inprocess import OF_A_CLIENT, scored, trained
from fedparity.experiment.own import on_path, samples_of, shared
from fedparity.experiment.spec import Spec
from fedparity.experiment.spec_parts import OWN, DataSpec, ExecutionSpec, ModelSpec, TrainingSpec, component_text
from fedparity.tasks import Logistic, Quadratic
from fedparity.tasks.samples import Samples
from fedparity.tasks.training import Training

if TYPE_CHECKING:
    from torch import nn

    from fedparity.data.partitions import Scheme
    from fedparity.models import Model
    from fedparity.models.features import Features as Extractor

Given: TypeAlias = Task | Callable[[int], Task]
"""A task of one's own, or a function that makes one for a seed."""
TASK = (
    "num_clients", "init", "train", "evaluate", "validate", "accuracy", "kept_accuracy", "label_counts", "local_steps",
    "recall",
)  # fmt: skip
"""What a run asks of a task."""
TRIED = 3
"""Of so many clients something is asked that a task may not be able to tell: one of them may have no data."""
Features: TypeAlias = Callable[[NDArray[Any], Ids], NDArray[np.float32]]
"""Some rows of images as features, one row per image."""


@runtime_checkable
class Trained(Protocol):
    """A task that says how its clients train."""

    @property
    def training(self) -> Training:
        """Epochs, batches, rate and the like."""
        ...


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def build_task(spec: Spec, seed: int, workers: int = 1, progress: Progress = silent) -> Task:
    """What the clients learn, with data dealt by `seed`."""
    t, clients = spec.training, spec.population.clients
    if spec.data.set == OWN:
        raise ConfigError("data.set='own' is a task of Python's: pass it, execute(spec, task=...)")
    if spec.data.set == "quadratic":
        return Quadratic.random(clients, seed=seed, rate=t.rate, steps=t.epochs)
    if spec.data.set == "logistic":
        return replace(Logistic.synthetic(clients, seed=seed), rate=t.rate, epochs=t.epochs, batch=t.batch)
    return _torch_task(spec.resolved(), seed, workers, progress)


def given_task(given: Given, seed: int, clients: int) -> Task:
    """A task of one's own for that seed, if it has all that a run asks of a task."""
    makes = isinstance(given, type) or not hasattr(given, "train")
    task: Any = given(seed) if makes and callable(given) else given
    lacks = next((name for name in TASK if not hasattr(task, name)), None)
    if lacks is not None:
        raise ConfigError(f"task: {type(task).__name__} has no {lacks!r}; inherit from fedparity.Task and give it one")
    if task.num_clients != clients:
        raise ConfigError(f"population.clients={clients} but the task has {task.num_clients}; set it to that")
    return cast("Task", task)


def clock_of(spec: Spec, task: Task) -> Clock | None:
    """How long the clients of a run take; None: nobody is timed."""
    people = spec.population
    if people.devices is None:
        return None
    seed = spec.seed if people.trace_seed is None else people.trace_seed
    return Clock.of(people.devices, task.local_steps(), people.clients, seed)


def check_utility(spec: Spec, task: Task) -> None:
    """Refuse a utility rule that needs what the task can tell of none of a few clients."""
    what: Measure = "accuracy" if "accuracy" in spec.worth.requires else "loss"
    own = spec.data.set == OWN  # ours all have losses
    if what == "loss" and not (own and spec.worth.needs_evaluation):
        return
    few = np.arange(min(TRIED, task.num_clients))
    if np.isnan(getattr(scored(task, task.init(stream(spec.seed, "init")), few, what), what)).all():
        told, fix = ("accuracies", "global_loss_drop") if what == "accuracy" else ("losses", "loss_drop or none")
        who = "the task" if own else f"data.set={spec.data.set!r}"
        raise ConfigError(f"utility {component_text(spec.utility)!r} needs {told}, which {who} has not; use {fix}")


def check_reports(spec: Spec, task: Task) -> None:
    """Refuse rules that need of clients what no report of a few clients' plain training under the first model holds."""
    rules = [(f"utility {component_text(spec.utility)!r}", "set utility='none'", spec.worth.report_fields)]
    for m in spec.methods:
        p = m.parts
        parts: tuple[Part, ...] = (p.scheduler, p.weighting, p.surrogate, p.memory, p.local)
        rules += [(f"method {m.name!r}", "leave it out", part.report_fields) for part in parts]
    wanted = frozenset(name for _, _, needed in rules for name in needed)
    first, known, answered = task.init(stream(spec.seed, "init")), set[ReportField](), False
    for client in range(min(TRIED, task.num_clients)):
        if wanted <= known:
            return
        with suppress(*OF_A_CLIENT):  # whose data cannot be trained on says nothing
            report = trained(task, Job(0, spec.seed, client, first, report_fields=wanted))
            answered |= report.failure is None
            known |= {name for name in wanted if _is_told(getattr(report, name))}
    for who, fix, needed in rules:
        lacks = next((name for name in needed if answered and name not in known), None)
        if lacks is not None:
            raise ConfigError(f"{who} needs {lacks}, which the task's reports do not hold; let train give it, or {fix}")


def _is_told(value: Any) -> bool:
    return value is not None and not (np.isscalar(value) and np.isnan(value))


def owned(spec: Spec, given: Given) -> Spec:
    """The spec of a run of one's own task: what the spec says of data, model and training gives way to it."""
    task = given_task(given, spec.seed, spec.population.clients)
    has = {"labels": task.label_counts() is not None, "validation": task.validate is not None}
    for method in spec.methods:
        lacks = next((need for need in method.parts.scheduler.requires if not has.get(need, True)), None)
        if lacks is not None:
            raise ConfigError(f"method {method.name!r} needs {lacks}, which the task does not have; leave it out")
    clock_of(spec, task)
    check_utility(spec.model_copy(update={"data": DataSpec(set=OWN)}), task)
    check_reports(spec, task)
    training = spec.training
    if isinstance(task, Trained):
        training = TrainingSpec(**asdict(task.training), schedule=training.schedule)
        for key in spec.training.model_fields_set:
            if (asked := getattr(spec.training, key)) != (is_so := getattr(training, key)):
                fix = f"leave it out, or make the task with Training({key}={asked!r})"
                raise ConfigError(f"training.{key}={asked!r} but the task was made with {is_so!r}; {fix}")
    how = ExecutionSpec(workers=spec.execution.workers, score_every=spec.execution.score_every)
    update = {"data": DataSpec(set=OWN), "model": ModelSpec(), "training": training, "execution": how}
    return spec.model_copy(update=update)


def own_digest(given: Given, spec: Spec) -> dict[str, str]:
    """What stands for a task among a run's inputs: its first model, clients' labels, and the data that it is made of.

    The data are the arrays among what a task that is a dataclass was made of; of any other those of its `samples`.
    """
    task: Any = given_task(given, spec.seed, spec.population.clients)
    held = task if is_dataclass(task) else getattr(task, "samples", None)
    return {"own task": _digest((task.init(stream(spec.seed, "init")), task.label_counts(), held), {}).hex()}


def _digest(value: Any, known: dict[int, bytes]) -> bytes:
    """Of all arrays in a value; one that several clients share is read once."""
    if id(value) in known:
        return known[id(value)]
    found, parts = hashlib.sha256(), value if isinstance(value, (list, tuple)) else ()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        found.update(f"{value.dtype.str} {value.shape}".encode())
        found.update(np.ascontiguousarray(value).data)
    elif is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, f.name) for f in fields(value) if f.init]  # the others are computed, or change
    for part in parts:
        found.update(_digest(part, known))
    known[id(value)] = found.digest()
    return known[id(value)]


def _torch_task(spec: Spec, seed: int, workers: int, progress: Progress) -> Task:
    t, how = spec.training, spec.execution
    samples = _samples(spec.data, spec.population.clients, seed, progress)
    module, given = _module(spec.model, samples)
    if spec.model.trains:
        module, samples = _cut(spec.model, module, samples, progress)
    return on_path(how.path)(
        module,
        samples,
        Training(t.epochs, t.batch, t.rate, t.steps, t.optimiser, t.momentum, t.weight_decay, t.clip),
        threads=how.threads or 1,
        workers=workers,
        channels_last=bool(how.channels_last),
        device=how.device,
        first=_values(module) if given else None,
    )


def _values(module: nn.Module) -> NDArray[Any]:
    from fedparity.tasks.flat import vector_of

    return vector_of(module)


def _samples(d: DataSpec, clients: int, seed: int, progress: Progress) -> Samples:
    data = open_data(d.set, d.label, d.client, progress)
    samples = samples_of(data, cast("Scheme", d.dealing), clients, seed)
    if d.extractor is not None:
        samples = _featured(d.extractor, data, samples, progress)
    if d.scored_on == "validation":
        samples = _scored_on_training_data(samples, seed)
    if d.standardise:
        samples = samples.standardised()
    return _hold_back(samples, d.validation or 0.0, seed)


SCORE_SHARE = 0.2
"""Of the training samples, held back to choose by."""


def _scored_on_training_data(samples: Samples, seed: int) -> Samples:
    """Held-back training samples in place of the test samples, which nothing is chosen by; no client loses its last."""
    pool = np.unique(np.concatenate(samples.train))
    drawn = stream(seed, "scored_on").choice(pool, max(1, round(SCORE_SHARE * len(pool))), replace=False)
    held = np.setdiff1d(drawn, [rows[0] for rows in samples.train if np.isin(rows, drawn).all()])
    if not len(held):
        raise ConfigError("data.scored_on='validation' needs clients with more than one training sample; leave it out")
    kept = [rows[~np.isin(rows, held)] for rows in samples.train]
    known = samples.y_train[held]
    own = [held[np.isin(known, samples.y_train[rows])] for rows in kept]
    test = shared([rows if len(rows) else held for rows in own])
    return replace(samples, x_test=samples.x_train, y_test=samples.y_train, train=kept, test=test, held_out=held)


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
        raise ConfigError(f"data.validation={share} leaves client {short} without training samples; lower it")
    return replace(samples, train=kept, validation=held)


def _featured(chosen: Extractor, data: DataSet, samples: Samples, progress: Progress) -> Samples:
    """Frozen features of all images that anybody holds, computed once and kept."""
    if data.x_train.dtype != np.uint8 or data.x_train.ndim < 3:
        raise ConfigError(
            f"data.features={chosen!r} needs images of bytes, which {data.source} does not hold; leave it out"
        )
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
        test=shared([there[rows] for rows in samples.test]),
        held_out=there[samples.held_out],
        validation=at[samples.validation],
        peak=1.0,
    )


def _places(rows: Ids, total: int) -> Ids:
    """Where each of `rows` stands among them."""
    found = np.zeros(total, dtype=np.int64)
    found[rows] = np.arange(len(rows))
    return found


def _module(m: ModelSpec, samples: Samples) -> tuple[nn.Module, bool]:
    """The model, and whether its values were given."""
    module = cast("Model", m.architecture).build(tuple(samples.x_train.shape[1:]), samples.classes)
    if m.weights is None:
        return module, False
    from fedparity.models.weights import load_weights

    load_weights(module, m.weights, head=m.head)
    return module, True


def _cut(m: ModelSpec, module: Any, samples: Samples, progress: Progress) -> tuple[nn.Module, Samples]:
    """Only the named parts are trained: what lies before them is computed once for every image, and kept."""
    from fedparity.models.chain import prefix_of, trained
    from fedparity.models.extract import frozen_prefix

    parts = [part.strip() for part in m.trains.split(",")]
    names = set(trained(module, parts))
    for name, parameter in module.named_parameters():
        parameter.requires_grad = name in names
    prefix, rest = prefix_of(module, parts)
    if not len(prefix) or samples.x_train.dtype != np.uint8 or samples.x_train.ndim != 4:
        return module, samples  # only images are kept; other samples go through the whole model
    shape = tuple(samples.x_train.shape[1:])
    extract, width, inner = frozen_prefix(prefix, shape, samples.peak)
    digest = hashlib.sha256(_values(prefix).tobytes() + extract.digest.encode()).hexdigest()

    def features(images: NDArray[np.uint8], rows: Ids) -> NDArray[np.float32]:
        found = FeatureCache(np.moveaxis(images, 1, -1), extract, digest, width).rows(rows, progress)
        return found.reshape(len(rows), *inner)

    return rest, _replaced(samples, features, samples.x_train, samples.x_test)
