"""From a spec to a task: any images, dealt as it says, given weights, frozen parts, the server's own data."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from fedparity import Coordinator, InProcess, Spec, run, stream
from fedparity.cli.main import app, main
from fedparity.core.errors import ConfigError, InputError
from fedparity.data import weights_path
from fedparity.experiment import tasks
from fedparity.experiment.runner import execute
from fedparity.experiment.spec_file import parse, to_toml
from fedparity.experiment.tasks import build_task
from fedparity.models import MODELS
from fedparity.models.chain import trained
from fedparity.schedulers import Uniform
from fedparity.tasks import Logistic
from fedparity.tasks.flat import pieces, vector_of
from fedparity.tasks.torch_task import TorchTask
from fedparity.tasks.training import Training

CLASSES, SIDE, CLIENTS = 4, 16, 6


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDPARITY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def images(tmp_path):
    """Random colour images with a bright band where their label says."""
    rng, path = stream(0, "images"), tmp_path / "own.npz"
    y_train, y_test = np.arange(72) % CLASSES, np.arange(24) % CLASSES
    x_train, x_test = (rng.integers(0, 128, (len(y), SIDE, SIDE, 3), dtype=np.uint8) for y in (y_train, y_test))
    for x, y in ((x_train, y_train), (x_test, y_test)):
        for image, label in zip(x, y, strict=True):
            image[4 * label : 4 * label + 4] += 100
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    return path


def spec_of(images, *overrides, methods=("uniform",)):
    entries = "".join(f'[[methods]]\nname = "{name}"\n' for name in methods)
    base = [
        "rounds=3",
        "cohort=3",
        f"population.clients={CLIENTS}",
        "population.availability=bernoulli",
        "execution.workers=1",
    ]
    task = [f"data.set={images}", "training.batch=5", "training.rate=0.05"]
    return parse(f"version = 2\n{entries}", "test", [*base, *task, *overrides])


def weights_of(tmp_path, model, classes=CLASSES):
    """A file with the values of a model, away from its first ones."""
    module = MODELS.build(model).build((3, SIDE, SIDE), classes)
    rng, path = stream(1, "weights"), tmp_path / f"{model.partition(':')[0]}.safetensors"
    with torch.no_grad():
        for p in module.parameters():
            p.add_(torch.from_numpy(rng.normal(scale=0.02, size=tuple(p.shape))).float())
    save_file(module.state_dict(), path)
    return path


# --- images of one's own


def test_images_of_one_s_own_are_trained_on(images):
    spec = spec_of(images, "model.name=cnn", "rounds=2")
    (done,) = execute(spec).runs
    assert done.ledger.completed.sum() > 0
    assert np.isfinite(done.accuracy).all()
    task = build_task(spec, 0)
    assert task.samples.x_train.shape == (72, 3, SIDE, SIDE)
    assert (task.samples.peak, task.samples.classes) == (255, CLASSES)
    assert sum(map(len, task.samples.train)) == 72
    assert spec.resolved().data.partition == "labels:k=2"
    assert (task.label_counts() > 0).sum(axis=1).tolist() == [2] * CLIENTS


def test_images_learn(images):
    spec = spec_of(images, "rounds=10", "model.name=logistic", "data.partition=iid", "training.rate=0.01", "cohort=6")
    (done,) = execute(spec).runs
    assert done.column("accuracy")[-1] > 0.9  # chance is a quarter


def test_a_partition_of_the_spec_deals_the_images(images):
    even = build_task(spec_of(images, "data.partition=iid"), 0)
    assert {len(rows) for rows in even.samples.train} == {72 // CLIENTS}
    spec = spec_of(images, "data.partition=dirichlet:alpha=0.3", "model.name=logistic")
    skewed, again, other = (build_task(spec, seed) for seed in (0, 0, 1))
    assert sum(map(len, skewed.samples.train)) == 72
    assert len({len(rows) for rows in skewed.samples.train}) > 1
    assert [rows.tolist() for rows in again.samples.train] == [rows.tolist() for rows in skewed.samples.train]
    assert [rows.tolist() for rows in other.samples.train] != [rows.tolist() for rows in skewed.samples.train]
    assert execute(spec).complete


def test_features_of_digits_are_not_left_out_silently():
    spec = parse('version = 2\n[[methods]]\nname = "parity"\n', "t", ["data.features=efficientnet_lite0:size=32"])
    assert spec.resolved().data.partition == "labels:k=2"
    assert spec.resolved().model.name == "logistic"


# --- the server's own data


@pytest.mark.parametrize("frozen", [False, True])
def test_the_server_holds_two_percent_if_a_method_tries_models_out(images, tmp_path, frozen):
    more = ["model.name=cnn", f"model.weights={weights_of(tmp_path, 'cnn')}", "model.trains=fc2"] if frozen else []
    spec = spec_of(images, *more, methods=("uniform", "fairfedcs"))
    assert spec.resolved().data.validation == 0.02
    task = build_task(spec, 0)
    held = task.samples.validation
    assert len(held) == round(0.02 * 72)
    assert not np.isin(held, np.concatenate(task.samples.train)).any()
    assert sum(map(len, task.samples.train)) == 72 - len(held)
    loss = task.validate(task.init(stream(0, "init")))
    assert np.isfinite(loss)
    bare = build_task(spec_of(images, *more, "data.validation=0.02"), 0)
    whole = tasks._samples(spec.resolved().data, CLIENTS, 0, lambda *_: None)
    assert task.samples.y_train[held].tolist() == whole.y_train[whole.validation].tolist()
    assert bare.samples.y_train[bare.samples.validation].tolist() == task.samples.y_train[held].tolist()
    assert execute(spec).complete


def test_without_such_a_method_clients_hold_everything(images):
    spec = spec_of(images)
    assert spec.resolved().data.validation == 0
    task = build_task(spec, 0)
    assert len(task.samples.validation) == 0
    assert task.validate is None


def test_a_client_without_samples_is_named(images):
    with pytest.raises(ConfigError, match=r"data.validation=0.5 leaves client \d+ without training samples; lower it"):
        build_task(spec_of(images, "data.validation=0.5", "data.partition=quantity:law=power,skew=5"), 0)


# --- given weights, frozen parts


def plain_twin(spec, parts):
    """The same parts trained without a cache: the whole model, in which all else is frozen."""
    full = spec.resolved()
    samples = tasks._samples(full.data, CLIENTS, 0, lambda *_: None)
    module, given = tasks._module(full.model, samples)
    assert given
    names = set(trained(module, parts))
    for name, parameter in module.named_parameters():
        parameter.requires_grad = name in names
    training = Training(full.training.epochs, full.training.batch, full.training.rate, full.training.steps)
    channels_last = bool(full.execution.channels_last)
    return TorchTask(module, samples, training, channels_last=channels_last, first=vector_of(module))


def trained_on(task, rounds):
    coordinator = Coordinator(2, seed=0, scheduler=Uniform())
    return run(coordinator, InProcess(task), rounds, num_clients=CLIENTS, params=task.init(stream(0, "init")))


@pytest.mark.parametrize(
    ("model", "parts"),
    [("cnn", "fc2"), ("cnn", "fc1, fc2"), ("cnn", "conv2"), ("cnn", "conv1"), ("resnet18", "fc"), ("mlp", "fc3")],
)
def test_a_frozen_beginning_computed_once_gives_the_same_training(images, tmp_path, model, parts):
    model_keys = (f"model.name={model}", f"model.weights={weights_of(tmp_path, model)}", f"model.trains={parts}")
    few = ("data.partition=dirichlet:alpha=1,test_samples=3", "training.steps=3", "training.rate=0.01")
    spec = spec_of(images, *model_keys, *few)
    assert spec.resolved().execution.path == "sequential"
    task, twin = build_task(spec, 0), plain_twin(spec, [part.strip() for part in parts.split(",")])
    assert task.flat.size <= twin.flat.size
    cut = (twin.flat.size - task.flat.size) and (tmp_path / "cache" / "features").is_dir()
    assert bool(cut) == (parts != "conv1")
    rounds = 1 if model == "resnet18" else 3
    ours, theirs = trained_on(task, rounds), trained_on(twin, rounds)
    first = twin.init(stream(0, "init"))
    rest = theirs.params[-task.flat.size :]
    np.testing.assert_allclose(ours.params, rest, atol=2e-5)
    assert theirs.params[: -task.flat.size].tobytes() == first[: -task.flat.size].tobytes()
    moved = {name for name, part in zip(names_of(task), split(task, ours.params - task.first), strict=True) if part}
    assert moved == set(trained(twin.module, [part.strip() for part in parts.split(",")]))
    everybody = np.arange(CLIENTS)
    a, b = task.evaluate(ours.params, everybody), twin.evaluate(theirs.params, everybody)
    np.testing.assert_allclose(a.loss, b.loss, rtol=1e-4)
    assert a.accuracy.tolist() == b.accuracy.tolist()
    assert len(task.samples.held_out) == len(twin.samples.held_out) == 24
    assert task.accuracy(ours.params) == twin.accuracy(theirs.params)


def names_of(task):
    return [name for name, _ in pieces(task.module)]


def split(task, difference):
    """Whether each tensor of the vector moved."""
    sizes = [t.numel() for _, t in pieces(task.module)]
    return [bool(part.any()) for part in np.split(difference, np.cumsum(sizes)[:-1])]


def test_a_frozen_beginning_is_read_from_the_cache(images, tmp_path):
    keys = ("model.name=cnn", f"model.weights={weights_of(tmp_path, 'cnn')}", "model.trains=fc2")
    told = []
    first = build_task(spec_of(images, *keys), 0, 1, lambda what, done, of: told.append((what, done, of)))
    assert ("computing features", 72, 72) in told
    told.clear()
    again = build_task(spec_of(images, *keys), 0, 1, lambda what, done, of: told.append((what, done, of)))
    assert told == []
    assert np.array_equal(first.samples.x_train, again.samples.x_train)


def test_trains_without_weights_is_refused(images):
    with pytest.raises(InputError, match=r"trains='fc2' leaves the rest .* give weights"):
        spec_of(images, "model.name=cnn", "model.trains=fc2")


def test_a_file_that_is_not_there_leaves_no_folder_behind(images, tmp_path, capsys, monkeypatch):
    spec = tmp_path / "s.toml"
    spec.write_text(to_toml(spec_of(images, "model.name=cnn", "model.weights=gone.safetensors")))
    monkeypatch.setattr("sys.argv", ["fedparity", "run", str(spec), "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "gone.safetensors: cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_given_weights_are_the_first_model(images, tmp_path):
    path = weights_of(tmp_path, "cnn")
    task = build_task(spec_of(images, "model.name=cnn", f"model.weights={path}"), 0)
    module = MODELS.build("cnn").build((3, SIDE, SIDE), CLASSES)
    assert task.init(stream(0, "init")).tobytes() != vector_of(module).tobytes()
    assert task.init(stream(0, "init")).tobytes() == task.init(stream(1, "init")).tobytes()


def test_weights_that_do_not_fit_name_the_first_tensor(images, tmp_path):
    ten = weights_of(tmp_path, "cnn", classes=10)
    keys = ("model.name=cnn", f"model.weights={ten}")
    with pytest.raises(InputError, match=r"fc2.weight has shape \(10, 512\) in the file and \(4, 512\) in the model"):
        build_task(spec_of(images, *keys), 0)
    head = build_task(spec_of(images, *keys, "model.head=skip"), 0)
    assert head.samples.classes == CLASSES
    with pytest.raises(InputError, match=r"cnn.safetensors: fc1.weight has shape"):
        build_task(spec_of(images, "model.name=mlp", f"model.weights={ten}"), 0)


def test_on_the_command_line_they_are_one_line(images, tmp_path):
    ten = weights_of(tmp_path, "cnn", classes=10)
    spec = tmp_path / "s.toml"
    spec.write_text(
        f'version = 2\nrounds = 1\ncohort = 2\n[population]\nclients = {CLIENTS}\navailability = "bernoulli"\n'
        f'[data]\nset = "{images}"\n[model]\nname = "cnn"\nweights = "{ten}"\n[[methods]]\nname = "uniform"\n',
        encoding="utf-8",
    )
    done = CliRunner().invoke(app, ["run", str(spec), "--out", str(tmp_path / "run")], catch_exceptions=True)
    assert done.exit_code != 0
    said = str(done.exception) if isinstance(done.exception, InputError) else done.output
    assert "fc2.weight has shape (10, 512) in the file and (4, 512) in the model; pass head=skip" in said.replace(
        "\n", " "
    )


# --- frozen features


def test_features_stand_in_for_images(images, tmp_path, monkeypatch):
    monkeypatch.delenv("FEDPARITY_CACHE")
    try:
        kept = weights_path("efficientnet_lite0")
    except InputError as error:
        pytest.skip(str(error))
    shutil.copytree(kept.parent, tmp_path / "cache" / kept.parent.name)
    monkeypatch.setenv("FEDPARITY_CACHE", str(tmp_path / "cache"))
    spec = spec_of(images, "data.features=efficientnet_lite0:size=32", methods=("uniform", "fairfedcs"))
    full = spec.resolved()
    assert (full.model.name, full.execution.path) == ("logistic", "batched")
    task = build_task(spec, 0)
    assert task.samples.x_train.shape == (72, 1280)
    assert task.validate is not None
    assert execute(spec).complete


class Silent(Logistic):
    """A task whose clients tell nothing but their updates; the first has no data, or says so."""

    def train(self, job):
        if job.client == 0:
            raise ValueError("no samples")
        nothing = {"loss_before": np.nan, "loss_after": np.nan, "accuracy_before": np.nan, "loss_rms": np.nan}
        return replace(super().train(job), **nothing)

    def evaluate(self, params, clients, measure="both"):
        found = super().evaluate(params, clients, measure)
        return replace(found, loss=np.full(len(clients), np.nan))


def silent(**changes):
    found = Silent.synthetic(8)
    return Spec(**{"rounds": 2, "cohort": 3, "population": {"clients": 8}, "methods": ["uniform"]} | changes), found


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"utility": "loss_drop"}, "utility 'loss_drop' needs loss_before, which the task's reports do not hold; let"),
        ({"utility": "authors_loss_drop"}, "utility 'authors_loss_drop' needs loss_before"),
        ({"utility": "global_loss_drop"}, "utility 'global_loss_drop' needs losses, which the task has not; use loss_"),
        ({"utility": "none", "methods": ["uniform", "qffl"]}, "method 'qffl' needs loss_before"),
        ({"utility": "none", "methods": ["oort"]}, "method 'oort' needs loss_rms"),
        ({"utility": "none", "methods": ["parity_prototype"]}, "method 'parity_prototype' needs prototypes"),
    ],
)
def test_what_an_own_task_cannot_tell_is_refused_before_it_trains(changes, says):
    spec, task = silent(**changes)
    with pytest.raises(ConfigError) as error:
        execute(spec, task=task)
    assert says in str(error.value)


def test_an_own_task_that_tells_what_is_asked_for_runs():
    spec, task = silent(utility="none")
    assert execute(spec, task=task).complete
    spec = spec.model_copy(update={"utility": "global_loss_drop"})
    assert execute(Spec(**spec.model_dump()), task=Logistic.synthetic(8)).complete


def test_python_refuses_the_methods_that_the_command_line_does():
    spec = Spec(methods=["parity", "parity_prototype"], data={"set": "logistic"}, population={"clients": 8})
    with pytest.raises(ConfigError, match=r"'parity_prototype' needs a classifier trained with PyTorch; use data.set="):
        execute(spec)
    half = Spec(methods=[{"name": "mine", "scheduler": "uniform", "weighting": "fedvarp"}], population={"clients": 8})
    with pytest.raises(ConfigError, match="method 'mine': weighting 'fedvarp' works on memory"):
        execute(half)
    quadratic = Spec(methods=["fedgs"], data={"set": "quadratic"}, population={"clients": 8})
    with pytest.raises(ConfigError, match=r"method 'fedgs' compares clients by labels.*; use data.set='digits'"):
        execute(quadratic)
