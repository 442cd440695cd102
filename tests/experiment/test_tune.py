"""Learning rates on paired seeds: what is chosen is what is best, and the tuned spec says so."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fedparity.cli.main import app
from fedparity.core.errors import ConfigError
from fedparity.experiment.runner import build_task, execute
from fedparity.experiment.spec_file import load, parse
from fedparity.experiment.tune import Tuned, grid, tuned, with_rates

SPEC = """
version = 2
rounds = 6
cohort = 3
seeds = 2
[population]
clients = 6
availability = "bernoulli"
[data]
set = "logistic"
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
    results = execute(wide)
    found = tuned(spec, [0.3, 0.001], results)
    assert found.accuracy.shape == (2, 2, 2)
    alone = execute(parse(SPEC.replace('"logistic"', '"logistic"\n[training]\nrate = 0.3'), "s", ["seed=10000"]))
    last = [run.column("accuracy")[-1] for run in alone.of("uniform")]
    np.testing.assert_allclose(found.accuracy[0, 1], last)
    assert found.best("uniform") == 0.3
    assert [m.rate for m in with_rates(spec, found).methods] == [found.best("uniform"), found.best("cup_authors")]


def test_a_tie_goes_to_the_smaller_rate_and_edges_are_named():
    found = Tuned(
        (0.1, 1.0, 2.0), ("a", "b"), np.array([[[0.5], [0.5], [0.4]], [[0.1], [0.9], [0.2]]]), (0,), complete=True
    )
    assert found.best("a") == 0.1
    assert found.at_the_edge("a")
    assert not found.at_the_edge("b")


@pytest.mark.parametrize(
    ("rates", "says"), [([0.1], "nothing to choose"), ([0.1, 0.1], "must be different"), ([0, 1], "rate=0")]
)
def test_refusals(rates, says):
    with pytest.raises(ConfigError, match=says):
        grid(parse(SPEC, "s"), rates)


def test_what_cannot_be_tuned():
    with pytest.raises(ConfigError, match="'quadratic' has no accuracy to choose a rate by"):
        grid(parse(SPEC, "s", ["data.set=quadratic"]), [0.1, 1])
    with pytest.raises(ConfigError, match="seeds=0"):
        grid(parse(SPEC, "s"), [0.1, 1], 0)


def test_the_command_writes_a_spec_that_runs(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(SPEC)
    done = CliRunner().invoke(app, ["tune", str(path), "--rates", ".01,.3", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {"rates", "seeds", "complete", "methods", "spec"} == set(found)
    assert [m["method"] for m in found["methods"]] == ["uniform", "cup_authors"]
    assert found["seeds"] == [10_000, 10_001]
    again, given = load(found["spec"]), load(path)
    assert (again.seed, again.seeds, again.data, again.model) == (given.seed, given.seeds, given.data, given.model)
    assert [m.rate for m in again.methods] == [m["best"] for m in found["methods"]]
    shown = CliRunner().invoke(app, ["tune", str(path), "--rates", ".01,.3", "--out", str(tmp_path / "t.toml")])
    assert "Tuned spec:" in shown.output
    assert "Accuracy on training samples that were held back, seed 10000, 10001." in shown.output


# --- nothing is chosen by what a run will report


def images(path, seed):
    """Bright bands on noise; the seed shuffles the test labels alone."""
    rng, shuffled = np.random.default_rng(0), np.random.default_rng(seed)
    labels = np.arange(120) % 4
    x = rng.integers(0, 160, (120, 8, 8), dtype=np.uint8)
    for image, label in zip(x, labels, strict=True):
        image[2 * label : 2 * label + 2] += 90
    np.savez(path, x_train=x[:80], y_train=labels[:80], x_test=x[80:], y_test=shuffled.permutation(labels[80:]))
    return path


def of_images(path, *overrides):
    text = SPEC.replace('"logistic"', f'"{path}"\n[model]\nname = "logistic"\n[training]\nbatch = 5')
    return parse(text, "s", ["population.availability=bernoulli:low=.8", *overrides])


def test_shuffled_test_labels_do_not_change_what_is_chosen(tmp_path):
    pytest.importorskip("torch")
    rates = [0.001, 0.02, 0.5]
    specs = [of_images(images(tmp_path / f"{seed}.npz", seed)) for seed in (1, 2, 3)]
    found = [tuned(spec, rates, execute(grid(spec, rates))) for spec in specs]
    for other in found[1:]:
        np.testing.assert_array_equal(other.accuracy, found[0].accuracy)
    chosen = [with_rates(spec, f) for spec, f in zip(specs, found, strict=True)]
    assert len({tuple(m.rate for m in spec.methods) for spec in chosen}) == 1
    assert found[0].means.max() > 0.6  # it did learn: chance is a quarter
    tests = [execute(spec).of("uniform")[0].column("accuracy").tolist() for spec in chosen]
    assert tests[0] != tests[1]  # what a run reports does depend on them
    assert [(s.seed, s.seeds, s.data.scored_on, s.data.validation) for s in chosen] == [(0, 2, None, None)] * 3


def test_what_is_scored_on_is_trained_on_by_nobody(tmp_path):
    pytest.importorskip("torch")
    spec = grid(of_images(images(tmp_path / "i.npz", 1), "data.validation=0.1"), [0.1, 1])
    whole = build_task(of_images(tmp_path / "i.npz"), spec.seed).samples
    samples = build_task(spec, spec.seed).samples
    assert samples.x_test is samples.x_train
    assert samples.held_out.shape == (16,)
    assert set(samples.held_out) <= set(np.concatenate(whole.train))
    held, trained, server = set(samples.held_out), set(np.concatenate(samples.train)), set(samples.validation)
    assert not held & trained
    assert not held & server
    for train, test in zip(samples.train, samples.test, strict=True):
        assert set(samples.y_test[test]) == set(samples.y_train[train])
        assert set(test) <= held


def test_a_client_keeps_its_last_sample(tmp_path):
    pytest.importorskip("torch")
    path = images(tmp_path / "i.npz", 1)
    with pytest.raises(ConfigError, match="needs clients with more than one training sample"):
        build_task(of_images(path, "data.scored_on=validation", "population.clients=80", "data.partition=iid"), 0)
    more = ("population.clients=20", "data.partition=quantity:law=power,skew=3")
    few = build_task(of_images(path, "data.scored_on=validation", *more), 0).samples.train
    whole = build_task(of_images(path, *more), 0).samples.train
    assert min(map(len, whole)) == min(map(len, few)) == 1
    assert sum(map(len, few)) < sum(map(len, whole))


@pytest.mark.parametrize("seeds", [1, 5, 1000])
def test_tuning_seeds_are_not_the_runs(seeds):
    spec = parse(SPEC, "s", ["seed=7", f"seeds={seeds}"])
    wide = grid(spec, [0.1, 1])
    ours, theirs = (set(range(s.seed, s.seed + s.seeds)) for s in (spec, wide))
    assert len(ours) == len(theirs) == seeds
    assert not ours & theirs
    assert wide.resolved().population.trace_seed not in ours
    assert grid(spec, [0.1, 1], 2).seeds == 2
