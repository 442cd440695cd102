"""One value per client as papers print it: worked numbers, FederatedScope's own formulas, edges."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedparity.core.errors import ConfigError
from fedparity.metrics import PerformanceSummary, best, jain, summarise_performance, worst

quick = settings(max_examples=60, deadline=None)
accuracies = st.lists(st.floats(0, 1).map(lambda x: round(x, 4)), min_size=1, max_size=60)


def test_twenty_clients_by_hand():
    x = np.arange(20)[::-1] / 20
    found = summarise_performance(x)
    expected = PerformanceSummary(
        clients=20,
        mean=0.475,
        std=math.sqrt(33.25) / 20,  # (n^2 - 1) / 12
        variance=33.25 / 400,
        variance_percent2=831.25,
        min=0.0,
        max=0.95,
        bottom_decile=0.1,
        top_decile=0.9,
        worst5=0.0,
        best5=0.95,
        worst10=0.025,
        best10=0.925,
        cos1=math.sqrt(jain(x)),
        entropy=-sum(k / 190 * math.log(k / 190) for k in range(1, 20)),
    )
    assert dataclasses.asdict(found) == pytest.approx(dataclasses.asdict(expected))


def test_papers_print_the_variance_of_percentages():
    accuracy = np.array([0.2, 0.4, 0.6])
    assert summarise_performance(accuracy).variance_percent2 == pytest.approx(np.var(100 * accuracy))


@quick
@given(st.lists(st.floats(0.01, 1), min_size=10, max_size=60))
def test_federated_scope_s_own_formulas(values):
    found, x = summarise_performance(values), np.sort(values)
    n, p = len(x), (x + 1e-9) / (x + 1e-9).sum()
    assert found.bottom_decile == x[n // 10]
    assert found.top_decile == x[n * 9 // 10]
    assert found.best10 == pytest.approx(x[n * 9 // 10 :].mean())
    if n % 10 == 0:
        assert found.worst10 == pytest.approx(x[: n // 10].mean())
    assert found.cos1 == pytest.approx(x.mean() / math.sqrt((x**2).mean()))
    assert found.entropy == pytest.approx(-(p * np.log(p)).sum(), abs=1e-6)


@quick
@given(accuracies)
def test_order_of_the_numbers(values):
    found = summarise_performance(values)
    rising = [found.min, found.worst5, found.worst10, found.mean, found.best10, found.best5, found.max]
    assert all(low <= high + 1e-12 for low, high in pairwise(rising))
    assert found.min <= found.bottom_decile <= found.top_decile <= found.max
    assert found.cos1**2 == pytest.approx(jain(values))
    assert -1e-12 <= found.entropy <= math.log(len(values)) + 1e-12


@pytest.mark.parametrize("x", [[0.5] * 7, [0.0] * 7])
def test_equal_values(x):
    found = summarise_performance(x)
    assert (found.cos1, found.std, found.min) == (1, 0, found.max)
    assert found.entropy == pytest.approx(math.log(7))


def test_negative_values_have_no_entropy_and_a_cosine_of_their_sign():
    found = summarise_performance([-1, -2, -3])
    assert math.isnan(found.entropy)
    assert found.cos1 == pytest.approx(-math.sqrt(36 / 42))


def test_nobody_is_nan():
    found = dataclasses.asdict(summarise_performance([]))
    assert found.pop("clients") == 0
    assert all(math.isnan(value) for value in found.values())


def test_a_missing_value_is_refused():
    with pytest.raises(ConfigError, match=r"values\[1\]=nan"):
        summarise_performance([1, math.nan])


def test_tiny_values_next_to_large_ones_have_an_entropy():
    assert summarise_performance([1e-300, 1e100]).entropy == 0


@quick
@given(accuracies, st.floats(0.01, 1))
def test_best_mirrors_worst(values, share):
    assert best(values, share) == pytest.approx(1 - worst(1 - np.array(values), share))
    assert best(values, share) >= worst(values, share) - 1e-12
