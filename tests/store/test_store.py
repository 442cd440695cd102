"""The store: what is committed stays and comes back to the bit, with few files, one writer, and after any crash."""

import copy
import fcntl
import itertools
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedparity.core.errors import ConfigError, InputError, OutputError
from fedparity.core.tree import class_name
from fedparity.experiment.results import FILES, open_store
from fedparity.experiment.run import Run
from fedparity.experiment.runner import Callbacks, execute, state_classes
from fedparity.store import DamagedError, Store, checkpoints, lock, verify
from fedparity.store.database import Database
from stored_runs import contents, expected, outcome, run_into, same, sha256, spec_of, stop_after, unclose


@dataclass
class Toy:
    """A state with a model, a ledger-like column, client models and plain values."""

    round: int
    params: np.ndarray
    counts: np.ndarray
    flags: np.ndarray
    recent: tuple
    kept: dict
    note: float


CLASSES = {class_name(Toy): Toy}


def first_toy(size):
    return Toy(0, np.zeros(size), np.zeros(500, np.int32), np.zeros(9, np.bool_), (), {}, float("nan"))


def step(toy, rng):
    """One round: the model changes all over, counts in a few places, one client's model is replaced."""
    toy.params = toy.params + rng.normal(size=len(toy.params))
    toy.counts[rng.integers(0, 500, 5)] += 1
    toy.flags[rng.integers(0, 9)] ^= True
    toy.recent = (*toy.recent, rng.integers(0, 9, 3).astype(np.int32))[-4:]
    toy.kept[int(rng.integers(0, 20))] = toy.params + 1
    if rng.random() < 0.2 and toy.kept:
        toy.kept.pop(next(iter(toy.kept)))
    toy.round += 1
    return toy


def commit(store, toy, method="m", seed=0):
    store.commit(seed, method, toy, f'{{"round":{toy.round - 1}}}', [toy.round, "x", 0.5], 0.01)


@pytest.mark.parametrize("every", [1, 2, 7, 50])
@pytest.mark.parametrize("large", [64, 1 << 16])
def test_every_round_comes_back_as_it_was(tmp_path, monkeypatch, every, large):
    monkeypatch.setattr(checkpoints, "SNAPSHOT_EVERY", every)
    monkeypatch.setattr(checkpoints, "LARGE", large)
    monkeypatch.setattr(checkpoints, "SMALL_STATE", 0)
    rng, toy = np.random.default_rng(0), first_toy(20_000)
    with Store.open(tmp_path) as store:
        for _ in range(16):
            commit(store, step(toy, rng))
            with Store.read(tmp_path) as reader:
                assert same(reader.load(0, "m", CLASSES), toy)
                assert len(list(reader.rounds(0, "m"))) == toy.round


