"""One's own model and data as a task that the loop runs.

    task = torch_task(module, x, y, clients=100, partition="labels:k=2", training=Training(rate=0.1))

Samples go to the module as they are given, as floats; bytes (uint8) are divided by 255 first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.protocols import Task
from fedparity.core.reprs import one_line
from fedparity.core.types import Ids
from fedparity.data import DataSet, from_frame
from fedparity.data.dataset import every_fourth
from fedparity.data.npy import finite
from fedparity.data.partition import HeldOut, Partition, build, by_label
from fedparity.data.partitions import PARTITIONS, Scheme
from fedparity.data.table import Frame
from fedparity.models import MODELS
from fedparity.tasks.samples import Samples
from fedparity.tasks.training import Training

if TYPE_CHECKING:
    from torch import nn

    from fedparity.tasks.torch_task import TorchTask

Path: TypeAlias = Literal["auto", "sequential", "batched", "compiled"]
Clients: TypeAlias = int | Sequence[Any]
"""How many clients there are, or of each of them the rows it holds."""


def torch_task(
    module: nn.Module | str,
    x: Any,
    y: Any = None,
    clients: Clients = 100,
    partition: str | Scheme | None = None,
    *,
    test: Any = None,
    training: Training | None = None,
    seed: int = 0,
    path: Path = "auto",
    workers: int = 1,
    device: str = "cpu",
) -> Task:
    """Clients that train `module` (or a model by name, `fedparity list models`) on one's own samples.

    `x` is a `Samples`, or is read together with the arguments up to `test` as `own_samples` says. `path="auto"` trains
    clients together if the module is nothing but flatten, linear layers and ReLU between them, all of it is trained,
    and that on the CPU; any other module is trained client by client.
    """
    from torch import nn

    from fedparity.tasks.stacked import chain_of

    checks.one_of("path", path, get_args(Path))
    if training is not None:
        checks.instance("training", training, Training, "Training(rate=0.1) makes one")
    samples = x if isinstance(x, Samples) else own_samples(x, y, clients, partition, test=test, seed=seed)
    if isinstance(module, str):
        module = MODELS.build(module).build(tuple(samples.x_train.shape[1:]), samples.classes)
    checks.instance("module", module, nn.Module, "give an object, nn.Linear(8, 2), or a name (fedparity list models)")
    if path == "auto":
        whole = all(p.requires_grad for p in module.parameters())
        path = "batched" if whole and device == "cpu" and chain_of(module) is not None else "sequential"
    return on_path(path)(module, samples, training or Training(), workers=workers, device=device)


def on_path(path: str) -> Callable[..., TorchTask]:
    """The kind of task whose clients are trained one by one, or together."""
    from fedparity.tasks.batched import Batched
    from fedparity.tasks.torch_task import TorchTask

    return TorchTask if path == "sequential" else partial(Batched, compiled=path == "compiled")


def own_samples(
    x: Any,
    y: Any = None,
    clients: Clients = 100,
    partition: str | Scheme | None = None,
    *,
    test: Any = None,
    seed: int = 0,
) -> Samples:
    """Samples of arrays or tensors `x` and `y`, or of a `torch.utils.data.Dataset` of pairs alone.

    `clients` is a number, and `partition` ("labels:k=2") says how samples are dealt to so many; or it lists the rows of
    each client.
    `test` is a pair (x, y) or a Dataset: each client is then tested on the samples of its own labels. Without it every
    fourth sample of each label is held out or, if `clients` are lists, of each label of each client, for itself.
    """
    inputs, labels = _pair(x, y, "x, y")
    if isinstance(clients, np.integer):
        clients = int(clients)
    if not isinstance(clients, int):
        if isinstance(clients, str) or not isinstance(clients, Iterable):
            raise ConfigError(f"clients={one_line(clients)} must be a whole number, or a list of each client's rows")
        if partition is not None:
            raise ConfigError(f"partition={partition!r} deals samples, but clients lists each client's rows; give one")
        rows = [_rows(held, client, len(labels)) for client, held in enumerate(clients)]
        if test is None:
            return _each_its_own(inputs, labels, rows)
    if test is None:
        held_out = every_fourth(labels)
        _check_trainable(labels, held_out)
        (inputs, labels), (x_test, y_test) = ((inputs[m], labels[m]) for m in (~held_out, held_out))
    else:
        given = test if isinstance(test, tuple) and len(test) == 2 else (test, None)
        x_test, y_test = _pair(given[0], given[1], "test")
        if x_test.shape[1:] != inputs.shape[1:] or x_test.dtype != inputs.dtype:
            what = " and ".join(f"{part.dtype} of shape {part.shape[1:]}" for part in (inputs, x_test))
            raise ConfigError(f"samples to train and to test on are {what}; make them the same")
    if isinstance(clients, int):
        dealt = PARTITIONS.of(partition or "labels:k=2").split(labels, y_test, clients, seed)
    else:
        dealt = _given(rows, labels, y_test, seed)
    return _samples((inputs, labels), (x_test, y_test), dealt, 255.0 if inputs.dtype == np.uint8 else 1.0)


def frame_samples(
    frame: Frame,
    label: str = "label",
    client: str | None = None,
    *,
    clients: int | None = None,
    partition: str | Scheme | None = None,
    seed: int = 0,
) -> Samples:
    """Samples of a frame (pandas, polars): `data.table` says how it is read.

    With a `client` column each client holds its own rows, or several clients' rows if `clients` is a smaller number.
    """
    data = from_frame(frame, label, client)
    if clients is None:
        clients = 100 if data.groups is None else len(np.unique(data.groups))
    return samples_of(data, partition or ("labels:k=2" if client is None else "groups"), clients, seed)


def samples_of(data: DataSet, partition: str | Scheme, clients: int, seed: int) -> Samples:
    """A data set dealt to clients; images with their channels first, as models take them."""
    scheme = PARTITIONS.of(partition)
    dealt = scheme.split(data.y_train, data.y_test, clients, seed, data.groups, groups_test=data.groups_test)
    train, test = (_channels_first(data.x_train), data.y_train), (_channels_first(data.x_test), data.y_test)
    return _samples(train, test, dealt, data.peak, data.classes)


def _samples(
    train: tuple[NDArray[Any], Ids], test: tuple[NDArray[Any], Ids], dealt: Partition, peak: float, classes: int = 0
) -> Samples:
    return Samples(
        *train,
        *test,
        train=[dealt.train_of(k) for k in range(dealt.num_clients)],
        test=shared([dealt.test_of(k) for k in range(dealt.num_clients)]),
        classes=max(classes, dealt.classes),
        held_out=np.arange(len(test[1])),
        peak=peak,
    )


def shared(tests: list[Ids]) -> list[Ids]:
    """Equal test sets as one array: clients with the same labels have the same one."""
    kept: dict[bytes, Ids] = {}
    return [kept.setdefault(rows.tobytes(), rows) for rows in tests]


def _channels_first(x: NDArray[Any]) -> NDArray[Any]:
    return x[:, None] if x.ndim == 3 else x.transpose(0, 3, 1, 2) if x.ndim == 4 else x


def _pair(x: Any, y: Any, name: str) -> tuple[NDArray[Any], Ids]:
    """Samples as bytes or float32, and their labels."""
    if hasattr(x, "columns"):
        raise ConfigError(f"{name}: {type(x).__name__} is a frame; frame_samples(frame, LABEL) makes samples of it")
    if y is None:
        if not (hasattr(x, "__len__") and hasattr(x, "__getitem__")):
            raise ConfigError(f"{name}: {type(x).__name__} is no Dataset of pairs; give one, or x and y")
        try:
            items = [x[i] for i in range(len(x))]
            x, y = np.stack([_array(item[0], name) for item in items]), np.array([int(item[1]) for item in items])
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{name}: {type(x).__name__} is no Dataset of pairs ({error}); give x and y") from error
    inputs, labels = _array(x, name), _array(y, name)
    if inputs.ndim < 2 or not len(inputs) or inputs.dtype.kind not in "iufb":
        raise ConfigError(
            f"{name}: samples are {inputs.dtype} of shape {inputs.shape}; give numbers, one row per sample"
        )
    if labels.shape != inputs.shape[:1] or labels.dtype.kind not in "iu" or labels.min() < 0:
        raise ConfigError(
            f"{name}: labels are {labels.dtype} of shape {labels.shape} for {len(inputs)} samples; "
            "give one whole number of at least 0 per sample"
        )
    return inputs if inputs.dtype == np.uint8 else finite(inputs, name), labels.astype(np.int64)


def _array(value: Any, name: str) -> NDArray[Any]:
    try:
        return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"{name}: {type(value).__name__} is no array ({error}); give NumPy arrays or tensors"
        ) from error


def _rows(held: Any, client: int, total: int) -> Ids:
    rows = _array(held, f"clients[{client}]")
    good = rows.ndim == 1 and rows.dtype.kind in "iu" and len(np.unique(rows)) == len(rows)
    if not good or not len(rows) or rows.min() < 0 or rows.max() >= total:
        rule = f"must list rows between 0 and {total - 1}, each once and at least one"
        raise ConfigError(f"clients[{client}]={one_line(held)} {rule}")
    return np.sort(rows.astype(np.int64))


def _each_its_own(x: NDArray[Any], y: Ids, rows: list[Ids]) -> Samples:
    """Of each client's rows of a label the first, fifth, ... are its test samples."""
    everything = np.concatenate(rows)
    if len(np.unique(everything)) < len(everything):
        values, counts = np.unique(everything, return_counts=True)
        raise ConfigError(f"row {values[counts > 1][0]} is held by two clients; give test=(x, y), or each row to one")
    single = next((client for client, held in enumerate(rows) if len(held) < 2), None)
    if single is not None:
        raise ConfigError(f"client {single} has a single row; give it another one, or give test=(x, y)")
    marks = [every_fourth(np.zeros(len(held), np.int64), y[held]) for held in rows]
    test, train = ([held[mark == own] for held, mark in zip(rows, marks, strict=True)] for own in (True, False))
    peak = 255.0 if x.dtype == np.uint8 else 1.0
    return Samples(x, y, x, y, train, test, 1 + int(y.max()), np.sort(np.concatenate(test)), peak=peak)


def _given(rows: list[Ids], y_train: Ids, y_test: Ids, seed: int) -> Partition:
    """Clients that hold these rows and are tested on their own labels."""
    owner = np.repeat(np.arange(len(rows)), [len(held) for held in rows])
    tests = HeldOut(*by_label(y_test, 1 + int(max(y_train.max(), y_test.max()))), "own", None, seed)
    return build(owner, np.concatenate(rows), y_train, len(rows), tests)


def _check_trainable(labels: Ids, held_out: NDArray[np.bool_]) -> None:
    lost = np.setdiff1d(labels[held_out], labels[~held_out])
    if len(lost):
        raise ConfigError(f"label {lost[0]} has a single sample, none of which is left to train on; give test=(x, y)")
