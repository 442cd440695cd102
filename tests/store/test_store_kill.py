"""SIGKILL at random times: whatever it hits, the resumed run ends as one that was never stopped."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from stored_runs import heads, run_into, sha256, spec_of

from fedparity.experiment.runner import run_spec, state_classes
from fedparity.experiment.spec import to_toml
from fedparity.store import Store, verify

KILLS = 100
ROUNDS = 20
DRIVER = """
import sys, time
from fedparity import cli, report
from fedparity.experiment import runner
from fedparity.store import store

# Every array gets a file, so that kills hit writes of files, too; rounds take as long as a small model's would.
store.LARGE, store.SMALL_STATE, store.SNAPSHOT_EVERY = 64, 0, 6
original = runner._Record.on_round

def slow(self, *args):
    original(self, *args)
    time.sleep(0.004)

runner._Record.on_round = slow
sys.argv[0] = "fedparity"
print("ready", flush=True)
cli.main()
"""


def start(spec, out):
    child = subprocess.Popen(
        [sys.executable, "-c", DRIVER, "run", str(spec), "--out", str(out), "--resume", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "ready\n", child.stderr.read()
    return child


def finish(child):
    _, err = child.communicate(timeout=120)
    assert child.returncode == 0, err


def killed(child, after):
    """Whether SIGKILL came before its end."""
    try:
        child.wait(after)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGKILL)
    _, err = child.communicate()
    assert child.returncode in (0, -signal.SIGKILL), err
    return child.returncode != 0


def digests(folder):
    """Journal heads, and digests of the model and of every column of the ledger, of every method."""
    found = {}
    with Store.read(folder) as store:
        for seed, method in store.contenders():
            state = store.load(seed, method, state_classes(store, method))
            chain = [c.chain for c in store.rounds(seed, method)]
            columns = [getattr(state.ledger, name) for name in state.ledger.__dataclass_fields__ if name != "rounds"]
            models = [state.client_models[k].tobytes() for k in sorted(state.client_models)]
            found[seed, method] = (
                len(chain),
                chain[-1],
                sha256(state.params.tobytes()),
                sha256(b"".join(column.tobytes() for column in columns)),
                sha256(b"".join(models)),
            )
    return found


@pytest.mark.slow
def test_a_hundred_kills_change_nothing(tmp_path):
    spec = spec_of(f"rounds={ROUNDS}")
    (tmp_path / "spec.toml").write_text(to_toml(spec), encoding="utf-8")
    began = time.perf_counter()
    finish(start(tmp_path / "spec.toml", tmp_path / "whole"))
    child = start(tmp_path / "spec.toml", tmp_path / "timed")
    began = time.perf_counter()
    finish(child)
    seconds = time.perf_counter() - began
    whole = digests(tmp_path / "whole")
    assert {key: chain for key, (_, chain, *_) in whole.items()} == heads(run_spec(spec))
    assert digests(tmp_path / "timed") == whole
    texts = {
        name: (tmp_path / "whole" / name).read_bytes() for name in ("journal.jsonl", "clients.csv", "summary.json")
    }

    rng = np.random.default_rng(20)
    kills = seconds_kills = number = 0
    while kills < KILLS:
        out = tmp_path / f"run{number}"
        number += 1
        if not killed(start(tmp_path / "spec.toml", out), rng.uniform(0, seconds)):
            continue
        kills += 1
        if number % 2 and killed(start(tmp_path / "spec.toml", out), rng.uniform(0, seconds / 4)):
            seconds_kills += 1
        finish(start(tmp_path / "spec.toml", out))
        assert digests(out) == whole, number
        for name, text in texts.items():
            assert (out / name).read_bytes() == text, (number, name)
        verdict = verify(out, state_classes)
        assert (verdict.problems, verdict.closed, verdict.rounds) == ((), True, 3 * ROUNDS), number
        left = {p.name for p in out.iterdir()} - {"arrays", "lock", "run.db", "manifest.json", "report.html", *texts}
        assert left == {"metrics_log.csv", "spec.toml", "spec.resolved.toml"}, number
    assert seconds_kills >= KILLS // 4
    assert sys.platform == "linux" or os.name == "posix"


@pytest.mark.slow
def test_one_run_killed_again_and_again_gets_there(tmp_path):
    spec = spec_of(f"rounds={ROUNDS}")
    (tmp_path / "spec.toml").write_text(to_toml(spec), encoding="utf-8")
    whole = heads(run_into(tmp_path / "whole", spec))
    rng = np.random.default_rng(7)
    for _ in range(60):
        if not killed(start(tmp_path / "spec.toml", tmp_path / "run"), rng.uniform(0, 0.15)):
            break
    finish(start(tmp_path / "spec.toml", tmp_path / "run"))
    assert {key: chain for key, (_, chain, *_) in digests(tmp_path / "run").items()} == whole
    assert verify(tmp_path / "run", state_classes).ok
    assert Path(tmp_path / "run" / "report.html").exists()
