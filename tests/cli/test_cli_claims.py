"""`fedparity claims` at the command line: tables, JSON, pages, and what is kept when something goes wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fedparity.core.errors import OutputError
from fedparity.paper.claims.sizes import Sizes


def test_a_few_claims_are_told_in_words(fedparity):
    code, out, err = fedparity("claims", "sizes", "gini-gap")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1:3]] == ["gini-gap", "sizes"]
    assert "614 MB" in out
    assert all(len(line) <= 80 for line in out.splitlines())


def test_many_are_a_table_and_what_was_skipped_is_said(fedparity):
    ids = ("sizes", "gini-gap", "trace-statistics", "irreducibility")
    code, out, _ = fedparity("claims", *ids)
    assert code == 0
    assert "not examined" in out
    assert "it needs flash_000_099_events.json.gz" in " ".join(out.split())


def test_json_is_alone_on_stdout(fedparity, tmp_path):
    code, out, err = fedparity("claims", "sizes", "--json", "--html", tmp_path / "claims.html")
    assert code == 0
    (row,) = json.loads(out)
    assert (row["id"], row["as_stated"], row["corrected_holds"]) == ("sizes", "fails", True)
    assert row["seconds"] >= 0
    assert "claims.html" in err
    assert "<svg" in (tmp_path / "claims.html").read_text(encoding="utf-8")


def test_an_unknown_claim_is_one_line_with_the_nearest(fedparity):
    code, out, err = fedparity("claims", "lema-1")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "did you mean 'lemma-1'?" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--trace", "nowhere.json.gz"), "nowhere.json.gz: no such file"),
        (("--trace", "empty.json"), "empty.json:1: not JSON"),
        (("--page", "paper.txt"), "page=paper.txt must end in .md"),
    ],
)
def test_files_that_do_not_fit_are_refused_before_anything_is_examined(fedparity, tmp_path, words, said):
    (tmp_path / "empty.json").touch()
    code, out, err = fedparity("claims", "sizes", "trace-statistics", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_expect_exits_1_when_a_verdict_differs(fedparity, monkeypatch):
    assert fedparity("claims", "sizes", "--expect")[0] == 0
    monkeypatch.setattr(Sizes, "expected", "holds")
    code, out, _ = fedparity("claims", "sizes", "--expect")
    assert code == 1
    assert "Not as expected: sizes" in out
    assert fedparity("claims", "sizes")[0] == 0


def test_a_page_is_stored_and_added_to(fedparity, tmp_path):
    assert fedparity("claims", "sizes", "trace-statistics", "--page", "paper.md")[0] == 0
    assert fedparity("claims", "gini-gap", "--page", "paper.md")[1].endswith("Page: paper.md\n")
    stored = tmp_path / "paper" / "claims.json"
    rows = json.loads(stored.read_text(encoding="utf-8"))
    assert [row["id"] for row in rows] == ["gini-gap", "trace-statistics", "sizes"]
    assert list(rows[0]) == list(rows[1]) == list(rows[2])  # what was stored before is written as it was
    assert "seconds" not in stored.read_text(encoding="utf-8")
    assert "`fedparity claims gini-gap`" in (tmp_path / "paper.md").read_text(encoding="utf-8")


def test_what_could_not_be_examined_does_not_replace_what_was(fedparity, tmp_path):
    fedparity("claims", "trace-statistics", "--page", "paper.md")
    stored = tmp_path / "paper" / "claims.json"
    rows = json.loads(stored.read_text(encoding="utf-8"))
    stored.write_text(json.dumps([rows[0] | {"as_stated": "fails"}]), encoding="utf-8")
    fedparity("claims", "trace-statistics", "--page", "paper.md")
    assert json.loads(stored.read_text(encoding="utf-8"))[0]["as_stated"] == "fails"


@pytest.mark.parametrize(("ids", "code"), [(("sizes",), 2), (("gini-gap", "sizes"), 3)])
def test_a_full_disk_is_one_line_and_what_was_computed_is_kept(fedparity, monkeypatch, tmp_path, ids, code):
    from fedparity.cli import claims

    written = claims.write_text

    def full(path, text):
        if '"sizes"' in text:
            raise OutputError(f"{path}: cannot be written (No space left on device)")
        written(path, text)

    monkeypatch.setattr(claims, "write_text", full)
    found, _, err = fedparity("claims", *ids, "--page", "paper.md")
    assert (found, err.count("\n")) == (code, 1)
    assert "No space left on device" in err
    if code == 3:
        assert "1 of 2 claims are kept" in err
        rows = json.loads((tmp_path / "paper" / "claims.json").read_text(encoding="utf-8"))
        assert [row["id"] for row in rows] == ["gini-gap"]


def test_a_page_that_cannot_be_written_is_one_line_after_the_results(fedparity, tmp_path):
    code, out, err = fedparity("claims", "sizes", "--json", "--html", tmp_path / "no" / "claims.html")
    assert (code, err.count("\n")) == (2, 1)
    assert json.loads(out)[0]["id"] == "sizes"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [("sizes",), ("sizes", "--json")])
def test_output_onto_a_full_disk_is_one_line(words):
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fedparity", "claims", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left on device" in done.stderr
