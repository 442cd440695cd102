"""Methods compared on the same seeds: worked numbers, laws of differences, intervals, tests, ranks, missing seeds."""

from __future__ import annotations

import dataclasses
import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedparity.core.errors import ConfigError
from fedparity.metrics import (
    PairedDifference,
    align_seeds,
    compare_methods,
    differences,
    holm,
    mean_ranks,
    pairs_needed,
    sign_flip,
    t_interval,
)

quick = settings(max_examples=60, deadline=None)
numbers = st.floats(-100, 100).map(lambda x: round(x, 2))
maybe = st.one_of(numbers, st.just(math.nan))


@st.composite
def tables(draw, values=numbers, methods=None):
    k = draw(st.integers(1, 5)) if methods is None else methods
    seeds = draw(st.integers(1, 8))
    return {f"m{i}": draw(st.lists(values, min_size=seeds, max_size=seeds)) for i in range(k)}


THREE = {"ours": [0.9, 0.8, 0.7, math.nan], "fedavg": [0.5, 0.8, 0.8, 0.1], "qffl": [0.6, 0.9, 0.6, 0.2]}


def test_three_methods_by_hand():
    found = compare_methods(THREE, "fedavg", tie=1e-9)
    assert list(found) == ["ours", "qffl"]
    ours = found["ours"]
    assert (ours.method, ours.reference, ours.pairs) == ("ours", "fedavg", 3)
    assert ours.mean == pytest.approx(0.1)
    assert (ours.wins, ours.ties, ours.losses) == (1, 1, 1)
    assert ours.low <= ours.mean <= ours.high
    assert math.isnan(ours.p)
    assert not ours.told_apart
    assert (found["qffl"].pairs, found["qffl"].wins, found["qffl"].losses) == (4, 3, 1)


def test_lower_can_be_better():
    turned = compare_methods(THREE, "fedavg", higher_is_better=False, tie=1e-9)["qffl"]
    assert (turned.wins, turned.losses) == (1, 3)
    assert turned.mean == pytest.approx(0.025)  # a difference keeps its sign


def test_ranks_by_hand():
    found = mean_ranks(THREE)
    assert found.seeds == 3  # one has no value of ours
    assert found.ranks == pytest.approx({"ours": (1 + 2.5 + 2) / 3, "fedavg": (3 + 2.5 + 1) / 3, "qffl": 2.0})


@quick
@given(tables(maybe, methods=2))
def test_a_comparison_turned_round_has_the_opposite_sign(values):
    one = compare_methods(values, "m1")["m0"]
    two = compare_methods(values, "m0")["m1"]
    np.testing.assert_array_equal(differences(values["m0"], values["m1"]), -differences(values["m1"], values["m0"]))
    assert one.pairs == two.pairs == one.wins + one.ties + one.losses
    assert (one.wins, one.ties, one.losses) == (two.losses, two.ties, two.wins)
    assert (one.p, one.p_holm) == pytest.approx((two.p, two.p_holm), nan_ok=True)
    assert (one.mean, one.low, one.high) == pytest.approx((-two.mean, -two.high, -two.low), nan_ok=True)


@quick
@given(tables(maybe), st.booleans())
def test_places_add_up(values, higher):
    found = mean_ranks(values, higher_is_better=higher)
    k = len(values)
    if found.seeds:
        assert sum(found.ranks.values()) == pytest.approx(k * (k + 1) / 2)
        assert all(1 <= rank <= k for rank in found.ranks.values())
    else:
        assert all(math.isnan(rank) for rank in found.ranks.values())


@quick
@given(tables(methods=3))
def test_turning_the_order_turns_the_places(values):
    up, down = mean_ranks(values), mean_ranks(values, higher_is_better=False)
    assert {name: 4 - rank for name, rank in up.ranks.items()} == pytest.approx(down.ranks)


# --- intervals and tests


