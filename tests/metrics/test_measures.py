"""Measures by hand, their split against the limit, and: what is reported is what is defined."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from fedparity import Ledger, Run, Spec, metrics
from fedparity.experiment.compare import COMPARED, Cost
from fedparity.experiment.metrics_log import COLUMNS
from fedparity.experiment.runner import execute
from fedparity.experiment.schedule import Setting, schedule
from fedparity.experiment.spec_file import parse
from fedparity.metrics import MEASURES, SUFFIXES, Outcome, in_reading, numbers
from fedparity.metrics.measures import RUN, heading, higher_is_better, measure_of
from fedparity.schedulers import Uniform


def an_outcome(counts, online, cohort=2, rounds=4, **more):
    ledger = Ledger.empty(len(counts))
    ledger.selected[:], ledger.online[:], ledger.rounds = counts, online, rounds
    return Outcome.of(ledger, cohort, **more)


# N=4, m=2, T=4. Client 3 is online once; client 2 twice.
GOT = numbers(an_outcome([4, 3, 1, 0], [4, 4, 2, 1], limit=np.array([3, 2, 2, 1]), fill_limit=1.0))


def test_shares_by_hand():
    expected = {
        "selection_gap": (1 + 0.5 + 0.5 + 1) / 4,
        "gini": 28 / 64,  # differences 1, 3, 4, 2, 3, 1 = 14, each pair twice, over 2 * 4 * 8
        "cv_counts": math.sqrt(2.5) / 2,
        "jain_counts": 64 / (4 * 26),
        "cv_per_opportunity": metrics.cv([1, 0.75, 0.5, 0]),
        "max_minus_min": 4,
        "never_served": 1,
        "never_available": 0,
        "participation_std": math.sqrt(2.5) / 4,
        "coverage": 0.75,
        "fill": 1.0,
    }
    assert {key: GOT[key] for key in expected} == pytest.approx(expected)


def test_what_the_scheduler_added_is_avoidable():
    assert (GOT["selection_gap_limit"], GOT["selection_gap_avoidable"]) == (0.25, 0.5)
    assert (GOT["never_served_avoidable"], GOT["max_minus_min_avoidable"], GOT["fill_avoidable"]) == (1, 2, 0)
    assert GOT["jain_counts_avoidable"] == pytest.approx(64 / 72 - 64 / 104)  # higher is better: the other way round
    split = {key.removesuffix("_limit") for key in GOT if key.endswith("_limit")}
    assert split == {"selection_gap", "gini", "cv_counts", "jain_counts", "max_minus_min", "never_served", "fill"}


@pytest.mark.parametrize("narrow", [True, False])
def test_no_two_measures_have_one_heading(narrow):
    """`run` shows accuracy over the last rounds, `compare` of the last: under one heading they were two numbers."""
    names = [m.name for m in RUN if not m.name.endswith("_online")]  # those stand behind their measure
    heads = [heading(name, narrow=narrow) for name in names]
    assert {head for head in heads if heads.count(head) > 1} == set()


def test_at_the_limit_nothing_is_avoidable():
    best = numbers(an_outcome([3, 2, 2, 1], [4, 4, 2, 1], limit=np.array([3, 2, 2, 1]), fill_limit=1.0))
    assert {value for key, value in best.items() if key.endswith("_avoidable")} == {0}


def test_without_a_limit_nothing_is_split():
    assert not {"gini_limit", "gini_avoidable"} & {*numbers(an_outcome([1, 0], [1, 1]))}


def test_clients_that_never_came_are_zeros_but_not_opportunities():
    found = numbers(an_outcome([2, 2, 0], [2, 2, 0], cohort=1, rounds=5))
    assert (found["never_served"], found["never_available"], found["cv_per_opportunity"]) == (1, 1, 0)
    assert (found["gini"], found["fill"]) == pytest.approx((1 / 3, 0.8))


def test_nobody_ever_came():
    found = numbers(an_outcome([0, 0], [0, 0], cohort=1, rounds=3))
    assert (found["gini"], found["cv_counts"], found["jain_counts"], found["fill"]) == (0, 0, 1, 0)
    assert (found["selection_gap"], found["never_available"]) == (1, 2)
    assert math.isnan(found["cv_per_opportunity"])


def test_accuracies_are_undefined_as_soon_as_one_is():
    known = numbers(an_outcome([1, 1], [1, 1], accuracy=np.array([0.5, 1.0]), kept_accuracy=np.array([1.0, 1.0])))
    assert (known["avg_client_accuracy"], known["own_accuracy"]) == (0.75, 1)
    assert (known["accuracy_variance"], known["variance_percent2"]) == pytest.approx((0.0625, 625))
    unknown = numbers(an_outcome([1, 1], [1, 1], accuracy=np.array([0.5, math.nan])))
    assert math.isnan(unknown["avg_client_accuracy"])
    assert math.isnan(unknown["accuracy_variance"])


def test_the_three_readings_by_hand():
    outcome = an_outcome([4, 2, 1, 0], [4, 4, 2, 0])
    outcome.ledger.utility[:], outcome.ledger.surrogate_utility[:] = [4, 2, 1, 0], [0, 2, 2, 0]
    found = numbers(outcome)
    per_online, per_selection, undivided = [4, 2, 2], [4, 4, 4], [4, 4, 3]  # client 3 never came
    for name, of in (("utility_cv", metrics.cv), ("jain_utility", metrics.jain), ("fairness_variance", np.var)):
        assert found[name] == pytest.approx(of(per_online))
        assert found[in_reading(name, "participation")] == pytest.approx(of(per_selection))
        assert found[in_reading(name, "imputed")] == pytest.approx(of(undivided))
    assert found["fairness_variance_per_round"] == pytest.approx(np.var(per_online) / 16)


def test_spans_are_fair_only_if_every_one_of_them_is():
    turns = [np.array([0, 1]), np.array([2, 3])]
    lumps = [np.array([0, 1]), np.array([0, 1]), np.array([2, 3]), np.array([2, 3])]
    assert metrics.span_gap(turns * 2, 4, 2) == 0
    assert metrics.span_gap(lumps, 4, 2) == 1
    assert math.isnan(metrics.span_gap(turns[:1], 4, 2))


def test_who_registered_later_is_measured_since_then():
    """Turns and gains that are equal for as long as one is registered differ in plain counts alone."""
    turns = [np.array([k]) for k in (0, 1, 0, 1, 0, 1, 2, 3)]  # clients 2 and 3 register before round 4
    outcome = an_outcome([3, 3, 1, 1], [8, 8, 4, 4], cohort=1, rounds=8)
    ledger = outcome.ledger
    ledger.since = np.array([0, 0, 4, 4], np.int32)
    ledger.utility[:], ledger.surrogate_utility[:] = [3, 3, 1, 1], [1, 1, 1, 1]
    assert ledger.stayed().tolist() == [8, 8, 4, 4]
    found = numbers(outcome)
    assert found["participation_std"] == pytest.approx(np.std([3 / 8, 3 / 8, 1 / 4, 1 / 4]))
    assert found["utility_cv_imputed"] == pytest.approx(metrics.cv([4, 4, 2 * 2, 2 * 2])) == 0
    assert metrics.span_gap(turns, 4, 1, ledger.since) == 0
    assert metrics.span_gap(turns, 4, 1) > 0


def test_recall_is_over_the_labels_that_are_there():
    found = numbers(an_outcome([1, 1], [1, 1], recall=np.array([0.5, math.nan, 1.0])))
    assert (found["worst_recall"], found["mean_recall"]) == (0.5, 0.75)
    assert math.isnan(numbers(an_outcome([1, 1], [1, 1]))["worst_recall"])


def test_late_accuracies_and_recall_come_from_the_folder(tmp_path):
    """What is averaged over the last tenth of the rounds is the same when a run is opened, or was resumed."""
    spec = Spec(methods=["uniform"], rounds=30, cohort=2, population={"clients": 6}, data={"set": "logistic"})
    fresh = execute(spec)
    stored = execute(spec, out=tmp_path / "run")
    opened = Run.open(tmp_path / "run")
    for run in (stored, opened):
        assert run.table.row("uniform") == fresh.table.row("uniform")
    one = opened.runs[0]
    worst = [row[0] for row in one.beside]
    lowest = [row[-1] for row in one.beside]
    assert one.late == (one.column("avg_client_accuracy")[-3:].mean(), np.mean(worst[-3:]), np.mean(lowest[-3:]))
    assert opened.table.mean("late_worst_recall", "uniform") == one.late[2]
    assert worst[-1] == opened.table.mean("worst_accuracy", "uniform")
    order = np.argsort(opened.trace.counts(), kind="stable")  # six clients: a group each
    assert one.beside[-1][1:-1] == one.accuracy[order].tolist()
    assert one.late_by_availability.mean() == pytest.approx(one.late[0])
    recall = one.facts.recall
    assert recall is not None
    assert opened.table.mean("worst_recall", "uniform") == recall.min() == lowest[-1]
    # A run that an earlier version began kept no recall beside its rounds.
    older = dataclasses.replace(one, beside=[row[:-1] if t < 29 else row for t, row in enumerate(one.beside)])
    assert older.late[:2] == one.late[:2]
    assert math.isnan(older.late[2])
    assert older.late_by_availability.tolist() == one.late_by_availability.tolist()


def test_every_measure_says_what_it_is():
    for name, measure in MEASURES.items():
        assert measure.name == name
        assert measure.says.strip()
        assert "\n" not in measure.says
        assert measure.head
        assert measure_of(name) is measure_of(f"{name}_limit") is measure_of(f"{name}_avoidable") is measure
    assert (heading("gini_limit", narrow=True), heading("gini_avoidable")) == ("limit", "Gini, avoidable")
    assert higher_is_better("jain_counts")
    assert not higher_is_better("jain_counts_avoidable")


def _base(key):
    for suffix in ("_sd", "_avoidable", "_limit"):
        key = key.removesuffix(suffix)
    return key


def test_what_is_reported_is_what_is_defined():
    """Names in summary.json, the log, `schedule --json` and comparisons, against `MEASURES`: equal, both ways."""
    spec = parse(
        'version = 2\nrounds = 2\ncohort = 2\n[population]\nclients = 4\navailability = "always"\n'
        '[data]\nset = "logistic"\n[[methods]]\nname = "uniform"\n',
        "test",
    )
    summary = execute(spec).summary()["methods"][0]
    run = {_base(key) for key in summary if key not in ("method", "journal_sha256")}
    planned = schedule(Uniform(), Setting(spec_availability(), 4, 2, 2), by="opportunity").means()
    cost = {f.name for f in dataclasses.fields(Cost)}
    reported = run | {_base(k) for k in planned} | set(COLUMNS[2:]) | {_base(k) for k in COMPARED} | cost
    assert reported == set(MEASURES)
    assert run == {measure.name for measure in RUN}
    assert all(text.strip() for text in SUFFIXES.values())


def spec_availability():
    from fedparity.availability import Always

    return Always()


def test_exports_are_there():
    assert [name for name in metrics.__all__ if not hasattr(metrics, name)] == []


def test_where_nothing_was_credited_no_spread_of_utility_is_known():
    outcome = an_outcome([4, 2, 1, 0], [4, 4, 2, 0])  # with utility = none, say: 0 for all is not shared evenly
    found = numbers(outcome)
    names = [name for name in found if name.startswith(("utility_cv", "jain_utility", "fairness_variance"))]
    assert len(names) == 13
    assert all(math.isnan(found[name]) for name in names)
    outcome.ledger.surrogate_utility[0] = 1
    assert numbers(outcome)["utility_cv_with_surrogates"] > 0
