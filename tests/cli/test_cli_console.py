"""What all commands share: lists, escaping, the bar on a terminal, colours."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest

from fedparity.cli.console import Bar, printable, show_table, split_list
from fedparity.cli.schedule import COMPARED

pytestmark = pytest.mark.filterwarnings("ignore:.*Click 9:DeprecationWarning")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        (" , ", []),
        ("a", ["a"]),
        ("a, b ,c", ["a", "b", "c"]),
        ("a:x=1,y=2", ["a:x=1,y=2"]),
        ("a:x=1,y=2,b,c:z=3", ["a:x=1,y=2", "b", "c:z=3"]),
        ("a,b:x=c:d,y=e", ["a", "b:x=c:d,y=e"]),
        ("own.module:Rule,own.module:Rule:k=2,l=3", ["own.module:Rule", "own.module:Rule:k=2,l=3"]),
        ("a:x", ["a:x"]),
        ("x=1", ["x=1"]),
        ("0,.25,1", ["0", ".25", "1"]),
    ],
)
def test_a_list_is_split_where_a_name_begins(text, parts):
    assert split_list(text) == parts


def test_schedule_takes_a_list_and_all(fedparity):
    small = ("schedule", "--clients", 12, "--rounds", 4, "--cohort", 3, "--draws", 1, "--json")
    words = ("--scheduler", "uniform,reactive:lam=.5,draw=top,parity", "--scheduler", "inverse")
    found = json.loads(fedparity(*small, *words)[1])
    assert [entry["scheduler"] for entry in found] == ["uniform", "reactive:lam=.5,draw=top", "parity", "inverse"]
    found = json.loads(fedparity(*small, "--scheduler", "all,oldest_first")[1])
    assert [entry["scheduler"] for entry in found] == [*COMPARED, "oldest_first"]


def test_what_comes_from_files_cannot_move_the_cursor(capsys):
    assert printable("a\x1b[31mb\r\nc\u202e") == "a?[31mb??c?"
    show_table(("\x1bname", "[bold]n[/bold]"), [("[red]x\x1b[0m", "1")])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[red]x?[0m" in out
    assert "[bold]n[/bold]" in out


def test_the_bar_is_silent_without_a_terminal(capsys):
    with Bar() as bar:
        bar.tell("npm pack \x1b[31mx", 0, 0)
        bar.tell("decoding", 1, 6)
        bar.say("a line")
    assert capsys.readouterr() == ("a line\n", "")


CODE = """
import time
from fedparity.cli.console import Bar
with Bar() as bar:
    for seed in range(2):
        for t in range(3):
            bar.tell("computing features", t, 2)
        for t in range(1, 4):
            bar.tell("rounds", 3 * seed + t, 6, f"seed {seed + 1}/2")
            time.sleep(.15)
            bar.say(f"round {t}")
"""


def on_a_terminal(*command, **environment):
    """What a process writes to a terminal that is its stdout and stderr."""
    ours, theirs = pty.openpty()
    variables = {"COLUMNS": "100", "LINES": "30", "TERM": "xterm-256color", **environment}
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, *command], stdout=theirs, stderr=theirs, stdin=theirs, env=kept | variables
    )
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 65536):
            written += chunk
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)
        assert process.wait() == 0
    return written.decode()


COLOUR = re.compile(r"\x1b\[[\d;]*\b(?:3\d|4\d|9\d)(?:;[\d;]*)?m")


def test_the_bar_on_a_terminal_shows_each_step_with_the_time_left():
    seen = on_a_terminal("-c", CODE)
    plain = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", seen)
    assert re.search(r"rounds seed 2/2 +.+ 6/6 +ETA +0:00:00", plain)
    assert re.search(r"rounds seed 1/2 +.+ 3/6 +ETA +\d:\d\d:\d\d", plain)
    assert plain.count("round 3\r\n") == 2
    assert COLOUR.search(seen)


def test_no_color_is_honoured():
    words = ("-m", "fedparity", "schedule", "--clients", "12", "--rounds", "3", "--cohort", "2", "--scheduler", "all")
    assert COLOUR.search(on_a_terminal(*words))
    seen = on_a_terminal(*words, NO_COLOR="1")
    assert not COLOUR.search(seen)
    assert re.search(r"rounds \w+ ━", seen)
    assert "Fairest by avoidable Gini" in seen


def test_a_model_that_does_not_fit_into_memory_is_one_line(fedparity, monkeypatch):
    """PyTorch says so with a RuntimeError."""

    def build(**_):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried")

    monkeypatch.setattr("fedparity.cli.main.app", build)
    says = "not enough memory; take fewer clients, rounds or --workers, or a smaller model or training.batch"
    assert fedparity("run", "big.toml") == (2, "", f"fedparity: {says}\n")


@pytest.mark.parametrize(
    "words",
    [
        ("audit", "log.csv", "--csv", "log.csv"),
        ("audit", "log.csv", "--clients", "all.csv", "--html", "./all.csv"),
        ("trace", "import", "visits.csv", "--out", "visits.csv"),
        ("trace", "synth", "visits.csv", "--out", "visits.csv"),
    ],
)
def test_what_is_read_is_not_written_over(fedparity, tmp_path, words):
    """A log may be the only copy of what happened."""
    texts = {
        "log.csv": "round,client\n0,a\n1,b\n",
        "all.csv": "client\na\nb\n",
        "visits.csv": "client,start_s,end_s\na,0,9\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    code, out, err = fedparity(*words)
    assert (code, out) == (2, "")
    assert err == f"fedparity: {words[-1].removeprefix('./')} is read here, and would be replaced; give another file\n"
    assert {name: (tmp_path / name).read_text() for name in texts} == texts