def test_a_reopened_store_goes_on_with_differences(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SNAPSHOT_EVERY", 6)
    monkeypatch.setattr(checkpoints, "SMALL_STATE", 0)
    rng, toy = np.random.default_rng(1), first_toy(20_000)
    chains = []
    for _ in range(14):
        with Store.open(tmp_path) as store:
            kept = store.load(0, "m", CLASSES)
            assert kept is None if toy.round == 0 else same(kept, toy)
            toy = step(toy if kept is None else kept, rng)
            commit(store, toy)
            before = copy.deepcopy(toy)
        with Store.read(tmp_path) as reader:
            chains.append([c.chain for c in reader.rounds(0, "m")])
            toy = before
    assert all(later[: len(earlier)] == earlier for earlier, later in itertools.pairwise(chains))
    with Store.read(tmp_path) as reader:
        assert [c.row for c in reader.rounds(0, "m")] == [[n, "x", 0.5] for n in range(1, 15)]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 39), st.integers(1, 40)), min_size=1, max_size=12))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arrays_that_go_back_to_what_they_were_come_back_right(tmp_path_factory, steps):
    """A file that holds what the array is again must not get the changes since then laid over it."""
    folder = tmp_path_factory.mktemp("back")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("LARGE", 64), ("SMALL_STATE", 0), ("SNAPSHOT_EVERY", 1000)):
            patch.setattr(checkpoints, name, value)
        toy = first_toy(40)
        with Store.open(folder) as store:
            for kind, at, many in steps:
                new = toy.params.copy()
                if kind == 0:
                    new[:] = 0
                elif kind == 1:
                    new = np.zeros(at + 1)
                else:
                    new[at % len(new) : at % len(new) + many // 8 + 1] += 1
                toy.params, toy.round = new, toy.round + 1
                commit(store, toy)
        with Store.read(folder) as reader:
            assert same(reader.load(0, "m", CLASSES), toy)


def test_an_array_that_is_reset_comes_back_reset(tmp_path, monkeypatch):
    for name, value in (("LARGE", 64), ("SMALL_STATE", 0), ("SNAPSHOT_EVERY", 1000)):
        monkeypatch.setattr(checkpoints, name, value)
    toy = first_toy(40)
    with Store.open(tmp_path) as store:
        for place in (None, 0, 8, 16, 24, 32):  # a few places a round, then all at once back to zero
            if place is not None:
                toy.params = toy.params.copy()
                toy.params[place : place + 8] = 1
            toy.round += 1
            commit(store, toy)
        toy.params, toy.round = np.zeros(40), toy.round + 1
        commit(store, toy)
    with Store.read(tmp_path) as reader:
        assert same(reader.load(0, "m", CLASSES), toy)


@pytest.mark.parametrize("kind", ["<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1"])
def test_every_kind_of_array_survives_small_and_large(tmp_path, kind):
    for size in (5, 100_000):
        toy = first_toy(1)
        toy.params = (np.arange(size) % 2).astype(kind).reshape(5, -1).T  # not laid out in one piece
        toy.counts = np.array(7, dtype=kind)  # no dimensions at all
        toy.round = 1
        with Store.open(tmp_path / str(size)) as store:
            commit(store, toy)
        with Store.read(tmp_path / str(size)) as reader:
            got = reader.load(0, "m", CLASSES)
        assert (got.params == toy.params).all()
        assert (got.params.dtype, got.params.shape, got.counts.shape) == (toy.params.dtype, toy.params.shape, ())


def test_files_stay_few_and_none_is_left_unreferenced(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SNAPSHOT_EVERY", 10)
    monkeypatch.setattr(checkpoints, "SMALL_STATE", 0)
    rng, toy = np.random.default_rng(0), first_toy(10_000)
    most = sizes = 0
    with Store.open(tmp_path) as store:
        for _ in range(300):
            commit(store, step(toy, rng))
            found = [p.stem for p in (tmp_path / "arrays").iterdir()]
            most, sizes = max(most, len(found)), max(sizes, (tmp_path / "run.db").stat().st_size)
        models = len(toy.kept)
        assert most <= 2 * (20 + 1)  # of the last two states: the model and at most one for each client
        store.sweep()
        rows = store.db.connection.execute("SELECT files FROM states ORDER BY round DESC LIMIT 2").fetchall()
        named = set(re.findall(r"[0-9a-f]{64}", str(rows)))
        assert {p.stem for p in (tmp_path / "arrays").iterdir()} == named
        assert len(named) <= 2 * (models + 2)
        assert store.db.connection.execute("SELECT count(*) FROM states").fetchone()[0] <= 20
        assert store.db.connection.execute("SELECT count(*) FROM rounds").fetchone()[0] == 300
    assert sizes < 8e6


def test_contenders_share_files_without_losing_any(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SMALL_STATE", 0)
    rng = np.random.default_rng(0)
    toys = {(seed, method): first_toy(10_000) for seed in (0, 1) for method in ("a", "b")}
    with Store.open(tmp_path) as store:
        for (seed, method), toy in toys.items():  # all begin with the same model: one file
            toy.round = 1
            commit(store, toy, method, seed)
        assert len(list((tmp_path / "arrays").iterdir())) == 1
        for _ in range(3):
            commit(store, step(toys[0, "a"], rng), "a")
    with Store.open(tmp_path) as store:  # knows only one of them, and sweeps
        store.load(0, "a", CLASSES)
        commit(store, step(toys[0, "a"], rng), "a")
        store.sweep()
    with Store.read(tmp_path) as reader:
        for (seed, method), toy in toys.items():
            assert same(reader.load(seed, method, CLASSES), toy)


@pytest.mark.usefixtures("files_for_all")
def test_a_stop_while_an_early_seed_is_taken_up_keeps_the_later_ones(tmp_path):
    spec = spec_of("seeds=2")
    run_into(tmp_path / "run", spec, rounds=12)  # stops in the second seed
    with open_store(tmp_path / "run", spec, resume=True) as store:
        assert execute(spec, store=store, callbacks=Callbacks(stop=lambda: True)).complete is False
    assert outcome(run_into(tmp_path / "run", spec, resume=True)) == expected("seeds=2")


# --- one writer


LOCKED = """
import sys
from fedparity.core.errors import FedparityError
from fedparity.store import Store, lock
pauses = []
lock.time.sleep = pauses.append
try:
    Store.open(sys.argv[1])
except FedparityError as error:
    print(sum(pauses), type(error).__name__, error)
"""


def test_a_second_process_is_refused_after_a_few_short_looks(tmp_path):
    with Store.open(tmp_path) as store:
        commit(store, step(first_toy(10), np.random.default_rng(0)))
        before = contents(tmp_path)
        done = subprocess.run([sys.executable, "-c", LOCKED, str(tmp_path)], capture_output=True, text=True, check=True)
        waits, kind, text = done.stdout.split(" ", 2)
        assert 0 < float(waits) < 1  # of seconds that it asks to sleep; what the machine makes of them is not ours
        assert kind == "ConfigError"
        assert text.strip() == f"{tmp_path}: another process is running this run; wait for it or choose another --out"
        assert contents(tmp_path) == before
    subprocess.run([sys.executable, "-c", LOCKED, str(tmp_path)], check=True, stdout=subprocess.DEVNULL)


def test_a_second_command_is_one_line_on_stderr(tmp_path):
    spec = spec_of()
    (tmp_path / "spec.toml").write_text(
        'version = 2\nrounds = 8\ncohort = 3\n[population]\nclients = 14\n[data]\nset = "quadratic"\n'
        '[[methods]]\nname = "uniform"\n'
    )
    with open_store(tmp_path / "run", spec):
        code = "from fedparity.cli.main import main; main()"
        words = ["run", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "run"), "--overwrite"]
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "another process is running this run" in done.stderr


def test_the_lock_goes_with_its_process(tmp_path):
    code = (
        "import sys, os, signal; from fedparity.store import Store; Store.open(sys.argv[1]);"
        " os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    with Store.open(tmp_path) as store:
        assert store.contenders() == []


def test_a_refused_or_failed_open_leaves_no_lock_behind(tmp_path):
    (tmp_path / "run.db").write_bytes(b"this is not a database, but it is long enough to be looked at" * 20)
    for _ in range(2):
        with pytest.raises(DamagedError, match=r"run\.db: is damaged"):
            Store.open(tmp_path)
    handle = os.open(tmp_path / "lock", os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if somebody holds it
    os.close(handle)


def test_a_file_that_is_no_database_leaves_no_connection_open(tmp_path, monkeypatch):
    (tmp_path / "run.db").write_bytes(b"this is not a database, but it is long enough to be looked at" * 20)
    opened, connect = [], sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *given, **named: opened.append(connect(*given, **named)) or opened[-1]
    )
    for way in (Store.open, Store.read):
        with pytest.raises(DamagedError):
            way(tmp_path)
    assert len(opened) >= 2
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")


def test_queries_have_no_numbered_places():
    """Python 3.12 deprecates `?1` with a tuple, and 3.14 refuses it."""
    for path in Path(lock.__file__).parent.glob("*.py"):
        assert not re.search(r"\?\d", path.read_text(encoding="utf-8")), path.name


def test_without_file_locks_a_run_is_refused_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)  # what `import fcntl` finds on Windows
    with pytest.raises(OutputError, match="use Linux, macOS or WSL"):
        Store.open(tmp_path / "run")
    with pytest.raises(OutputError, match="use Linux, macOS or WSL"), lock.reading(tmp_path / "run"):
        pass
    assert not (tmp_path / "run").exists()


def test_the_store_is_imported_without_file_locks():
    code = "import sys; sys.modules['fcntl'] = None; import fedparity.store, fedparity.cli.main"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_folder_that_cannot_be_made_is_one_typed_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="cannot be made ready"):
        Store.open(tmp_path / "file" / "run")


# --- formats and specs


def set_format(folder, value):
    with sqlite3.connect(folder / "run.db") as db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'format'", (value,))
    db.close()


@pytest.mark.parametrize("value", ["0", "3", "", "one"])
def test_another_format_is_refused_by_readers_and_writers(tmp_path, value):
    with Store.open(tmp_path) as store:
        commit(store, step(first_toy(10), np.random.default_rng(0)))
    unclose(tmp_path)
    set_format(tmp_path, value)
    for way in (Store.open, Store.read):
        with pytest.raises(InputError, match=f"run format {value} but this fedparity reads 2; use the version"):
            way(tmp_path)


def test_no_run_here(tmp_path):
    for way in (Store.read, lambda folder: Store.open(folder, create=False)):
        with pytest.raises(InputError, match=r"no run here \(run.db is missing\)"):
            way(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_another_spec_is_refused_and_changes_nothing(tmp_path):
    run_into(tmp_path / "run", spec_of(), save=True)
    before = contents(tmp_path / "run")
    for other in (spec_of("rounds=9"), spec_of("seed=1"), spec_of(methods=("uniform",))):
        with pytest.raises(ConfigError, match="was started with another spec"):
            open_store(tmp_path / "run", other, resume=True)
    assert contents(tmp_path / "run") == before
    assert verify(tmp_path / "run", state_classes).closed


def test_a_run_is_not_begun_over_another_unless_asked(tmp_path):
    whole = run_into(tmp_path / "run", spec_of(), save=True)
    before = contents(tmp_path / "run")
    with pytest.raises(ConfigError, match="already holds a run; go on with --resume"):
        open_store(tmp_path / "run", spec_of("seed=3"))
    assert contents(tmp_path / "run") == before
    other = run_into(tmp_path / "run", spec_of("seed=3"), overwrite=True)
    assert outcome(other) == expected("seed=3")
    assert outcome(other) != outcome(whole)
    assert not any((tmp_path / "run" / name).exists() for name in FILES)
    assert verify(tmp_path / "run", state_classes).ok


@pytest.mark.usefixtures("files_for_all")
def test_clearing_leaves_nothing_behind(tmp_path):
    run_into(tmp_path / "run", spec_of())
    assert len(list((tmp_path / "run" / "arrays").iterdir())) > 10
    with Store.open(tmp_path / "run") as store:
        store.clear()
        assert store.contenders() == []
        assert not store.origin.begun
    assert not list((tmp_path / "run" / "arrays").iterdir())
    assert b"model_sha256" not in (tmp_path / "run" / "run.db").read_bytes()


@pytest.mark.parametrize("name", ["notes.txt", "sub/notes.txt", ".hidden"])
def test_a_folder_that_is_no_run_is_not_touched(tmp_path, name):
    (tmp_path / "other" / name).parent.mkdir(parents=True)
    (tmp_path / "other" / name).write_text("mine")
    for how in ({}, {"resume": True}, {"overwrite": True}):
        with pytest.raises(ConfigError, match="is there but is not a run"):
            open_store(tmp_path / "other", spec_of(), **how)
    assert contents(tmp_path / "other") == {name: b"mine"}


# --- readers


@pytest.mark.usefixtures("files_for_all")
def test_readers_change_nothing(tmp_path):
    spec = spec_of()
    run_into(tmp_path / "run", spec, save=True)
    before = contents(tmp_path / "run")
    times = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*")}
    assert verify(tmp_path / "run", state_classes).ok
    with Store.read(tmp_path / "run") as reader:
        Run.stored(reader)
    assert contents(tmp_path / "run") == before
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*")} == times


def crashed(folder, spec, rounds):
    """A run that ended as by SIGKILL after some rounds: the log of SQLite is still there."""
    source = folder.with_name(folder.name + "-live")
    with open_store(source, spec) as store:
        execute(spec, store=store, callbacks=Callbacks(stop=stop_after(rounds)))
        shutil.copytree(source, folder)
    shutil.rmtree(source)
    return folder


@pytest.mark.usefixtures("files_for_all")
def test_readers_change_nothing_in_a_run_that_crashed_either(tmp_path):
    folder = crashed(tmp_path / "run", spec_of(), 5)
    assert (folder / "run.db-wal").stat().st_size > 0
    for keep_index in (True, False):
        if not keep_index:
            (folder / "run.db-shm").unlink()
        before = contents(folder)
        verdict = verify(folder, state_classes)
        assert (verdict.ok, verdict.closed, verdict.rounds) == (True, False, 15)
        assert contents(folder) == before


@pytest.mark.usefixtures("files_for_all")
def test_a_reader_sweeps_nothing_from_under_a_writer(tmp_path):
    """A file that is written but not yet committed belongs to nobody yet."""
    spec = spec_of()
    with open_store(tmp_path / "run", spec) as store:
        execute(spec, store=store, callbacks=Callbacks(stop=stop_after(2)))
        fresh = store.arrays.write(np.arange(100.0))
        with Store.read(tmp_path / "run") as reader:
            Run.stored(reader)
        assert store.arrays.read(fresh).tolist() == list(range(100))


# --- crashes


@pytest.mark.usefixtures("files_for_all")
@pytest.mark.parametrize("rounds", [1, 4, 7])
def test_a_crashed_run_goes_on_to_the_same_end(tmp_path, rounds):
    spec = spec_of()
    folder = crashed(tmp_path / "run", spec, rounds)
    assert outcome(run_into(folder, spec, resume=True)) == expected()
    assert run_into.notices == []
    assert verify(folder, state_classes).ok


@pytest.mark.usefixtures("files_for_all")
def test_a_crash_between_the_files_and_the_commit_costs_nothing(tmp_path, monkeypatch):
    spec = spec_of()
    calls = itertools.count()
    original = Database.transaction

    def dies(self):
        if next(calls) == 10:
            raise KeyboardInterrupt
        return original(self)

    monkeypatch.setattr(Database, "transaction", dies)
    with pytest.raises(KeyboardInterrupt), open_store(tmp_path / "run", spec) as store:
        execute(spec, store=store)
    monkeypatch.setattr(Database, "transaction", original)
    with Store.read(tmp_path / "run") as reader:
        needed = reader.checkpoints.needed()
    there = {p.stem for p in (tmp_path / "run" / "arrays").iterdir()}
    assert there > needed  # the files of the round that never was
    assert outcome(run_into(tmp_path / "run", spec, resume=True)) == expected()
    with Store.read(tmp_path / "run") as reader:
        assert {p.stem for p in (tmp_path / "run" / "arrays").iterdir()} == reader.checkpoints.needed()


@pytest.mark.usefixtures("files_for_all")
def test_torn_leftovers_are_swept(tmp_path):
    spec = spec_of()
    folder = crashed(tmp_path / "run", spec, 4)
    (folder / "arrays" / ("0" * 64 + ".safetensors.partial")).write_bytes(b"half")
    (folder / "arrays" / ("1" * 64 + ".safetensors")).write_bytes(b"of a round that never was")
    (folder / "manifest.json.partial").write_bytes(b"{")
    (folder / ".metrics_log.csv.0123456789abcdef").write_bytes(b"round,meth")
    assert outcome(run_into(folder, spec, resume=True)) == expected()
    assert {name for name in contents(folder) if not name.startswith("arrays/")} == {
        "heads.jsonl", "lock", "manifest.json", "run.db"
    }  # fmt: skip
    assert all((folder / name).read_bytes()[:8] for name in contents(folder) if name.startswith("arrays/"))
    assert verify(folder, state_classes).ok


@pytest.mark.parametrize("left", [(), ("lock",), ("lock", "run.db")])
def test_a_crash_while_a_run_begins_leaves_a_folder_to_begin_in(tmp_path, left):
    spec = spec_of("rounds=2")
    folder = tmp_path / "run"
    folder.mkdir()
    for name in left:
        (folder / name).touch()
    assert outcome(run_into(folder, spec, resume=True)) == expected("rounds=2")


def tear(path, how):
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "zeros": bytes(len(data))}[how])


