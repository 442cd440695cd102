"""Schedulers against the code or equations they are taken from, written out plainly."""

import numpy as np
import pytest

from fedparity import AVAILABILITY, SCHEDULERS, Coordinator, Intermittent, NoTraining, Setting, run, schedule


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
