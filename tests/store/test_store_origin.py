"""A run is self-contained: what it began with, what its task told, and one digest for all of it."""

import contextlib
import shutil
import sqlite3

import numpy as np
import pytest

from fedparity import Ledger, Trace
from fedparity.core.errors import ConfigError, InputError, OutputError
from fedparity.core.journal import from_json
from fedparity.experiment.results import open_store
from fedparity.experiment.runner import Callbacks, draw_trace, execute, state_classes
from fedparity.experiment.spec_file import to_toml
from fedparity.store import DamagedError, Disk, Facts, Store, verify
from fedparity.store.heads import HEADS, Heads
from fedparity.testing import FaultyDisk
from stored_runs import THREE, contents, run_into, same, spec_of, stop_after

TRACE = Trace(
    3,
    np.array([0, 2, 2, 3]),
    np.array([0, 2, 1], np.int32),
    np.array([True, False, True]),
    ("phone", "Ünïcode ☎", ""),
    Trace.from_rounds(3, [np.array([1])]),
)


def same_trace(a, b):
    return all(
        same(getattr(a, name), getattr(b, name)) for name in ("num_clients", "starts", "clients", "stays", "names")
    )


def test_all_of_it_comes_back(tmp_path):
    with Store.open(tmp_path) as store:
        store.begin("rounds = 3\n", TRACE, {"dataset x": "ab" * 32})
    with Store.read(tmp_path) as store:
        assert store.spec() == "rounds = 3\n"
        assert store.inputs() == {"dataset x": "ab" * 32}
        assert "numpy" in store.versions()
        found = store.trace()
    assert same_trace(found, TRACE)
    assert same_trace(found.before, TRACE.before)
    assert found.before.before is None


def test_the_same_again_is_fine_and_changes_nothing(tmp_path):
    for _ in range(2):
        with Store.open(tmp_path) as store:
            store.begin("a", TRACE, {"dataset x": "ab" * 32})
            digest = store.digest()
    with Store.open(tmp_path) as store:
        assert store.digest() == digest


@pytest.mark.parametrize(
    ("inputs", "trace", "says"),
    [
        ({"dataset x": "cd" * 32}, TRACE, r"dataset x changed since this run began \(sha256 abababababab.. then, cdcd"),
        (
            {},
            TRACE,
            r"dataset x changed since this run began \(sha256 abababababab.. then, none.. now\); restore it or",
        ),
        ({"dataset x": "ab" * 32, "trace y": "00"}, TRACE, "trace y changed since this run began"),
        ({"dataset x": "ab" * 32}, TRACE.head(2), "the trace changed since this run began"),
        ({"dataset x": "ab" * 32}, TRACE.before, "the trace changed since this run began"),
    ],
)
def test_whatever_changed_is_named_and_nothing_is_written(tmp_path, inputs, trace, says):
    with Store.open(tmp_path) as store:
        store.begin("a", TRACE, {"dataset x": "ab" * 32})
        digest = store.digest()
        with pytest.raises(ConfigError, match=says):
            store.begin("a", trace, inputs)
        assert store.digest() == digest


def test_a_run_that_never_began_says_so(tmp_path):
    Store.open(tmp_path).close()
    with Store.read(tmp_path) as store:
        for way in (store.spec, store.trace, store.inputs, store.digest):
            with pytest.raises(InputError, match="the run never began"):
                way()
        assert store.facts(0, "m") is None
    assert verify(tmp_path, state_classes).ok


def test_facts_come_back_and_go_with_the_next_round(tmp_path):
    facts = Facts(np.array([0.5, np.nan, 1 / 3]), np.array([0.25, 1.0, 0.0]), np.array([3, 1, 2]), 7, 8, 9)
    bare = Facts(np.zeros(2), np.ones(2), None, 0, 0, 0)
    with Store.open(tmp_path) as store:
        store.put_facts(0, "a", facts)
        store.put_facts(1, "a", bare)
    with Store.read(tmp_path) as store:
        assert same(store.facts(0, "a"), facts)
        assert same(store.facts(1, "a"), bare)
        assert store.facts(0, "b") is None
    spec = spec_of(methods=("uniform",))
    run_into(tmp_path / "run", spec, rounds=3)
    with open_store(tmp_path / "run", spec, resume=True) as store:
        kept = store.facts(0, "uniform")
        assert kept.parameters > 0
        seen = []
        execute(spec, store=store, callbacks=Callbacks(lambda *_: seen.append(store.facts(0, "uniform"))))
        assert seen == [None] * 5
        assert store.facts(0, "uniform").parameters == kept.parameters


@pytest.mark.usefixtures("files_for_all")
def test_the_digest_of_a_resumed_run_is_that_of_one_never_stopped(tmp_path):
    spec = spec_of()
    run_into(tmp_path / "whole", spec)
    run_into(tmp_path / "part", spec, rounds=3)
    with Store.read(tmp_path / "part") as store:
        partial = store.digest()
    with open_store(tmp_path / "part", spec, resume=True) as live:  # as by SIGKILL, with facts of an earlier round
        execute(spec, store=live, callbacks=Callbacks(stop=stop_after(2)))
        shutil.copytree(tmp_path / "part", tmp_path / "killed")
    run_into(tmp_path / "killed", spec, resume=True)
    digests = [verify(tmp_path / name, state_classes).digest for name in ("whole", "killed")]
    assert digests[0] == digests[1]
    assert partial != digests[0]
    run_into(tmp_path / "other", spec_of("seed=1"))
    assert verify(tmp_path / "other", state_classes).digest != digests[0]


