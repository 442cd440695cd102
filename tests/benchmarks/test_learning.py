"""The page of learning results says what the stored numbers say."""

import importlib.util
import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
SCRIPT = Path(__file__).parents[2] / "benchmarks/learning.py"
FOUND = importlib.util.spec_from_file_location("learning", SCRIPT)
learning = importlib.util.module_from_spec(FOUND)
FOUND.loader.exec_module(learning)
DONE = json.loads(learning.DATA.read_text(encoding="utf-8"))


def seeds(**rows):
    """A table of two seeds: of each method its values of one key."""
    return {str(i): {name: {"late_accuracy": values[i]} for name, values in rows.items()} for i in range(2)}


def test_the_page_is_what_the_numbers_say():
    assert learning.PAGE.read_text(encoding="utf-8") == learning.page(DONE)


def test_every_method_has_a_rate_and_is_run():
    assert set(learning.SHOWN) | {name for _, name, *_ in learning.ABLATION} <= set(learning.METHODS)
    assert len(set(learning.METHODS)) == len(learning.METHODS)
    for tried in DONE["tuning"].values():  # one entry per data set and population
        for seed in learning.TUNE_SEEDS:
            assert set(tried[str(seed)]) == set(learning.METHODS)


def test_the_rate_is_the_best_over_all_seeds_for_tuning():
    rates = learning.RATES["digits"]
    by_seed = {
        "500": {name: [0.9, 0.7, 0.1] for name in learning.METHODS},
        "501": {name: [0.4, 0.7, 0.1] for name in learning.METHODS},
    }
    found = learning.rates_of({"tuning": {"digits bernoulli": by_seed}}, "digits", "bernoulli")
    assert set(found.values()) == {rates[1]}


@pytest.mark.parametrize("data", learning.SETS)
@pytest.mark.parametrize("population", learning.POPULATIONS)
def test_the_specs_can_be_made(data, population):
    spec = learning.spec_of(data, population, 0, learning.METHODS, {"cup": 0.1})
    assert [m.rate for m in spec.methods if m.name == "cup"] == [0.1]


def test_below_by_more_than_chance_is_not_reached():
    table = seeds(better=(0.9, 0.8), worse=(0.8, 0.7), level=(0.91, 0.79))
    assert learning.not_below(table, "level", "better", "late_accuracy")[0]
    assert not learning.not_below(table, "worse", "better", "late_accuracy")[0]


def test_one_seed_that_disagrees_is_said():
    best = {"late_accuracy": 0.9, "late_worst_accuracy": 0.9}
    usual = {"late_accuracy": 0.5, "late_worst_accuracy": 0.4}
    table = {str(i): {"cup": best, "cup_light": best, "mifa": usual, "uniform": usual} for i in range(3)}
    assert all(text.startswith("- Held") for text in learning.of_skew(table))
    table["2"] = {"cup": usual, "cup_light": usual, "mifa": best, "uniform": usual}
    assert "**Not reached**" in "".join(learning.of_skew(table))
