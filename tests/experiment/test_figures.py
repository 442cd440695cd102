"""The fairness figures that docs/results.md shows, held: not timed, but they take a minute."""

import pytest

from fedparity import AVAILABILITY, SCHEDULERS, Gains, Setting, schedule

pytestmark = pytest.mark.slow


def means(scheduler, availability, clients, rounds, cohort, draws, spread=1.0):
    setting = Setting(
        AVAILABILITY.build(availability), clients, rounds, cohort, draws=draws, gains=Gains(spread)
    )  # fmt: skip
    return schedule(SCHEDULERS.build(scheduler), setting).means()


@pytest.mark.parametrize(
    ("availability", "clients", "rounds", "cohort", "draws"),
    [
        ("bernoulli", 100, 50, 10, 20),
        ("paper_like", 100, 50, 10, 20),
        ("paper_like", 100, 200, 5, 20),
        ("phones", 1000, 500, 20, 10),
    ],
)
def test_parity_is_close_to_the_limit_and_fills_every_slot(availability, clients, rounds, cohort, draws):
    found = means("parity:target=share", availability, clients, rounds, cohort, draws)
    assert found["fill"] == found["fill_limit"]
    assert found["selection_gap"] <= 1.02 * found["selection_gap_limit"] + 0.01
    assert found["gini"] <= 1.05 * found["gini_limit"] + 0.01


def test_parity_by_opportunity_is_a_fifth_of_uniform():
    where = ("bernoulli", 100, 200, 10, 10)
    key = "cv_per_opportunity"
    assert means("parity:target=opportunity", *where)[key] <= 0.2 * means("uniform", *where)[key]


@pytest.mark.parametrize("rounds", [200, 1000])
def test_parity_by_utility_is_a_fifth_of_uniform_when_gains_differ_tenfold(rounds):
    where = ("bernoulli", 100, rounds, 10, 10, 10.0)
    assert means("parity:target=utility", *where)["utility_cv"] <= 0.2 * means("uniform", *where)["utility_cv"]


def test_the_literal_rule_is_the_least_fair_of_all_on_independent_clients():
    where = ("bernoulli", 100, 50, 10, 10)
    names = ("uniform", "inverse", "cup_authors", "round_robin", "least_served", "parity")
    literal = means("reactive", *where)["gini"]
    assert all(means(name, *where)["gini"] < literal for name in names)
