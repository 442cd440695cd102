"""init, run and demo: what they print, what they leave behind, and how they end; as processes where signals do it."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter

import pytest

from commands import command as fedparity
from fedparity.cli.show import BESIDE, RUN_COLUMNS
from fedparity.core.errors import OutputError
from fedparity.experiment.results import FILES
from fedparity.experiment.spec_file import parse
from fedparity.experiment.starters import read_starter
from fedparity.metrics import printed
from fedparity.metrics.measures import heading
from fedparity.store import Store
from stored_runs import run_into, spec_of

START = [sys.executable, "-c", "from fedparity.cli.main import main; main()"]
ENVIRONMENT = os.environ | {"COLUMNS": "80", "PYTHONUNBUFFERED": "1"}
ONE = 'version = 2\n[[methods]]\nname = "parity"\n'
SPEC = """\
version = 2
name = "small"
rounds = 10
cohort = 3
[population]
clients = 12
availability = "bernoulli:low=.1,high=.8"
[data]
set = "logistic"
[[methods]]
name = "uniform"
[[methods]]
name = "parity"
[[methods]]
name = "a_rather_long_name_for_a_method_that_takes_sixty_four_characters"
scheduler = "least_served"
"""
EVERY_FILE = sorted([*FILES, "report.html"])
"""What people read; beside it stands the store (run.db and what belongs to it)."""


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


def holds_results(folder):
    return set(EVERY_FILE) <= set(listing(folder)) and not [name for name in listing(folder) if name.startswith(".")]


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SPEC, encoding="utf-8")
    return path


# --- init


def test_init_writes_a_spec_that_runs_and_never_over_one(tmp_path):
    done = fedparity("init", "first.toml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Wrote first.toml. Next: fedparity run first.toml\n"
    text = (tmp_path / "first.toml").read_text(encoding="utf-8")

    again = fedparity("init", "first.toml", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr == "fedparity: first.toml is already there; give another name or remove it\n"
    assert (tmp_path / "first.toml").read_text(encoding="utf-8") == text

    small = ("--set", "rounds=3", "--set", "data.set=logistic")
    ran = fedparity("run", "first.toml", *small, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert holds_results(tmp_path / "runs" / "first")
    kept = (tmp_path / "runs" / "first" / "spec.toml").read_text(encoding="utf-8")
    assert "rounds = 3\n" in kept


# --- run


def test_run_shows_progress_a_table_an_outcome_and_the_report(tmp_path, spec):
    done = fedparity("run", spec.name, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "12 clients (bernoulli:low=.1,high=.8), 10 rounds, 3 asked per round, 1 seed"
    assert lines[1].split() == ["method", *" ".join(heading(key, narrow=True) for key in RUN_COLUMNS).split()]
    assert RUN_COLUMNS[:2] == ("late_accuracy", "late_worst_accuracy")
    assert {"never_served", "gini_avoidable", "gini", "gini_limit"} <= set(RUN_COLUMNS)
    assert [line.split()[0] for line in lines[2:4]] == ["uniform", "parity"]
    assert max(map(len, lines)) <= 80
    assert "could not be avoided" in done.stdout.replace("\n", " ")
    assert lines[-1] == f"Report: {os.path.join('out', 'report.html')}"  # noqa: PTH118
    assert done.stderr.splitlines() == [f"round {t}/10 done by all methods" for t in range(1, 11)]
    assert "\x1b" not in done.stdout + done.stderr

    assert holds_results(tmp_path / "out")
    assert (tmp_path / "out" / "spec.toml").read_text(encoding="utf-8") == SPEC
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "uniform" in page

    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    for line, entry in zip(lines[2:4], summary["methods"], strict=False):
        assert line.split() == [entry["method"], *" ".join(printed(key, entry[key]) for key in RUN_COLUMNS).split()]
    best = min(summary["methods"], key=lambda entry: entry["gini_avoidable"])["method"]
    assert f"Fairest by avoidable Gini: {best}" in " ".join(lines)


def test_json_stands_alone_on_stdout_and_is_the_summary(tmp_path, spec):
    done = fedparity("run", spec.name, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    folder = tmp_path / found.pop("folder")
    assert tmp_path / found.pop("report") == folder / "report.html"
    assert (folder / "report.html").is_file()
    assert found == json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert found["complete"] is True


def test_one_method_prints_a_line_a_round_and_is_not_called_the_fairest(tmp_path, spec):
    small = ("--set", 'methods=[{name="parity"}]', "--set", "seeds=2", "--set", "rounds=4")
    done = fedparity("run", spec.name, *small, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    rounds = [line for line in done.stdout.splitlines() if line.startswith("seed ")]
    expected = [f"seed {seed}/2, round {t}/4" for seed in (1, 2) for t in (1, 2, 3, 4)]
    assert [line.partition("  ")[0] for line in rounds] == expected, "a spec with 4 rounds has no round 8"
    assert all(
        re.fullmatch(r"seed \d/2, round \d/4  online \d+  asked \d  accuracy 0\.\d{3}  gap \d\.\d{3}", r)
        for r in rounds
    )
    assert "Fairest" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "2 seeds" in done.stdout

    quiet = fedparity("run", spec.name, *small, "--json", "--overwrite", cwd=tmp_path)
    assert quiet.returncode == 0
    assert json.loads(quiet.stdout)["seeds"] == 2


def test_what_failed_and_what_surrogates_credited_stand_in_a_table_of_their_own(tmp_path, spec):
    """The first table counts requests; who was asked in vain was asked."""
    small = ("--set", "seeds=2", "--set", "rounds=5", "--set", "methods=[{name='uniform'},{name='parity_surrogate'}]")
    done = fedparity("run", spec.name, *small, "--set", "population.dropout=0.3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    heads = [line.split() for line in lines if line.startswith("method ")]
    assert heads[1] == ["method", "gap", "gap", "done", "Gini", "Gini", "done", "V(u/pi)", "V(u/pi)+"]
    rows = [line.split() for line in lines if line.startswith("parity_surrogate ")]
    summary = json.loads((tmp_path / "runs" / "small" / "summary.json").read_text(encoding="utf-8"))["methods"][1]
    assert rows[1][1:] == [printed(key, summary[key]) for pair in BESIDE for key in pair]
    assert "done: of the updates that arrived and were used." in done.stdout
    assert [line.partition(" done by")[0] for line in done.stderr.splitlines()[4:6]] == [
        "seed 1/2, round 5/5",
        "seed 2/2, round 1/5",
    ]

    nobody_fails = ("--set", "methods=[{name='uniform'},{name='parity'}]", "--overwrite", "--set", "rounds=5")
    done = fedparity("run", spec.name, *nobody_fails, cwd=tmp_path)
    assert "Gini done" not in done.stdout


def test_what_is_undefined_is_a_dash(tmp_path, spec):
    small = ("--set", 'methods=[{name="parity"}]', "--set", "rounds=2", "--set", "data.set=quadratic")
    done = fedparity("run", spec.name, *small, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "accuracy -  gap" in done.stdout
    assert "nan" not in done.stdout
    assert next(line for line in done.stdout.splitlines() if line.startswith("method")).split()[1] == "never"


def test_a_run_that_learnt_nothing_says_so(tmp_path, spec):
    done = fedparity(
        "run", spec.name, "--out", "out", "--set", "rounds=3", "--set", "population.dropout=1", cwd=tmp_path
    )
    assert done.returncode == 3
    assert "No update of any client was ever used." in done.stdout
    assert "Fairest" not in done.stdout
    why = "(client 0, round 0: left before the round's end)"
    assert done.stderr.splitlines()[-1] == f"Nothing was learnt: no update of any client was used {why}."
    assert holds_results(tmp_path / "out")


def test_a_second_run_into_the_same_folder_needs_overwrite(tmp_path, spec):
    words = ("run", spec.name, "--out", "out", "--set", "rounds=2", "--json")
    assert fedparity(*words, cwd=tmp_path).returncode == 0
    before = {name: (tmp_path / "out" / name).read_bytes() for name in EVERY_FILE}

    refused = fedparity(*words, "--set", "seed=1", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("fedparity: out already holds a run; ")
    assert refused.stderr.count("\n") == 1
    assert "--overwrite" in refused.stderr
    assert {name: (tmp_path / "out" / name).read_bytes() for name in EVERY_FILE} == before

    failed = fedparity(*words, "--overwrite", "--set", "population.availability=gone.csv", cwd=tmp_path)
    assert (failed.returncode, failed.stdout, failed.stderr.count("\n")) == (2, "", 1)
    assert "gone.csv: no such file" in failed.stderr
    assert {name: (tmp_path / "out" / name).read_bytes() for name in EVERY_FILE} == before

    done = fedparity(*words, "--overwrite", "--set", "seed=1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert holds_results(tmp_path / "out")
    assert (tmp_path / "out" / "summary.json").read_bytes() != before["summary.json"]


@pytest.mark.parametrize("command", [("run", "small.toml"), ("compare", "--spec", "small.toml")])
@pytest.mark.usefixtures("spec")
def test_going_on_and_replacing_exclude_each_other(tmp_path, command):
    done = fedparity(*command, "--out", "out", "--resume", "--overwrite", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "fedparity: --resume and --overwrite exclude each other; give one\n"
    assert listing(tmp_path) == ["small.toml"]


def test_a_failure_after_the_first_round_is_an_early_end(tmp_path, spec, monkeypatch):
    """What was done before is kept, and goes on."""
    commit, done = Store.commit, []

    def failing(self, *words):
        if len(done) == 4:
            raise OutputError("out: no space left")
        done.append(words)
        return commit(self, *words)

    words = ["run", spec.name, "--out", "out", "--json"]
    with monkeypatch.context() as broken:
        broken.setattr(Store, "commit", failing)
        ended = fedparity(*words, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (3, "")
    said = ended.stderr.splitlines()[-1]
    assert said == "fedparity: out: no space left (ended early; what was done is kept: run it again with --resume)"
    again = fedparity(*words, "--resume", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["complete"] is True


@pytest.mark.parametrize("at", [0, 3])
def test_a_run_whose_scheduler_is_refused_leaves_what_was_done(tmp_path, spec, at):
    (tmp_path / "brittle.py").write_text(BRITTLE, encoding="utf-8")
    words = ["run", spec.name, "--out", "out", "--set", "seeds=1", "--set"]
    words.append(f'methods=["uniform", {{name="own", scheduler="brittle:Brittle:at={at}"}}]')
    for more in ([], ["--resume"]):  # what goes on and does no round more ends early, too
        ended = fedparity(*words, *more, cwd=tmp_path)
        assert (ended.returncode, ended.stdout) == (3, "")
        said = ended.stderr.splitlines()[-1]
        assert f"round {at}: select raised KeyError: 'gone' (brittle.py, line " in said
        assert said.endswith("(ended early; what was done is kept: run it again with --resume)")
        assert holds_results(tmp_path / "out")
        told = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
        assert (told["complete"], told["rounds"]) == (False, max(1, at))  # of the methods that did any
        with (tmp_path / "out" / "metrics_log.csv").open(newline="") as file:
            assert Counter(row["method"] for row in csv.DictReader(file)) == Counter(uniform=at + 1, own=at)
    changed = fedparity(*words, "--resume", "--set", "cohort=2", cwd=tmp_path)
    assert changed.returncode == 2  # a run that cannot go on has not begun


BRITTLE = """
from dataclasses import dataclass
import numpy as np
from fedparity import Cohort, Scheduler

