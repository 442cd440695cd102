"""Scheduling experiments: paired, repeatable, and split into what could and could not be avoided; Algorithm 1's log."""

import csv
import io
import math
import os
import sys

import numpy as np
import pytest

from fedparity import (
    AVAILABILITY,
    SCHEDULERS,
    ConfigError,
    Coordinator,
    Evals,
    Gains,
    InProcess,
    Intermittent,
    MetricsLog,
    NoTraining,
    OutputError,
    Setting,
    Trace,
    frontier,
    run,
    run_side_by_side,
    schedule,
)
from fedparity.experiment.metrics_log import COLUMNS
from fedparity.experiment.schedule import with_online_limit
from fedparity.schedulers import Fixed, Parity, Uniform
from fedparity.surrogates import UtilitySurrogate
from fedparity.tasks import Quadratic

SPLIT = ("selection_gap", "gini", "cv_counts", "max_minus_min", "never_served")


def a_setting(**changes):
    population = AVAILABILITY.build("paper_like")
    return Setting(**{"availability": population, "clients": 20, "rounds": 12, "cohort": 3, "draws": 3} | changes)


def by_labels(name):
    """Whether a scheduler needs to know which labels clients hold, which nobody does without data."""
    return "labels" in getattr(SCHEDULERS.build(name), "requires", ())


def timeless(result):
    return {key: value for key, value in result.means().items() if not key.startswith("seconds")}


@pytest.mark.parametrize("name", ["parity", "uniform", "inverse", "population"])
def test_the_same_setting_gives_the_same_bits_with_any_number_of_workers(name):
    setting = a_setting(dropout=0.1, over_select=0.5)
    first, again, spread = (schedule(SCHEDULERS.build(name), setting, workers=w) for w in (1, 1, 4))
    assert first.journal_sha256 == again.journal_sha256 == spread.journal_sha256
    assert timeless(first) == timeless(again) == timeless(spread)
    other = schedule(SCHEDULERS.build(name), a_setting(dropout=0.1, over_select=0.5, seed=1))
    assert other.journal_sha256 != first.journal_sha256


def test_draw_d_is_draw_0_of_the_next_seed():
    draws = schedule(Uniform(), a_setting(draws=3, seed=4)).draws
    for d in range(3):
        alone = schedule(Uniform(), a_setting(draws=1, seed=4 + d)).draws[0]
        assert alone.journal_sha256 == draws[d].journal_sha256


def columns(result):
    """Every number, one entry per draw."""
    return {key: by_name[result.name].tolist() for key, by_name in result.table().values.items()}


@pytest.mark.parametrize(
    "name", [*(n for n in SCHEDULERS if n != "fixed" and not by_labels(n)), "inverse:replace=true"]
)
def test_value_is_limit_plus_avoidable(name):
    table = columns(schedule(SCHEDULERS.build(name), a_setting(dropout=0.2)))
    for key in SPLIT:
        for value, limit, avoidable in zip(*(table[f"{key}{s}"] for s in ("", "_limit", "_avoidable")), strict=True):
            assert value == pytest.approx(limit + avoidable, abs=1e-12)
            assert avoidable >= -1e-12, "nobody beats the limit at its own number of slots"
    jain = zip(*(table[f"jain_counts{s}"] for s in ("", "_limit", "_avoidable")), strict=True)
    assert all(v == pytest.approx(limit - avoidable) and avoidable >= -1e-12 for v, limit, avoidable in jain)
    assert all(f <= limit for f, limit in zip(table["fill"], table["fill_limit"], strict=True))


def test_the_witness_of_the_limit_reaches_it():
    setting = a_setting(draws=1)
    best = frontier(setting.trace(0), setting.cohort)
    found = schedule(Fixed(best.schedule), setting).means()
    for key in SPLIT:
        assert found[f"{key}_avoidable"] == pytest.approx(0, abs=1e-12)
    assert found["fill"] == found["fill_limit"]


def test_schedulers_of_one_setting_meet_the_same_traces():
    setting = a_setting(dropout=0.3)
    for draw in range(3):
        assert np.array_equal(setting.trace(draw).matrix(), a_setting(dropout=0.3).trace(draw).matrix())
        assert np.array_equal(setting.trace(draw).stays, a_setting(dropout=0.3).trace(draw).stays)
        assert np.array_equal(setting.trace(draw).matrix(), a_setting(dropout=0).trace(draw).matrix())
    tables = [columns(schedule(SCHEDULERS.build(name), setting)) for name in ("parity", "uniform", "round_robin")]
    for key in ("never_available", "fill_limit", "gini_limit"):
        assert tables[0][key] == tables[1][key] == tables[2][key]
    assert tables[0]["gini"] != tables[1]["gini"]


