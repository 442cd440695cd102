"""Tables of docs/ that are tables of the code: METHODS in docs/methods.md, PATHS in docs/architecture.md."""

import re
from pathlib import Path

import pytest

from fedparity.experiment import methods
from fedparity.experiment.methods import METHODS
from fedparity.experiment.spec import MethodSpec
from fedparity.experiment.spec_parts import PATHS

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "methods.md").read_text(encoding="utf-8")
HEADER = "| method | who is asked | weights | memory | local rule | server | also | source |"
GROUPS = (methods._OURS, methods._PAPER, methods._FIELD)


def tables():
    """Of each table of methods its rows: the cells, without backticks."""
    for part in PAGE.split(HEADER)[1:]:
        lines = part.strip().partition("\n\n")[0].splitlines()[1:]
        yield [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines]


ROWS = {row[0]: row[1:] for table in tables() for row in table}


def test_the_tables_are_the_groups_of_methods():
    assert [[row[0] for row in table] for table in tables()] == [list(group) for group in GROUPS]
    assert list(ROWS) == list(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_row_has_the_method_s_components(name):
    method = METHODS[name]
    scheduler, weighting, memory, local, server, also, source = ROWS[name]
    assert (scheduler, weighting, memory) == (method.scheduler, method.weighting, method.memory)
    assert (local, server) == (method.local, method.server)
    more = [f"surrogate={method.surrogate}"] if method.surrogate != "none" else []
    more += [f"estimator={method.estimator}"] if method.estimator is not None else []
    more += [f"schedule={method.schedule}"] if method.schedule is not None else []
    assert also == (", ".join(more) or "-")
    if method.reference is None:
        assert source == "ours"
    else:
        missing = [word for word in re.findall(r"\w+", source.replace("et al", "")) if word not in method.reference]
        assert not missing, f"{name}: {missing} of {source!r} is not in {method.reference!r}"


@pytest.mark.parametrize(("key", "value"), re.findall(r"`(?:methods\.)?(\w+) = \"([^\"]+)\"`", PAGE))
def test_changes_shown_are_changes_that_can_be_made(key, value):
    assert getattr(MethodSpec(name="mifa" if key == "memory" else "uniform", **{key: value}).resolved(), key) == value


def test_methods_named_in_the_notes_are_there():
    notes = PAGE.partition("### Notes")[2].partition("## Schedulers")[0]
    bold = re.findall(r"^\*\*(.+?)\.\*\*", notes, flags=re.MULTILINE)
    named = {name for text in bold for name in re.findall(r"`(\w+)`", text)}
    assert named <= set(METHODS)
    cells = notes.partition("### Memory")[2]
    assert set(re.findall(r"`(\w+)`", cells)) <= set(METHODS)


def test_the_table_of_paths_is_the_one_in_use():
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    text = page.partition("| model | path | threads | channels last |")[2]
    rows = [line.strip("| ").split(" | ") for line in text.strip().partition("\n\n")[0].splitlines()[1:]]
    shown = {
        name: (path, int(threads), last == "yes")
        for names, path, threads, last in rows
        for name in re.findall(r"`(\w+)`", names)
    }
    assert shown == PATHS
    assert rows[-1] == ["any other", "sequential", "1", "no"]