@pytest.mark.usefixtures("files_for_all")
def test_everything_but_a_state_is_read_without_any_array(tmp_path):
    spec = spec_of()
    results = run_into(tmp_path / "run", spec)
    shutil.rmtree(tmp_path / "run" / "arrays")
    with Store.read(tmp_path / "run") as store:
        assert store.spec() == to_toml(spec.resolved())
        assert same_trace(store.trace(), draw_trace(spec))
        for run in results.runs:
            lines = [c.line for c in store.rounds(run.seed, run.method)]
            assert lines == run.journal
            assert Ledger.replay(store.trace().num_clients, map(from_json, lines)) == run.ledger
            facts = store.facts(run.seed, run.method)
            assert same(facts.accuracy, run.accuracy)
            assert same(facts.own_accuracy, run.own_accuracy)


# --- heads: a database that lost rounds


def killed_run(folder, spec, rounds):
    with open_store(folder.with_name("live"), spec) as store:
        execute(spec, store=store, callbacks=Callbacks(stop=stop_after(rounds)))
        shutil.copytree(folder.with_name("live"), folder)
    return folder


def test_a_flipped_bit_in_the_log_of_a_killed_run_is_found(tmp_path):
    spec = spec_of("rounds=8")
    folder = killed_run(tmp_path / "run", spec, 8)
    log = (folder / "run.db-wal").read_bytes()
    whole = verify(folder, state_classes)
    assert (whole.ok, whole.rounds) == (True, 24)
    rng = np.random.default_rng(0)
    for at in rng.integers(32, len(log), 60).tolist():
        (folder / "run.db-wal").write_bytes(log[:at] + bytes([log[at] ^ (1 << int(rng.integers(8)))]) + log[at + 1 :])
        try:
            verdict = verify(folder, state_classes)
        except InputError:  # not even a format is left
            continue
        assert not verdict.ok or verdict.rounds == whole.rounds, at
    (folder / "run.db-wal").write_bytes(log[: len(log) // 3])
    with pytest.raises(DamagedError, match=r"rounds, but \d were committed; run.db or its log lost the others"):
        run_into(folder, spec, resume=True)
    with Store.read(folder) as store, pytest.raises(DamagedError, match="were committed"):
        _ = [list(store.rounds(0, method)) for method in THREE]
    run_into(folder, spec, overwrite=True)
    assert verify(folder, state_classes).ok


def test_a_database_with_another_history_is_found(tmp_path):
    spec = spec_of()
    for name, changed in (("one", spec), ("other", spec_of("seed=1"))):
        run_into(tmp_path / name, changed)
    shutil.copy(tmp_path / "other" / "run.db", tmp_path / "one" / "run.db")
    (tmp_path / "one" / "manifest.json").unlink()
    problems = verify(tmp_path / "one", state_classes).problems
    assert any("0 rounds, but 8 were committed" in problem for problem in problems)


def test_heads_that_are_gone_or_changed_are_found_and_written_anew(tmp_path):
    spec = spec_of()
    whole = run_into(tmp_path / "run", spec)
    intact = (tmp_path / "run" / HEADS).read_bytes()
    for data in (None, b"", intact[:-1], intact.replace(b"uniform", b"unifirm"), intact + b"x"):
        if data is None:
            (tmp_path / "run" / HEADS).unlink()
        else:
            (tmp_path / "run" / HEADS).write_bytes(data)
        verdict = verify(tmp_path / "run", state_classes)
        assert any(HEADS in problem for problem in verdict.problems), data
        again = run_into(tmp_path / "run", spec, resume=True)
        assert any(HEADS in notice for notice in run_into.notices), data
        assert [run.head for run in again.runs] == [run.head for run in whole.runs]
        (tmp_path / "run" / HEADS).write_bytes(intact)
        assert verify(tmp_path / "run", state_classes).ok


def test_a_head_torn_by_a_crash_costs_nothing(tmp_path):
    spec = spec_of()
    folder = killed_run(tmp_path / "run", spec, 5)
    data = (folder / HEADS).read_bytes()
    (folder / HEADS).write_bytes(data[:-20])
    assert verify(folder, state_classes).problems == ()
    run_into(folder, spec, resume=True)
    assert run_into.notices == []
    assert verify(folder, state_classes).ok


def test_a_failed_append_leaves_the_file_as_it_was(tmp_path):
    heads = Heads(Disk(tmp_path))
    heads.add(0, "m", (1, "x"))
    before = contents(tmp_path)
    with FaultyDisk(tmp_path, room=5), pytest.raises(OutputError, match=r"heads\.jsonl: cannot be written"):
        heads.add(0, "m", (2, "y"))
    assert contents(tmp_path) == before


def test_an_old_run_is_refused_with_the_command_that_reads_it(tmp_path):
    with sqlite3.connect(tmp_path / "run.db") as db:
        db.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID")
        db.execute("INSERT INTO meta VALUES ('format', '1'), ('spec', '')")
    db.close()
    for way in (Store.open, Store.read):
        with pytest.raises(
            InputError, match=r"run format 1 .* \(a checkout from before 0\.2\.0\): fedparity export"
        ) as caught:
            way(tmp_path)
        assert str(tmp_path) in str(caught.value)
    with contextlib.closing(sqlite3.connect(tmp_path / "run.db")) as db:
        assert db.execute("SELECT name FROM sqlite_schema").fetchall() == [("meta",)]