def test_dropout_leaves_rounds_unfinished():
    whole = schedule(Uniform(), a_setting()).draws
    thin = schedule(Uniform(), a_setting(dropout=0.5)).draws
    for draw, kept in zip(thin, whole, strict=True):
        assert draw.outcome.ledger.completed.sum() < draw.outcome.counts.sum()
        assert np.array_equal(draw.outcome.counts, kept.outcome.counts), "who is asked depends not on who leaves"
    assert all(np.array_equal(draw.outcome.ledger.completed, draw.outcome.counts) for draw in whole)
    assert not any(d.outcome.ledger.completed.any() for d in schedule(Uniform(), a_setting(dropout=1)).draws)


def test_over_selection_fills_more_than_the_cohort():
    always = {"availability": AVAILABILITY.build("always"), "draws": 1}
    found = schedule(Uniform(), a_setting(**always, over_select=1.0)).means()
    assert found["fill"] == found["fill_limit"] == 2


def test_a_trace_by_hand():
    """Client 0 is always there, 1 twice, 2 never: three rounds of one slot."""
    trace = Trace.from_matrix([[1, 1, 0], [1, 1, 0], [1, 0, 0]])
    found = schedule(Fixed([np.array([0])] * 3), Setting(trace, 3, 3, 1), name="greedy")
    assert found.name == "greedy"
    assert found.draws[0].outcome.counts.tolist() == [3, 0, 0]
    means = found.means()
    assert means["fill"] == means["fill_limit"] == 1
    assert means["selection_gap"] == pytest.approx((2 + 1 + 1) / 3)
    assert means["selection_gap_limit"] == pytest.approx((1 + 0 + 1) / 3)  # counts 2, 1, 0 or 1, 2, 0
    assert means["max_minus_min"] == 3
    assert means["max_minus_min_limit"] == 2
    assert (means["never_served"], means["never_served_limit"], means["never_available"]) == (2, 1, 1)
    assert means["cv_per_opportunity"] == pytest.approx(1)  # of 1 and 0: client 2 is left out
    assert means["gini_sd"] == 0


def test_a_trace_may_be_longer_than_the_run():
    trace = Trace.from_matrix(np.ones((9, 4), dtype=bool))
    assert schedule(Parity(), Setting(trace, 4, 4, 1)).draws[0].outcome.counts.tolist() == [1, 1, 1, 1]


def test_nobody_ever_online():
    found = schedule(Parity(), Setting(Trace.from_matrix(np.zeros((3, 4), dtype=bool)), 4, 3, 2)).means()
    assert (found["fill"], found["fill_limit"], found["never_available"]) == (0, 0, 4)
    assert found["utility_cv"] is None
    assert found["utility_cv_sd"] is None


def test_by_opportunity_adds_its_limit():
    setting = a_setting(draws=1)
    assert "cv_per_opportunity_limit" not in schedule(Uniform(), setting).means()
    found = schedule(Uniform(), setting, by="opportunity").means()
    assert 0 <= found["cv_per_opportunity_limit"] <= found["cv_per_opportunity"]
    assert found["cv_per_opportunity_avoidable"] == found["cv_per_opportunity"] - found["cv_per_opportunity_limit"]


def test_means_and_deviations_by_hand():
    result = schedule(Uniform(), a_setting(draws=4))
    gini = columns(result)["gini"]
    assert result.means()["gini"] == pytest.approx(sum(gini) / 4)
    assert result.means()["gini_sd"] == pytest.approx(np.std(gini))
    assert len(set(gini)) > 1
    assert all(f"{key}_sd" in result.means() for key in result.table().values)


def test_progress_is_told_in_rounds_within_a_draw_and_at_its_end(monkeypatch):
    """A draw of millions of rounds takes minutes: a bar that counts draws stands at 0/1 for all of them."""
    setting = a_setting()
    ends = [setting.rounds * draw for draw in (1, 2, 3)]
    for workers, every, expected in (
        (1, math.inf, ends),
        (2, 0.0, ends),
        (1, 0.0, sorted([*range(1, ends[-1] + 1), *ends])),
    ):
        monkeypatch.setattr(sys.modules["fedparity.experiment.schedule"], "EVERY", every)
        told = []
        schedule(Uniform(), setting, progress=told.append, workers=workers)
        assert told == expected