def newest_files(folder, method):
    """The files that only the newest state of a method needs."""
    with Store.read(folder) as reader:
        rows = reader.db.connection.execute(
            "SELECT files FROM states WHERE method = ? ORDER BY round DESC LIMIT 2", (method,)
        ).fetchall()
    new, old = (set(re.findall(r"[0-9a-f]{64}", row[0])) for row in rows)
    return sorted(new - old)


@pytest.mark.usefixtures("files_for_all")
@pytest.mark.parametrize("how", ["cut", "empty", "zeros", "gone"])
@pytest.mark.parametrize(
    ("method", "closed", "rounds"), [("cup_authors", True, 8), ("uniform", False, 5), ("uniform", True, 7)]
)
def test_a_torn_newest_array_costs_one_round_and_changes_nothing(tmp_path, how, method, closed, rounds):
    spec = spec_of()
    folder = tmp_path / "run"
    if closed:
        run_into(folder, spec, rounds=rounds)
    else:
        crashed(folder, spec, rounds)
    name = newest_files(folder, method)[0]
    tear(folder / "arrays" / f"{name}.safetensors", how)
    assert not verify(folder, state_classes).ok
    assert outcome(run_into(folder, spec, resume=True)) == expected()
    assert any(name in notice for notice in run_into.notices)
    assert any(f"going on from round {rounds - 2}" in notice for notice in run_into.notices)
    verdict = verify(folder, state_classes)
    assert verdict.problems == ()
    again = run_into(folder, spec, resume=True)
    assert run_into.notices == []
    assert outcome(again) == expected()


