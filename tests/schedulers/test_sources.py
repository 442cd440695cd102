"""Schedulers against the code or equations they are taken from, written out plainly."""

import numpy as np
import pytest

from fedparity import (
    AVAILABILITY,
    SCHEDULERS,
    ConfigError,
    Coordinator,
    Intermittent,
    Ledger,
    NoTraining,
    Setting,
    Trace,
    run,
    schedule,
    stream,
)
from fedparity.core.types import RoundView
from fedparity.schedulers.draws import pivotal
from fedparity.schedulers.maxmin import maxmin_rates


def choices(name, trace, cohort, **parts):
    """Who was asked in each round."""
    seen = []

    class Watch:
        def on_round(self, method, record, ledger, params):
            seen.append(record.selected.tolist())

    method = Coordinator(cohort, scheduler=SCHEDULERS.build(name), **parts)
    engine = Intermittent(NoTraining(trace.num_clients), trace)
    run(method, engine, trace.num_rounds, num_clients=trace.num_clients, observers=[Watch()])
    return seen


def authors_choices(trace, cohort):
    """The authors' first public selection: scores in list order, a stable sort, the first m."""
    counts, last, asked = [0] * trace.num_clients, {}, []
    for t, online in enumerate(trace):
        scores = []
        for k in online.tolist():
            counts[k] += 1
            pi = counts[k] / t if t > 0 else 0
            missed = t - last.get(k, 0)
            scores.append((k, 1 / pi * (1 + 0.5 * missed) if pi > 0 else 0))
        scores.sort(key=lambda pair: pair[1], reverse=True)
        asked.append(sorted(k for k, _ in scores[:cohort]))
        last |= dict.fromkeys(asked[-1], t)
    return asked


@pytest.mark.parametrize(("availability", "m"), [("paper_like", 5), ("bernoulli", 5), ("phones", 1)])
def test_cup_authors_makes_the_authors_choices(availability, m):
    trace = AVAILABILITY.build(availability).draw(60, 80, 1)
    expected = authors_choices(trace, m)
    assert choices("cup_authors", trace, m) == expected
    assert choices("reactive:missed=since_selected,lam=.5", trace, m) != expected
    # No lot in it, and none of the estimator's prior either.
    assert choices("cup_authors", trace, m, seed=9, estimator="mean:a=7,b=3") == expected


def test_cup_authors_gives_the_figures_of_the_authors_code():
    """Gap .433, Gini .289 over 20 draws; the rule with our prior, eps and lam = .7 had .388 and .262."""
    setting = Setting(AVAILABILITY.build("paper_like"), 100, 200, 5, draws=20)
    found = schedule(SCHEDULERS.build("cup_authors"), setting).means()
    assert found["selection_gap"] == pytest.approx(0.433, abs=0.0005)
    assert found["gini"] == pytest.approx(0.289, abs=0.0005)


def test_rounds_since_selected_are_counted_as_the_authors_do():
    """T - last, and t for a client that was never selected."""
    trace = AVAILABILITY.build("always").draw(3, 3, 0)
    assert choices("cup_authors", trace, 1) == [[0], [0], [1]]  # at t = 1 all have missed one round: list order
    assert np.diff([len(c) for c in choices("cup_authors", trace, 2)]).tolist() == [0, 0]


def test_the_authors_later_scores_by_hand():
    """T = 9, online before (8, 3, 0), asked (5, 1, 0): pi = (.9, .4, .1), debt (4, 8, 9), chances of one slot."""
    ledger = Ledger.empty(3)
    ledger.rounds, ledger.online[:], ledger.selected[:] = 9, [8, 3, 0], [5, 1, 0]
    view = RoundView(9, None, 1, np.arange(3), np.array([0.9, 0.4, 0.1]), None, ledger)
    score = np.array([1.4 / 0.901, 1.8 / 0.401, 1.9 / 0.101])
    assert score == pytest.approx([1.553829, 4.488778, 18.811881], abs=1e-6)
    rule = SCHEDULERS.build("cup_later")
    for seed in range(20):
        found = rule.select(None, view, stream(seed, "x"))[0]
        assert found.probs == pytest.approx((score / score.sum())[found.clients])
    # At most 100: a client seen once in 2,000 rounds is not a thousand times as likely as one always there.
    rare = RoundView(9, None, 1, np.arange(2), np.array([1.0, 0.0005]), None, Ledger.empty(2))
    found = [rule.select(None, rare, stream(seed, "x"))[0] for seed in range(20)]
    assert {round(float(c.probs[0]), 6) for c in found if c.clients[0] == 1} == {round(100 / (100 + 1 / 1.001), 6)}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_pivotal_draws_are_of_one_size_and_have_the_chances_they_say(count):
    weights, ids = np.array([5.0, 1.0, 2.0, 1.0, 1.0]), np.arange(10, 15)
    hits, told, draws = np.zeros(5), np.zeros(5), 6000
    for seed in range(draws):
        cohort = pivotal(ids, weights, count, stream(seed, "x"))
        assert len(cohort.clients) == count
        hits[cohort.clients - 10] += 1
        told[cohort.clients - 10] = cohort.probs
    assert told.sum() == pytest.approx(count)
    assert hits / draws == pytest.approx(told, abs=0.02)


def test_max_min_rates_by_hand():
    """pi = (.9, .5, .1), mu = (1, 2, 4): sum pi / mu = 1.175, so tau = .851064 for one slot, min mu = 1 for two."""
    pi, mu = np.array([0.9, 0.5, 0.1]), np.array([1.0, 2.0, 4.0])
    assert maxmin_rates(pi, mu, 1) == pytest.approx([0.851064, 0.425532, 0.212766], abs=1e-6)
    assert maxmin_rates(pi, mu, 2) == pytest.approx([1, 0.5, 0.25])
    assert (maxmin_rates(pi, mu, 1) * pi).sum() == pytest.approx(1)


def test_max_min_rates_make_utility_per_availability_equal():
    mu = np.linspace(1, 4, 12)
    trace = Trace.from_matrix(np.random.default_rng(0).random((4000, 12)) < np.linspace(0.3, 0.9, 12))
    rule = SCHEDULERS.build("oracle_maxmin:mu=" + "/".join(map(str, mu)))
    state = run(Coordinator(1, scheduler=rule), Intermittent(NoTraining(12), trace), 4000, num_clients=12)
    worth = state.ledger.selected * mu / state.ledger.online
    assert worth.std() / worth.mean() < 0.1
    with pytest.raises(ConfigError, match="mu has 2 numbers but there are 12 clients"):
        SCHEDULERS.build("oracle_maxmin:mu=1/2").init(12)