def test_the_interval_is_students():
    d = [1.0, 2.0, 4.0]  # mean 7/3, s = sqrt(7/3), t_2 = 4.302653 at 95 %
    half = 4.302652729911275 * math.sqrt(7 / 3) / math.sqrt(3)
    assert t_interval(d) == pytest.approx((7 / 3 - half, 7 / 3 + half))
    assert t_interval([0.5, 0.5]) == (0.5, 0.5)


@quick
@given(st.lists(numbers, min_size=2, max_size=12))
def test_intervals_nest_around_the_mean(d):
    narrow, usual, wide = (t_interval(d, c) for c in (1e-9, 0.95, 0.99))
    assert wide[0] <= usual[0] <= narrow[0] + 1e-6
    assert narrow[1] - 1e-6 <= usual[1] <= wide[1]
    assert narrow[0] == pytest.approx(np.mean(d), abs=1e-4)


@pytest.mark.parametrize(
    ("d", "p"),
    [
        ([1, 2, 3, 4, 5, 6], 2 / 2**6),  # all of one sign: it and its opposite
        ([1, 2, 3, 4, 5, 0], 4 / 2**6),  # 0 has either sign
        ([-1, 2, 3, 4, 5, 6], 4 / 2**6),
        ([0.1] * 6, 2 / 2**6),
        ([0] * 6, 1.0),
        ([1, -1] * 3, 1.0),
    ],
)
def test_sign_flips_by_hand(d, p):
    assert sign_flip(d) == pytest.approx(p)
    assert math.isnan(sign_flip(d[:5]))


@quick
@given(st.lists(numbers, min_size=6, max_size=9))
def test_sign_flips_have_no_side_and_count_every_pattern(d):
    p = sign_flip(d)
    assert sign_flip([-x for x in d]) == p
    sums = [
        abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in itertools.product((1, -1), repeat=len(d))
    ]
    assert p == pytest.approx(np.mean([s >= abs(sum(d)) - 1e-7 for s in sums]))


def test_many_pairs_are_drawn_patterns_that_agree_with_all_of_them():
    rng = np.random.default_rng(1)
    d = rng.normal(0.4, size=15)
    flips = (np.arange(2**15)[:, None] >> np.arange(15)) & 1
    exact = np.mean(np.abs((1 - 2 * flips) @ d) >= abs(d.sum()) - 1e-9)
    assert sign_flip(d) == pytest.approx(exact, abs=0.01)
    assert sign_flip(d) == sign_flip(d)
    assert sign_flip(np.ones(40)) == 1 / 10_000  # never 0


def test_holm_by_hand():
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": math.nan})
    assert found == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": math.nan}, nan_ok=True)
    assert holm({"a": 0.01, "b": 0.3}, comparisons=5) == pytest.approx({"a": 0.05, "b": 1.0})
    with pytest.raises(ConfigError, match="comparisons=1 but 2 are made"):
        holm({"a": 0.01, "b": 0.3}, comparisons=1)


@pytest.mark.parametrize("comparisons", [1, 2, 4, 10, 45])
def test_as_few_pairs_as_can_be_told_apart(comparisons):
    n = pairs_needed(comparisons)
    best = {f"m{i}": np.arange(1, n + 1) * (i + 1) for i in range(comparisons)} | {"zero": np.zeros(n)}
    assert all(d.told_apart for d in compare_methods(best, "zero").values())
    fewer = {name: values[:-1] for name, values in best.items()}
    assert not any(d.told_apart for d in compare_methods(fewer, "zero").values())


# --- what noise is taken for: nothing differs, each table has five methods and a reference

TABLES = 2000
NOISE = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "heavy tails": lambda rng, shape: rng.standard_t(2, size=shape),
    "skewed": lambda rng, shape: rng.lognormal(size=shape),
    "in steps of a standard deviation": lambda rng, shape: np.round(rng.normal(size=shape)),
}


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("n", [3, 5, 10])
def test_noise_is_rarely_taken_for_a_difference(n, noise):
    draw = NOISE[noise]
    alone, starred = false_positives(lambda rng: draw(rng, (6, n)) + draw(rng, n), TABLES)
    assert alone <= 0.06  # the interval of one comparison, 95 %
    assert starred <= (0.06 if n >= 6 else 0)  # any star in the table


