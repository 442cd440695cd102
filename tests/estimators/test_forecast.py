"""The forecast: calibrated on phones, harmless where there is nothing to forecast, small."""

import numpy as np
import pytest

from fedparity import AVAILABILITY, ConfigError, Coordinator, Intermittent, NoTraining, Trace, frontier, run
from fedparity.availability import Markov
from fedparity.estimators import Forecast, Oracle, RunningMean
from fedparity.metrics import gini


def predictions(estimator, trace, rounds, horizon):
    """Predicted and true rounds online within `horizon`, of everybody online at each of `rounds`."""
    state, matrix = estimator.init(trace.num_clients), trace.matrix()
    said, true = [], []
    for t in range(max(rounds) + 1):
        online = trace.online(t)
        state = estimator.observe(state, online)
        if t in rounds:
            said.append(estimator.remaining(state, online, horizon))
            true.append(matrix[t + 1 : t + 1 + horizon, online].sum(0))
    return np.concatenate(said), np.concatenate(true)


@pytest.mark.parametrize("horizon", [4, 48, 192])
def test_calibrated_on_phones(horizon):
    """After three days: the mean over all is within 12 %, and so is that of each third by size of the forecast."""
    trace = AVAILABILITY.build("phones").draw(1500, 400, 11)
    said, true = predictions(Forecast(), trace, range(144, 200, 7), horizon)
    assert said.mean() == pytest.approx(true.mean(), rel=0.12)
    for part in np.array_split(np.argsort(said, kind="stable"), 3):
        assert said[part].mean() == pytest.approx(true[part].mean(), rel=0.25)


def test_better_than_the_running_mean_on_phones():
    trace = AVAILABILITY.build("phones").draw(1500, 300, 5)
    for horizon in (4, 24, 96):
        errors = {}
        for estimator in (Forecast(), RunningMean()):
            said, true = predictions(estimator, trace, range(96, 200, 9), horizon)
            errors[type(estimator)] = float(((said - true) ** 2).mean())
        assert errors[Forecast] < errors[RunningMean]


def test_learns_that_there_is_nothing_to_learn():
    """Independent rounds: no persistence, a flat day, and the rates themselves."""
    trace = AVAILABILITY.build("bernoulli").draw(400, 300, 3)
    forecast = Forecast()
    state = forecast.init(400)
    for t in range(300):
        state = forecast.observe(state, trace.online(t))
    assert state.nu < 0.02
    assert forecast._rhythm(state) == pytest.approx(np.ones(8), abs=0.06)
    everyone = np.arange(400)
    assert np.abs(forecast.estimate(state, everyone) - trace.rates()).max() < 0.05
    assert forecast.remaining(state, everyone, 100) == pytest.approx(forecast.estimate(state, everyone) * 100, rel=0.15)


def test_learns_persistence_of_a_markov_chain():
    trace = AVAILABILITY.build("markov:nu=.8,low=.1,high=.6").draw(500, 400, 1)
    forecast = Forecast()
    state = forecast.init(500)
    for t in range(400):
        state = forecast.observe(state, trace.online(t))
    assert state.nu == pytest.approx(0.8, abs=0.05)


def test_learns_the_rhythm_of_the_day():
    online = [np.arange(50) if t % 48 < 12 else np.arange(5) for t in range(48 * 6)]
    forecast, trace = Forecast(), Trace.from_rounds(100, online)
    state = forecast.init(100)
    for t in range(48 * 5 + 11):
        state = forecast.observe(state, trace.online(t))
    often = forecast.remaining(state, np.array([0, 20]), 36)
    assert often[0] > 0.5 * 36  # always there; half of the forecast is the population's day
    assert often[1] < 0.35 * 36  # only in the first quarter of the day, which has just passed


