"""Promises kept while a model learns: a coarse version of docs/learning.md, on digits with two labels per client."""

import functools

import numpy as np
import pytest

from fedparity import Coordinator, InProcess, Intermittent, Spec, execute, run, stream
from fedparity.core.errors import ConfigError
from fedparity.experiment.runner import build_coordinator, check_methods, draw_trace
from fedparity.experiment.tasks import build_task
from fedparity.metrics import cv

pytest.importorskip("torch")
CLIENTS, ROUNDS = 60, 100
SKEWED = "label_skewed:p_min=.02"


@functools.cache
def outcome(method, availability, seed, rate=0.3, scheduler=None):
    """CV of u / pi, and over the last tenth of the rounds the accuracy of the mean client and the worst tenth."""
    people = {"clients": CLIENTS, "availability": availability}
    chosen = method if scheduler is None else {"name": method, "scheduler": scheduler}
    spec = Spec(methods=[chosen], seed=seed, rounds=ROUNDS, cohort=4, population=people, training={"rate": rate})
    task, trace = build_task(spec, seed), draw_trace(spec)
    scores = []

    class Watch:
        def on_round(self, method, record, ledger, params):
            if record.round >= 0.9 * ROUNDS:
                accuracy = np.sort(task.evaluate(params, np.arange(CLIENTS), "accuracy").accuracy)
                scores.append((accuracy.mean(), accuracy[: CLIENTS // 10].mean()))

    coordinator = build_coordinator(spec, spec.methods[0], seed, task, trace)
    state = coordinator.init(CLIENTS, task.init(stream(seed, "init")))
    done = run(coordinator, Intermittent(InProcess(task, 1), trace), ROUNDS, state=state, observers=[Watch()])
    return np.array([cv(done.ledger.normalised_utility()), *np.mean(scores, axis=0)])


def means(method, availability, seeds=2, **how):
    return np.mean([outcome(method, availability, seed, **how) for seed in range(seeds)], axis=0)


@pytest.mark.parametrize("availability", ["bernoulli", "paper_like"])
def test_utility_is_evened_out_and_the_model_learns(availability):
    """Ranking by least u / pi would leave more than uniform does, and lose thirty points of accuracy."""
    uneven, usual, _ = means("uniform", availability)
    even, reached, _ = means("parity_utility", availability)
    assert even <= 0.7 * uneven
    assert reached >= usual - 0.05


def test_where_availability_tells_the_data_utility_becomes_opportunity():
    """Holding back who gains much would starve the model of the labels that only they have."""
    usual, mean, worst = means("parity_opportunity", SKEWED)
    even, reached, lowest = means("parity_utility", SKEWED)
    assert even <= 1.1 * usual
    assert reached >= mean - 0.05
    assert lowest >= worst - 0.1


@pytest.mark.parametrize("method", ["cup", "cup_light"])
def test_the_whole_system_serves_those_whose_labels_are_rarely_there(method):
    _, usual, worst = means("uniform", SKEWED, rate=0.05)
    _, reached, lowest = means(method, SKEWED, rate=0.05)
    assert reached >= usual + 0.05
    assert lowest >= worst + 0.1


def test_the_light_system_bears_the_usual_rate():
    """With the rare first in every turn, momentum followed one kind after another: 15 points below uniform."""
    _, usual, worst = means("uniform", SKEWED, rate=0.3)
    _, reached, lowest = means("cup_light", SKEWED, rate=0.3)
    assert reached >= usual + 0.02
    assert lowest >= worst + 0.05


def test_spread_turns_let_a_fair_schedule_learn_from_everybody():
    _, in_step, worst = means("least_served", SKEWED, rate=0.05)
    _, spread, lowest = means("spread", SKEWED, rate=0.05, scheduler="parity:horizon=0")
    assert spread >= in_step + 0.02
    assert lowest >= worst


@pytest.mark.slow
@pytest.mark.parametrize("availability", ["bernoulli", "paper_like"])
def test_utility_is_evened_out_as_the_page_says(availability):
    uneven, usual, _ = means("uniform", availability, seeds=6)
    other, _, _ = means("parity_opportunity", availability, seeds=6)
    even, reached, _ = means("parity_utility", availability, seeds=6)
    assert even <= 0.6 * uneven
    assert even <= other
    assert reached >= usual - 0.03


@pytest.mark.slow
def test_where_availability_tells_the_data_utility_learns_as_well_as_chance():
    """Cohorts of those furthest behind alone knew few labels: the mean client was two points below uniform."""
    _, usual, worst = means("uniform", SKEWED, seeds=6)
    other, _, _ = means("parity_opportunity", SKEWED, seeds=6)
    even, reached, lowest = means("parity_utility", SKEWED, seeds=6)
    assert even <= 1.05 * other
    assert reached >= usual - 0.01
    assert lowest >= worst - 0.02


def test_utility_that_is_never_credited_cannot_be_evened_out():
    spec = Spec(methods=["parity_utility"], utility="none", population={"clients": 20, "availability": "bernoulli"})
    says = r"method 'parity_utility': .* evens out .* utility=none\(\) credits nothing; choose another rule"
    with pytest.raises(ConfigError, match=says):
        check_methods(spec)
    with pytest.raises(ConfigError, match=says):
        execute(spec)
    with pytest.raises(ConfigError, match=r"utility=none\(\) credits nothing"):
        Coordinator(5, scheduler="with_quota:inner=parity:target=utility", utility="none")


def test_a_rule_that_credits_everybody_tells_a_scheduler_by_utility_nothing():
    # Cohorts were those of parity_opportunity, every one: there is no gain of a participation to learn from.
    spec = Spec(methods=["parity_utility"], utility="accuracy_change", data={"set": "logistic"})
    with pytest.raises(ConfigError, match=r"accuracy_change\(\) credits everybody in every round.*global_loss_drop"):
        execute(spec)
