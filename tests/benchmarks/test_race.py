"""The harness that times training rounds, with contenders that do nothing: no time is asserted."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TRAINING = Path(__file__).parents[2] / "benchmarks/training"


def load():
    spec = importlib.util.spec_from_file_location("bench_race", TRAINING / "race.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


race = load()

FAKE = f"""
import sys, time
sys.path.insert(0, {str(TRAINING)!r})
import protocol

name, log, second = sys.argv[1:]
clock = iter([t for round in range(99) for t in (0.0, float(second) * max(round, 1))])
time.perf_counter = lambda: next(clock)  # round n takes n times `second` seconds

def once():
    print("noise that is not the protocol's")
    with open(log, "a") as file:
        file.write(name)

protocol.serve(once, contender=name)
"""

DYING = """
import sys
import time
print('{"ready": {}}', flush=True)
sys.stdin.readline()
sys.exit("the disk is full")
"""


@pytest.fixture
def fake(tmp_path):
    script, log = tmp_path / "fake.py", tmp_path / "log"
    script.write_text(FAKE)
    log.touch()
    return lambda name, second=1.0: [sys.executable, str(script), name, str(log), str(second)]


def script(tmp_path, text):
    path = tmp_path / "other.py"
    path.write_text(text)
    return [sys.executable, str(path)]


def test_contenders_take_turns_after_their_warm_up(fake, tmp_path):
    race.race("a", {"A": fake("A"), "B": fake("B")}, 2)
    assert (tmp_path / "log").read_text() == "AB" + "AB" * 3  # a warm-up each, one turn dropped, two measured


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
def test_whoever_waits_is_stopped_with_all_it_started(tmp_path):
    started = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    with subprocess.Popen([sys.executable, "-c", started]) as process:
        try:
            while len(race.family(process.pid)) < 2:
                time.sleep(0.01)
            contender = race.Contender("quick", script(tmp_path, DYING))
            with contender:
                contender._process, kept = process, contender._process
                contender.pause()
                assert {state(pid) for pid in wait_for(race.family(process.pid), "T")} == {"T"}
                contender.wake()
                assert {state(pid) for pid in race.family(process.pid)} == {"S"}
                contender._process = kept
        finally:
            for pid in race.family(process.pid)[::-1]:
                os.kill(pid, signal.SIGKILL)


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_for(pids, expected):
    end = time.monotonic() + 300  # for a busy machine: nobody waits longer than it takes
    while any(state(pid) != expected for pid in pids) and time.monotonic() < end:
        time.sleep(0.01)
    return pids


def test_a_turn_lasts_a_second_and_counts_the_mean_of_its_rounds(fake, tmp_path):
    found = race.race("a", {"A": fake("A", 0.25)}, 1)
    # Rounds of .25 s, .5 s and .75 s make the first turn, which is dropped; one of 1 s the next.
    assert (tmp_path / "log").read_text() == "A" * 5
    assert (found[0]["median_s"], found[0]["n"]) == (1.0, 1)
    assert race.race("a", {"A": fake("A", 0.1)}, 1)[0]["median_s"] == pytest.approx(0.55)  # .1 to .4, then .5 and .6


def test_records_hold_the_median_the_spread_and_the_ratio_to_the_bare_loop(fake):
    found = race.race("a", {"slow": fake("s", 2.0), "bare": fake("b", 1.0)}, 3)
    common = {
        "benchmark": "training round",
        "workload": "a",
        "n": 3,
        "spread": 2.0,
    }  # rounds 2, 3, 4: the first is dropped
    assert found == [
        {**common, "contender": "slow", "ratio": 2.0, "median_s": 6.0},
        {**common, "contender": "bare", "ratio": 1.0, "median_s": 3.0},
    ]


def test_the_first_contender_is_the_yardstick_where_clients_are_tested(fake):
    found = race.race("e", {"slow": fake("s", 2.0), "bare": fake("b", 1.0)}, 1)
    assert [record["ratio"] for record in found] == [1.0, 0.5]


def test_a_contender_that_dies_is_named_with_its_last_errors(fake, tmp_path):
    with pytest.raises(race.ContenderError, match=r"(?s)'broken' ended with code 1.*the disk is full"):
        race.race("a", {"bare": fake("b"), "broken": script(tmp_path, DYING)}, 1)


def test_a_contender_that_never_gets_ready_is_named(tmp_path):
    with pytest.raises(race.ContenderError, match=r"(?s)'broken' ended with code 1.*ImportError: no peer"):
        race.race("a", {"broken": script(tmp_path, "raise ImportError('no peer')")}, 1)


def test_a_contender_that_says_something_else_is_named(tmp_path):
    with pytest.raises(race.ContenderError, match="'chatty' said 'hello' instead of 'ready'"):
        race.race("a", {"chatty": script(tmp_path, "print('hello')")}, 1)


def test_a_contender_without_its_environment_is_skipped_and_said_to_be(fake, tmp_path, capsys):
    python, lost = str(tmp_path / "flower/bin/python"), str(tmp_path / "lost.py")
    found = race.race("a", {"flower": [python, "x.py"], "lost": [sys.executable, lost], "bare": fake("b")}, 1)
    assert [record["contender"] for record in found] == ["bare"]
    said = capsys.readouterr().err
    assert f"skipped flower: no {python}" in said
    assert f"skipped lost: no {lost}" in said


def test_nobody_present_gives_no_records(tmp_path):
    assert race.race("a", {"flower": [str(tmp_path / "python"), "x.py"]}, 1) == []


def test_peers_are_looked_for_where_the_environment_says(monkeypatch):
    monkeypatch.delenv("FEDPARITY_PEERS", raising=False)
    assert race.commands("a")["pfl"][0] == str(race.ROOT / ".venv-pfl/bin/python")
    monkeypatch.setenv("FEDPARITY_PEERS", "/tmp/peers")
    assert race.commands("a")["flower"][0] == "/tmp/peers/flower/bin/python"
    assert race.commands("e")["flower-one-pass"][-2:] == ["e", "--one-pass"]


def test_an_unknown_contender_is_refused():
    command = [sys.executable, str(TRAINING / "race.py"), "--workload", "a", "--contenders", "bear"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "unknown contender 'bear' for workload a; known: bare, fedparity, flower, pfl" in done.stderr


def test_the_table_and_json_hold_every_record(fake, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(race, "commands", lambda _: {"bare": fake("b", 1.0)})
    out = tmp_path / "records.json"
    monkeypatch.setattr(sys, "argv", ["race.py", "--workload", "a", "--rounds", "1", "--json", str(out)])
    race.main()
    assert "| a | bare | 1.00 | 2.000 s | 1.0 | 1 |" in capsys.readouterr().out
    assert [record["contender"] for record in json.loads(out.read_text())] == ["bare"]


@pytest.mark.parametrize(("rounds", "warned"), [(2, False), (4, True)])
def test_a_busy_machine_is_said_to_be(fake, monkeypatch, capsys, rounds, warned):
    monkeypatch.setattr(race, "commands", lambda _: {"bare": fake("b")})  # the spread is (rounds + 1) / 2
    monkeypatch.setattr(sys, "argv", ["race.py", "--workload", "a", "--rounds", str(rounds)])
    race.main()
    assert ("the machine was busy" in capsys.readouterr().err) == warned


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
def test_neighbours_end_with_the_race():
    before = set(race.family(os.getpid()))
    with race.neighbours(2):
        beside = set(race.family(os.getpid())) - before
        assert len(beside) == 2
    assert not beside & set(race.family(os.getpid()))
