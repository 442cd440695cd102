"""`deploy up` with Flower itself: a whole run, a client killed, then the command killed (`make chaos`)."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedparity[flower]')")

import fedparity
from fedparity.deploy import examine, read_rounds
from fedparity.deploy.doctor import exposure
from fedparity.deploy.flower import programs
from fedparity.store import Store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (shutil.which("openssl") and shutil.which("ssh-keygen")), reason="no openssl or ssh-keygen"),
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc"),
]


def started(mark, *words):
    """The command; Flower's programs may belong to another environment, so they are told where fedparity is."""
    place = str(Path(fedparity.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-m", "fedparity", "deploy", "up", mark / "app", "--clients", "3", *words],
        env={**os.environ, "FEDPARITY_MARK": str(mark), "PYTHONPATH": place, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=mark,
    )  # fmt: skip


def marked(mark):
    found = {}
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"FEDPARITY_MARK={mark}".encode() in entry.read_bytes():
                found[int(entry.parent.name)] = (entry.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def gone(mark):
    """Wait until no process carries the mark; fails with those that stay."""
    end = time.monotonic() + 300
    while left := marked(mark):
        assert time.monotonic() < end, left
        time.sleep(0.2)


@pytest.fixture(scope="module")
def mark(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    yield folder
    for pid in marked(folder):
        os.kill(pid, signal.SIGKILL)


def test_a_whole_run(mark):
    process = started(mark, "--rounds", "2")
    said = process.communicate()[0].splitlines()
    assert process.returncode == 0, said
    assert [line.split("  ")[0] for line in said if line.startswith("round ")] == ["round 0", "round 1"]
    assert marked(mark) == {}
    run = mark / "app" / "runs" / "1"
    assert said[-1] == f"Report: {run / 'report.html'}"
    with Store.read(run / "store") as store:
        assert len(list(store.rounds(0, "parity"))) == 2
    rounds = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    assert all(one["available"] == ["client-0", "client-1", "client-2"] for one in rounds)
    assert {name for one in rounds for name in one["completed"]} == {"client-0", "client-1", "client-2"}


def test_it_is_examined_while_it_runs_then_killed(mark):
    process = started(mark, "--rounds", "100")
    line = next(line for line in process.stdout if line.startswith("superlink: "))
    address = line.split()[1].rstrip(",")
    assert any(line.startswith("round 0") for line in process.stdout)
    found = {one.name: one for one in examine(mark / "app", address)}
    assert {name: one.found for name, one in found.items() if one.state != "ok"} == {}
    assert exposure(int(address.rpartition(":")[2])).found == "on loopback alone"
    pids = json.loads((mark / "app" / "runs" / "2" / "pids.json").read_text())
    os.kill(pids["client-2"], signal.SIGKILL)
    assert any(line == "client-2 ended with code -9\n" for line in process.stdout)
    process.kill()
    process.wait()
    process.stdout.close()
    gone(mark)


def test_ctrl_c(mark):
    process = started(mark, "--rounds", "100")
    assert any(line.startswith("run: ") for line in process.stdout)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[0]
    assert process.returncode == 130
    assert "Traceback" not in said
    assert marked(mark) == {}


def may_make_namespaces():
    name = f"fp-try-{os.getpid()}"
    words = (["ip", "netns", "add", name], ["ip", "netns", "del", name])
    return shutil.which("ip") and all(
        subprocess.run(w, check=False, capture_output=True).returncode == 0 for w in words
    )


def test_three_machines(mark, tmp_path):
    if not may_make_namespaces():
        pytest.skip("network namespaces cannot be made here (they need root and iproute2)")
    (tmp_path / "fedparity").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fedparity "$@"\n')
    (tmp_path / "fedparity").chmod(0o755)
    place = str(Path(fedparity.__file__).parents[1])
    script = Path(__file__).parents[2] / "examples" / "three_machines.sh"
    done = subprocess.run(
        ["sh", script, mark / "three", "2"],
        env={
            **os.environ,
            "FEDPARITY_MARK": str(mark),
            "PYTHONPATH": place,
            "PATH": os.pathsep.join([str(tmp_path), str(programs()), os.environ["PATH"]]),
        },
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rounds = read_rounds(mark / "three" / "state" / "rounds.jsonl")
    assert [one["completed"] for one in rounds if one["round"] == 1] != [[]]
    assert len(rounds) == 2
    assert (mark / "three" / "report.html").exists()
    gone(mark)
