"""SIGKILL at random times: whatever it hits, the resumed run ends as one that was never stopped."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fedparity.experiment.runner import execute, state_classes
from fedparity.experiment.spec_file import to_toml
from fedparity.store import Store, verify
from stored_runs import heads, sha256, spec_of

KILLS = 100
ROUNDS = 20
SAME = ("journal.jsonl", "clients.csv", "summary.json", "spec.toml", "spec.resolved.toml")
"""Files that say nothing about time."""
DRIVER = """
import os, signal, sys, time
from fedparity import report
from fedparity.cli import main as cli
from fedparity.experiment import runner
from fedparity.store import checkpoints

# Every array gets a file, so that kills hit writes of files, too; rounds take as long as a small model's would.
checkpoints.LARGE, checkpoints.SMALL_STATE, checkpoints.SNAPSHOT_EVERY = 64, 0, 6
original = runner._Record.on_round

def slow(self, *args):
    original(self, *args)
    time.sleep(0.004)

runner._Record.on_round = slow

def run(spec, out):
    sys.argv = ["fedparity", "run", spec, "--out", out, "--resume", "--json"]
    log = os.open(out + ".log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        cli.main()
    except SystemExit as done:
        return done.code

answers = os.fdopen(os.dup(1), "w")
spec = sys.argv[1]
assert run(spec, sys.argv[2]) == 0  # everything is imported now: a process more costs a fork
print("ready", file=answers, flush=True)
for line in sys.stdin:
    out, after = line.split()
    child = os.fork()
    if child == 0:
        os._exit(run(spec, out))
    end = time.monotonic() + float(after)
    status = 0
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() >= end:
            os.kill(child, signal.SIGKILL)
            pid, status = os.waitpid(child, 0)
            break
        time.sleep(0.0005)
    print(os.waitstatus_to_exitcode(status), file=answers, flush=True)
"""


class Runs:
    """Processes that carry out a spec, each of which may be killed; all are forked off one that has imported it all."""

    def __init__(self, spec, whole):
        self._process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(spec), str(whole)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout.readline() == "ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.communicate()

    def killed(self, out, after):
        """Whether SIGKILL came before the end of the run."""
        self._process.stdin.write(f"{out} {after}\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        assert code in (0, -signal.SIGKILL), Path(f"{out}.log").read_text(encoding="utf-8")
        return code != 0

    def finish(self, out):
        assert not self.killed(out, 120)


def digests(folder):
    """Journal heads, and digests of the model and of every column of the ledger, of every method."""
    found = {}
    with Store.read(folder) as store:
        for seed, method in store.contenders():
            state = store.load(seed, method, state_classes(store, method))
            chain = [c.chain for c in store.rounds(seed, method)]
            columns = [getattr(state.ledger, name) for name in state.ledger.__dataclass_fields__ if name != "rounds"]
            columns = [column for column in columns if column is not None]  # nobody registered late
            models = [state.kept[k].tobytes() for k in sorted(state.kept)]
            found[seed, method] = (
                len(chain),
                chain[-1],
                sha256(state.params.tobytes()),
                sha256(b"".join(column.tobytes() for column in columns)),
                sha256(b"".join(models)),
            )
    return found


@pytest.fixture
def spec(tmp_path):
    found = spec_of(f"rounds={ROUNDS}")
    (tmp_path / "spec.toml").write_text(to_toml(found), encoding="utf-8")
    return found


@pytest.mark.slow
def test_a_hundred_kills_change_nothing(tmp_path, spec):
    rng = np.random.default_rng(20)
    with Runs(tmp_path / "spec.toml", tmp_path / "whole") as runs:
        began = time.perf_counter()
        runs.finish(tmp_path / "timed")
        seconds = time.perf_counter() - began
        whole = digests(tmp_path / "whole")
        assert {key: chain for key, (_, chain, *_) in whole.items()} == heads(execute(spec))
        assert digests(tmp_path / "timed") == whole
        texts = {name: (tmp_path / "whole" / name).read_bytes() for name in SAME}
        kills = again = number = 0
        while kills < KILLS:
            out = tmp_path / f"run{number}"
            number += 1
            if not runs.killed(out, rng.uniform(0, seconds)):
                continue
            kills += 1
            if kills % 2 and runs.killed(out, rng.uniform(0, seconds / 4)):
                again += 1
            runs.finish(out)
            assert digests(out) == whole, number
            assert {name: (out / name).read_bytes() for name in SAME} == texts, number
            verdict = verify(out, state_classes)
            assert (verdict.problems, verdict.closed, verdict.rounds) == ((), True, 3 * ROUNDS), number
            assert {p.name for p in out.iterdir()} == {p.name for p in (tmp_path / "whole").iterdir()}, number
    assert again >= KILLS // 4


@pytest.mark.slow
def test_one_run_killed_again_and_again_gets_there(tmp_path, spec):
    rng = np.random.default_rng(7)
    kills = 0
    with Runs(tmp_path / "spec.toml", tmp_path / "whole") as runs:
        while kills < 200 and runs.killed(tmp_path / "run", rng.uniform(0, 0.2)):
            kills += 1
        runs.finish(tmp_path / "run")
    assert kills > 5
    assert {key: chain for key, (_, chain, *_) in digests(tmp_path / "run").items()} == heads(execute(spec))
    assert digests(tmp_path / "run") == digests(tmp_path / "whole")
    assert verify(tmp_path / "run", state_classes).ok
