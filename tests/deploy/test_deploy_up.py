"""`deploy up` with programs that stand in for Flower's: its order, its errors, and that nobody is left behind."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest

pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedparity[flower]')")

from fedparity import ConfigError, RoundError
from fedparity.cli.main import main
from fedparity.deploy import Up, keys, write_app
from fedparity.deploy.cluster import Cluster
from fedparity.deploy.flower import OFF, environment

pytestmark = [
    pytest.mark.skipif(not (shutil.which("openssl") and shutil.which("ssh-keygen")), reason="no openssl or ssh-keygen"),
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc"),
]
FAKES = {
    "flower-superlink": """
import os, socket, sys, time
if os.environ.get("FAKE") == "superlink dies":
    sys.exit("no such key")
listening = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
os.spawnlp(os.P_NOWAIT, "setsid", "setsid", "sleep", "1000")  # as Flower does
time.sleep(1000)
""",
    "flower-supernode": """
import os, sys, time
if os.environ.get("FAKE") == "clients die":
    sys.exit("305: not registered")
time.sleep(1000)
""",
    "flwr": """
import json, os, re, sys, time
if sys.argv[1] == "supernode":
    sys.exit("already enrolled" if os.environ.get("FAKE") == "enrolment fails" else 0)
said = sys.argv[sys.argv.index("--run-config") + 1]
path, rounds = re.search('rounds-file="(.*?)"', said)[1], int(re.search(r"rounds=(\\d+)", said)[1])
rounds = 1 if os.environ.get("FAKE") == "run ends early" else rounds
with open(path, "a") as file:
    for r in range(rounds):
        lists = dict.fromkeys(("busy", "failed", "timed_out", "late"), [])
        names = ["client-0", "client-1"]
        line = {"round": r, "available": names, "selected": names, "completed": names, **lists, "seconds": 1.5}
        file.write(json.dumps(line) + "\\n")
if os.environ.get("FAKE") == "run goes on":
    time.sleep(1000)
print("the run is over")
""",
}


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    folder = tmp_path_factory.mktemp("up") / "app"
    write_app(folder)
    keys.make(folder, 2)
    return folder


@pytest.fixture
def fakes(tmp_path, monkeypatch):
    """Programs in place of Flower's, and a mark on every process by which it is found."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, code in FAKES.items():
        (folder / name).write_text(f"#!{sys.executable} -S\n{code}")
        (folder / name).chmod(0o755)
    for module in ("up", "cluster", "flower"):
        monkeypatch.setattr(f"fedparity.deploy.{module}.programs", lambda: folder)
    monkeypatch.setenv("FEDPARITY_MARK", str(tmp_path))
    return tmp_path


