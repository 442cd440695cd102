"""What every estimator promises, over the whole table."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest

from fedparity.availability import Bernoulli
from fedparity.estimators import ESTIMATORS
from fedparity.testing import check_estimator
from fedparity.testing.populations import seen

NAMES = sorted(ESTIMATORS)
VARIANTS = [*NAMES, "mean:a=0,b=0", "window:window=1", "exponential:rate=1", "beta:quantile=.01", "beta:quantile=.99"]


@pytest.mark.parametrize("text", VARIANTS)
def test_laws_of_everybody_s_estimators(text):
    check_estimator(text)


@pytest.mark.parametrize("name", NAMES)
def test_it_finds_the_rate(name):
    rates = (0.1, 0.3, 0.6, 0.9)
    model = ESTIMATORS.build(name)
    found = []
    for seed in range(30):
        state = seen(model, Bernoulli(rates=rates).draw(4, 400, seed))
        found.append(model.estimate(state, np.arange(4)))
    # The window's prior pulls by (1 - 2 pi) / 52; the mean of 30 runs of a short memory has an error of .02.
    assert np.mean(found, axis=0) == pytest.approx(rates, abs=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_the_state_is_handed_over_and_can_be_kept(name):
    model = ESTIMATORS.build(name)
    trace = Bernoulli().draw(30, 130, 8)
    whole = seen(model, trace)
    half = seen(model, trace.head(70))
    assert dataclasses.is_dataclass(half)
    kept = copy.deepcopy(half)
    for t in range(70, 130):
        kept = model.observe(kept, trace.online(t))
    everybody = np.arange(30)
    assert np.array_equal(model.estimate(kept, everybody), model.estimate(whole, everybody))
    assert not np.array_equal(model.estimate(half, everybody), model.estimate(whole, everybody))


@pytest.mark.parametrize("text", VARIANTS)
def test_remaining_is_the_rate_times_the_rounds_left(text):
    model = ESTIMATORS.build(text)
    state = seen(model, Bernoulli().draw(20, 60, 0))
    everybody = np.arange(20)
    # A forecast may see a rhythm in 60 independent rounds, but only a faint one.
    rel = 0.1 if text == "forecast" else 1e-9
    assert model.remaining(state, everybody, 40) == pytest.approx(40 * model.estimate(state, everybody), rel=rel)
    assert np.array_equal(model.remaining(state, everybody, 0), np.zeros(20))


@pytest.mark.parametrize("text", VARIANTS)
def test_sampled_futures_agree_with_what_is_expected(text):
    """Means over samples are the rounds expected; nothing is drawn but from the generator given."""
    model = ESTIMATORS.build(text)
    trace = Bernoulli(0.05, 0.95).draw(30, 200, 4)
    state = seen(model, trace)
    online = np.zeros(30, dtype=bool)
    online[trace.online(199)] = True
    found, again = (model.futures(state, online, 20, 400, np.random.default_rng(1)) for _ in range(2))
    assert found.shape == (20, 400, 30)
    assert found.dtype == np.bool_
    assert np.array_equal(found, again)
    ids = trace.online(199)
    assert found.sum(0).mean(0)[ids] == pytest.approx(model.remaining(state, ids, 20), abs=0.6)
