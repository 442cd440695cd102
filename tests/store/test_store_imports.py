"""A run with a component of somebody else: its folder is read without importing it, its spec resumes it."""

import sys

import numpy as np
import pytest

from fedparity import Run
from fedparity.core.errors import ConfigError
from fedparity.experiment.runner import state_classes
from fedparity.experiment.spec_file import load
from fedparity.store import Store
from stored_runs import contents

OWN = """
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedparity import Cohort, Scheduler

Path("imported").touch()


@dataclass
class Memory:
    asked: np.ndarray


@dataclass(frozen=True)
class Least(Scheduler):
    step: float = 1.0

    def init(self, num_clients):
        return Memory(np.zeros(num_clients))

    def select(self, state, view, rng):
        order = np.lexsort((view.available, state.asked[view.available]))
        asked = np.sort(view.available[order[: view.cohort]])
        state.asked[asked] += self.step
        return Cohort(asked, np.ones(len(asked)), "deterministic"), state
"""
SPEC = """
version = 2
rounds = 4
cohort = 2
[population]
clients = 6
availability = "bernoulli"
[data]
set = "quadratic"
[[methods]]
name = "least"
scheduler = "with_quota:inner=least_mine:Least:step=2,quota=9"
estimator = "mean"
"""

CLASS = "least_mine:Least"


@pytest.fixture
def folder(tmp_path, monkeypatch, fedparity):
    """A finished run, in a folder from which the module can still be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "least_mine.py").write_text(OWN)
    (tmp_path / "spec.toml").write_text(SPEC)
    code, _, err = fedparity("run", "spec.toml", "--out", "run")
    assert code == 0, err
    forget(tmp_path)
    yield tmp_path
    sys.modules.pop("least_mine", None)


def forget(folder):
    sys.modules.pop("least_mine", None)
    (folder / "imported").unlink()


@pytest.mark.parametrize(
    "command", ["verify run", "export run --out tables", "cite run", "compare run --out compared", "erase run 3"]
)
def test_a_folder_is_read_without_the_code_it_names(folder, fedparity, command):
    code, _, err = fedparity(*command.split())
    assert code == 0, err
    assert not (folder / "imported").exists()
    assert "least_mine" not in sys.modules


def test_erasing_takes_the_client_out_of_an_array_that_such_code_keeps(folder, fedparity):
    bare = OWN.replace("Memory(np.zeros(num_clients))", "np.ones(num_clients)").replace("state.asked[", "state[")
    (folder / "least_mine.py").write_text(bare)
    (folder / "bare.toml").write_text(SPEC.replace("with_quota:inner=least_mine:Least:step=2,quota=9", CLASS))
    assert fedparity("run", "bare.toml", "--out", "bare")[0] == 0
    forget(folder)
    code, _, err = fedparity("erase", "bare", 3)
    assert code == 0, err
    assert not (folder / "imported").exists()
    with Store.read(folder / "bare") as store:
        state = store.load(0, "least", state_classes(store, "least"))
    assert state.scheduler[3] == 0
    assert (np.delete(state.scheduler, 3) > 0).all()


def test_a_run_that_was_cut_short_goes_on_after_an_erasure(folder, fedparity):
    stop = 'if view.round == 2 and Path("stop").exists():\n            raise ValueError("stopped")\n        order ='
    (folder / "least_mine.py").write_text(OWN.replace("order =", stop))
    (folder / "stop").touch()
    assert fedparity("run", "spec.toml", "--out", "cut")[0] == 3
    forget(folder)
    assert fedparity("erase", "cut", 3)[0] == 0
    (folder / "stop").unlink()
    code, _, err = fedparity("run", "spec.toml", "--out", "cut", "--resume")
    assert code == 0, err
    assert Run.open(folder / "cut").complete


def test_the_spec_resumes_it(folder, fedparity):
    before = contents(folder / "run")["journal.jsonl"]
    code, _, err = fedparity("run", "spec.toml", "--out", "run", "--resume")
    assert code == 0, err
    assert (folder / "imported").exists()
    assert contents(folder / "run")["journal.jsonl"] == before


def test_a_spec_whose_code_is_not_there_is_one_line(folder):
    (folder / "least_mine.py").unlink()
    with pytest.raises(Exception, match="'least_mine:Least' cannot be imported") as caught:
        load("spec.toml")
    assert not isinstance(caught.value, ConfigError)
    assert "\n" not in str(caught.value)
