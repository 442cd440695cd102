"""SIGKILL at every call that changes the disk, and at random times, half of them with a second kill in recovery."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from crash_lab import acknowledged_rounds_are_there, carry_out, chains, ends_the_same, rng_of, size
from fedparity.testing import FaultyDisk

HERE = Path(__file__).parent
ROUNDS = size(2, 8)


class Victims:
    """Runs in processes of their own, each of which may be killed (`driver`)."""

    def __init__(self, folder):
        search = os.pathsep.join([str(HERE), str(HERE.parent), *filter(None, sys.path)])
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "driver.py"), str(folder / "warm")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": search},
        )
        assert self._process.stdout.readline() == "ready\n"
        self.reference = chains(ROUNDS)
        self.kills = self.again = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.communicate()

    def is_killed(self, run, call=-1, seconds=-1.0):
        """Whether the run died before its end."""
        self._process.stdin.write(f"{run} {ROUNDS} {call} {seconds}\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        assert code in (0, -signal.SIGKILL)
        self.kills += code != 0
        return code != 0

    def lose_nothing(self, run):
        """What was acknowledged is there, and the end is that of a run that was never stopped."""
        said = Counter(run.with_name(f"{run.name}.said").read_text(encoding="ascii").split())
        acknowledged_rounds_are_there(run, said, ROUNDS, self.reference)
        ends_the_same(run, ROUNDS)


@pytest.fixture
def victims(tmp_path):
    with Victims(tmp_path) as found:
        yield found


def calls_of_a_run(folder):
    folder.mkdir()
    with FaultyDisk(folder, keep=False) as disk:
        carry_out(folder / "run", ROUNDS)
    return disk.count


def test_a_kill_at_every_call_loses_nothing(tmp_path, victims):
    total, rng = calls_of_a_run(tmp_path / "counted"), rng_of(5)
    assert total >= size(200, 600)
    for call in range(total):
        run = tmp_path / str(call) / "run"
        run.parent.mkdir()
        assert victims.is_killed(run, call), call
        if call % 2 and victims.is_killed(run, int(rng.integers(total - call + 20))):  # in recovery, or soon after
            victims.again += 1
        victims.lose_nothing(run)
    assert victims.again > total // 5


def test_a_kill_at_any_time_loses_nothing(tmp_path, victims):
    began = time.monotonic()
    assert not victims.is_killed(tmp_path / "timed")
    seconds, rng, number = time.monotonic() - began, rng_of(6), 0
    victims.kills = 0
    while victims.kills < size(100, 400):
        run = tmp_path / str(number) / "run"
        run.parent.mkdir()
        killed = victims.is_killed(run, seconds=rng.uniform(0, seconds))
        if killed and number % 2:
            victims.is_killed(run, seconds=rng.uniform(0, seconds / 2))
        if killed and run.with_name("run.said").exists():
            victims.lose_nothing(run)
        number += 1
        assert number < 10_000
