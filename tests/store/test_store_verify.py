"""No flipped bit, lost file or edited row goes unnoticed: not by `fedparity verify`, and not by a resume."""

import contextlib
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedparity import report
from fedparity.core.errors import FedparityError
from fedparity.experiment.results import open_store
from fedparity.experiment.runner import execute, state_classes
from fedparity.store import Disk, Store, checkpoints, verify
from stored_runs import contents, outcome, run_into, spec_of, unclose

FLIPS = [70, pytest.param(300, marks=pytest.mark.slow)]
SPEC = ("rounds=5", "population.clients=9")


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A run that was closed cleanly, with every kind of file, and how it ended."""
    folder = tmp_path_factory.mktemp("closed") / "run"
    spec = spec_of(*SPEC)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("LARGE", 64), ("SMALL_STATE", 0), ("SNAPSHOT_EVERY", 3)):
            patch.setattr(checkpoints, name, value)
        with open_store(folder, spec) as store:
            results = execute(spec, store=store)
            results.save(folder)
            report.write_report(results, folder / "report.html")
    return folder, outcome(results)


@pytest.fixture
def copy(closed, tmp_path):
    shutil.copytree(closed[0], tmp_path / "run")
    return tmp_path / "run"


def found_by_resume(folder, expected):
    """An error that is ours, or a notice and the same end."""
    spec = spec_of(*SPEC)
    try:
        results = run_into(folder, spec, resume=True)
    except FedparityError:
        return True
    return bool(run_into.notices) and outcome(results) == expected


def flips(folder, n, seed):
    """`n` places to flip a bit: every file in turn, at random in it."""
    rng = np.random.default_rng(seed)
    files = {name: len(data) for name, data in contents(folder).items() if data}
    names = sorted(files, key=lambda name: (name.startswith("arrays/"), name))
    for k in range(n):
        name = names[k % len(names)] if k < len(names) else rng.choice(names)
        yield str(name), int(rng.integers(files[name])), int(rng.integers(8))


def test_an_intact_run_is_intact(copy, closed):
    verdict = verify(copy, state_classes)
    assert (verdict.ok, verdict.closed, verdict.rounds, verdict.problems) == (True, True, 15, ())
    assert {"run.db", "manifest.json", "metrics_log.csv", "report.html", "journal.jsonl"} <= set(contents(copy))
    assert sum(name.startswith("arrays/") for name in contents(copy)) > 10
    assert outcome(run_into(copy, spec_of(*SPEC), resume=True)) == closed[1]
    assert run_into.notices == []


@pytest.mark.parametrize("n", FLIPS)
def test_a_flipped_bit_in_any_file_is_found(copy, closed, n):
    intact = contents(copy)
    missed = []
    for name, at, bit in flips(copy, n, seed=4):
        data = bytearray(intact[name])
        data[at] ^= 1 << bit
        (copy / name).write_bytes(data)
        verdict = verify(copy, state_classes)
        if verdict.ok or not any(name in problem for problem in verdict.problems):
            missed.append(("verify", name, at, bit))
        if not found_by_resume(copy, closed[1]):
            missed.append(("resume", name, at, bit))
        for now in contents(copy).keys() - intact.keys():
            (copy / now).unlink()
        for now, whole in intact.items():
            if not (copy / now).exists() or (copy / now).read_bytes() != whole:
                (copy / now).write_bytes(whole)
    assert missed == []
    assert verify(copy, state_classes).ok


def test_a_missing_file_is_found(copy, closed):
    for name in sorted(contents(copy).keys() - {"lock", "manifest.json"}):
        shutil.rmtree(copy)
        shutil.copytree(closed[0], copy)
        (copy / name).unlink()
        verdict = verify(copy, state_classes)
        assert any(name in problem for problem in verdict.problems), name
        if name != "run.db":
            assert found_by_resume(copy, closed[1]), name


def test_what_is_missing_is_said_to_be(copy, fedparity):
    (copy / "journal.jsonl").unlink()
    (copy / "summary.json").write_text("{}")
    assert verify(copy, state_classes).problems == (
        "journal.jsonl: is missing",
        "summary.json: differs from what was written, or is not in the manifest",
    )
    (copy / "manifest.json").unlink()
    code, out, err = fedparity("verify", copy)
    assert (code, err) == (1, "")
    assert "manifest.json: is missing, although the run was closed" in out
    assert "Without its manifest the files beside the database were not compared with anything." in out
    assert "not closed cleanly" not in out


@pytest.mark.parametrize("name", ["arrays/x.safetensors", "arrays/" + "0" * 64 + ".safetensors", "run.db-wal"])
def test_an_added_file_is_found(copy, closed, name):
    (copy / name).parent.mkdir(exist_ok=True)
    (copy / name).write_text("new")
    verdict = verify(copy, state_classes)
    assert any(name in problem for problem in verdict.problems)
    assert found_by_resume(copy, closed[1])


def test_without_its_manifest_a_run_is_checked_by_its_digests(copy):
    unclose(copy)
    verdict = verify(copy, state_classes)
    assert (verdict.ok, verdict.closed, verdict.rounds) == (True, False, 15)
    some = sorted((copy / "arrays").iterdir())
    for path in some:  # also those of the state before the last
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        verdict = verify(copy, state_classes)
        assert any(path.name in problem for problem in verdict.problems)
        path.write_bytes(data)


def edit(folder, statement, values=()):
    with contextlib.closing(sqlite3.connect(folder / "run.db")) as db, db:
        return db.execute(statement, values).rowcount


def cells(folder, table):
    """Every (row, column) of a table: its key, the column and its value."""
    with contextlib.closing(sqlite3.connect(folder / "run.db")) as db:
        rows = db.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3")
        names = [column[0] for column in rows.description]
        return [(row[:3], name, value) for row in rows.fetchall() for name, value in zip(names, row, strict=True)]


def changed(value):
    """Another value of the same kind."""
    if isinstance(value, int):
        return [value + 1, value + 1000, 1 - value] if value in (0, 1) else [value + 1, value + 1000]
    if isinstance(value, bytes):
        return [value[:-1] + bytes([value[-1] ^ 1]), b""] if value else [b"\0"]
    at = len(value) // 2
    flipped = value[:at] + ("0" if value[at : at + 1] != "0" else "1") + value[at + 1 :]
    return [flipped, value + " ", ""]


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("table", ["rounds", "states"])
def test_an_edit_of_any_cell_is_found_without_the_manifest(copy, table, step):
    unclose(copy)
    intact = (copy / "run.db").read_bytes()
    missed, done = [], 0
    for key, column, value in cells(copy, table)[::step]:
        for new in changed(value):
            try:
                edit(copy, f"UPDATE {table} SET {column} = ? WHERE seed = ? AND method = ? AND round = ?", (new, *key))
            except sqlite3.IntegrityError:  # it is there already
                continue
            done += 1
            if verify(copy, state_classes).ok:
                missed.append((key, column, value, new))
            (copy / "run.db").write_bytes(intact)
    assert missed == []
    assert done > 40


@pytest.mark.parametrize("table", ["rounds", "states"])
def test_a_row_deleted_by_hand_is_found_without_the_manifest(copy, table):
    unclose(copy)
    intact = (copy / "run.db").read_bytes()
    keys = sorted({key for key, _, _ in cells(copy, table)})
    missed = []
    for key in keys:
        assert edit(copy, f"DELETE FROM {table} WHERE seed = ? AND method = ? AND round = ?", key) == 1
        if verify(copy, state_classes).ok:
            missed.append(key)
        (copy / "run.db").write_bytes(intact)
    assert missed == []


@pytest.mark.parametrize("table", ["rounds", "states"])
@pytest.mark.parametrize(
    ("one", "other"), [(("uniform", 2), ("uniform", 4)), (("uniform", 4), ("parity_surrogate", 4))]
)
def test_rows_swapped_by_hand_are_found_without_the_manifest(copy, table, one, other):
    unclose(copy)
    place = f"UPDATE {table} SET method = ?, round = ? WHERE method = ? AND round = ?"
    moved = edit(copy, place, ("between", 99, *one)), edit(copy, place, (*one, *other))
    assert moved == (1, 1) if table == "rounds" else sum(moved) >= 1
    edit(copy, place, (*other, "between", 99))
    assert not verify(copy, state_classes).ok


def test_methods_that_change_places_are_found_without_the_manifest(copy):
    """Every chain is whole, but not where it belongs."""
    unclose(copy)
    for table in ("rounds", "states", "telemetry"):
        for new, old in (("x", "uniform"), ("uniform", "cup_authors"), ("cup_authors", "x")):
            edit(copy, f"UPDATE {table} SET method = ? WHERE method = ?", (new, old))
    assert not verify(copy, state_classes).ok


def test_senseless_telemetry_is_one_typed_problem(copy):
    unclose(copy)
    edit(copy, "UPDATE telemetry SET value = 'long ago' WHERE round = 2")
    verdict = verify(copy, state_classes)
    assert not verdict.ok
    with pytest.raises(FedparityError):
        run_into(copy, spec_of(*SPEC), resume=True)


def test_a_database_that_is_torn_in_the_middle_is_found(copy):
    unclose(copy)
    data = (copy / "run.db").read_bytes()
    for keep in (0, 50, 4096, len(data) // 2, len(data) - 4096):
        (copy / "run.db").write_bytes(data[:keep])
        try:
            ok = verify(copy, state_classes).ok
        except FedparityError:
            ok = False
        assert not ok, keep


def test_verify_reads_a_run_that_is_being_written(tmp_path):
    spec = spec_of(*SPEC)
    with open_store(tmp_path / "run", spec) as store:
        execute(spec, store=store)
        verdict = verify(tmp_path / "run", state_classes)
        assert (verdict.ok, verdict.closed, verdict.rounds) == (True, False, 15)
        assert isinstance(store, Store)


def test_the_command_s_json_and_exit_codes(fedparity, copy):
    code, out, err = fedparity("verify", copy, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    digest = told.pop("digest")
    assert re.fullmatch("[0-9a-f]{64}", digest)
    assert told == {"run": str(copy), "ok": True, "rounds": 15, "closed": True, "running": False, "problems": []}
    code, out, _ = fedparity("verify", copy)
    assert (code, out) == (0, f"{copy}: intact, 15 rounds checked\nDigest: {digest}\n")
    assert fedparity("verify", copy, "--digest", digest.upper())[0] == 0
    code, out, _ = fedparity("verify", copy, "--digest", "0" * 64)
    assert (code, out.splitlines()[1]) == (1, f"{copy}: another run, 15 rounds checked")
    assert fedparity("verify", copy, "--digest", digest[:8])[0::2] == (
        2,
        f"fedparity: --digest '{digest[:8]}' must be 64 hexadecimal digits, as `fedparity verify RUN` prints them\n",
    )

    (copy / "clients.csv").write_text("changed")
    code, out, err = fedparity("verify", copy, "--json")
    found = json.loads(out)
    assert (code, err, found["ok"]) == (1, "", False)
    assert found["problems"] == ["clients.csv: differs from what was written, or is not in the manifest"]
    code, out, _ = fedparity("verify", copy)
    assert code == 1
    assert any(line.endswith("damaged, 15 rounds checked") for line in out.splitlines())

    unclose(copy)
    code, out, _ = fedparity("verify", copy)
    assert code == 0
    assert "It was not closed cleanly, so there is no manifest to compare files with." in out


def test_the_command_on_what_is_no_run(fedparity, tmp_path):
    code, out, err = fedparity("verify", tmp_path / "nothing")
    assert (code, out, err.count("\n")) == (2, "", 1)
    (tmp_path / "run.db").write_bytes(b"SQLite format 3\0" + bytes(5000))
    code, out, err = fedparity("verify", tmp_path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "run.db: is damaged" in err


def test_a_file_name_cannot_speak_to_the_terminal(fedparity, copy):
    (copy / "arrays" / "x\x1b[31mred\x07").write_text("")
    code, out, err = fedparity("verify", copy)
    assert code == 1
    assert "red" in out
    assert not {"\x1b", "\x07"} & set(out + err)


def test_results_that_differ_are_written_anew_on_resume(fedparity, copy, tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_bytes((copy / "spec.toml").read_bytes())
    before = contents(copy)
    (copy / "journal.jsonl").write_text("changed")
    (copy / "clients.csv").unlink()
    code, _, err = fedparity("run", spec, "--out", copy, "--resume", "--json")
    assert code == 0
    assert "journal.jsonl: differs from what was written" in err
    assert {name: contents(copy)[name] for name in ("journal.jsonl", "clients.csv")} == {
        name: before[name] for name in ("journal.jsonl", "clients.csv")
    }
    assert verify(copy, state_classes).ok


@pytest.mark.parametrize("name", ["NOTES.txt", "sub/x", "my.partial", ".keep.0123456789abcdef"])
def test_what_somebody_else_put_there_is_nobody_s_business(copy, closed, name):
    (copy / name).parent.mkdir(exist_ok=True)
    (copy / name).write_text("mine")
    assert verify(copy, state_classes).ok
    assert outcome(run_into(copy, spec_of(*SPEC), resume=True)) == closed[1]
    assert run_into.notices == []
    assert (copy / name).read_text() == "mine"
    assert name not in (copy / "manifest.json").read_text()


def test_results_are_on_the_disk_before_the_manifest_that_vouches_for_them(copy, monkeypatch):
    synced = []
    sync, write = Disk.sync, Disk.write
    monkeypatch.setattr(Disk, "sync", lambda disk, name: (synced.append(name), sync(disk, name))[1])
    monkeypatch.setattr(Disk, "write", lambda disk, name, *parts: (synced.append(name), write(disk, name, *parts))[1])
    Store.open(copy).close()
    there = {name for name in ("report.html", "clients.csv", "summary.json") if (copy / name).exists()}
    assert there
    assert there <= set(synced[: synced.index("manifest.json")])


def test_a_deleted_manifest_of_a_closed_run_is_found(fedparity, copy, closed):
    (copy / "manifest.json").unlink()
    code, out, _ = fedparity("verify", copy)
    assert code == 1
    assert "manifest.json: is missing, although the run was closed" in out
    assert outcome(run_into(copy, spec_of(*SPEC), resume=True)) == closed[1]
    assert verify(copy, state_classes).ok


@pytest.mark.parametrize("name", ["spec", "trace", "inputs", "versions", "seal"])
def test_an_altered_origin_is_found_without_the_manifest(copy, name):
    unclose(copy)
    intact = (copy / "run.db").read_bytes()
    with contextlib.closing(sqlite3.connect(copy / "run.db")) as db:
        ((value,),) = db.execute("SELECT value FROM origin WHERE name = ?", (name,))
    for new in (value[:-2] + bytes([value[-2] ^ 1]) + value[-1:], b"", value + b" "):
        edit(copy, "UPDATE origin SET value = ? WHERE name = ?", (new, name))
        verdict = verify(copy, state_classes)
        assert any("were changed" in problem for problem in verdict.problems)
        assert verdict.digest is None
        with pytest.raises(FedparityError):
            run_into(copy, spec_of(*SPEC), resume=True)
        (copy / "run.db").write_bytes(intact)
        (copy / "run.db-wal").unlink(missing_ok=True)
    edit(copy, "DELETE FROM origin")
    assert not verify(copy, state_classes).ok


def test_altered_facts_are_found_without_the_manifest(copy):
    unclose(copy)
    edit(copy, "UPDATE facts SET value = zeroblob(length(value)) WHERE method = 'uniform'")
    assert any("facts of uniform, seed 0: they were changed" in p for p in verify(copy, state_classes).problems)


def test_the_digest_is_that_of_the_run_and_not_of_its_files(copy):
    digest = verify(copy, state_classes).digest
    (copy / "clients.csv").write_text("changed")
    assert verify(copy, state_classes).digest == digest
    with contextlib.closing(sqlite3.connect(copy / "run.db")) as db, db:
        db.execute("UPDATE telemetry SET value = '9'")
    unclose(copy)
    assert verify(copy, state_classes).digest == digest
    edit(copy, "DELETE FROM facts WHERE method = 'uniform'")
    assert verify(copy, state_classes).digest != digest


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from fedparity.experiment.results import open_store
from fedparity.experiment.runner import Callbacks, execute
from fedparity.store import checkpoints
from stored_runs import spec_of

checkpoints.LARGE, checkpoints.SMALL_STATE, checkpoints.SNAPSHOT_EVERY = 64, 0, 4
spec = spec_of("rounds=4000", "population.clients=9")
with open_store(sys.argv[1], spec) as store:
    execute(spec, store=store, callbacks=Callbacks(lambda *_: print(flush=True)))
"""


def test_a_run_that_is_being_written_is_running_and_never_damaged(tmp_path):
    here = str(Path(__file__).parents[1])
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "run"), here], stdout=subprocess.PIPE, text=True
    )
    try:
        child.stdout.readline()
        found = [verify(tmp_path / "run", state_classes) for _ in range(12)]
        assert child.poll() is None
    finally:
        child.kill()
        child.communicate()
    assert [v.problems for v in found] == [()] * 12
    assert all(v.running and not v.closed and v.digest for v in found)
    assert found[-1].rounds > found[0].rounds
    verdict = verify(tmp_path / "run", state_classes)
    assert (verdict.ok, verdict.running) == (True, False)
