"""The one table: means, who leads, ties by one rule, and one way to print each number."""

import math

import numpy as np
import pytest

from fedparity.metrics import Table, listed, printed
from fedparity.metrics.table import Leaders

RNG = np.random.default_rng(0)


def a_table(hindsight=(), **columns):
    """Columns by key, each a dict of method to one number per seed."""
    first = next(iter(columns.values()))
    seeds = tuple(range(len(next(iter(first.values())))))
    values = {key: {name: np.array(v, dtype=float) for name, v in by.items()} for key, by in columns.items()}
    return Table(tuple(first), seeds, values, frozenset(hindsight))


def test_means_and_deviations_leave_out_what_is_undefined():
    table = a_table(gini={"a": [0.1, 0.3, math.nan], "b": [math.nan] * 3})
    assert table.row("a") == pytest.approx({"gini": 0.2, "gini_sd": 0.1})
    assert table.row("b") == {"gini": None, "gini_sd": None}
    assert "gini" in table
    assert "accuracy" not in table
    assert table.known(["gini", "accuracy"]) == ("gini",)
    assert table.mean("accuracy", "a") is None


def test_the_best_mean_leads_whichever_way_is_better():
    table = a_table(
        accuracy={"a": [0.9], "b": [0.8]}, gini={"a": [0.3], "b": [0.2]}, jain_counts_avoidable={"a": [0.2], "b": [0.1]}
    )
    assert [table.leaders(key).first for key in ("accuracy", "gini", "jain_counts_avoidable")] == ["a", "b", "b"]


def test_what_prints_the_same_ties_whatever_the_seeds():
    table = a_table(gini={"a": [0.2001], "b": [0.2004], "c": [0.21]})
    assert table.leaders("gini") == Leaders("a", ("b",))
    assert table.level("gini") == ["a", "b"]
    assert table.said("gini", "fairest") == "fairest: a and b", "equals, none of them first"
    assert table.told_apart("gini")
    assert not a_table(gini={"a": [0.2], "b": [0.2]}).told_apart("gini")


def test_with_enough_seeds_chance_ties_and_a_clear_difference_does_not():
    base = RNG.normal(0.5, 0.1, 12)
    table = a_table(gini={"a": base, "close": base + RNG.normal(0.0005, 0.05, 12), "far": base + 0.1})
    assert not table.by_chance
    found = table.leaders("gini")
    assert "far" not in found.all
    assert {"a", "close"} == set(found.all)
    assert table.said("gini", "fairest") == f"fairest: {found.first} (not told apart from {found.tied[0]})"


def test_with_few_seeds_nothing_is_claimed_but_the_mean():
    table = a_table(gini={"a": [0.1, 0.2], "b": [0.11, 0.22]})
    assert table.by_chance
    assert table.seeds_needed == 6
    assert table.leaders("gini") == Leaders("a", ())


def test_oracles_lead_only_where_there_is_nobody_else():
    table = a_table(["oracle"], gini={"oracle": [0.0], "a": [0.1]})
    assert table.leaders("gini").first == "a"
    assert a_table(["oracle"], gini={"oracle": [0.0]}).leaders("gini").first == "oracle"
    assert a_table(gini={"a": [math.nan]}).leaders("gini") is None
    assert a_table(gini={"a": [math.nan]}).said("gini", "fairest") == ""


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("gini", 0.12345, "0.123"),
        ("gini_avoidable", -0.0001, "0.000"),
        ("accuracy", 0.98765, "98.8 %"),
        ("fill", 1.0, "100 %"),
        ("never_served", 7.0, "7"),
        ("never_served", 7.5, "7.5"),
        ("never_served_limit", 1200.0, "1,200"),
        ("fairness_variance", 0.000123456, "0.000123"),
        ("fairness_variance", 1.23e-8, "1.2e-08"),
        ("fairness_variance", 0.0, "0"),
        ("megabytes", 12345.6, "12,346"),
        ("gini", None, "–"),
        ("gini", math.nan, "–"),
        ("gini", math.inf, "∞"),
    ],
)
def test_one_way_to_print_each_number(key, value, text):
    assert printed(key, value) == text


def test_long_lists_are_cut():
    assert listed(["a"]) == "a"
    assert listed(list("abc")) == "a, b and c"
    assert listed(list("abcdefg")) == "a, b, c, d and 3 more"