def test_gains_lie_in_their_spread():
    gains = Gains(spread=10).draw(2000, seed=3)
    assert 1 <= gains.min() < 1.1
    assert 9 < gains.max() <= 10
    assert np.median(gains) == pytest.approx(np.sqrt(10), rel=0.1)
    assert Gains(spread=1).draw(5, 0).tolist() == [1] * 5


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: a_setting(cohort=21), "cohort=21 but there are only 20 clients; lower it to 20"),
        (lambda: a_setting(rounds=0), "rounds=0 must be a whole number of at least 1"),
        (lambda: a_setting(draws=0), "draws=0"),
        (lambda: a_setting(clients=0), "clients=0"),
        (lambda: a_setting(cohort=1.5), "cohort=1.5"),
        (lambda: a_setting(seed=-1), "seed=-1"),
        (lambda: a_setting(dropout=1.5), "dropout=1.5 must be between 0 and 1"),
        (lambda: Gains(spread=0.5), "spread=0.5"),
        (lambda: Gains(noise=float("nan")), "noise=nan"),
        (lambda: schedule(Uniform(), a_setting(), workers=0), "workers=0"),
        (lambda: schedule(Uniform(), a_setting(over_select=11)), "over_select=11"),
        (
            lambda: schedule(Uniform(), a_setting(availability=Trace.from_matrix([[1, 1]] * 12), cohort=1)),
            "clients=20 but the trace has 2; set it to that",
        ),
        (
            lambda: schedule(Uniform(), a_setting(availability=Trace.from_matrix([[1] * 20]))),
            "rounds=12 but the trace has 1; lower it to that",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, says):
    with pytest.raises(ConfigError, match=says):
        make()


def test_the_log_has_the_columns_of_the_paper():
    assert ",".join(COLUMNS) == (
        "round,method,available,selected,completed,accuracy,avg_client_accuracy,jain_accuracy,fairness_variance,"
        "utility_cv,jain_utility,selection_gap,gini,surrogate_contribution,bias_bound,seconds"
    )


class Scored(NoTraining):
    """Accuracies 1/4 and 3/4."""

    def evaluate(self, params, clients, measure="both"):
        return Evals(clients, np.zeros(len(clients)), np.array([0.25, 0.75])[clients])


def test_a_tiny_log_by_hand():
    """Two clients: 0 alone in round 0 (gain 1); both in round 1, and 1 is asked (gain 3); 0 alone again, and leaves."""
    online = [np.array([0]), np.array([0, 1]), np.array([0])]
    trace = Trace.from_rounds(2, online, [np.array([True]), np.array([True, True]), np.array([False])])
    engine = Intermittent(Scored(2, np.array([1.0, 3.0])), trace)
    plan = [np.array([0]), np.array([1]), np.array([0])]
    log = MetricsLog(1, engine)
    coordinator = Coordinator(1, scheduler=Fixed(plan), surrogate=UtilitySurrogate(epsilon=0.5))
    run(coordinator, engine, 3, num_clients=2, observers=[log], method="fair")
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in log.rows]
    assert [(r["round"], r["method"], r["available"], r["selected"], r["completed"]) for r in rows] == [
        (0, "fair", 1, 1, 1),
        (1, "fair", 2, 1, 1),
        (2, "fair", 1, 1, 0),
    ]
    assert [r["avg_client_accuracy"] for r in rows] == [0.5] * 3
    assert [r["accuracy"] for r in rows] == [0.5] * 3
    assert [r["jain_accuracy"] for r in rows] == pytest.approx([1 / (2 * (0.25**2 + 0.75**2))] * 3)
    # u/pi: (1), then (1 * 2/2, 3 * 2/1), then (1 * 3/3, 3 * 3/1); client 1 is not there before round 1
    assert [r["fairness_variance"] for r in rows] == pytest.approx([0, np.var([1, 6]), np.var([1, 9])])
    assert [r["utility_cv"] for r in rows] == pytest.approx([0, 2.5 / 3.5, 4 / 5])
    assert [r["jain_utility"] for r in rows] == pytest.approx([1, 49 / (2 * 37), 100 / (2 * 82)])
    assert [r["selection_gap"] for r in rows] == pytest.approx([1, 0, (0.5 + 0.5) / 3])
    assert [r["gini"] for r in rows] == pytest.approx([0.5, 0, 1 / 6])
    # in round 2 client 1 is missing one round after its gain of 3
    assert [r["surrogate_contribution"] for r in rows] == pytest.approx([0, 0, 3 * np.exp(-0.5)])
    assert [r["bias_bound"] for r in rows] == pytest.approx([0, 0, 0.5 * np.exp(-0.5)])
    assert all(r["seconds"] >= 0 for r in rows)


