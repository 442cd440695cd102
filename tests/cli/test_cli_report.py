"""`fedparity report`: the page again from what is stored; and what no published file may tell."""

import json

import numpy as np
import pytest

from fedparity import Trace, save_trace
from fedparity.availability import shown_name
from fedparity.experiment.spec_file import parse
from fedparity.report.page import shown_spec

pytest.importorskip("jinja2")
pytestmark = pytest.mark.filterwarnings("ignore:.*Click 9:DeprecationWarning")

SPEC = """\
# a note of its author
version = 2
rounds = 4
cohort = 2
[population]
clients = 6
availability = "bernoulli"
[data]
set = "logistic"
[[methods]]
name = "uniform"
[[methods]]
name = "parity"
"""


@pytest.fixture
def run(fedparity, tmp_path):
    (tmp_path / "s.toml").write_text(SPEC, encoding="utf-8")
    assert fedparity("run", "s.toml", "--out", "run", "--json")[0] == 0
    return tmp_path / "run"


def test_the_page_is_written_again_and_the_run_stays_intact(fedparity, run):
    page = run / "report.html"
    first = page.read_bytes()
    assert b"a note of its author" in first
    page.unlink()
    assert fedparity("report", "run") == (0, "Report: run/report.html\n", "")
    assert page.read_bytes() == first
    page.write_text("edited", encoding="utf-8")
    assert json.loads(fedparity("report", "run", "--json")[1]) == {"run": "run", "report": "run/report.html"}
    assert page.read_bytes() == first
    assert fedparity("verify", "run")[0] == 0


def test_damage_is_refused_and_not_sealed(fedparity, run):
    with (run / "clients.csv").open("a", encoding="utf-8") as file:
        file.write("x\n")
    code, out, err = fedparity("report", "run")
    assert (code, out) == (2, "")
    assert err == "fedparity: run/clients.csv: differs from what was written; see fedparity verify run\n"
    assert fedparity("verify", "run")[0] == 1
    assert "gone: no run here" in fedparity("report", "gone")[2]


# --- absolute paths


def test_no_published_file_says_where_a_trace_lay(fedparity, tmp_path):
    folder = tmp_path / "some body's, home"
    folder.mkdir()
    trace = folder / "phones.csv.gz"
    save_trace(Trace.from_matrix(np.random.default_rng(0).random((4, 6)) < 0.7), trace)
    (tmp_path / "s.toml").write_text(SPEC.replace('"bernoulli"', f'"{trace}"'), encoding="utf-8")
    assert fedparity("compare", "--spec", "s.toml", "--json", "--out", "one/run")[0] == 0
    assert fedparity("compare", "--spec", "s.toml", "--json", "--out", "two/run")[0] == 0
    assert fedparity("report", "one/run")[0] == 0
    assert fedparity("export", "one/run", "--out", tmp_path / "tables")[0] == 0
    both = (tmp_path / "one" / "run", tmp_path / "two" / "run")
    code, out, _ = fedparity("compare", *both, "--format", "latex", "--out", tmp_path / "both")
    assert code == 0
    assert "two/run/parity" in out
    published = [p for end in ("html", "csv", "tex", "svg") for p in tmp_path.rglob(f"*.{end}")]
    assert {p.name for p in published} >= {"report.html", "clients.csv", "comparison.tex", "tradeoff.svg", "rounds.csv"}
    for path in published:
        text = path.read_text(encoding="utf-8")
        assert str(tmp_path) not in text, path
        assert "some body" not in text, path
        if path.name in ("report.html", "comparison.tex", "tradeoff.svg"):
            assert "phones.csv.gz" in text, path
    assert str(trace) in (tmp_path / "one" / "run" / "spec.toml").read_text(encoding="utf-8")  # or it could not go on


def test_a_model_is_shown_as_it_is_written():
    assert shown_name("bernoulli:low=.2,high=1") == "bernoulli:low=.2,high=1"
    assert shown_name("/home/me/phones.csv.gz") == shown_name("traces/phones.csv.gz") == "phones.csv.gz"


@pytest.mark.parametrize(
    "written", ['"/home/me/t.csv"', "'/home/me/t.csv'", '"/home/m\\u0065/t.csv"', '"/home/\\"me\\\\x/t.csv"']
)
def test_a_spec_is_shown_without_folders_however_it_is_written(written):
    text = SPEC.replace('"bernoulli"', written).replace('"logistic"', '"/home/me/t.csv.npz"')
    spec = parse(text, "s")
    for shown in (shown_spec(spec, text), shown_spec(spec), shown_spec(spec.resolved())):
        assert "home" not in shown
        assert parse(shown, "shown").population.availability == "t.csv"
        assert parse(shown, "shown").data.set == "t.csv.npz"
    relative = SPEC.replace('"bernoulli"', '"traces/t.csv"')
    assert shown_spec(parse(relative, "s"), relative) == relative
