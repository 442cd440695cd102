"""Estimators against their formulas, computed the long way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from fedparity.core.errors import ConfigError
from fedparity.core.trace import Trace
from fedparity.estimators import BetaPosterior, Exponential, RunningMean, SlidingWindow

histories = st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=40).map(np.array)


def after(model, online):
    state = model.init(online.shape[1])
    for ids in Trace.from_matrix(online):
        state = model.observe(state, ids)
    return model.estimate(state, np.arange(online.shape[1]))


@given(histories)
def test_running_mean_without_a_prior_is_the_share_of_rounds(online):
    assert after(RunningMean(0, 0), online) == pytest.approx(online.mean(axis=0))


def test_running_mean_by_hand():
    online = np.array([[1, 0], [1, 0], [0, 0]], dtype=bool)
    assert after(RunningMean(), online) == pytest.approx([3 / 5, 1 / 5])


@given(histories, st.integers(1, 12))
def test_window_counts_the_last_rounds_only(online, window):
    last = online[-window:]
    expected = (last.sum(axis=0) + 1) / (len(last) + 2)
    assert after(SlidingWindow(window), online) == pytest.approx(expected)


@given(histories, st.floats(0.01, 1))
def test_exponential_is_the_weighted_mean_of_its_formula(online, rate):
    weight = rate * (1 - rate) ** np.arange(len(online))[::-1]
    expected = np.clip(weight @ online / weight.sum(), 1e-9, 1)
    assert after(Exponential(rate), online) == pytest.approx(expected)


@given(histories, st.floats(0.05, 0.95))
def test_beta_is_the_quantile_of_the_posterior(online, quantile):
    count = online.sum(axis=0)
    expected = beta.ppf(quantile, 1 + count, 1 + len(online) - count)
    assert after(BetaPosterior(quantile=quantile), online) == pytest.approx(expected)


def test_a_memory_that_faded_completely_leaves_a_floor():
    model = Exponential(0.5)
    state = model.observe(model.init(1), np.array([0]))
    state.rounds += 100_000
    assert model.estimate(state, np.array([0]))[0] == 1e-9


def test_running_mean_costs_four_bytes_a_client():
    assert RunningMean().init(1000).online.nbytes == 4000


def test_window_keeps_no_more_than_its_rounds():
    model = SlidingWindow(3)
    state = model.init(4)
    for _ in range(10):
        state = model.observe(state, np.array([1, 2]))
    assert len(state.recent) == 3
    assert state.online.tolist() == [0, 3, 3, 0]


@pytest.mark.parametrize("model", [RunningMean(), SlidingWindow(), Exponential(), BetaPosterior()])
def test_a_round_touches_only_those_available(model):
    state = model.init(1000)
    before = {name: getattr(state, name) for name in state.__dataclass_fields__ if name not in ("rounds", "recent")}
    copies = {name: column.copy() for name, column in before.items()}
    returned = model.observe(state, np.array([7]))
    assert returned is state
    for name, column in before.items():
        assert getattr(state, name) is column
        assert np.flatnonzero(column != copies[name]).tolist() == [7]


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: RunningMean(a=-1), "a=-1"),
        (lambda: RunningMean(b=float("nan")), "b=nan"),
        (lambda: SlidingWindow(0), "window=0"),
        (lambda: SlidingWindow(a=0), "a=0"),
        (lambda: Exponential(0), "rate=0"),
        (lambda: Exponential(1.5), "rate=1.5"),
        (lambda: BetaPosterior(a=0), "a=0"),
        (lambda: BetaPosterior(quantile=1), "quantile=1"),
    ],
)
def test_bounds_are_refused_by_name(make, named):
    with pytest.raises(ConfigError, match=named):
        make()
