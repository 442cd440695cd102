"""`fedparity paper`: files, JSON, and one line for everything that is wrong."""

import json
import shutil
import urllib.error
import urllib.request

import pytest

from fedparity.cli import paper
from fedparity.core.errors import OutputError
from fedparity.paper.tables import blocks, cells
from fedparity.paper.tables.blocks import Block, Recipe

pytestmark = pytest.mark.filterwarnings("ignore:.*Click 9:DeprecationWarning")
SPEC = {"rounds": 4, "cohort": 2, "population": {"clients": 6, "availability": "bernoulli:low=.2"}}
TINY = Recipe(
    "tiny", (Block("participation-paper_like", "participation", SPEC, ("parity", "uniform"), 2, trained=False),)
)


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(blocks.SCALES, "tiny", lambda _trace: TINY)


def test_a_table_is_written_and_a_second_call_does_nothing(fedparity, tmp_path):
    code, out, err = fedparity("paper", "table2", "--scale", "tiny", "--workers", "1", "--out", str(tmp_path), "--json")
    assert code == 0, err
    assert "4 runs to do: about" in err
    found = json.loads(out)
    assert (found["what"], found["scale"]) == ("table2", "tiny")
    assert found["seconds"] >= 0
    assert [row["method"] for row in found["blocks"][0]["rows"]] == ["parity", "uniform"]
    assert (tmp_path / "table2.csv").read_text(encoding="utf-8").startswith("block,method,seeds,rate,")
    code, out, err = fedparity("paper", "table2", "--scale", "tiny", "--workers", "1", "--out", str(tmp_path))
    assert code == 0
    assert "runs to do" not in err
    assert out.startswith("\nparticipation: 2 of 2 seeds")


def test_figure_1_needs_no_run(fedparity, tmp_path):
    code, _, err = fedparity("paper", "figure1", "--scale", "tiny", "--out", str(tmp_path / "new"))
    assert code == 0, err
    assert (tmp_path / "new" / "figure1.svg").read_text(encoding="utf-8").startswith("<svg ")


def test_what_is_stored_is_written_without_computing_anything(fedparity, tmp_path):
    code, out, err = fedparity("paper", "table2", "--scale", "tiny", "--stored", "--out", str(tmp_path), "--json")
    assert code == 0, err
    assert json.loads(out)["blocks"] == []
    assert json.loads(out)["missing"] == [
        {"name": "participation-paper_like", "says": "participation", "seeds": 0, "seeds_wanted": 2}
    ]
    assert not (tmp_path / "cells").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["table3"], "table or figure 'table3'"),
        (["table2", "--scale", "huge"], "scale 'huge'"),
        (["figure1", "--scale", "tiny", "--trace", "nowhere.json.gz"], "nowhere.json.gz: no such file"),
        (["table2", "--scale", "tiny", "--trace", "empty.json"], "empty.json:1: not JSON"),
        (["table2", "--scale", "tiny", "--workers", "0"], "'--workers': 0 is not in the range x>=1"),
        (["table2", "--scale", "tiny", "--only", "nothing"], "block 'nothing'"),
    ],
)
def test_what_is_wrong_is_one_line(fedparity, tmp_path, words, said):
    (tmp_path / "empty.json").touch()
    code, out, err = fedparity("paper", *words, "--out", str(tmp_path / "x"))
    assert code == 2
    assert out == ""
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "x").exists()


def test_a_figure_that_takes_no_run_makes_its_folder(fedparity, tmp_path):
    code, _, err = fedparity("paper", "figure1", "--scale", "tiny", "--workers", "1", "--out", str(tmp_path / "new"))
    assert (code, err) == (0, "")
    assert (tmp_path / "new" / "figure1.csv").exists()


def test_a_folder_that_cannot_be_made_is_refused_before_anything_runs(fedparity, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(paper.Bar, "tell", lambda *_: pytest.fail("a run was done"))
    code, _, err = fedparity("paper", "table2", "--scale", "tiny", "--workers", "1", "--out", str(tmp_path / "file"))
    assert code == 2
    assert "file: cannot be made (File exists)" in err.splitlines()[-1]


def test_table_1_fits_on_a_terminal_with_all_its_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    row = dict.fromkeys(paper.TABLE_1, 0.0012345) | {"round": 7, "paper_surrogate": None}
    paper._show({"blocks": [], "table1": [row]}, [])
    head, numbers = capsys.readouterr().out.splitlines()[-2:]
    assert "…" not in head
    assert len(head) <= 80
    assert numbers.split() == ["7", *["0.001234"] * 6, "-"]


def test_a_page_of_another_kind_is_refused_before_anything_runs(fedparity):
    code, _, err = fedparity("paper", "table2", "--scale", "tiny", "--page", "paper")
    assert (code, err.count("\n")) == (2, 1)
    assert "page=paper must end in .md" in err


def test_data_that_cannot_be_fetched_are_one_line_and_lose_nothing(fedparity, tmp_path, monkeypatch):
    images = SPEC | {"data": {"set": "cifar10", "features": "efficientnet_lite0"}}
    both = Recipe("tiny", (*TINY.blocks, Block("A", "trained", images, ("fedavg",), 1)))
    monkeypatch.setitem(blocks.SCALES, "tiny", lambda _trace: both)
    monkeypatch.setenv("FEDPARITY_CACHE", str(tmp_path / "cache"))

    def refused(*_args, **_kwargs):
        raise urllib.error.URLError("Connection refused")

    monkeypatch.setattr(urllib.request, "urlopen", refused)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    words = ("paper", "table2", "--scale", "tiny", "--workers", "1", "--out", str(tmp_path / "out"))
    code, _, err = fedparity(*words)
    assert code == 3
    assert err.startswith("5 runs to do: about 13 min on one idle core."), "features included"
    assert "cifar10 could not be fetched" in err.splitlines()[-1]
    assert "what was done is kept" in err.splitlines()[-1]
    code, out, err = fedparity(*words, "--only", "A")
    assert (code, out) == (2, "")
    assert [line[:35] for line in err.splitlines()[1:]] == ["fedparity: cifar10 could not be fet"]


def test_a_full_disk_in_the_middle_is_one_line_and_loses_nothing(fedparity, tmp_path, monkeypatch):
    whole, calls = cells.write_text, []

    def full(path, text):
        calls.append(path)
        if len(calls) > 2:
            raise OutputError(f"{path}: cannot be written (No space left on device); choose a folder you may write to")
        whole(path, text)

    monkeypatch.setattr(cells, "write_text", full)
    code, _, err = fedparity("paper", "table2", "--scale", "tiny", "--workers", "1", "--out", str(tmp_path))
    assert code == 3
    assert "what was done is kept" in err.splitlines()[-1]
    monkeypatch.undo()
    monkeypatch.setitem(blocks.SCALES, "tiny", lambda _trace: TINY)
    code, _, err = fedparity("paper", "table2", "--scale", "tiny", "--workers", "1", "--out", str(tmp_path), "--json")
    assert code == 0
    assert "2 runs to do" in err
