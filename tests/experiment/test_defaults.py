"""A default that is written out changes nothing: the same resolved spec and the same bits."""

import operator

import numpy as np
import pytest

from fedparity import Coordinator, InProcess, run, stream
from fedparity.core.errors import ConfigError, InputError, OutputError
from fedparity.data import open_data
from fedparity.experiment.spec_file import parse, to_toml
from fedparity.experiment.spec_parts import NUMPY, DataSpec, ExecutionSpec, ModelSpec, TrainingSpec
from fedparity.experiment.tasks import build_task

UNIFORM = '[[methods]]\nname = "uniform"\n'
METHODS = UNIFORM + '[[methods]]\nname = "fairfedcs"\n'  # the second has the server hold data
POPULATION = "[population]\nclients = 12\navailability = 'bernoulli'\n"
SMALL = f"version = 2\nrounds = 2\ncohort = 3\n{POPULATION}[execution]\nworkers = 1\n"
SECTIONS = {"data": DataSpec, "model": ModelSpec, "training": TrainingSpec, "execution": ExecutionSpec}
KEYS = [f"{section}.{key}" for section, part in SECTIONS.items() for key in part.model_fields if key != "workers"]
DATA_SETS = ["digits", "cifar10", "own.npz", "own.csv", *NUMPY]


def spec_of(*overrides, methods=METHODS):
    return parse(SMALL + methods, "test", overrides)


def defaults_of(dataset):
    """What is documented to be meant where a key is left out."""
    full = spec_of(f"data.set={dataset}").resolved()
    return {key: operator.attrgetter(key)(full) for key in KEYS}


def written(name, value):
    text = str(value).lower() if isinstance(value, bool) else f"{value!r}" if isinstance(value, str) else value
    return f"{name}={text}"


@pytest.mark.parametrize("dataset", DATA_SETS)
@pytest.mark.parametrize("name", KEYS)
def test_a_default_of_the_task_written_out_resolves_to_the_same_spec(dataset, name):
    value = defaults_of(dataset)[name]
    if value is None:  # left out there, too
        return
    said = spec_of(f"data.set={dataset}", written(name, value))
    assert said.resolved() == spec_of(f"data.set={dataset}").resolved()


def trained(spec):
    """The bytes of the model after two rounds of everybody."""
    task = build_task(spec, 0)
    state = run(Coordinator(12), InProcess(task), 2, num_clients=12, params=task.init(stream(0, "init")))
    return state.params.tobytes()


EXECUTION = [key for key in KEYS if key.startswith("execution.")]


@pytest.mark.parametrize("keys", [["data.partition"], ["model.name"], ["data.validation"], EXECUTION, KEYS])
def test_and_trains_to_the_same_bits(keys):
    asked = spec_of()
    values = {name: value for name, value in defaults_of("digits").items() if name in keys and value is not None}
    said = spec_of(*(written(name, value) for name, value in values.items()))
    assert said != asked
    assert trained(said) == trained(asked)


def test_the_resolved_spec_as_a_file_trains_to_the_same_bits():
    asked = spec_of()
    assert trained(parse(to_toml(asked.resolved()), "resolved")) == trained(asked)


def test_digits_are_an_mlp_trained_together_whatever_else_is_written():
    for more in ([], ["data.partition=labels:k=2"], ["data.partition=iid"], ["data.validation=0.1"]):
        full = spec_of(*more).resolved()
        assert (full.model.name, full.execution.path) == ("mlp:hidden=32", "batched")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("task.labels_per_client=3", "key 'task.labels_per_client' is no more; write data.partition = \"labels:k=3\""),
        ("task.hidden=64", "key 'task.hidden' is no more; write model.name = \"mlp:hidden=64\""),
    ],
)
def test_keys_of_older_specs_say_what_to_write_instead(old, new):
    with pytest.raises(InputError) as caught:
        spec_of(old)
    assert str(caught.value) == f"test: {new}"


@pytest.mark.parametrize(
    "partition", ["labels:k=2", "labels:k=2,pairs=fixed", "iid", "shards", "dirichlet", "quantity"]
)
def test_more_clients_than_digits_are_refused_with_the_fix(partition):
    with pytest.raises(ConfigError, match=r"lower clients"):
        build_task(spec_of("population.clients=5000", f"data.partition={partition}"), 0)


def test_more_clients_than_digits_may_share_them_if_the_spec_says_so():
    task = build_task(spec_of("population.clients=5000", "data.partition=labels:k=2,samples=4", methods=UNIFORM), 0)
    assert {len(rows) for rows in task.samples.train} == {4}


def test_digits_need_no_cache_that_can_be_written(tmp_path, monkeypatch):
    kept = open_data("digits")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FEDPARITY_CACHE", str(tmp_path / "file"))
    found = open_data("digits")
    assert np.array_equal(found.x_train, kept.x_train)
    assert np.array_equal(found.y_test, kept.y_test)
    assert found.peak == kept.peak == 16
    monkeypatch.setattr("fedparity.data.sources.shutil.which", lambda _: None)
    with pytest.raises(OutputError, match="FEDPARITY_CACHE"):
        open_data("mnist")


def test_a_table_of_a_spec_is_trained_on(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "t.csv"
    y = np.arange(120) % 3
    x = 100 * (rng.normal(size=(120, 2)) + 4 * np.array([[0, 0], [0, 1], [1, 0]])[y]) + 1000
    rows = [f"{a},{b},{'abc'[c]},c{i % 12}" for i, ((a, b), c) in enumerate(zip(x, y, strict=True))]
    path.write_text("\n".join(["u,v,kind,who", *rows]), encoding="utf-8")
    keys = (f"data.set={path}", "data.label=kind", "data.client=who", "data.standardise=true")
    spec = spec_of(*keys, methods=UNIFORM)
    assert (spec.resolved().data.partition, spec.resolved().model.name) == ("groups", "logistic")
    task = build_task(spec, 0)
    assert [len(rows) for rows in task.samples.test] == [3] * 12
    state = run(Coordinator(12), InProcess(task), 5, num_clients=12, params=task.init(stream(0, "init")))
    assert task.accuracy(state.params) > 0.9
    with pytest.raises(ConfigError, match="12 groups are too few for 13 clients; lower clients to 12"):
        build_task(spec_of(*keys, "population.clients=13"), 0)
    with pytest.raises(InputError, match="client names a column of a table, but set='digits' is none"):
        spec_of("data.client=who")
    with pytest.raises(ConfigError, match=r"data\.features=efficientnet_lite0\(\) needs images of bytes"):
        build_task(spec_of(*keys, "data.features=efficientnet_lite0"), 0)


def test_numbers_as_npz_are_trained_on_by_a_model_for_numbers(tmp_path):
    y = np.arange(60) % 3
    x = np.random.default_rng(0).normal(size=(60, 4)) + 3 * np.eye(4)[y]
    np.savez(tmp_path / "own.npz", x_train=x[:48], y_train=y[:48], x_test=x[48:], y_test=y[48:])
    keys = (f"data.set={tmp_path / 'own.npz'}", "data.partition=iid")
    task = build_task(spec_of(*keys, "model.name=logistic", methods=UNIFORM), 0)
    state = run(Coordinator(12), InProcess(task), 10, num_clients=12, params=task.init(stream(0, "init")))
    assert task.accuracy(state.params) > 0.9
    with pytest.raises(ConfigError, match=r"for cnn, such as .*; use mlp or logistic for other shapes"):
        build_task(spec_of(*keys), 0)
