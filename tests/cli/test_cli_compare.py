"""`fedparity compare`: what it prints and leaves behind, how it refuses, stops and goes on."""

import csv
import json
import os
import signal
import subprocess
import sys

import pytest

from fedparity.experiment.compare import COMPARED
from fedparity.store.manifest import COMPARISON

pytestmark = pytest.mark.filterwarnings("ignore:.*Click 9:DeprecationWarning")

SMALL = (
    *("--set", "data.set=logistic", "--set", "population.clients=8", "--set", "cohort=2", "--rounds", "4"),
    *("--seeds", "2", "--set", "population.availability=bernoulli:low=.3"),
)
METHODS = ("--methods", "uniform,inverse,parity")
STAT = {"mean", "sd", "n", "difference", "low", "high", "rank", "pairs", "wins", "ties", "losses"}
STAT |= {"p", "p_holm", "told_apart"}
COST = {"asked", "updates", "parameters", "megabytes", "server_words", "client_words", "local_steps", "seconds"}


def test_methods_are_run_and_compared(fedparity, tmp_path):
    code, out, _ = fedparity("compare", *METHODS, *SMALL)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "8 clients (bernoulli:low=.3), 4 rounds, 2 asked per round, 2 seeds on one trace"
    assert max(len(line) for line in lines if not line.startswith("Files: ")) <= 80
    assert any(line.startswith("minus uniform") for line in lines)
    assert "Differences to uniform over 2 paired seeds: paired t intervals, 95 %." in out.replace("\n", " ")
    assert "Fairest by avoidable Gini: " in out
    assert "most accurate: " in " ".join(lines)
    assert "\x1b" not in out
    folder = tmp_path / "runs" / "compare"
    assert {*COMPARISON, "run.db", "report.html", "spec.toml"} <= {p.name for p in folder.iterdir()}
    assert fedparity("verify", folder)[0] == 0  # the comparison is part of the folder


def test_json_alone_on_stdout_with_every_key(fedparity, tmp_path):
    code, out, _ = fedparity("compare", *METHODS, *SMALL, "--json", "--reference", "parity", "--out", "o")
    assert code == 0
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert list(found) == [
        *("rounds", "seeds", "clients", "cohort", "availability", "reference"),
        *("normaliser", "metrics", "cost", "note", "outcome", "files", "erased"),
    ]
    assert (found["rounds"], found["seeds"], found["clients"], found["cohort"]) == (4, 2, 8, 2)
    assert found["reference"] == "parity"
    assert list(found["metrics"]) == list(COMPARED)
    for metric in found["metrics"].values():
        assert list(metric) == ["uniform", "inverse", "parity"]
        assert all(set(stat) == STAT for stat in metric.values())
    assert all(set(cost) == COST for cost in found["cost"].values())
    assert found["files"] == [f"o/{name}" for name in COMPARISON]
    assert all((tmp_path / name).is_file() for name in found["files"])
    assert found == json.loads((tmp_path / "o" / "comparison.json").read_text(encoding="utf-8"))

    again = json.loads(fedparity("compare", "o", "--format", "json", "--reference", "parity")[1])
    assert {k: v for k, v in again.items() if k != "files"} == {k: v for k, v in found.items() if k != "files"}
    assert again["files"] == [f"runs/comparison/{name}" for name in COMPARISON]


