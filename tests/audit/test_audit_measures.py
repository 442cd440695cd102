"""The numbers of an audit: brute force agrees, order and names do not matter, a run's are those of its report."""

import math
import random

import numpy as np
import pytest
from logs import csv_of, every_schedule, gini, random_log, rows_of, uniform_log, write

from fedparity.audit import open_audit
from fedparity.audit.audit import Audit
from fedparity.audit.log import build_log
from fedparity.audit.rows import Rows
from fedparity.audit.summary import summary
from fedparity.audit.verdict import verdict
from fedparity.availability import AVAILABILITY
from fedparity.experiment.run import Run
from fedparity.metrics import frontier
from fedparity.report.export import export
from stored_runs import run_into, spec_of

COUNTED = ("gini", "selection_gap", "cv_counts", "never_served", "max_minus_min")


def as_audit(online, asked, **how):
    """An audit of matrices, without files."""
    rounds, clients = np.nonzero(online | asked)
    names = tuple(f"c{k}" for k in range(online.shape[1]))
    columns = {
        "available": online[rounds, clients].astype(np.int8),
        "selected": asked[rounds, clients].astype(np.int8),
    }
    span = (0, len(online) - 1)
    return Audit(build_log(Rows(names, rounds, clients, columns, {}), span=span, **how))


def by_definition(name, counts, cohort, rounds):
    n = len(counts)
    if name == "gini":
        return gini(counts)
    if name == "selection_gap":
        return sum(abs(s / cohort - rounds / n) for s in counts) / rounds
    if name == "cv_counts":
        return float(np.std(counts) / np.mean(counts))
    return float((counts == 0).sum()) if name == "never_served" else float(counts.max() - counts.min())


def test_brute_force_agrees_on_500_random_small_logs():
    rng = np.random.default_rng(0)
    for _ in range(500):
        online, asked = random_log(rng, clients=int(rng.integers(2, 5)), rounds=int(rng.integers(1, 5)))
        audit = as_audit(online, asked)
        counts, cohort = asked.sum(axis=0), int(asked.sum(axis=1).max())
        found = audit.measures
        others = list(every_schedule(online, cohort, int(counts.sum())))
        for name in COUNTED:
            assert found[name] == pytest.approx(by_definition(name, counts, cohort, len(online)), abs=1e-12), name
            least = min(by_definition(name, other, cohort, len(online)) for other in others)
            assert found[f"{name}_limit"] == pytest.approx(least, abs=1e-12), name
            assert found[f"{name}_avoidable"] == pytest.approx(found[name] - least, abs=1e-12)
        assert found["never_available"] == (~online.any(axis=0)).sum()
        assert found["fill"] == pytest.approx(counts.sum() / (cohort * len(online)))
        assert found["fill_limit"] == np.minimum(online.sum(axis=1), cohort).sum() / (cohort * len(online))


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "one"
    return folder, run_into(folder, spec_of("rounds=12", "seeds=2", "over_select=0.5"), save=True)


def test_a_run_s_measures_are_those_of_its_report_to_the_bit(run_folder):
    folder, _ = run_folder
    run = Run.open(folder)
    for method in run.methods:
        for place, seed in enumerate(run.table.seeds):
            found = open_audit([folder], where=[f"method={method}", f"seed={seed}"]).measures
            assert {key: value.hex() for key, value in found.items()} == {
                key: float(column[method][place]).hex() for key, column in run.table.values.items()
            }


def test_an_export_shuffled_and_pseudonymised_has_the_same_measures(run_folder, tmp_path):
    folder, run = run_folder
    plain, hidden = tmp_path / "plain", tmp_path / "hidden"
    export(run, plain)
    export(run, hidden, key=b"0123456789abcdef")
    head, *lines = (hidden / "participation.csv").read_text().splitlines(keepends=True)
    random.Random(1).shuffle(lines)
    (hidden / "participation.csv").write_text(head + "".join(lines))
    for method in run.methods:
        how = {"where": [f"method={method}", "seed=0"], "cohort": run.spec.cohort, "rounds": "0-11"}
        first, again = (
            open_audit([where / "participation.csv"], clients=where / "clients.csv", **how) for where in (plain, hidden)
        )
        assert {k: v.hex() for k, v in first.measures.items()} == {k: v.hex() for k, v in again.measures.items()}
        told, retold = summary(first), summary(again)
        for key in ("p_value", "left_out", "favoured", "ends", "chance", "windows", "changes", "parity", "funnel"):
            assert told[key] == retold[key], key
        stored = open_audit([folder], where=[f"method={method}", "seed=0"]).measures
        for key, value in first.measures.items():
            if not math.isnan(value):
                assert value == pytest.approx(stored[key], rel=1e-12), key


def test_without_availability_both_ends_are_given(tmp_path):
    online, asked = uniform_log(np.random.default_rng(3), 12, 30, 3)
    rows = [{k: row[k] for k in ("round", "client")} for row in rows_of(online, asked) if row["selected"]]
    found = summary(open_audit([write(tmp_path / "log.csv", csv_of(rows))]))
    truth = as_audit(online, asked).measures
    assert not found["availability_known"]
    low, high = found["ends"]["only_when_asked"], found["ends"]["always_there"]
    assert low["gini_avoidable"] == 0.0
    assert low["gini_avoidable"] <= truth["gini_avoidable"] <= high["gini_avoidable"] == found["gini_avoidable"]
    assert low["gini"] == high["gini"] == truth["gini"]
    assert "between 0 %" in found["verdict"][1]
    assert any("who was online is not known" in text for text in found["assumptions"])


def test_what_a_log_does_not_know_is_not_reported(tmp_path):
    online, asked = uniform_log(np.random.default_rng(4), 8, 12, 2)
    found = summary(open_audit([write(tmp_path / "log.csv", csv_of(rows_of(online, asked)))]))
    assert found["completed_gini"] is None
    assert found["utility_cv"] is None
    assert found["influence_gini"] is None
    assert found["groups"] is None
    assert {"completed", "utility", "weight", "group", "time"} <= set(found["missing"])
    assert [step["name"] for step in found["funnel"]] == ["registered", "online", "asked"]


def test_parity_fills_the_same_slots_more_evenly():
    online, asked = uniform_log(np.random.default_rng(5), 20, 60, 4)
    first = as_audit(online, asked)
    other = first.parity
    assert other.counts.sum() == np.minimum(online.sum(axis=1), 4).sum()
    assert gini(np.asarray(other.counts)) < gini(asked.sum(axis=0))


def test_a_scheduler_that_evens_out_leaves_nobody_out():
    trace = AVAILABILITY.build("paper_like").draw(60, 150, 0)
    best = frontier(trace, 5)
    asked = np.zeros((150, 60), bool)
    for t, ids in enumerate(best.schedule):
        asked[t, ids] = True
    found = as_audit(trace.matrix(), asked)
    assert len(found.chance.outliers(found.chance.fewer))  # those always there are asked less than by chance
    assert not len(found.left_out)
    assert not len(found.favoured)
    told = verdict(found)
    assert "so 0 % of it could have been avoided" in told[1]
    assert told[2].startswith("It is shared more evenly than by a random draw")