@pytest.mark.parametrize("nu", [0.9, 0.97])
def test_a_long_session_is_not_taken_for_a_high_rate(nu):
    """After one day the persistence is found, and forecasts do not spread beyond what comes true."""
    said, came = [], []
    for seed in range(6):
        trace = AVAILABILITY.build(f"markov:nu={nu},low=.01,high=.5").draw(400, 148, seed)
        forecast, matrix = Forecast(), trace.matrix()
        state = forecast.init(400)
        for t in range(48):
            state = forecast.observe(state, trace.online(t))
        assert state.nu == pytest.approx(nu, abs=0.02)
        here = trace.online(47)
        said.append(forecast.remaining(state, here, 100))
        came.append(matrix[48:, here].sum(0))
    x, y = (np.concatenate([v - v.mean() for v in values]) for values in (said, came))
    assert x @ x < y @ y / 4


def test_costs_28_bytes_per_client():
    state = Forecast().init(10_000)
    columns = (state.online, state.sessions, state.last, state.day)
    assert sum(column.nbytes for column in columns) / 10_000 == 28


def test_counts_of_a_day_part_do_not_overflow():
    forecast = Forecast(period=1, bins=1)
    state = forecast.init(1)
    state.day[:] = np.iinfo(np.uint16).max
    state = forecast.observe(state, np.array([0]))
    assert state.day[0, 0] == np.iinfo(np.uint16).max


def test_oracle_knows_and_nobody_does_better_with_less():
    trace = AVAILABILITY.build("paper_like").draw(100, 100, 2)
    said, true = predictions(Oracle(trace), trace, range(100), 100)
    assert np.array_equal(said, true)
    shares = {}
    for name, estimator in (("oracle", Oracle(trace)), ("mean", RunningMean())):
        coordinator = Coordinator(5, estimator=estimator)
        shares[name] = gini(
            run(coordinator, Intermittent(NoTraining(100), trace), 100, num_clients=100).ledger.selected
        )
    assert gini(frontier(trace, 5).counts) <= shares["oracle"] <= shares["mean"]


@pytest.mark.parametrize(("field", "value"), [("period", 0), ("bins", 0), ("bins", 99), ("shrink", 0.0)])
def test_bad_parameters_are_refused(field, value):
    with pytest.raises(ConfigError, match=field):
        Forecast(**{field: value})


def test_sampled_futures_last_as_long_as_sessions_do():
    trace = Markov(pi=0.3, nu=0.9).draw(200, 300, 0)
    state = Forecast().init(200)
    for ids in trace:
        state = Forecast().observe(state, ids)
    online = np.zeros(200, dtype=bool)
    online[trace.online(299)] = True
    found = Forecast().futures(state, online, 30, 50, np.random.default_rng(0))
    # P(online | online) = nu + (1 - nu) pi = .93, P(online | offline) = .03: soon as now, in the end at the rate.
    assert found[0][:, online].mean() == pytest.approx(0.93, abs=0.02)
    assert found[0][:, ~online].mean() == pytest.approx(0.03, abs=0.02)
    assert found[-1].mean() == pytest.approx(0.3, abs=0.05)


def test_the_oracle_samples_what_comes():
    trace = Markov().draw(20, 30, 0)
    state = Oracle(trace).init(20)
    for t in range(12):
        state = Oracle(trace).observe(state, trace.online(t))
    found = Oracle(trace).futures(state, np.zeros(20, dtype=bool), 18, 2, np.random.default_rng(0))
    assert np.array_equal(found[:, 0], trace.matrix()[12:])
    assert np.array_equal(found[:, 0], found[:, 1])


def test_what_few_sessions_tell_of_a_client_is_not_believed():
    """A day and a half of long sessions: who was there is mostly luck."""
    said, true = [], []
    for seed in range(8):
        model = Markov(nu=0.97, low=0.02, high=0.4)
        trace, forecast = model.draw(100, 78, seed), Forecast()
        state = forecast.init(100)
        for t in range(78):
            state = forecast.observe(state, trace.online(t))
        said.append(forecast.estimate(state, np.arange(100)).std())
        true.append(model.client_rates(100, seed).std())
    assert np.mean(said) <= 0.4 * np.mean(true)
