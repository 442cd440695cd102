"""A run goes on only with the inputs it began with."""

import hashlib

import numpy as np
import pytest

from fedparity import Trace, save_trace
from fedparity.core.errors import ConfigError, InputError
from fedparity.experiment.inputs import input_digests
from fedparity.experiment.results import open_store
from fedparity.experiment.runner import Callbacks, execute
from stored_runs import run_into, spec_of, stop_after


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def a_trace(path, seed, clients=6, rounds=8):
    rng = np.random.default_rng(seed)
    save_trace(Trace.from_rounds(clients, [np.flatnonzero(rng.random(clients) < 0.7) for _ in range(rounds)]), path)


def images(path, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 256, (120, 4, 4), np.uint8), np.arange(120) % 4
    np.savez(path, x_train=x, y_train=y, x_test=x[:40], y_test=y[:40])


def test_what_is_generated_is_no_input():
    assert input_digests(spec_of()) == {}
    assert input_digests(spec_of("data.set=logistic")) == {}


def test_data_sets_by_name_are_their_official_digests():
    one, other = (input_digests(spec_of(f"data.set={name}")) for name in ("digits", "cifar10"))
    assert list(one) == ["dataset digits"]
    assert list(other) == ["dataset cifar10"]
    assert one["dataset digits"] != other["dataset cifar10"]
    assert all(len(digest) == 64 for digest in (*one.values(), *other.values()))


def test_files_are_their_bytes_under_names_without_folders(tmp_path):
    images(tmp_path / "pets.npz", 0)
    a_trace(tmp_path / "phones.csv", 0)
    (tmp_path / "w.safetensors").write_bytes(b"weights")
    spec = spec_of(
        f"data.set={tmp_path / 'pets.npz'}",
        f"model.weights={tmp_path / 'w.safetensors'}",
        f"population.availability={tmp_path / 'phones.csv'}",
        "population.clients=6",
    )
    assert input_digests(spec) == {
        "dataset pets.npz": sha256(tmp_path / "pets.npz"),
        "weights w.safetensors": sha256(tmp_path / "w.safetensors"),
        "trace phones.csv": sha256(tmp_path / "phones.csv"),
    }
    (tmp_path / "w.safetensors").unlink()
    with pytest.raises(InputError, match=r"w\.safetensors: cannot be read"):
        input_digests(spec)


def test_published_weights_are_their_contents():
    found = input_digests(spec_of("data.set=cifar10", "data.features=efficientnet_lite0"))
    assert list(found) == ["dataset cifar10", "weights efficientnet_lite0"]


@pytest.mark.parametrize("kind", ["trace", "dataset"])
def test_a_run_does_not_go_on_with_another_file_of_the_same_name(tmp_path, kind):
    name, write, *keys = {
        "trace": ("t.csv", a_trace, "population.availability={}"),
        "dataset": ("d.npz", images, "data.set={}", "model.name=logistic"),
    }[kind]
    write(tmp_path / name, 0)
    given = [key.format(tmp_path / name) for key in keys]
    spec = spec_of(*given, "population.clients=6", "rounds=3", methods=("uniform",))
    with open_store(tmp_path / "run", spec) as store:
        execute(spec, store=store, callbacks=Callbacks(stop=stop_after(1)))
    old = sha256(tmp_path / name)
    write(tmp_path / name, 1)
    says = (
        rf"run: {kind} {name} changed since this run began \(sha256 {old[:12]}\.\. then, {sha256(tmp_path / name)[:12]}"
    )
    with pytest.raises(ConfigError, match=says):
        run_into(tmp_path / "run", spec, resume=True)
    write(tmp_path / name, 0)
    assert run_into(tmp_path / "run", spec, resume=True).complete


def test_a_file_that_no_longer_fits_is_told_as_changed(tmp_path):
    """Before anything else is found wrong with it: that is what has to be mended."""
    a_trace(tmp_path / "t.csv", 0)
    spec = spec_of(f"population.availability={tmp_path / 't.csv'}", "population.clients=6", "rounds=3")
    execute(spec, out=tmp_path / "run")
    a_trace(tmp_path / "t.csv", 0, clients=5)
    with pytest.raises(ConfigError, match=r"run: trace t.csv changed since this run began"):
        execute(spec, out=tmp_path / "run", resume=True)
