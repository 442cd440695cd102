"""A run that is followed: the same numbers as the run opened afterwards, at every round, and no byte of it changed."""

import shutil

import numpy as np
import pytest

from fedparity.core.errors import InputError
from fedparity.experiment.results import open_store
from fedparity.experiment.run import Run
from fedparity.experiment.runner import Callbacks, execute
from fedparity.report.live import follow
from fedparity.report.live.clients import Query, place, presence, table, why_not
from fedparity.report.live.follow import Follower
from fedparity.report.live.page import main_page
from fedparity.report.live.told import limit_of, told
from stored_runs import contents, run_into, spec_of, stop_after

SPEC = spec_of("rounds=12", methods=("parity", "uniform"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run"
    run_into(path, SPEC)
    return path


def read(folder, **how):
    found = Follower(folder, **how)
    while not found.refresh():
        pass
    return found


def test_what_is_told_of_a_finished_run_is_what_the_run_says(folder):
    before = contents(folder)
    found = read(folder)
    found.compute_limit()
    run = Run.open(folder)
    assert contents(folder) == before
    assert found.state == "finished"
    for one in told(found)["methods"]:
        row = run.table.row(one["method"])
        for key in ("gini", "gini_limit", "never_served", "accuracy"):
            assert one[key] == pytest.approx(row[key], nan_ok=True) or (one[key] is None and row[key] is None), key
    for one in run.runs:
        assert found.methods[one.method].ledger == one.ledger


def test_a_resume_is_told_to_who_looks_later(tmp_path):
    path = tmp_path / "run"
    run_into(path, SPEC, rounds=4)
    assert not read(path).events
    run_into(path, SPEC, resume=True)
    told_of = [what for _, what in read(path).events]
    assert told_of == ["parity was resumed with round 5", "uniform was resumed with round 5"]


def test_a_run_is_seen_round_by_round_while_another_writes_it(tmp_path):
    seen, path = [], tmp_path / "run"
    follower = None

    def look(number, method, _row):
        nonlocal follower
        if method != "uniform":
            return
        follower = follower or Follower(path)
        while follower.changed() and not follower.refresh():
            pass
        assert follower.state == "running"
        seen.append((number + 1, follower.rounds))
        assert told(follower)["sentence"].startswith(f"Round {number + 1} of 12.")

    with open_store(path, SPEC) as store:
        execute(SPEC, store=store, callbacks=Callbacks(progress=look))
    assert seen == [(t, t) for t in range(1, 13)]
    while not follower.refresh():
        pass
    assert follower.state == "finished"
    assert follower.events[-1][1] == "nobody writes the run any more"
    for one in Run.open(path).runs:
        assert follower.methods[one.method].ledger == one.ledger


def test_a_look_is_cut_into_slices(folder, monkeypatch):
    monkeypatch.setattr(follow, "SLICE", 0.0)
    found = Follower(folder)
    looks = 1
    while not found.refresh():
        looks += 1
    assert looks > 5
    assert found.rounds == 12
    assert not found.changed()


def test_stopped_resumed_and_begun_anew(tmp_path):
    path = tmp_path / "run"
    run_into(path, SPEC, rounds=5)
    found = read(path)
    assert (found.state, found.rounds) == ("stopped", 5)
    run_into(path, SPEC, resume=True)
    assert found.changed()
    while not found.refresh():
        pass
    assert (found.state, found.rounds) == ("finished", 12)
    run_into(path, spec_of("rounds=6", "seed=4", methods=("parity",)), overwrite=True)
    while not found.refresh():
        pass
    assert (found.state, found.rounds, found.seed, list(found.methods)) == ("finished", 6, 4, ["parity"])
    assert "read from the start" in found.events[-1][1]


def test_what_a_killed_process_left_is_read_and_left_alone(tmp_path):
    path = tmp_path / "run"
    with open_store(path, SPEC) as store:
        execute(SPEC, store=store, callbacks=Callbacks(stop=stop_after(4)))
        shutil.copytree(path, tmp_path / "left")  # its log is not settled
    before = contents(tmp_path / "left")
    found = read(tmp_path / "left")
    assert (found.state, found.rounds) == ("stopped", 4)
    assert contents(tmp_path / "left") == before


def test_the_limit_is_skipped_above_a_size_and_that_is_said(folder, monkeypatch):
    monkeypatch.setattr(follow, "LARGEST", 10)
    found = read(folder)
    assert not found.limit_due()
    assert "too large for a limit" in told(found)["sentence"]


def test_the_limit_and_what_it_is_compared_with_are_of_the_same_round(folder):
    found = read(folder)
    found.compute_limit()
    _, best = found.limit
    found.limit = (7, follow.frontier(found.trace.head(7), SPEC.asked))
    one = found.methods["uniform"]
    limit = limit_of(found, one)
    counts = np.zeros(14, np.int64)
    for done in one.rounds[:7]:
        counts[done.selected] += 1
    assert (one.counts_after(7) == counts).all()
    assert limit.behind.sum() == 0
    now = told(found, "uniform")
    assert "after 7 rounds" in now["sentence"]
    for row in now["methods"]:  # parts of one round, which add up
        assert row["limit_round"] == 7
        assert row["gini"] == pytest.approx(row["gini_limit"] + row["gini_avoidable"])
    assert "avoidable, after 7 rounds." in main_page(found, Query("uniform"), "key")
    assert best.total >= limit.counts.sum()


def test_a_seed_that_is_not_there_is_one_line(folder):
    with pytest.raises(InputError, match="seed=9 is not in"):
        Follower(folder, 9)


def test_the_table_is_searched_sorted_and_cut_into_pages(folder):
    found = read(folder)
    found.compute_limit()
    one = found.methods["uniform"]
    for sort, of in (
        ("asked", one.ledger.selected),
        ("online", one.ledger.online),
        ("last_asked", one.ledger.last_selected),
    ):
        for down in (True, False):
            ids = [row["client"] for row in table(found, one, Query("uniform", sort=sort, down=down)).rows]
            assert sorted(ids) == list(range(14))
            assert (np.diff(of[ids]) <= 0).all() if down else (np.diff(of[ids]) >= 0).all()
    rows = table(found, one, Query("uniform", search="3")).rows
    assert sorted(row["client"] for row in rows) == [3, 13]
    never = table(found, one, Query("uniform", show="never")).rows
    assert {row["client"] for row in never} == set(np.flatnonzero((one.ledger.selected == 0) & (one.ledger.online > 0)))
    assert table(found, one, Query("uniform", page=99)).page == 1


def test_senseless_queries_fall_back_to_the_usual_one(folder):
    given = {"method": "<b>", "sort": "__proto__", "show": "x", "page": "-3", "down": "0", "q": " 4 "}
    assert Query.of(read(folder), given) == Query("parity", "4", "all", "behind", down=False, page=1)


def test_one_client_is_told_its_history_and_why_it_was_not_asked(folder):
    found = read(folder)
    one, run = found.methods["uniform"], Run.open(folder)
    records = run.of("uniform")[0].records
    for client in range(14):
        there = presence(found, one, client)
        assert there["online"].tolist() == [client in r.available for r in records]
        assert there["asked"].sum() == one.ledger.selected[client]
        assert there["failed"].sum() == one.ledger.failed[client]
        _, rows = why_not(one, client, there)
        for number, online, slots, own, least, _, most in rows:
            done = records[number - 1]
            before = np.zeros(14, np.int64)
            for earlier in records[: number - 1]:
                before[earlier.selected] += 1
            assert (online, slots, own) == (len(done.available), len(done.selected), before[client])
            assert client in done.available
            assert client not in done.selected
            if slots:
                assert (least, most) == (before[done.selected].min(), before[done.selected].max())
        assert "asked" in place(one, client)
