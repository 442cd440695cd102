"""Power cuts: what was not synced is lost, torn or out of order; no acknowledged round is, and each fsync is needed."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import fedparity
from crash_lab import acknowledged_rounds_are_there, carry_out, chains, ends_the_same, rng_of, size
from fedparity.core.errors import FedparityError
from fedparity.testing import FaultyDisk
from stored_runs import contents

ROUNDS = 4
SRC = Path(fedparity.__file__).parent


class Recorded:
    """A whole run on a disk that remembers every call, with the moments at which rounds were said to be safe."""

    def __init__(self, folder):
        folder.mkdir()
        self.folder, said = folder, []
        self.reference = chains(ROUNDS)
        with FaultyDisk(folder) as self.disk:
            carry_out(folder / "run", ROUNDS, acknowledged=lambda _, method, __: said.append((self.length, method)))
        self.said = said
        self.files = {name: data for name, data in contents(folder / "run").items() if name != "lock"}

    @property
    def length(self):
        return len(self.disk.calls)

    def survives(self, out, after, seed, without=()):
        """Nothing that was acknowledged is lost when the power goes after that call, and the end is the same."""
        self.disk.power_cut(out, after=after, seed=seed, without=without)
        acknowledged = Counter(method for at, method in self.said if at <= after)
        acknowledged_rounds_are_there(out / "run", acknowledged, ROUNDS, self.reference)
        if after == self.length:  # the run was closed: nothing at all may be missing
            assert contents(out / "run") == self.files
        ends_the_same(out / "run", ROUNDS)

    def is_found(self, out, site):
        """Whether a run that leaves out the fsyncs of one site is told from one that makes them."""
        rng = rng_of(11)
        for seed in range(4):
            for after in [self.length, *rng.permutation(self.length).tolist()]:
                try:
                    self.survives(out / f"{seed}-{after}", after, seed, without=[site])
                except (FedparityError, AssertionError):
                    return True
        return False


@pytest.fixture
def recorded(tmp_path):
    return Recorded(tmp_path / "recorded")


def test_no_acknowledged_round_is_lost(tmp_path, recorded):
    rng, runs = rng_of(3), size(200, 1000)
    cuts = [*range(0, recorded.length + 1, 4)]  # evenly over the run, and by chance for the rest
    cuts += rng.integers(recorded.length + 1, size=runs - len(cuts)).tolist()
    assert len(cuts) == runs
    for seed, after in enumerate(cuts):
        recorded.survives(tmp_path / str(seed), after, seed)


def test_a_second_cut_in_recovery_loses_nothing_either(tmp_path, recorded):
    rng = rng_of(4)
    for seed in range(size(20, 200)):
        out, after = tmp_path / str(seed), int(rng.integers(recorded.length + 1))
        recorded.disk.power_cut(out, after=after, seed=seed)
        acknowledged = Counter(method for at, method in recorded.said if at <= after)
        with FaultyDisk(out) as disk:
            carry_out(out / "run", ROUNDS, resume=True)
        again = tmp_path / f"{seed}-again"
        disk.power_cut(again, after=int(rng.integers(len(disk.calls) + 1)), seed=seed)
        acknowledged_rounds_are_there(again / "run", acknowledged, ROUNDS, recorded.reference)
        ends_the_same(again / "run", ROUNDS)


def fsyncs_in_the_source():
    """Where an fsync is asked for, as a disk names it."""
    for path in (SRC / "core" / "system.py", SRC / "core" / "files.py", *sorted((SRC / "store").glob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                inside = called == "system().fsync" and path.name == "system.py"  # `sync` itself
                if (called == "sync" or called.endswith(".fsync")) and called != "os.fsync" and not inside:
                    yield f"{path.parent.name}/{path.name}:{node.lineno}"


def test_every_fsync_is_asked_for_in_the_recorded_run(recorded):
    asked = {site.split()[0] for site in recorded.disk.sites() if not site.startswith("SQLite")}
    assert asked == set(fsyncs_in_the_source())


def test_leaving_out_any_one_fsync_is_found(tmp_path, recorded):
    # SQLite writes a journal only before there is a log, in an empty database: nothing is safe yet that could be lost;
    # and it syncs the folder of a new log, which is done again for the head of the round before that is acknowledged.
    needless = ("run.db-journal", "run.db-wal's folder")
    sites = [site for site in recorded.disk.sites() if not any(name in site for name in needless)]
    assert {"SQLite run.db", "SQLite run.db-wal"} <= set(sites)
    needless = [site for site in sites if not recorded.is_found(tmp_path / site.replace("/", "-"), site)]
    assert needless == []