def marked(mark):
    """Processes, beside this one, that carry the mark in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"FEDPARITY_MARK={mark}".encode() in entry.read_bytes() and int(entry.parent.name) != os.getpid():
                found.append(int(entry.parent.name))
    return found


def until(condition):
    end = time.monotonic() + 300
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return found


def test_a_whole_run(app, fakes):
    said = []
    folder, rounds = Up(app, 2, 3, say=said.append).run()
    assert [one["round"] for one in rounds] == [0, 1, 2]
    assert [line.split("  ")[0] for line in said if line.startswith("round")] == ["round 0", "round 1", "round 2"]
    assert folder.parent == app / "runs"
    pids = json.loads((folder / "pids.json").read_text())
    assert set(pids) == {"keeper", "superlink", "register-0", "register-1", "client-0", "client-1", "run"}
    assert marked(fakes) == []
    again, _ = Up(app, 2, 1).run()
    assert int(again.name) == int(folder.name) + 1


@pytest.mark.usefixtures("fakes")
def test_the_command_ends_with_a_table_and_a_report(app, capsys):
    words = ["fedparity", "deploy", "up", str(app), "--clients", "2", "--rounds", "2"]
    with mock.patch.object(sys, "argv", words), pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert ended.value.code == 0
    *_, head, first, second, report = said.out.splitlines()
    assert head.split() == ["client", "online", "asked", "answered", "failed", "late"]
    assert (first.split(), second.split()) == (["client-0", *"22200"], ["client-1", *"22200"])
    assert Path(report.removeprefix("Report: ")).read_text().startswith("<!DOCTYPE html>")
    with mock.patch.object(sys, "argv", [*words, "--json"]), pytest.raises(SystemExit):
        main()
    said = capsys.readouterr()
    assert len(json.loads(said.out)["rounds"]) == 2
    assert "round 1" in said.err


@pytest.mark.parametrize(
    ("fake", "told"),
    [
        ("superlink dies", "superlink ended with code 1: no such key .*; go on after the last committed round with: "),
        ("enrolment fails", "register-. ended with code 1: already enrolled"),
        ("clients die", "no client is left, client-0 ended with code 1: 305: not registered .*; go on after"),
        ("run ends early", "the run ended after 1 of 3 rounds: the run is over"),
    ],
)
def test_what_goes_wrong_is_one_line_and_nobody_is_left(app, fakes, monkeypatch, fake, told):
    monkeypatch.setenv("FAKE", fake)
    if fake == "clients die":  # while the run would go on
        flwr = fakes / "bin" / "flwr"
        flwr.write_text(flwr.read_text().replace('"run goes on"', '"clients die"'))
    with pytest.raises(RoundError, match=told):
        Up(app, 2, 3).run()
    assert marked(fakes) == []


def test_a_superlink_that_vanishes_is_one_line_with_the_command_that_goes_on(app, fakes, monkeypatch):
    """What it had said last, such as that a connection is tried again, is not why it ended."""
    monkeypatch.setenv("FAKE", "run goes on")
    folder = fakes / "a run"

    def say(line):
        if line.startswith("round 2"):
            os.kill(json.loads((folder / "pids.json").read_text())["superlink"], signal.SIGKILL)

    with pytest.raises(RoundError) as raised:
        Up(app, 2, 3, cohort=1, out=folder, say=say).run()
    said, _, command = str(raised.value).partition("; go on after the last committed round with: ")
    assert said == "superlink was killed by signal 9"
    words = f"fedparity deploy up {app} --clients=2 --rounds=3 --cohort=1"
    assert command == f"{words} '--out={folder}'"
    assert marked(fakes) == []


@pytest.mark.usefixtures("fakes")
def test_an_exit_code_of_its_own_when_it_ended_early(app, monkeypatch, capsys):
    monkeypatch.setenv("FAKE", "run ends early")
    with (
        mock.patch.object(sys, "argv", ["fedparity", "deploy", "up", str(app), "--clients", "2", "--rounds", "2"]),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert ended.value.code == 3
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_bad_input_is_refused_before_anything_is_started(app, fakes, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(ConfigError, match=r"port \d+ cannot be used .*; give another --port"):
            Up(app, 2, port=taken.getsockname()[1]).run()
        with pytest.raises(ConfigError, match=r"port \d+ cannot be used .*; give another"):
            Up(app, 2, metrics_port=taken.getsockname()[1]).run()
    for wrong in ({"clients": 0}, {"rounds": 0}, {"cohort": 0}, {"cohort": 4}, {"port": 0}, {"port": 70000}):
        with pytest.raises(ConfigError):
            Up(app, **{"clients": 2, **wrong}).run()
    (tmp_path / "no app").mkdir()
    with pytest.raises(ConfigError, match="holds no app"):
        Up(tmp_path / "no app").run()
    broken = shutil.copytree(app, tmp_path / "broken")
    shutil.copy(broken / "keys" / "ca.pem", broken / "keys" / "server.pem")
    with pytest.raises(ConfigError, match=r"certificate: server\.pem is not good for 127\.0\.0\.1"):
        Up(broken, 2).run()
    assert marked(fakes) == []


@pytest.mark.usefixtures("fakes")
def test_tools_that_are_missing_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="openssl is not installed, which makes keys; install the package openssl"):
        Up(tmp_path / "new", 2).run()


def test_another_version_of_flower(tmp_path):
    with (
        mock.patch("importlib.metadata.version", return_value="1.38.0"),
        pytest.raises(ConfigError, match=r"Flower 1\.38\.0 is installed, but 1\.41 or 1\.42 is needed; pip install"),
    ):
        Up(tmp_path / "new").run()
    assert not (tmp_path / "new").exists()


def test_everything_is_switched_off(tmp_path):
    assert OFF.items() <= environment(tmp_path).items()


UP = """
import sys
from pathlib import Path
import fedparity.deploy.up as up, fedparity.deploy.cluster as cluster, fedparity.deploy.flower as flower
fakes = Path(sys.argv[2])
for module in (up, cluster, flower):
    module.programs = lambda: fakes
