"""docs/paper.md is what the stored results say, and the stored results are what the claims find."""

import json
from pathlib import Path

import pytest

from fedparity.core.errors import InputError
from fedparity.paper import page
from fedparity.paper.claims import CLAIMS, chosen, examine

DOCS = Path(__file__).parents[2] / "docs"
FLASH = Path(__file__).parents[3] / "shared/data/traces/flash_000_099_events.json.gz"
STORED = {row["id"]: row for row in page.load(DOCS / "paper" / page.CLAIMS_FILE)}
QUICK = (
    "lemma-1",
    "theorem-2",
    "appendix-b",
    "gini-gap",
    "adjusted-objective",
    "irreducibility",
    "table-numbers",
    "sizes",
)


def test_the_page_is_generated_from_the_results():
    assert (DOCS / "paper.md").read_text(encoding="utf-8") == page.page(DOCS / "paper")


def test_every_claim_is_stored_with_its_verdict():
    assert list(STORED) == list(CLAIMS)
    assert {name: row["as_stated"] for name, row in STORED.items()} == {n: c.expected for n, c in CLAIMS.items()}
    assert all(row["corrected_holds"] is not False for row in STORED.values())


def test_every_line_ends_in_the_command_that_shows_it():
    lines = [line for line in page.claims_section(DOCS / "paper").splitlines() if line.startswith("| **")]
    commands = [f"fedparity claims {name}{claim.options}" for name, claim in CLAIMS.items()]
    assert [line.split("| `")[-1] for line in lines] == [f"{command}` |" for command in commands]


def test_the_texts_stored_are_those_of_the_code():
    for name, claim in CLAIMS.items():
        texts = {key: getattr(claim, key) for key in ("where", "statement", "assumptions", "corrected", "method")}
        assert {key: STORED[name][key] for key in texts} == texts


@pytest.mark.parametrize("name", QUICK)
def test_what_is_stored_is_what_is_found(name):
    (result,) = examine(chosen([name]))
    assert json.loads(json.dumps(result.to_json(telemetry=False))) == STORED[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CLAIMS if name not in QUICK])
def test_what_is_stored_is_what_is_found_of_all(name):
    if name == "trace-statistics" and not FLASH.exists():
        pytest.skip(f"{FLASH} is not here")
    (result,) = examine(chosen([name], trace=str(FLASH)))
    assert json.loads(json.dumps(result.to_json(telemetry=False))) == STORED[name]


def test_an_altered_result_alters_the_page(tmp_path):
    rows = [row | {"as_stated": "holds"} for row in STORED.values()]
    (tmp_path / page.CLAIMS_FILE).write_text(json.dumps(rows), encoding="utf-8")
    assert page.page(tmp_path) != page.page(DOCS / "paper")
    assert f"Of {len(CLAIMS)} claims: {len(CLAIMS)} hold." in page.page(tmp_path)


def test_without_results_there_is_no_section(tmp_path):
    assert page.claims_section(tmp_path) == ""
    assert "## Where it is" in page.page(tmp_path)


@pytest.mark.parametrize("text", ["{", "[1]", '[{"no": "id"}]', "3"])
def test_results_that_are_not_results_are_refused(tmp_path, text):
    (tmp_path / page.CLAIMS_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="remove it to start again"):
        page.page(tmp_path)


def test_a_cell_cannot_end_its_row():
    assert page.markdown_table(("a",), [("x | y\nz",)]) == "| a |\n| --- |\n| x \\| y z |\n"
