"""Disks that fill up or fail: an error that names the path, the last commit intact, and a resume to the same end."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedparity.core.errors import InputError, OutputError
from fedparity.experiment.results import open_store
from fedparity.experiment.runner import Callbacks, draw_trace, execute, state_classes
from fedparity.experiment.spec_file import to_toml
from fedparity.store import Disk, Store, verify
from stored_runs import expected, outcome, run_into, spec_of, stop_after

SPEC = ("rounds=3",)
METHODS = ("cup_authors",)


def commits(folder):
    """How many rounds are safe, whole and verified."""
    if not (folder / "run.db").exists():
        return 0
    verdict = verify(folder, state_classes)
    assert verdict.problems == ()
    return verdict.rounds


@dataclass(frozen=True, slots=True)
class Failing(Disk):
    """A disk on which the file number `left[1]` cannot be written, and none after it."""

    left: list

    def write(self, name, *parts):
        self.left[0] += 1
        if self.left[0] > self.left[1]:
            raise OutputError(f"{self.path(name)}: cannot be written (No space left on device); free space")
        Disk.write(self, name, *parts)


@pytest.mark.usefixtures("files_for_all")
@pytest.mark.parametrize("n", range(0, 27, 3))
def test_a_disk_that_stays_full(tmp_path, n):
    spec = spec_of(*SPEC, methods=METHODS)
    run = tmp_path / "run"
    done = []
    with Store.open(run) as store:
        store.begin(to_toml(spec.resolved()), draw_trace(spec), {})
    with pytest.raises(OutputError, match="No space left"), Store.open(run, Failing(run, [0, n])) as store:
        execute(spec, store=store, callbacks=Callbacks(lambda *news: done.append(news)))
    assert commits(run) == len(done)
    assert outcome(run_into(run, spec, resume=True)) == expected(*SPEC, methods=METHODS)


@pytest.mark.parametrize("pages", [1, 3, 5])
def test_a_database_that_cannot_grow(tmp_path, pages):
    spec = spec_of("rounds=12")
    done = []

    def small(store):
        (size,) = store.db.connection.execute("PRAGMA page_count").fetchone()
        store.db.connection.execute(f"PRAGMA max_page_count = {size + pages}")
        return store

    with pytest.raises(OutputError) as caught, small(open_store(tmp_path / "run", spec)) as store:
        execute(spec, store=store, callbacks=Callbacks(lambda *news: done.append(news)))
    path = tmp_path / "run" / "run.db"
    says = f"{path}: cannot be written (database or disk is full); free space, then go on with --resume"
    assert str(caught.value) == says
    assert commits(tmp_path / "run") == len(done)
    assert outcome(run_into(tmp_path / "run", spec, resume=True)) == expected("rounds=12")


def test_a_database_that_cannot_be_closed_lets_go_of_its_lock(tmp_path, monkeypatch):
    from fedparity.store import store as store_module

    def full(_):
        raise OutputError("no space")

    spec = spec_of(*SPEC)
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "write_manifest", full)
        with pytest.raises(OutputError), open_store(tmp_path / "run", spec) as store:
            execute(spec, store=store, callbacks=Callbacks(stop=stop_after(1)))
    assert outcome(run_into(tmp_path / "run", spec, resume=True)) == expected(*SPEC)


def test_files_that_cannot_be_read_or_removed_are_typed(tmp_path):
    disk = Disk(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x").touch()
    with pytest.raises(OutputError, match="cannot be removed"):
        disk.remove("folder")
    with pytest.raises(InputError, match="cannot be read"):
        disk.read("folder")
    with pytest.raises(OutputError, match="cannot be written"):
        disk.write("folder", b"x")
    with pytest.raises(OutputError, match="cannot be written"):
        disk.write("folder/x/y", b"x")
    disk.remove("never/there")
    assert disk.names() == ["folder/x"]


CODE = """
import resource, sys
sys.argv[0] = "fedparity"
limit = int(sys.argv.pop(1))
from fedparity import report
from fedparity.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
main.main()
"""


def command(limit, *words, **options):
    return subprocess.run(
        [sys.executable, "-c", CODE, str(limit), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"COLUMNS": "80"},
        **options,
    )


@pytest.mark.parametrize("limit", [0, 20_000, 150_000])
def test_no_space_is_one_line_and_a_run_to_resume(tmp_path, limit):
    """A limit on the size of any file stands for a full disk: writes beyond it fail."""
    spec = spec_of("rounds=15")
    (tmp_path / "spec.toml").write_text(to_toml(spec), encoding="utf-8")
    run = tmp_path / "run"
    words = ("run", tmp_path / "spec.toml", "--out", run, "--json")
    done = command(limit, *words, cwd=tmp_path)
    assert done.returncode in (2, 3), done.stderr
    assert done.stdout == ""
    said = [line for line in done.stderr.splitlines() if not line.startswith("round ")]
    assert len(said) == 1, done.stderr
    assert said[0].startswith("fedparity: ")
    assert str(run) in said[0]
    assert "Traceback" not in done.stderr
    assert outcome(run_into(run, spec, resume=True)) == expected("rounds=15")
    assert verify(run, state_classes).ok


def test_signals_of_full_disks_do_not_kill():
    """Python ignores SIGXFSZ, so that a file that grows too long is an error and not the end."""
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
    assert Path("/dev/full").exists()