from fedparity.cli.main import main
sys.argv = ["fedparity", "deploy", "up", sys.argv[1], "--clients", "2", "--rounds", "2", "--out", sys.argv[3]]
main()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nobody_is_left_when_it_is_killed(app, fakes, monkeypatch, how):
    monkeypatch.setenv("FAKE", "run goes on")
    process = subprocess.Popen(
        [sys.executable, "-c", UP, app, fakes / "bin", fakes / "run"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert any(line.startswith("round 1") for line in process.stdout), process.stderr.read()
    assert len(marked(fakes)) == 7  # itself, keeper, SuperLink and what it detached, two SuperNodes, the run
    process.send_signal(how)
    said = process.stderr.read()
    process.stdout.close()
    process.stderr.close()
    process.wait()
    until(lambda: marked(fakes) == [])
    assert process.returncode == (130 if how is signal.SIGINT else -how)
    assert said == ""


def test_nobody_is_left_when_the_keeper_is_killed(fakes):
    with Cluster(fakes / "run") as cluster:
        cluster.start("a", ["/bin/sleep", "1000"])
        until(lambda: list(cluster.ended()) or "a" in cluster.pids)
        os.kill(cluster.pids["keeper"], signal.SIGKILL)
        with pytest.raises(RoundError, match="keeps the others was killed"):
            until(lambda: list(cluster.ended()))
        until(lambda: marked(fakes) == [])
        with pytest.raises(RoundError, match="keeps the others was killed"):
            cluster.start("b", ["/bin/sleep", "1000"])


def test_a_program_that_cannot_be_started_or_will_not_end(fakes):
    with Cluster(fakes / "run") as cluster, mock.patch("fedparity.deploy.cluster.POLL", 0.05):
        cluster.start("none", ["no such program"])
        until(lambda: list(cluster.ended()) == [("none", 127)])
        assert "No such file" in cluster.last_words("none")
        cluster.start("stubborn", ["/bin/sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1000; done"])
        until(lambda: list(cluster.ended()) or "deaf" in cluster.last_words("stubborn"))
    assert marked(fakes) == []


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("", "it said nothing"),
        ("\x1b[92mINFO \x1b[0m:  begun\n\n ---\n", "INFO :  begun"),
        (
            "Traceback:\na.b.ConfigError: no such x; give y\nERROR: Exit Code: 201\nFor more information, visit: <u>",
            "no such x",
        ),
        (
            "\x1b[91mERROR \x1b[0m:     ConfigError: no such z; give y\n\x1b[91mERROR \x1b[0m: Exit Code: 201\n",
            "no such z",
        ),
        ("Exit Code: 305\nNot registered.\n\nFor more information, visit: <u>", "Not registered."),
    ],
)
def test_why_a_program_ended_is_found_in_what_it_printed(tmp_path, log, why):
    cluster = Cluster(tmp_path)
    cluster.log("a").write_text(log)
    assert cluster.last_words("a").startswith(why)