def test_the_best_of_a_table_of_noise_is_not_told_apart():
    """The top is chosen by the numbers themselves, so the correction is over all pairs."""
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(TABLES // 3):
        values = {f"m{i}": row for i, row in enumerate(rng.normal(size=(6, 10)))}
        top = max(values, key=lambda name: values[name].mean())
        hits += any(d.told_apart for d in compare_methods(values, top, comparisons=15).values())
    assert hits / (TABLES // 3) <= 0.06


def test_a_difference_is_found():
    rng = np.random.default_rng(4)
    found = [compare_methods({"a": rng.normal(1.5, size=10), "b": np.zeros(10)}, "b")["a"] for _ in range(200)]
    assert np.mean([d.told_apart for d in found]) >= 0.95


def false_positives(draw, tables):
    """How often an interval leaves out zero, and how often a table has a star."""
    rng = np.random.default_rng(0)
    alone, starred = [], []
    for _ in range(tables):
        found = compare_methods({f"m{i}": row for i, row in enumerate(draw(rng))}, "m0").values()
        alone += [not d.low <= 0 <= d.high for d in found]
        starred.append(any(d.told_apart for d in found))
    return np.mean(alone), np.mean(starred)


# --- missing numbers, and wrong ones


def test_too_few_pairs_have_no_interval():
    one = compare_methods({"a": [1, math.nan], "b": [3, 4]}, "b")["a"]
    assert (one.pairs, one.mean) == (1, -2)
    assert math.isnan(one.low)
    none = compare_methods({"a": [math.inf, math.nan], "b": [3, 4]}, "b")["a"]
    assert (none.pairs, none.wins, none.ties, none.losses, none.told_apart) == (0, 0, 0, 0, False)
    assert math.isnan(none.mean)


def test_missing_differences_are_left_out():
    nan = math.nan
    assert t_interval([0.1, nan, 0.5, math.inf]) == t_interval([0.1, 0.5])
    assert sign_flip([1, nan, 2, 3, 4, 5, -6]) == sign_flip([1, 2, 3, 4, 5, -6])
    assert all(math.isnan(bound) for bound in t_interval([nan, 1.0]))


def test_scipy_is_only_loaded_for_an_interval():
    code = (
        "import sys; from fedparity.metrics import compare_methods as c; v = {'a': [1, 2], 'b': [2, 4]}; "
        "print('scipy' in sys.modules); c(v, 'a'); print('scipy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_seeds_are_lined_up_by_their_number():
    seeds, values = align_seeds({"a": {3: 1.0, 1: 2.0}, "b": {1: 5.0, 7: 6.0}})
    assert seeds == (1, 3, 7)
    np.testing.assert_array_equal(values["a"], [2, 1, math.nan])
    np.testing.assert_array_equal(values["b"], [5, math.nan, 6])
    assert compare_methods(values, "b")["a"].pairs == 1
    assert align_seeds({}) == ((), {})


def test_no_methods_and_one():
    assert mean_ranks({}).seeds == 0
    assert compare_methods({"a": [1, 2]}, "a") == {}
    assert mean_ranks({"a": [1, 2]}).ranks == {"a": 1}


def test_bad_input_is_refused():
    with pytest.raises(ConfigError, match="unknown reference method 'fedav'; did you mean 'fedavg'"):
        compare_methods(THREE, "fedav")
    with pytest.raises(ConfigError, match=r"as many for all \(NaN: missing\); there are a \(1,\), b \(2,\)"):
        mean_ranks({"a": [1], "b": [1, 2]})
    with pytest.raises(ConfigError, match="tie=-1"):
        compare_methods(THREE, "ours", tie=-1)
    for confidence in (0, 1, 1.5):
        with pytest.raises(ConfigError, match=f"confidence={confidence} must be above 0 and below 1"):
            t_interval([1, 2], confidence)


def test_comparisons_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PairedDifference("a", "b", 0, 0, 0, 0, 0, 0, 0).mean = 1
