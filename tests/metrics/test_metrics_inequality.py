"""Inequality of a vector: worked numbers, edge cases, and the laws that tie the measures together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedparity.core.errors import ConfigError
from fedparity.metrics import inequality
from fedparity.metrics.inequality import best, cv, gini, hoover, jain, lorenz, max_minus_min, mean, std, variance, worst

SPREADS = {"variance": variance, "std": std, "cv": cv, "gini": gini, "hoover": hoover, "max_minus_min": max_minus_min}
ALL = {"mean": mean, "jain": jain, "worst": worst, "best": best, **SPREADS}

amounts = st.floats(0, 1e6, allow_subnormal=False).map(lambda x: 0.0 if x < 1e-6 else x)
vectors = st.lists(amounts, min_size=1, max_size=40).map(np.array)
signed = st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=1, max_size=40).map(np.array)
quick = settings(max_examples=60, deadline=None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mean", 2.0),
        ("variance", 2 / 3),
        ("std", math.sqrt(2 / 3)),
        ("jain", 36 / 42),
        ("cv", math.sqrt(2 / 3) / 2),
        ("gini", 8 / 36),  # differences 1, 1, 2, each pair twice: 8 / (2 * 3 * 6)
        ("hoover", 1 / 6),
        ("max_minus_min", 2.0),
        ("worst", 1.0),
        ("best", 3.0),
    ],
)
def test_one_two_three_by_hand(name, value):
    assert ALL[name]([1, 2, 3]) == pytest.approx(value, rel=1e-15)


def test_jain_of_one_two_three_as_printed():
    assert round(jain([1, 2, 3]), 6) == 0.857143


def test_one_client_has_everything():
    x = [0, 0, 0, 5]
    assert (jain(x), gini(x), hoover(x), cv(x)) == pytest.approx((1 / 4, 3 / 4, 3 / 4, math.sqrt(3)))


@pytest.mark.parametrize("name", ALL)
def test_nobody_is_nan(name):
    assert math.isnan(ALL[name]([]))


@pytest.mark.parametrize("name", SPREADS)
@pytest.mark.parametrize("x", [[7.0], [0.0], [0, 0, 0], [4, 4, 4, 4]])
def test_equal_values_have_no_spread(name, x):
    assert SPREADS[name](x) == 0.0
    assert jain(x) == 1.0


@pytest.mark.parametrize("name", [*ALL, "lorenz"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_entry_that_is_no_number_is_named_by_its_index(name, bad):
    with pytest.raises(ConfigError, match=r"x\[2\]=.* must be a finite number"):
        getattr(inequality, name)([1.0, 2.0, bad, 3.0])


@pytest.mark.parametrize("measure", [gini, lorenz])
def test_gini_and_lorenz_refuse_negative_entries(measure):
    with pytest.raises(ConfigError, match=r"x\[1\]=-2\.0 must be a finite number of at least 0"):
        measure([1, -2, 3])


def test_the_others_take_negative_entries():
    x = [-1, -2, -3]
    assert (mean(x), variance(x), max_minus_min(x), worst(x)) == pytest.approx((-2, 2 / 3, 2, -3))
    assert (cv(x), hoover(x), jain(x)) == pytest.approx((cv([1, 2, 3]), hoover([1, 2, 3]), jain([1, 2, 3])))


def test_a_spread_around_zero_is_infinitely_uneven():
    assert cv([-1, 1]) == math.inf
    assert hoover([-1, 1]) == math.inf
    assert jain([-1, 1]) == 0.0


def test_eps_steadies_the_cv_and_must_not_be_negative():
    assert cv([-1, 1], eps=0.5) == pytest.approx(2.0)
    assert cv([0, 0], eps=0.5) == 0.0
    with pytest.raises(ConfigError, match=r"eps=-1 must be"):
        cv([1, 2], eps=-1)


def test_a_matrix_is_refused():
    with pytest.raises(ConfigError, match="2 dimensions"):
        mean(np.ones((2, 2)))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.float32, np.bool_])
def test_any_number_type_is_summed_in_float64(dtype):
    x = np.array([1] * 100 + [0] * 100, dtype=dtype)
    assert jain(x) == 0.5
    assert gini(x) == 0.5
    assert mean(x) == 0.5


def test_large_counts_do_not_overflow_integers():
    x = np.array([2**30, 2**31 - 1], dtype=np.int32)
    assert jain(x) == pytest.approx(0.9, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize("measure", [jain, cv, gini, hoover])
def test_extreme_scales_change_nothing(measure, scale):
    assert measure(np.array([1.0, 2.0, 3.0]) * scale) == pytest.approx(measure([1, 2, 3]), rel=1e-12)


def test_worst_share_counts_clients_upwards():
    x = np.arange(30)
    assert worst(x, 0.1) == 1.0  # three clients: 0, 1, 2
    assert worst(x, 0.11) == 1.5  # 3.3 is four
    assert worst(np.arange(100), 0.07) == 3.0  # .07 * 100 is above 7 in floats, and still seven clients
    assert worst(x, 1e-12) == 0.0
    assert worst(x, 1) == mean(x)


@pytest.mark.parametrize("share", [0, -0.1, 1.5, math.nan])
def test_worst_refuses_a_share_outside_its_range(share):
    with pytest.raises(ConfigError, match="share="):
        worst([1, 2, 3], share)


def test_lorenz_by_hand_and_its_edges():
    population, held = lorenz([3, 1, 0])
    np.testing.assert_allclose(population, [0, 1 / 3, 2 / 3, 1])
    np.testing.assert_allclose(held, [0, 0, 1 / 4, 1])
    np.testing.assert_array_equal(lorenz([0, 0])[1], [0, 0.5, 1])
    np.testing.assert_array_equal(lorenz([9])[1], [0, 1])
    assert np.isnan(lorenz([])).all()


@quick
@given(signed)
def test_jain_is_a_function_of_the_cv(x):
    assert jain(x) == pytest.approx(1 / (1 + cv(x) ** 2), rel=1e-6, abs=1e-9)


@quick
@given(vectors)
def test_gini_is_the_mean_difference_of_all_pairs(x):
    pairs = np.abs(x[:, None] - x[None, :]).sum()
    assert gini(x) == pytest.approx(pairs / (2 * len(x) * x.sum()) if x.any() else 0.0, abs=1e-12)


@quick
@given(vectors)
def test_ranges(x):
    n = len(x)
    assert 0 <= gini(x) <= 1 - 1 / n + 1e-12
    assert 1 / n - 1e-12 <= jain(x) <= 1
    assert 0 <= hoover(x) <= gini(x) + 1e-12
    assert 0 <= cv(x) <= math.sqrt(n - 1) + 1e-6


@quick
@given(vectors, st.floats(1e-3, 1e3))
def test_scale_does_not_matter(x, scale):
    for measure in (jain, cv, gini, hoover):
        assert measure(scale * x) == pytest.approx(measure(x), rel=1e-6, abs=1e-7)
    assert std(scale * x) == pytest.approx(scale * std(x), rel=1e-6, abs=1e-7 * scale * x.max())


@quick
@given(vectors, st.randoms(use_true_random=False))
def test_who_is_who_does_not_matter(x, random):
    y = x.copy().tolist()
    random.shuffle(y)
    for measure in ALL.values():
        assert measure(y) == pytest.approx(measure(x), rel=1e-6, abs=1e-7)


@quick
@given(st.lists(st.integers(0, 50), min_size=2, max_size=20), st.data())
def test_giving_from_rich_to_poor_never_makes_it_worse(counts, data):
    poor, rich = sorted(data.draw(st.tuples(*[st.integers(0, len(counts) - 1)] * 2)), key=lambda i: counts[i])
    given_away = data.draw(st.integers(0, (counts[rich] - counts[poor]) // 2))
    after = np.array(counts)
    after[rich] -= given_away
    after[poor] += given_away
    for measure in SPREADS.values():
        assert measure(after) <= measure(counts) + 1e-12
    assert jain(after) >= jain(counts) - 1e-12
    assert worst(after) >= worst(counts) - 1e-12


@quick
@given(vectors)
def test_lorenz_runs_from_corner_to_corner_and_holds_the_gini(x):
    population, held = lorenz(x)
    assert (population[0], held[0], population[-1], held[-1]) == (0, 0, 1, 1)
    assert (np.diff(held) >= 0).all()
    assert (held <= population + 1e-12).all()
    area = float(((held[1:] + held[:-1]) / 2 * np.diff(population)).sum())
    assert gini(x) == pytest.approx(1 - 2 * area, abs=1e-12)


@quick
@given(signed, st.floats(0.01, 1), st.floats(0.01, 1))
def test_worst_grows_with_the_share(x, a, b):
    low, high = sorted((a, b))
    assert worst(x, low) <= worst(x, high) + 1e-6
    assert x.min() - 1e-6 <= worst(x, low)
    assert worst(x, high) <= mean(x) + 1e-6
