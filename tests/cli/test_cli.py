"""The command line: what people script against (schedule and list)."""

import json
import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

from fedparity import AVAILABILITY, MEASURES, SCHEDULERS, Cohort, Scheduler, Trace, save_trace

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # typer uses what click has deprecated
    from fedparity.cli.schedule import COMPARED
    from fedparity.cli.show import LEADS

pytestmark = pytest.mark.filterwarnings("ignore:.*Click 9:DeprecationWarning")

SMALL = ("schedule", "--clients", "12", "--rounds", "6", "--cohort", "3", "--draws", "2")
MEANS = (
    "fill",
    "fill_limit",
    "selection_gap",
    "selection_gap_limit",
    "gini",
    "gini_limit",
    "cv_counts",
    "cv_counts_limit",
    "jain_counts",
    "cv_per_opportunity",
    "max_minus_min",
    "never_served",
    "never_available",
    "seconds_per_round",
)


def test_schedule_json(fedparity):
    code, out, err = fedparity(*SMALL, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    settings = {"scheduler": "parity", "availability": "bernoulli", "clients": 12, "rounds": 6, "cohort": 3, "draws": 2}
    assert {key: found[key] for key in settings} == settings
    for key in MEANS:
        assert isinstance(found[key], float), key
        assert found[f"{key}_sd"] >= 0, key
    assert found["seed"] == 0
    assert len(found["journal_sha256"]) == 64


def test_schedule_json_does_not_depend_on_workers(fedparity):
    one, four = (json.loads(fedparity(*SMALL, "--json", "--workers", n)[1]) for n in (1, 4))
    assert {k: v for k, v in one.items() if "seconds" not in k} == {k: v for k, v in four.items() if "seconds" not in k}


def test_several_schedulers_are_a_list(fedparity):
    _, out, _ = fedparity(*SMALL, "--json", "--scheduler", "uniform", "--scheduler", "parity:target=opportunity")
    assert [entry["scheduler"] for entry in json.loads(out)] == ["uniform", "parity:target=opportunity"]
    _, out, _ = fedparity(*SMALL, "--json", "--scheduler", "all")
    assert [entry["scheduler"] for entry in json.loads(out)] == list(COMPARED)


def test_nothing_defined_is_null_not_nan(fedparity):
    code, out, _ = fedparity(*SMALL, "--json", "--availability", "bernoulli:low=0,high=0")
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert code == 0
    assert found["cv_per_opportunity"] is None
    assert found["never_available"] == 12


@pytest.mark.parametrize("by", ["share", "opportunity", "utility"])
def test_a_comparison_for_eyes_fits_80_columns_and_names_the_fairest(fedparity, by):
    code, out, err = fedparity(*SMALL, "--scheduler", "all", "--by", by)
    assert (code, err) == (0, "")
    title, *rest = out.splitlines()
    table, verdict = rest[: 1 + len(COMPARED)], " ".join(rest[1 + len(COMPARED) :])
    assert title == "12 clients (bernoulli), 6 rounds, 3 asked per round, mean of 2 draws"
    assert len(table) == 1 + len(COMPARED)
    assert max(map(len, out.splitlines())) <= 80
    assert [line.split()[0] for line in table[1:]] == list(COMPARED)
    assert verdict.startswith(f"Fairest by {LEADS[by]}: ")
    named = verdict.removeprefix(f"Fairest by {LEADS[by]}: ").split(". ")[0].split(" (not told apart")[0]
    assert {*re.split(", | and ", named)} <= {*COMPARED}
    assert "\x1b" not in out


def test_the_fairest_is_the_one_with_the_least_avoidable_gini(fedparity):
    words = (*SMALL, "--scheduler", "uniform", "--scheduler", "least_served", "--scheduler", "reactive")
    found = json.loads(fedparity(*words, "--json")[1])
    best = min(found, key=lambda entry: entry["gini_avoidable"])["scheduler"]
    assert f"Fairest by avoidable Gini: {best}. " in fedparity(*words)[1]


def test_attacks_are_listed_as_what_the_command_takes(fedparity):
    from fedparity.testing import ATTACKS

    listed = json.loads(fedparity("list", "attacks", "--json")[1])["attacks"]
    assert {entry["name"]: entry["summary"] for entry in listed} == {n: one.summary for n, one in ATTACKS.items()}
    assert fedparity("list", "sleep")[1].startswith("sleep (attacks): Sleeps for half of the run, then stays.")


def test_one_scheduler_is_not_called_the_fairest(fedparity):
    _, out, _ = fedparity(*SMALL)
    assert "Fairest" not in out
    assert "could not be avoided" in out


def test_a_trace_file_sets_clients_rounds_and_draws(fedparity, tmp_path):
    trace = Trace.from_matrix(np.random.default_rng(0).random((9, 5)) < 0.6)
    save_trace(trace, tmp_path / "phones.csv.gz")
    code, out, _ = fedparity("schedule", "--availability", "phones.csv.gz", "--cohort", 2, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["clients"], found["rounds"], found["draws"], found["availability"]) == (5, 9, 1, "phones.csv.gz")
    assert found["fill_limit"] == np.minimum(trace.sizes(), 2).sum() / 18
    shorter = json.loads(
        fedparity("schedule", "--availability", "./phones.csv.gz", "--cohort", 2, "--rounds", 4, "--json")[1]
    )
    assert shorter["rounds"] == 4


def test_list_json(fedparity):
    code, out, err = fedparity("list", "--json")
    assert (code, err) == (0, "")
    tables = json.loads(out)
    assert {"schedulers", "availability", "estimators", "utilities", "weightings", "surrogates", "metrics"} <= set(
        tables
    )
    assert [entry["name"] for entry in tables["schedulers"]] == list(SCHEDULERS)
    assert [entry["name"] for entry in tables["availability"]] == list(AVAILABILITY)
    assert {entry["name"] for entry in tables["metrics"]} == set(MEASURES)
    for entries in tables.values():
        for entry in entries:
            assert set(entry) - {"parameter_help"} == {"name", "summary", "parameters", "reference", "origin"}
            assert entry["summary"]
            assert isinstance(entry["parameters"], dict)


def test_list_says_where_a_component_comes_from(fedparity, monkeypatch):
    for name in ("_entries", "_registered"):
        monkeypatch.setattr(SCHEDULERS, name, getattr(SCHEDULERS, name).copy())
    SCHEDULERS.register("mine", Mine)
    assert f"Nobody at all. (from {__name__}:Mine)" in " ".join(fedparity("list", "schedulers")[1].split())
    assert f"(from {__name__}:Mine)" in " ".join(fedparity("list", "mine")[1].split())
    assert "(from" not in fedparity("list", "weightings")[1]
    shown = json.loads(fedparity("list", "schedulers", "--json")[1])["schedulers"]
    origins = {entry["name"]: entry["origin"] for entry in shown}
    assert origins["mine"] == f"{__name__}:Mine"
    assert origins["parity"] == "fedparity"


class Mine(Scheduler):
    """Nobody at all."""

    def init(self, num_clients):
        return ()

    def select(self, state, view, rng):
        return Cohort((), (), "unknown"), state


def test_list_one_table(fedparity):
    tables = json.loads(fedparity("list", "schedulers", "--json")[1])
    assert list(tables) == ["schedulers"]
    _, out, _ = fedparity("list", "schedulers")
    assert out.splitlines()[0] == "schedulers"
    assert all(name in out for name in SCHEDULERS)


def test_list_fits_80_columns(fedparity):
    code, out, _ = fedparity("list")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80


def test_list_one_name(fedparity):
    entry = json.loads(fedparity("list", "reactive", "--json")[1])
    assert entry["table"] == "schedulers"
    assert entry["parameters"]["lam"] == 0.7
    assert list(entry["parameter_help"]) == list(entry["parameters"])
    assert entry["parameter_help"]["lam"].startswith("Weight of one missed round")
    assert "2602.13651" in entry["reference"]
    code, out, _ = fedparity("list", "reactive")
    assert code == 0
    assert "lam = 0.7" in out
    assert "p_k(t)" in out


def test_a_story_is_told_once_and_a_preset_says_what_it_sets(fedparity):
    _, out, _ = fedparity("list", "parity")
    assert out.count("closed-loop on the ledger, towards a target that is named") == 1
    assert "preset: missed=since_selected" in " ".join(fedparity("list", "cup_authors")[1].split())


def test_a_name_in_two_tables_is_shown_from_both(fedparity):
    found = json.loads(fedparity("list", "beta", "--json")[1])
    assert [entry["table"] for entry in found] == ["availability", "estimators"]


BAD = {
    "unknown scheduler": (["--scheduler", "unifrm"], "unknown scheduler 'unifrm'; did you mean 'uniform'?"),
    "no scheduler": (["--scheduler", ""], "unknown scheduler ''"),
    "second scheduler": (["--scheduler", "uniform", "--scheduler", "nope"], "unknown scheduler 'nope'"),
    "unknown key": (["--scheduler", "parity:targt=share"], "unknown key 'targt'; did you mean 'target'?"),
    "key without value": (["--scheduler", "parity:target"], "'target' must be written key=value"),
    "key twice": (["--scheduler", "parity:ratio=1,ratio=2"], "key 'ratio' is given twice"),
    "wrong type": (["--scheduler", "reactive:lam=high"], "reactive:lam='high' must be a number"),
    "wrong choice": (["--scheduler", "reactive:draw=best"], "reactive:draw='best' must be sample or top or pivotal"),
    "limit of another target": (
        ["--online-limit", "--by", "opportunity"],
        "is a limit of shares, but --by is opportunity",
    ),
    "NaN": (["--scheduler", "reactive:lam=nan"], "reactive:lam='nan' must be a finite number"),
    "out of range": (["--scheduler", "parity:ratio=0"], "ratio=0.0 must be between 1 and 1e+06"),
    "alpha": (["--scheduler", "reactive:alpha=1/2"], "alpha has 2 numbers but there are 12 clients"),
    "unknown availability": (
        ["--availability", "bernouli"],
        "unknown availability 'bernouli'; did you mean 'bernoulli'?",
    ),
    "unknown estimator": (["--estimator", "median"], "unknown estimator 'median'; did you mean 'mean'?"),
    "an oracle with settings": (["--estimator", "oracle:x=1"], "an oracle has no settings; write oracle"),
    "m > N": (["--cohort", "13"], "cohort=13 but there are only 12 clients; lower it to 12"),
    "no cohort": (["--cohort", "0"], "cohort=0 must be"),
    "zero rounds": (["--rounds", "0"], "rounds=0 must be a whole number of at least 1"),
    "no clients": (["--clients", "0"], "clients=0 must be"),
    "no draws": (["--draws", "0"], "draws=0 must be"),
    "negative seed": (["--seed", "-1"], "seed=-1 must be"),
    "text for a number": (["--rounds", "many"], "'--rounds': 'many' is not a valid integer"),
    "dropout NaN": (["--dropout", "nan"], "dropout=nan must be between 0 and 1"),
    "over-selection": (["--over-select", "-1"], "over_select=-1.0 must be between 0 and 10"),
    "spread": (["--gain-spread", "0"], "spread=0.0 must be"),
    "workers": (["--workers", "0"], "workers=0 must be"),
    "target": (["--by", "shares"], "'shares' is not one of 'share', 'opportunity', 'utility'"),
    "missing trace": (["--availability", "gone.csv"], "gone.csv: no such file"),
    "malformed trace": (["--availability", "bad.csv"], "bad.csv:1: not a trace file"),
    "empty trace": (["--availability", "empty.csv"], "empty.csv:1: not a trace file"),
    "trace without devices": (["--availability", "none.csv"], "none.csv:2: no devices"),
    "folder as trace": (["--availability", "folder"], "folder: is a folder; give a trace file"),
    "not gzip": (["--availability", "bad.csv.gz"], "bad.csv.gz:1: not a whole gzip file"),
    "other number of clients": (["--availability", "two.csv", "--cohort", "1"], "clients=12 but the trace has 2"),
    "start with a model": (["--start", "3"], "--start is for trace files, but availability 'bernoulli' is a model"),
    "work with a model": (["--work-seconds", "3"], "--work-seconds is for trace files"),
    "unknown option": (["--nope", "1"], "No such option '--nope'"),
    "extra word": (["extra"], "unexpected extra argument (extra)"),
    "option without value": (["--rounds"], "'--rounds' requires an argument"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_exit_code_2(fedparity, tmp_path, name):
    words, says = BAD[name]
    (tmp_path / "bad.csv").write_text("nonsense\n")
    (tmp_path / "bad.csv.gz").write_text("nonsense\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "none.csv").write_text("# fedparity-trace 1\nclient,first_seen_s,last_seen_s\n\nclient,start_s,end_s\n")
    (tmp_path / "folder").mkdir()
    save_trace(Trace.from_matrix([[1, 1]] * 6), tmp_path / "two.csv")
    before = sorted(tmp_path.rglob("*"))
    for extra in ([], ["--json"]):
        code, out, err = fedparity(*SMALL, *extra, *words)
        assert code == 2
        assert out == ""
        assert says in err
        assert err.startswith("fedparity: ")
        assert err.count("\n") == 1
        assert err.endswith("\n")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["shedule"], "No such command 'shedule'; did you mean 'schedule'?"),
        (["list", "unifom"], "unknown table or name 'unifom'; did you mean 'uniform'?"),
        (["list", "zzzz"], "unknown table or name 'zzzz'; known:"),
        (["list", "methds", "parity"], "unknown table 'methds'; did you mean 'methods'?"),
        (["list", "methods", "parit"], "methods: unknown name 'parit'; did you mean 'parity'?"),
        (["list", "a", "b", "c"], "unexpected extra argument"),
        (["--nope"], "No such option '--nope'"),
    ],
)
def test_bad_commands_are_one_line_and_exit_code_2(fedparity, words, says):
    code, out, err = fedparity(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_help_and_version(fedparity):
    from fedparity import __version__

    assert fedparity("--version") == (0, f"fedparity {__version__}\n", "")
    code, out, _ = fedparity("--help")
    assert code == 0
    assert "schedule" in out
    code, out, _ = fedparity("schedule", "--help")
    assert code == 0
    assert all(option in out for option in ("--clients", "--rounds", "--cohort", "--scheduler", "--seed", "--draws"))


def run_process(*words, **options):
    code = "from fedparity.cli.main import main; main()"
    environment = os.environ | {"COLUMNS": "80"}
    return subprocess.run(
        [sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True, check=False, **options
    )


def test_a_real_process(tmp_path):
    done = run_process(*SMALL, "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["clients"] == 12
    done = run_process(*SMALL, "--cohort", "99", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "fedparity: cohort=99 but there are only 12 clients; lower it to 12\n"
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_goes_away_is_no_traceback(tmp_path):
    """As in `fedparity list | head -0`."""
    read, write = os.pipe()
    os.close(read)
    code = "from fedparity.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "list", "--json"], stdout=write, stderr=subprocess.PIPE, cwd=tmp_path, check=False
    )
    os.close(write)
    assert b"Traceback" not in done.stderr
