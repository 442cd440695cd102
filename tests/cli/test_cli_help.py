"""Help pages: the same conventions for every command, and examples that parse."""

import os
import re
import shlex
import subprocess
import sys

import pytest
import typer

from fedparity.cli.main import app
from fedparity.cli.schedule import COMPARED

pytestmark = pytest.mark.filterwarnings("ignore:.*Click 9:DeprecationWarning")

ROOT = typer.main.get_command(app)


def walk(command, words=()):
    """Every command and group with the words that lead to it."""
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, (*words, name))


PAGES = [pytest.param(words, command, id=" ".join(words) or "fedparity") for words, command in walk(ROOT)]


@pytest.mark.parametrize(("words", "command"), PAGES)
def test_a_help_page_says_everything_on_one_line_each(fedparity, monkeypatch, words, command):
    code, out, err = fedparity(*words, "--help")
    assert (code, err) == (0, "")
    assert fedparity(*words, "-h") == (0, out, "")
    assert "\\[" not in out
    assert "\x1b" not in out
    monkeypatch.setenv("COLUMNS", "120")
    wide = fedparity(*words, "-h")[1]
    listed = re.findall(r"^(?:Arguments|Options):\n((?:  .*\n)+)", f"{wide}\n", flags=re.MULTILINE)
    assert not re.findall(r"^ {9,}\S.*", "".join(listed), flags=re.MULTILINE), "one line each, with the default"
    for parameter in command.params:
        assert parameter.help, f"{parameter.name} is not explained"
        name = parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar.strip("[].")
        line = next(line for line in wide.splitlines() if re.match(rf"  \[?{name}\b", line))
        assert parameter.help in line, f"{parameter.name} takes more than one line"
    # A bracket in the words of an option would be taken for a default of its own.
    assert not [p.name for p in command.params if re.search(r"  \[", p.help)]


@pytest.mark.parametrize(("words", "command"), PAGES)
def test_a_list_of_commands_breaks_no_sentence_off(fedparity, words, command):
    out = " ".join(fedparity(*words, "-h")[1].split())
    for name, inner in getattr(command, "commands", {}).items():
        first = " ".join(inner.help.partition("\n\n")[0].split())
        assert f"{name} {first}" in out


def test_the_help_of_schedule_names_what_all_is(fedparity):
    """It is not every scheduler: some know the future, some need what a simulation without training has not."""
    out = " ".join(fedparity("schedule", "-h")[1].split())
    assert f"`all` is those aimed at equal shares, and the paper's rule: {', '.join(COMPARED)}." in out


@pytest.mark.parametrize(("words", "command"), PAGES)
def test_every_command_shows_examples_that_parse(fedparity, words, command):
    assert command.examples
    out = fedparity(*words, "-h")[1]
    for example in command.examples:
        assert example.startswith(" ".join(("fedparity", *words)))
        assert f"\n  {example}\n" in out
        for one in re.split(r" && | > ", example):
            if one.startswith("fedparity "):
                parse(shlex.split(one)[1:])


def parse(words):
    """As click reads a line, without running it."""
    command, name = ROOT, "fedparity"
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    command.make_context(name, words).close()


def test_defaults_are_shown_where_they_are_real_and_told_where_they_depend(fedparity, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    out = fedparity("schedule", "-h")[1]
    assert re.search(r"--cohort INTEGER .*\[default: 10\]", out)
    assert re.search(r"--clients INTEGER .*\[default: \(100, or the trace's\)\]", out)
    assert "Override a spec key: key=value. Repeatable." in fedparity("run", "-h")[1]


# --- as a process


def started(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "fedparity", *words],
        env=os.environ | {"COLUMNS": "80"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_package_is_a_command():
    done = started("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("fedparity ")
    assert started("-h").stdout.startswith("Usage: fedparity ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell):
    """Where the shell is not found by looking at the parent process, it is named."""
    done = started("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "_FEDPARITY_COMPLETE" in done.stdout


def completed(*words):
    at = str(len(words) - 1)
    environment = {"_FEDPARITY_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": at}
    return started(**environment).stdout.split()


def test_completion_knows_commands_and_options():
    assert completed("fedparity", "sch") == ["schedule"]
    assert completed("fedparity", "trace", "im") == ["import"]
    assert completed("fedparity", "schedule", "--drop") == ["--dropout", "--drop-open-end"]


def test_completion_knows_names_also_after_a_comma():
    assert completed("fedparity", "schedule", "--scheduler", "par") == ["parity", "parity_deployment"]
    assert completed("fedparity", "schedule", "--availability", "ph") == ["phones"]
    assert completed("fedparity", "compare", "--methods", "uniform,fedaw") == ["uniform,fedawe"]
    assert completed("fedparity", "attack", "--attack", "sl") == ["sleep"]
    assert completed("fedparity", "list", "att") == ["attacks"]
    assert completed("fedparity", "list", "weightings", "qf") == ["qfair"]
