"""What looking ahead is worth: the script of docs/results.md, a coarse version of its figures."""

import importlib.util
import sys
from pathlib import Path

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