@dataclass(frozen=True)
class Brittle(Scheduler):
    at: int = 0

    def select(self, state, view, rng):
        if view.round == self.at:
            raise KeyError("gone")
        return Cohort(view.available[:1], np.ones(min(1, len(view.available))), "deterministic"), state
"""


@pytest.mark.parametrize("out", ["file", "file/below", "/proc/nobody/may", "full"])
def test_a_folder_that_cannot_be_used_is_one_line_before_any_round(tmp_path, spec, out):
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine", encoding="utf-8")
    done = fedparity("run", spec.name, "--out", out, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"fedparity: {out}")
    assert "another" in done.stderr
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"
    assert listing(tmp_path / "full") == ["thesis.tex"]


def test_a_byte_order_mark_is_no_part_of_a_spec(tmp_path, spec):
    spec.write_text(SPEC, encoding="utf-8-sig")
    done = fedparity("run", spec.name, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "spec.toml").read_text(encoding="utf-8") == SPEC


WRONG = {
    "broken": ("version = = 1\n", "spec.toml: not valid TOML: Invalid value (at line 1, column 11)"),
    "empty": ("", "spec.toml: key 'version' is missing; add it (version = 2)"),
    "newer": (ONE.replace("2", "3", 1), "spec.toml: key 'version' is 3: input should be 2"),
    "unknown key": ("rouns = 3\n" + ONE, "spec.toml: unknown key 'rouns'; did you mean 'rounds'?"),
    "nested key": (ONE + "[training]\nepoch = 1\n", "unknown key 'training.epoch'; did you mean 'training.epochs'?"),
    "no rounds": ("rounds = 0\n" + ONE, "spec.toml: key 'rounds' is 0: input should be greater than or equal to 1"),
    "cohort": ("cohort = 101\n" + ONE, "spec.toml: cohort=101 but population.clients=100; lower cohort to 100"),
    "method": (ONE.replace("parity", "paritee"), "methods.0: unknown method 'paritee'; did you mean 'parity'?"),
    "parameter": (ONE + 'scheduler = "parity:ratio=0"\n', "methods.0: scheduler: ratio=0.0 must be between 1 and"),
    "twice": (ONE + '[[methods]]\nname = "parity"\n', "methods: 'parity' is listed twice; give each its own name"),
    "key with a line break": ('"a\\nb" = 1\n' + ONE, "spec.toml: unknown key 'a\\nb'; known: cohort"),
    "alpha": (
        'data = {set = "quadratic"}\n' + ONE + 'scheduler = "reactive:alpha=1/2"\n',
        "alpha has 2 numbers but there are 100 clients",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_spec_is_one_line_and_exit_code_2(tmp_path, name):
    text, says = WRONG[name]
    (tmp_path / "spec.toml").write_text(text, encoding="utf-8")
    done = fedparity("run", "spec.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("fedparity: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert listing(tmp_path) == ["spec.toml"]


def test_a_missing_spec_says_how_to_get_one(tmp_path):
    done = fedparity("run", "gone.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "fedparity: gone.toml: no such file; `fedparity init gone.toml` writes a starter\n"
    assert listing(tmp_path) == []


# --- stopping


def interrupt(tmp_path, how, *, words=(), method_count=3):
    """Start a run of hours, wait for its first line, send the signal: exit code and output."""
    process = subprocess.Popen(
        [*START, "run", "small.toml", "--out", "out", "--set", "rounds=20000", *words],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        (process.stdout if method_count == 1 else process.stderr).readline()
        process.send_signal(how)
        out, err = process.communicate()
    finally:
        process.kill()
        process.communicate()
    return process.returncode, out, err


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
@pytest.mark.usefixtures("spec")
def test_a_signal_ends_the_run_after_its_round_and_keeps_what_was_done(tmp_path, how):
    code, out, err = interrupt(tmp_path, how, words=("--set", 'methods=[{name="parity"}]'), method_count=1)
    assert code == 130
    folder = tmp_path / "out"
    assert err.splitlines()[-1] == "Stopped early. Go on with: fedparity run out/spec.toml --out out --resume"
    assert "Report: out/report.html" in out
    assert holds_results(folder)

    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert summary["complete"] is False
    assert 1 <= summary["rounds"] < 20000
    with (folder / "metrics_log.csv").open(newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == summary["rounds"]
    lines = (folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["record"]["round"] for line in lines] == list(range(summary["rounds"]))
    with (folder / "clients.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert max(int(row["last_online"]) for row in rows) < summary["rounds"]


@pytest.mark.usefixtures("spec")
def test_several_methods_stop_after_the_same_round_and_json_says_so(tmp_path):
    # A line comes after each tenth of all rounds: with many short repetitions, some are whole by then.
    code, out, err = interrupt(tmp_path, signal.SIGINT, words=("--set", "rounds=20", "--set", "seeds=40", "--json"))
    assert code == 130
    found = json.loads(out)
    assert (found["complete"], found["rounds"]) == (False, 20)
    assert 4 <= found["seeds"] < 40
    assert "Stopped early" in err
    assert {len(entry["journal_sha256"]) for entry in found["methods"]} == {found["seeds"]}


# --- demo


def test_the_demo_works_twice_in_a_row(tmp_path):
    pytest.importorskip("torch")
    words = ("demo", "--set", "rounds=3", "--set", "seeds=1", "--out", "shown")
    first = fedparity(*words, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert max(map(len, first.stdout.splitlines())) <= 80
    names = [line.split()[0] for line in first.stdout.splitlines()[2:11]]
    assert names == [m.name for m in parse(read_starter("demo"), "demo").methods]
    assert "V(u/pi)" not in first.stdout, "one screen: the second table of a run is left to its report"
    assert len(first.stdout.splitlines()) <= 40
    assert "Report: shown/report.html" in first.stdout
    assert holds_results(tmp_path / "shown")
    before = {name: (tmp_path / "shown" / name).read_bytes() for name in EVERY_FILE}

    second = fedparity(*words, cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    assert second.stdout == first.stdout
    for name in set(EVERY_FILE) - {"metrics_log.csv"}:
        assert (tmp_path / "shown" / name).read_bytes() == before[name], name


def test_the_demo_never_replaces_a_run_of_another_name(tmp_path, fedparity):
    run_into(tmp_path / "mine", spec_of("name=mine", "rounds=1"))
    done = fedparity("demo", "--set", "rounds=1", "--out", "mine")
    assert done == (2, "", "fedparity: mine holds a run that is no demo; give another --out\n")


def test_the_demo_never_replaces_somebody_s_folder(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine", encoding="utf-8")
    done = fedparity("demo", "--out", ".", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "fedparity: . is there but is not a run; give another --out\n"
    assert listing(tmp_path) == ["thesis.tex"]