def test_other_formats_are_the_files(fedparity, tmp_path):
    assert fedparity("compare", *METHODS, *SMALL, "--out", "o", "--json")[0] == 0
    for form, name in (("csv", "comparison.csv"), ("latex", "comparison.tex")):
        code, out, err = fedparity("compare", "o", "--format", form)
        assert (code, err) == (0, "")
        assert out == (tmp_path / "runs" / "comparison" / name).read_text(encoding="utf-8")
        assert out == (tmp_path / "o" / name).read_text(encoding="utf-8")
    with (tmp_path / "o" / "comparison.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * (len(COMPARED) + len(COST))


def test_beta_adds_contenders_on_a_line(fedparity, tmp_path):
    code, out, _ = fedparity("compare", "--methods", "uniform", "--beta", "0,.5,1", *SMALL, "--json", "--out", "o")
    assert code == 0
    names = ["uniform", "parity_beta0", "parity_beta0.5", "parity_beta1"]
    assert list(json.loads(out)["cost"]) == names
    drawn = (tmp_path / "o" / "tradeoff.svg").read_text(encoding="utf-8")
    assert 'class="curve"' in drawn
    assert ">β=0.5<" in drawn


def test_a_spec_s_own_methods_and_settings(fedparity, tmp_path):
    (tmp_path / "s.toml").write_text(
        'version = 2\nrounds = 3\nseeds = 2\ncohort = 2\n[population]\nclients = 6\navailability = "always"\n'
        '[data]\nset = "quadratic"\n[[methods]]\nname = "mine"\nscheduler = "round_robin"\n',
        encoding="utf-8",
    )
    code, out, _ = fedparity("compare", "--spec", "s.toml", "--methods", "uniform,mine", "--json", "--out", "a")
    assert code == 0
    found = json.loads(out)
    assert (found["rounds"], found["seeds"], list(found["cost"])) == (3, 2, ["uniform", "mine"])
    assert found["files"] == [f"a/{name}" for name in COMPARISON if name != "tradeoff.svg"]  # no accuracy, no picture
    found = json.loads(fedparity("compare", "--spec", "s.toml", "--rounds", 2, "--json", "--out", "b")[1])
    assert (found["rounds"], found["reference"], list(found["cost"])) == (2, "mine", ["mine"])
    assert "--rounds: key 'rounds' is -1" in fedparity("compare", "--spec", "s.toml", "--rounds", -1)[2]
    code, out, _ = fedparity("compare", "--spec", "s.toml", "--methods", "all", "--json", "--out", "c")
    assert list(json.loads(out)["cost"])[-1] == "mine"


BAD = {
    "nothing": ((), "nothing to compare; give folders of runs, --methods a,b,c or --spec FILE"),
    "settings": (("--methods", "parity:target=.5"), "a method has no settings, its parts have: in a spec, {name ="),
    "method": (("--methods", "parit"), "unknown method 'parit'; did you mean 'parity'?"),
    "no method": (("--methods", " , "), "--methods names none; give a,b,c or all"),
    "twice": (("--methods", "parity,parity"), "'parity' is listed twice"),
    "reference": (("--methods", "parity", "--reference", "x"), "unknown reference method 'x'"),
    "beta": (("--methods", "parity", "--beta", "0,much"), "--beta 'much' must be a number between 0 and 4"),
    "NaN": (("--methods", "parity", "--beta", "nan"), "--beta 'nan' must be a number between 0 and 4"),
    "no beta": (("--methods", "parity", "--beta", ","), "--beta names none"),
    "set": (("--methods", "parity", "--set", "rouns=3"), "--set: unknown key 'rouns'; did you mean 'rounds'?"),
    "rounds": (("--methods", "parity", "--rounds", "0"), "--rounds: key 'rounds' is 0"),
    "rounds set": (("--methods", "parity", "--set", "rounds=0"), "--set: key 'rounds' is 0"),
    "workers": (("--methods", "parity", "--workers", "0"), "--workers: key 'execution.workers' is 0"),
    "no spec": (("--spec", "gone.toml"), "gone.toml: no such file"),
    "no run": (("gone",), "gone: no run here"),
    "run and methods": (("gone", "--methods", "parity"), "--methods is for runs to be made, but gone is there already"),
    "run and resume": (("gone", "--resume"), "--resume is for runs to be made"),
    "two formats": (("gone", "--json", "--format", "csv"), "--json and --format csv exclude each other"),
    "format": (("gone", "--format", "xml"), "'xml' is not one of"),
    "folder": (("--methods", "parity", "--out", "full"), "full is there but is not a run; give another --out"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_exit_code_2(fedparity, tmp_path, name):
    words, says = BAD[name]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine", encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = (
        fedparity("compare", *words, "--set", "data.set=quadratic")
        if "gone" not in words
        else (fedparity("compare", *words))
    )
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("fedparity: ")
    assert says in err
    assert sorted(tmp_path.rglob("*")) == before


def test_runs_that_cannot_be_paired_and_folders_that_are_runs(fedparity):
    small = ("--methods", "parity", *SMALL, "--json")
    assert fedparity("compare", *small, "--out", "a")[0] == 0
    assert fedparity("compare", *small, "--out", "b", "--set", "seed=5")[0] == 0
    code, out, err = fedparity("compare", "a", "b")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "a and b cannot be paired: seed is 0 in the one and 5 in the other; run both with the same" in err
    code, _, err = fedparity("compare", "a", "--out", "b")
    assert (code, err) == (2, "fedparity: b holds a run, whose files are sealed; give another --out\n")


def test_a_second_comparison_needs_overwrite_or_resume(fedparity, tmp_path):
    words = ("compare", *METHODS, *SMALL, "--json", "--out", "o")
    first = json.loads(fedparity(*words)[1])
    code, _, err = fedparity(*words)
    assert code == 2
    assert "already holds a run" in err
    again = json.loads(fedparity(*words, "--resume")[1])
    assert again == first  # nothing was run again, so even the seconds are the same
    assert fedparity("verify", "o")[0] == 0
    (tmp_path / "o" / "comparison.tex").write_text("edited", encoding="utf-8")
    code, _, err = fedparity(*words, "--resume")
    assert code == 0
    assert "comparison.tex: differs from what was written" in err
    assert (tmp_path / "o" / "comparison.tex").read_text(encoding="utf-8").startswith("% needs")


def test_a_plain_run_leaves_no_stale_comparison(fedparity, tmp_path):
    assert fedparity("compare", *METHODS, *SMALL, "--json", "--out", "o")[0] == 0
    assert fedparity("run", "o/spec.toml", "--out", "o", "--overwrite", "--json")[0] == 0
    assert not [name for name in COMPARISON if (tmp_path / "o" / name).exists()]


def test_an_interrupted_comparison_goes_on_to_the_same_numbers(fedparity, tmp_path):
    words = ["compare", *METHODS, *SMALL, "--rounds", "60", "--out", "o", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from fedparity.cli.main import main; main()", *words],
        cwd=tmp_path,
        env=os.environ | {"COLUMNS": "80", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out) == (130, "")
    told = err.splitlines()[-1]
    assert told == "Stopped early. Go on with: fedparity compare --spec o/spec.toml --out o --resume"
    assert not (tmp_path / "o" / "comparison.csv").exists()
    assert "is not finished" in fedparity("compare", "o")[2]

    code, out, _ = fedparity(*told.partition("fedparity ")[2].split(), "--json")
    assert code == 0
    resumed = json.loads(out)
    whole = json.loads(fedparity(*words[:-3], "--out", "w", "--json")[1])
    assert resumed["metrics"] == whole["metrics"]
    assert (tmp_path / "o" / "comparison.tex").read_bytes() == (tmp_path / "w" / "comparison.tex").read_bytes()
    assert (tmp_path / "o" / "tradeoff.svg").read_bytes() == (tmp_path / "w" / "tradeoff.svg").read_bytes()