@pytest.mark.usefixtures("files_for_all")
def test_two_torn_states_are_computed_anew_and_that_is_said(tmp_path):
    spec = spec_of(methods=("uniform",))
    run_into(tmp_path / "run", spec, rounds=5)
    for path in (tmp_path / "run" / "arrays").iterdir():
        tear(path, "cut")
    with Store.open(tmp_path / "run") as store, pytest.raises(DamagedError, match="differs from what was written"):
        store.load(0, "uniform", state_classes(store, "uniform"))  # whoever cannot compute them again
    assert outcome(run_into(tmp_path / "run", spec, resume=True)) == expected(methods=("uniform",))
    assert any("uniform, seed 0, is computed anew" in notice for notice in run_into.notices)
    assert verify(tmp_path / "run", state_classes).ok


def test_a_row_torn_from_one_table_is_said(tmp_path):
    spec = spec_of(methods=("uniform",))
    for table in ("states", "rounds"):
        folder = crashed(tmp_path / table, spec, 5)
        with sqlite3.connect(folder / "run.db") as db:
            db.execute(f"DELETE FROM {table} WHERE round = 4")
        db.close()
        with pytest.raises(DamagedError, match="end at other rounds"):
            run_into(folder, spec, resume=True)


RUN = """
import sys, time
from fedparity.experiment.results import open_store
from fedparity.experiment.runner import Callbacks, execute
from fedparity.experiment.spec_file import parse
sys.path.insert(0, sys.argv[2])
from stored_runs import spec_of

def told(number, method, row):
    print(number, flush=True)
    time.sleep(0.02)

spec = spec_of("rounds=40")
with open_store(sys.argv[1], spec, resume=True) as store:
    execute(spec, store=store, callbacks=Callbacks(told))
"""


