"""Learning rates on paired seeds: what is chosen is what is best, and the tuned spec says so."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fedparity.cli.main import app
from fedparity.core.errors import ConfigError
from fedparity.experiment.runner import run_spec
from fedparity.experiment.spec import load, parse
from fedparity.experiment.tune import Tuned, grid, tuned, with_rates

SPEC = """
version = 1
rounds = 6
cohort = 3
seeds = 2
[population]
clients = 6
availability = "bernoulli"
[task]
dataset = "logistic"
[[methods]]
name = "uniform"
[[methods]]
name = "cup_authors"
local = "mixed:a=.25"
"""


def test_every_method_meets_every_rate_on_the_same_data():
    spec = parse(SPEC, "s")
    wide = grid(spec, [0.3, 0.001])
    assert [m.name for m in wide.methods] == ["uniform+0.001", "uniform+0.3", "cup_authors+0.001", "cup_authors+0.3"]
    assert wide.methods[2].local == "mixed:a=.25"
    results = run_spec(wide)
    found = tuned(spec, [0.3, 0.001], results)
    assert found.accuracy.shape == (2, 2, 2)
    alone = run_spec(parse(SPEC.replace('"logistic"', '"logistic"\nrate = 0.3'), "s"))
    last = [run.column("accuracy")[-1] for run in alone.of("uniform")]
    np.testing.assert_allclose(found.accuracy[0, 1], last)
    assert found.best("uniform") == 0.3
    assert [m.rate for m in with_rates(spec, found).methods] == [found.best("uniform"), found.best("cup_authors")]


def test_a_tie_goes_to_the_smaller_rate_and_edges_are_named():
    found = Tuned((0.1, 1.0, 2.0), ("a", "b"), np.array([[[0.5], [0.5], [0.4]], [[0.1], [0.9], [0.2]]]), complete=True)
    assert found.best("a") == 0.1
    assert found.at_the_edge("a")
    assert not found.at_the_edge("b")


@pytest.mark.parametrize(
    ("rates", "says"), [([0.1], "nothing to choose"), ([0.1, 0.1], "must be different"), ([0, 1], "rate=0")]
)
def test_refusals(rates, says):
    with pytest.raises(ConfigError, match=says):
        grid(parse(SPEC, "s"), rates)


def test_the_command_writes_a_spec_that_runs(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(SPEC)
    done = CliRunner().invoke(app, ["tune", str(path), "--rates", ".01,.3", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {"rates", "complete", "methods", "spec"} == set(found)
    assert [m["method"] for m in found["methods"]] == ["uniform", "cup_authors"]
    again = load(found["spec"])
    assert [m.rate for m in again.methods] == [m["best"] for m in found["methods"]]
    shown = CliRunner().invoke(app, ["tune", str(path), "--rates", ".01,.3", "--out", str(tmp_path / "t.toml")])
    assert "Tuned spec:" in shown.output
