"""Clients that were erased are counted apart wherever clients are counted: they are neither there nor left out."""

import json

import pytest

from fedparity import Run
from fedparity.cli.show import show_run
from fedparity.report.live.follow import Follower
from fedparity.report.live.page import _facts
from fedparity.report.live.told import told
from stored_runs import run_into, spec_of

pytest.importorskip("jinja2")
pytestmark = pytest.mark.filterwarnings("ignore:.*Click 9:DeprecationWarning")


@pytest.fixture
def folder(fedparity, tmp_path):
    """Fourteen clients that are there most of the time, one of which was erased."""
    path = tmp_path / "run"
    run_into(
        path, spec_of("population.availability=bernoulli:low=.7,high=1", "rounds=20", methods=("parity", "uniform"))
    )
    assert fedparity("erase", path, 3)[0] == 0
    return path


def joined(text):
    return " ".join(text.split())


def test_the_table_and_the_verdict_of_a_run(folder, capsys):
    capsys.readouterr()
    show_run(Run.open(folder))
    said = joined(capsys.readouterr().out)
    assert said.startswith("14 clients (bernoulli:low=.7,high=1), 1 of them erased, 20 rounds, ")
    assert " 1 client was erased. " in said
    assert "never there" not in said


def test_a_comparison_in_every_form(fedparity, folder):
    assert joined(fedparity("compare", folder)[1]).startswith(
        "14 clients (bernoulli:low=.7,high=1), 1 of them erased, 20 "
    )
    found = json.loads(fedparity("compare", folder, "--json")[1])
    assert (found["clients"], found["erased"]) == (14, 1)
    assert (
        "(availability: bernoulli:low=.7,high=1), 1 of them erased, 20 rounds"
        in fedparity("compare", folder, "--format", "latex")[1]
    )
    files = folder.parent / "runs" / "comparison"
    assert json.loads((files / "comparison.json").read_text(encoding="utf-8"))["erased"] == 1


def test_a_run_that_is_followed(fedparity, folder):
    assert "repetition 1 of 1, 14 clients, 1 of them erased." in joined(fedparity("watch", folder, "--once")[1])
    assert json.loads(fedparity("watch", folder, "--once", "--json")[1])["erased"] == 1
    followed = Follower(folder)
    while not followed.refresh():
        pass
    shown = dict(_facts(followed, told(followed), followed.methods["parity"]))
    assert (shown["Never asked"], shown["Erased"]) == ("0", "1")


def test_an_audit_does_not_call_them_left_out(fedparity, folder):
    code, out, _ = fedparity("audit", folder, "--where", "method=parity", "--card", "card.md", "--html", "a.html")
    said = joined(out)
    assert code == 0
    assert "requests went out to 13 of 13 clients" in said
    assert "and nobody went without." in said
    assert "Assumed: clients that were erased: 1; measures count them as never online, sentences leave them out" in said
    found = json.loads(fedparity("audit", folder, "--where", "method=parity", "--json")[1])
    assert (found["clients"], found["erased"], found["funnel"][0]["clients"]) == (14, 1, 13)
    assert "- 1 client: erased from the run" in (folder.parent / "card.md").read_text(encoding="utf-8")
    assert "Of them erased" in (folder.parent / "a.html").read_text(encoding="utf-8")