def test_a_log_without_accuracies_leaves_them_empty(tmp_path):
    task = Quadratic.random(4)
    log = MetricsLog(2, InProcess(task))
    methods = {"=fair": Coordinator(2), "vanilla": Coordinator(2, scheduler=Uniform())}
    run_side_by_side(methods, InProcess(task), 3, num_clients=4, params=np.zeros(4), observers=[log])
    log.save(tmp_path / "metrics_log.csv")
    text = (tmp_path / "metrics_log.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == COLUMNS
    assert [(row["round"], row["method"]) for row in rows] == [
        (str(t), name) for t in range(3) for name in ("'=fair", "vanilla")
    ]
    assert {row["accuracy"] + row["avg_client_accuracy"] + row["jain_accuracy"] for row in rows} == {""}
    assert [float(row["gini"]) for row in rows] == [row[COLUMNS.index("gini")] for row in log.rows]


def test_a_round_in_which_nobody_was_ever_there_has_a_row():
    log = MetricsLog(1)
    engine = Intermittent(NoTraining(2), Trace.from_matrix([[0, 0]]))
    run(Coordinator(1), engine, 1, num_clients=2, observers=[log])
    row = dict(zip(COLUMNS, log.rows[0], strict=True))
    assert (row["available"], row["selected"], row["gini"]) == (0, 0, 0)
    assert np.isnan([row["fairness_variance"], row["utility_cv"], row["jain_utility"]]).all()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    log = MetricsLog(1)
    run(Coordinator(1), NoTraining(2), 1, num_clients=2, observers=[log])
    (tmp_path / "file").write_text("in the way")
    for place in (tmp_path / "missing" / "metrics_log.csv", tmp_path / "file" / "metrics_log.csv"):
        with pytest.raises(OutputError, match=f"{place}: cannot be written"):
            log.save(place)
    assert os.listdir(tmp_path) == ["file"]  # noqa: PTH208 - names, not paths


def test_the_online_limit_is_the_fairest_without_hindsight():
    setting = a_setting(rounds=30)
    served = schedule("least_served", setting)
    assert served.means()["gini_online"] is None
    results, name = with_online_limit([served, schedule("uniform", setting)])
    reached = {n: schedule(n, setting).means()["gini"] for n in ("least_served", "parity", "rollout")}
    assert name == min(reached, key=reached.get)
    for result in results:
        found = result.means()
        assert found["gini_limit"] <= found["gini_online"] <= found["gini"]
        assert found["gini_online"] == reached[name]
        assert found["selection_gap_online"] >= found["selection_gap_limit"]


def test_who_knows_the_future_does_not_set_the_online_limit():
    phones = AVAILABILITY.build("phones")
    known = schedule("parity", a_setting(availability=phones, clients=40, rounds=48, estimator="oracle"))
    (result,), _ = with_online_limit([known])
    assert result.means()["gini"] < result.means()["gini_online"]


def test_who_leaves_slots_empty_does_not_set_the_online_limit():
    # Nobody filled nothing as evenly as `fixed` without a schedule, and few slots can be shared more evenly than many.
    phones = AVAILABILITY.build("phones")
    setting = a_setting(availability=phones, clients=40, rounds=60, cohort=2, draws=2)
    names = ("fixed", "population", "parity_deployment", "uniform")
    results, name = with_online_limit([schedule(n, setting) for n in names])
    assert name in ("least_served", "parity", "rollout")
    *empty, full = (r.means() for r in results)
    assert [found["gini_online"] for found in empty] == [None] * 3
    assert full["gini_online"] >= full["gini_limit"]
    assert full["selection_gap_online"] >= full["selection_gap_limit"]


def test_a_schedule_that_was_computed_from_the_trace_does_not_set_the_online_limit():
    setting = a_setting(rounds=30, draws=1)
    witness = schedule(Fixed(frontier(setting.trace(0), setting.cohort).schedule), setting)
    assert witness.hindsight
    _, name = with_online_limit([witness])
    assert name != witness.name
