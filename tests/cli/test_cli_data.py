"""`fedparity data` as people and scripts use it."""

import gzip
import json
import struct
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from typer.testing import CliRunner

from fedparity.cli.data import data_app
from fedparity.core.errors import FedparityError
from fedparity.report.partition import draw_partition

RUNNER = CliRunner(env={"COLUMNS": "80"})


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDPARITY_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def call(*arguments):
    """stdout; an error of ours comes out as it is."""
    done = RUNNER.invoke(data_app, [str(a) for a in arguments])
    if done.exception is not None:
        raise done.exception
    if "--json" not in arguments:
        assert all(len(line) <= 80 for line in done.stdout.splitlines() if "/" not in line)
    return done.stdout


@pytest.fixture
def npz(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "own.npz"
    np.savez(
        path,
        x_train=rng.integers(0, 256, (600, 6, 6, 3), dtype=np.uint8),
        y_train=np.arange(600) % 6,
        x_test=rng.integers(0, 256, (60, 6, 6, 3), dtype=np.uint8),
        y_test=np.arange(60) % 6,
        groups_train=np.arange(600) // 30,
    )
    return path


def test_fetch_for_eyes_and_for_scripts(tmp_path):
    assert "all 2 digests match" in call("fetch", "digits")
    found = json.loads(call("fetch", "digits", "--json"))
    assert list(found) == ["name", "path", "source", "digests"]
    assert found["path"] == str(tmp_path / "cache" / "digits")
    assert set(found["digests"]) == {"train", "test"}


def test_fetch_from_a_folder_that_holds_something_else(tmp_path):
    for name, shape in (("train-images-idx3", (2, 2, 2)), ("train-labels-idx1", (2,))):
        for part in (name, name.replace("train", "t10k")):
            data = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape) + bytes(int(np.prod(shape)))
            (tmp_path / f"{part}-ubyte.gz").write_bytes(gzip.compress(data))
    with pytest.raises(FedparityError, match=r"train-images-idx3-ubyte: shape \(2, 2, 2\), \(60000, 28, 28\) expected"):
        call("fetch", "mnist", "--from", tmp_path)
    assert list((tmp_path / "cache").iterdir()) == []
    with pytest.raises(FedparityError, match="did you mean 'mnist'"):
        call("fetch", "mnits")
    with pytest.raises(FedparityError, match="'efficientnet'; did you mean 'efficientnet_lite0'"):  # weights, too
        call("fetch", "efficientnet")


def test_show(tmp_path, npz):
    out = tmp_path / "p.svg"
    text = call("show", npz, "--partition", "labels:k=2,samples=20", "--clients", 12, "--out", out)
    assert "training samples per client: 20 to 20, median 20" in text
    assert f"Picture: {out}" in text
    root = ET.fromstring(out.read_text())
    assert root.tag.endswith("svg")
    found = json.loads(call("show", npz, "--partition", "groups", "--clients", 20, "--out", out, "--json"))
    assert found["samples_per_client"] == {"min": 30.0, "median": 30.0, "max": 30.0}
    assert found["shared"] == 0
    shared = call("show", npz, "--partition", "labels:samples=60", "--clients", 12, "--out", out)
    assert " training samples have several owners" in shared


def test_show_by_name_needs_the_data(tmp_path):
    with pytest.raises(FedparityError, match="run: fedparity data fetch digits"):
        call("show", "digits")
    call("fetch", "digits")
    call("show", "digits", "--clients", 10, "--seed", 3)
    first = (tmp_path / "partition.svg").read_text()
    call("show", "digits", "--clients", 10, "--seed", 3)
    assert (tmp_path / "partition.svg").read_text() == first


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "p.png"], "must end in .svg"),
        (["--out", "nowhere/p.svg"], "cannot be written"),
        (["--partition", "shard"], "did you mean 'shards'"),
        (["--clients", "0"], "clients=0"),
    ],
)
def test_show_refuses(npz, arguments, said):
    with pytest.raises(FedparityError) as error:
        call("show", npz, *arguments)
    assert said in str(error.value)


def test_list():
    text = call("list")
    assert "cifar10" in text
    assert "fetched" not in text
    assert "dirichlet" in text
    call("fetch", "digits")
    found = json.loads(call("list", "--json"))
    assert [s["name"] for s in found["datasets"]] == ["cifar10", "mnist", "digits"]
    assert found["datasets"][2]["summary"].endswith("; fetched")
    assert set(found["datasets"][0]) == {"name", "summary", "parameters", "reference"}
    assert set(found["partitions"][0]) == {*found["datasets"][0], "parameter_help", "origin"}


def test_pictures_stay_small_and_escape_their_title():
    rng = np.random.default_rng(0)
    for shape in ((1, 1), (3, 200), (100_000, 10)):
        picture = draw_partition(rng.integers(0, 50, shape), "<b>&")
        ET.fromstring(picture)
        assert "<b>" not in picture
        assert len(picture) < 400_000
    assert draw_partition(np.zeros((2, 2), dtype=int), "nothing")


def test_show_opens_tables(tmp_path):
    rows = "".join(f"{k},{k * k},{k % 2},{'xyz'[k % 3]}\n" for k in range(60))
    (tmp_path / "beds.csv").write_text(f"age,days,outcome,hospital\n{rows}")
    found = json.loads(
        call("show", "beds.csv", "--label", "outcome", "--client", "hospital", "--json")  # as many as there are
    )
    assert (found["partition"], found["clients"], found["samples"]) == (
        "groups",
        3,
        42,
    )  # a fourth of each label
    own = {"min": 6.0, "median": 6.0, "max": 6.0}  # of the 18 rows for testing
    assert found["test_samples_per_client"] == own
    with pytest.raises(FedparityError, match=r"'hospital' holds what is no number .* or name it as the column"):
        call("show", "beds.csv", "--label", "outcome")
    with pytest.raises(FedparityError, match="unknown column 'label'"):
        call("show", "beds.csv", "--clients", "3")
    with pytest.raises(FedparityError, match="--client names a column of a table, but digits is none"):
        call("show", "digits", "--client", "hospital")