def test_sigkill_leaves_a_run_that_can_be_resumed(tmp_path):
    here = str(Path(__file__).parents[1])
    child = subprocess.Popen(
        [sys.executable, "-c", RUN, str(tmp_path / "run"), here], stdout=subprocess.PIPE, text=True
    )
    for line in child.stdout:
        if line.strip() == "5":
            break
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    with Store.read(tmp_path / "run") as reader:
        assert len(list(reader.rounds(0, "uniform"))) >= 5
    spec = spec_of("rounds=40")
    assert outcome(run_into(tmp_path / "run", spec, resume=True)) == expected("rounds=40")


def test_time_is_telemetry_and_survives(tmp_path):
    spec = spec_of(methods=("uniform",))
    run_into(tmp_path / "run", spec, rounds=4)
    time.sleep(0.01)
    results = run_into(tmp_path / "run", spec, resume=True)
    with Store.read(tmp_path / "run") as reader:
        seconds = [c.seconds for c in reader.rounds(0, "uniform")]
    assert seconds == results.runs[0].column("seconds").tolist()
    assert all(0 < s < 60 for s in seconds)


@pytest.mark.usefixtures("files_for_all")
def test_array_files_are_named_by_what_they_hold(tmp_path):
    run_into(tmp_path / "run", spec_of())
    found = list((tmp_path / "run" / "arrays").iterdir())
    assert found
    assert all(p.stem == sha256(p.read_bytes()) for p in found)
