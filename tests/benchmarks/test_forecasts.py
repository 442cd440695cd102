"""What looking ahead is worth: the script of docs/results.md, a coarse version of its figures."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/forecasts.py"


@pytest.fixture(scope="module")
def forecasts():
    spec = importlib.util.spec_from_file_location("forecasts", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["forecasts"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_a_day_is_split_off_and_watched_or_not(forecasts):
    trace = forecasts.model("markov:nu=.9", 20)(3)
    watched, blind = forecasts.split(trace)
    assert blind.before is None
    assert watched.before.num_rounds == forecasts.DAY
    assert watched.num_rounds == blind.num_rounds == forecasts.ROUNDS
    assert watched.online(0).tolist() == blind.online(0).tolist() == trace.online(forecasts.DAY).tolist()


@pytest.mark.slow
def test_phones_after_a_day_are_well_ahead_of_least_served(forecasts):
    where = forecasts.Population("phones", 5, forecasts.model("phones", 100))
    found = forecasts.ginis(where, 6)
    assert forecasts.won(found, "parity") > 0.2
    assert forecasts.won(found, "rollout") > 0.1
    assert (found["perfect"] >= found["limit"] - 1e-12).all()


@pytest.mark.slow
@pytest.mark.parametrize("nu", [0.97, 0.99])
def test_long_sessions_do_not_leave_parity_behind(forecasts, nu):
    where = forecasts.Population("markov", 5, forecasts.model(f"markov:nu={nu}", 100))
    found = forecasts.ginis(where, 6)
    assert found["parity"].mean() <= 1.005 * found["least_served"].mean()


@pytest.mark.slow
def test_traces_where_their_files_are(forecasts):
    if not forecasts.TRACES.exists():
        pytest.skip(f"{forecasts.TRACES} is not here")
    where = next(iter(forecasts.populations()))
    found = forecasts.ginis(where, 6)
    assert where.name.startswith("FLASH")
    assert forecasts.won(found, "parity") > 0.1


def test_what_can_be_told_follows_bayes_rule(forecasts):
    law = forecasts.Markov(nu=0.0, low=0.0, high=1.0)
    told = forecasts.Told(law, np.linspace(0, 1, 2002)[1:-1])
    state = told.init(2)
    for online in ([0], [0], [0, 1], [1]):
        state = told.observe(state, np.array(online))
    # Independent rounds and a flat prior: (hits + 1) / (rounds + 2).
    assert told.estimate(state, np.arange(2)) == pytest.approx([4 / 6, 3 / 6], abs=1e-3)
    # A state that never changes says the same each round as in the first.
    told = forecasts.Told(forecasts.Markov(nu=0.999, low=0.0, high=1.0), told.among)
    state = told.init(2)
    for _ in range(5):
        state = told.observe(state, np.array([0]))
    assert told.estimate(state, np.arange(2)) == pytest.approx([2 / 3, 1 / 3], abs=2e-3)
    assert told.remaining(state, np.array([0]), 10) == pytest.approx([9.98], abs=0.02)
