"""FedAvg's three averages, by hand; AFL where few of many take part."""

import numpy as np
import pytest

from fedparity import (
    AVAILABILITY,
    WEIGHTINGS,
    ClientReport,
    Coordinator,
    InProcess,
    Intermittent,
    Ledger,
    Rows,
    run,
    stream,
)
from fedparity.schedulers import Fixed
from fedparity.tasks import Logistic
from fedparity.weightings import BySize, Mean, OverAll
from fedparity.weightings.agnostic import FALLBACK

ROWS = Rows(
    clients=np.array([1, 4]),
    deltas=np.array([[1.0, 0.0], [0.0, 2.0]]),
    ages=np.zeros(2, dtype=np.int64),
    sizes=np.array([30.0, 10.0]),
    losses=np.array([1.0, 2.0]),
    probs=np.array([0.5, 1.0]),
)


@pytest.mark.parametrize(
    ("rule", "weights", "model"),
    [
        (Mean(), [0.5, 0.5], [0.5, 1.0]),
        (BySize(), [0.75, 0.25], [0.75, 0.5]),
        (OverAll(), [0.1, 0.1], [0.1, 0.2]),
    ],
)
def test_by_hand(rule, weights, model):
    found, _ = rule.weigh(rule.init(10), ROWS, Ledger.empty(10))
    assert found.tolist() == weights
    coordinator = Coordinator(2, scheduler=Fixed([ROWS.clients]), weighting=rule)
    plan, state = coordinator.plan(coordinator.init(10, np.zeros(2)), np.arange(10))
    reports = [ClientReport(int(k), d, int(n)) for k, d, n in zip(ROWS.clients, ROWS.deltas, ROWS.sizes, strict=True)]
    record, state = coordinator.absorb(state, plan, reports)
    assert record.row_weights.tolist() == weights
    assert record.row_clients.tolist() == [1, 4]
    assert state.params.tolist() == model


def test_by_size_of_one_sample_each_is_the_mean():
    rows = Rows(ROWS.clients, ROWS.deltas, ROWS.ages, np.ones(2), ROWS.losses, ROWS.probs)
    assert BySize().weigh(None, rows, Ledger.empty(10))[0].tolist() == [0.5, 0.5]


# --- AFL with few of many


def run_afl(text, rounds=60):
    """The weights of every round of a learning task, N=100, m=5, paper_like, and how often nobody had any lambda."""
    task = Logistic.synthetic(100)
    trace = AVAILABILITY.build("paper_like").draw(100, rounds, 0)
    method = Coordinator(5, scheduler="uniform", weighting=text)
    kept, notes = [], []

    class Watch:
        def on_round(self, method, record, ledger, params):
            kept.append(record.row_weights)
            notes.append(record.notes)

    engine = Intermittent(InProcess(task), trace)
    state = run(method, engine, rounds, params=task.init(stream(0, "init")), num_clients=100, observers=[Watch()])
    return kept, state.weighting.fallbacks, notes


def is_mixture(weights):
    return weights.min() > 0 and weights.max() < 1 and weights.max() - weights.min() > 1e-3


def test_afl_is_a_mixture_where_few_of_many_take_part():
    weights, fallbacks, _ = run_afl("agnostic")
    assert fallbacks == 0
    assert all(w.sum() == pytest.approx(1) and w.min() > 0 and w.max() < 0.9 for w in weights)
    # In the first round nobody is told apart, and later some cohort may be new to it.
    assert sum(is_mixture(w) for w in weights[1:]) > 0.9 * len(weights)


def test_afl_says_in_which_rounds_it_fell_back_to_the_mean():
    weights, fallbacks, notes = run_afl("agnostic:form=projected,unbiased=true")
    assert fallbacks > 30
    assert sum(is_mixture(w) for w in weights) < 0.2 * len(weights)
    assert sum(map(len, notes)) == fallbacks
    said = [bool(note) for note in notes]
    assert {one for note in notes for one in note} == {FALLBACK}
    assert all(w.max() == w.min() for w, fell in zip(weights, said, strict=True) if fell)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("form", ["exponentiated", "projected"])
def test_afl_has_a_mixture_at_any_rate(form):
    rule, state = WEIGHTINGS.build(f"agnostic:rate=1e9,form={form}"), None
    state = rule.init(3)
    for losses in ([0.0, 1e3, 1.0], [0.0, 0.0, 1e9], [1e9, 0.0, 1.0]):  # the last had no weight left
        rows = Rows(np.arange(3), np.zeros((3, 1)), np.zeros(3, np.int64), np.ones(3), np.array(losses), np.ones(3))
        weights, state = rule.weigh(state, rows, Ledger.empty(3))
        assert weights.sum() == pytest.approx(1)
        assert state.lam.sum() == pytest.approx(1)
