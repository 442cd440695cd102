"""Methods compared on the same seeds: worked numbers, laws of differences, intervals and ranks, missing seeds."""

from __future__ import annotations

import dataclasses
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
    bootstrap_interval,
    compare_methods,
    differences,
    mean_ranks,
    signed_rank,
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
    assert (ours.p, ours.p_pairs) == (None, None)
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
@given(tables(maybe, methods=2), st.integers(0, 5))
def test_a_comparison_turned_round_has_the_opposite_sign(values, seed):
    one = compare_methods(values, "m1", seed=seed)["m0"]
    two = compare_methods(values, "m0", seed=seed)["m1"]
    np.testing.assert_array_equal(differences(values["m0"], values["m1"]), -differences(values["m1"], values["m0"]))
    assert one.pairs == two.pairs == one.wins + one.ties + one.losses
    assert (one.wins, one.ties, one.losses) == (two.losses, two.ties, two.wins)
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


@quick
@given(st.lists(numbers, min_size=2, max_size=12), st.integers(0, 9))
def test_intervals_nest_around_the_median_of_the_resampled_means(d, seed):
    narrow, usual, wide = (bootstrap_interval(d, confidence=c, resamples=200, seed=seed) for c in (1e-9, 0.95, 1))
    assert wide[0] <= usual[0] <= narrow[0] + 1e-6
    assert narrow[1] - 1e-6 <= usual[1] <= wide[1]
    assert narrow[0] == pytest.approx(narrow[1], abs=1e-4)  # the median
    assert min(d) - 1e-9 <= wide[0]
    assert wide[1] <= max(d) + 1e-9


def test_the_interval_depends_on_the_seed_alone():
    d = [0.1, 0.5, -0.2, 0.4, 0.3]
    assert bootstrap_interval(d) == bootstrap_interval(np.array(d))
    assert bootstrap_interval(d, seed=1) != bootstrap_interval(d, seed=2)
    again = [compare_methods(THREE, "qffl", wilcoxon=True) for _ in range(2)]
    assert again[0] == again[1]


def test_the_interval_covers_as_often_as_it_should():
    rng = np.random.default_rng(0)
    hits = [low <= 0 <= high for low, high in (bootstrap_interval(rng.normal(size=40)) for _ in range(200))]
    assert 0.88 <= np.mean(hits) <= 0.99


def test_too_few_pairs_have_no_interval():
    one = compare_methods({"a": [1, math.nan], "b": [3, 4]}, "b")["a"]
    assert (one.pairs, one.mean) == (1, -2)
    assert math.isnan(one.low)
    none = compare_methods({"a": [math.inf, math.nan], "b": [3, 4]}, "b", wilcoxon=True)["a"]
    assert (none.pairs, none.wins, none.ties, none.losses, none.p, none.p_pairs) == (0, 0, 0, 0, 1, 0)
    assert math.isnan(none.mean)


def test_missing_differences_are_left_out():
    nan = math.nan
    assert bootstrap_interval([0.1, nan, 0.5, math.inf]) == bootstrap_interval([0.1, 0.5])
    assert signed_rank([1, nan, 2, -3]) == signed_rank([1, 2, -3])
    assert all(math.isnan(bound) for bound in bootstrap_interval([nan, 1.0]))


@pytest.mark.parametrize(
    ("d", "p", "n"),
    [
        ([1, 2, 3, 4, 5], 2 / 2**5, 5),  # never below .05 with five seeds
        ([1, 2, 3, 4, 5, 6], 2 / 2**6, 6),
        ([1, 2, 3, 4, 5, 0], 2 / 2**5, 5),  # 0 is left out
        ([-1, 2], 1.0, 2),  # rank sums 1 and 2: 3 of 4 signs are as far out on either side
        ([0, 0], 1.0, 0),
        ([], 1.0, 0),
    ],
)
def test_signed_rank_by_hand(d, p, n):
    assert signed_rank(d) == (pytest.approx(p), n)


@quick
@given(st.lists(numbers, max_size=12))
def test_signed_rank_has_no_side(d):
    p, n = signed_rank(d)
    assert signed_rank([-x for x in d]) == (pytest.approx(p), n)
    assert 0 < p <= 1
    assert n == sum(x != 0 for x in d)


def test_scipy_is_only_loaded_for_the_p_value():
    code = (
        "import sys; from fedparity.metrics import compare_methods as c; v = {'a': [1, 2], 'b': [2, 4]}; c(v, 'a');"
        "print('scipy' in sys.modules); c(v, 'a', wilcoxon=True); print('scipy' in sys.modules)"
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
    for confidence in (0, 1.5):
        with pytest.raises(ConfigError, match="confidence="):
            bootstrap_interval([1, 2], confidence=confidence)
    with pytest.raises(ConfigError, match="resamples=0"):
        bootstrap_interval([1, 2], resamples=0)


def test_comparisons_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PairedDifference("a", "b", 0, 0, 0, 0, 0, 0, 0).mean = 1
