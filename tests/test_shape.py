"""The shape of the house: few entries at the top, no file and no class of `src` too large to hold in mind.

Tests, benchmarks and pages are read in parts: they may be longer (docs/architecture.md).
"""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "fedparity"
FILES = sorted(SRC.rglob("*.py"))


def test_the_top_of_the_package_is_a_short_list():
    entries = {path.name for path in SRC.iterdir() if path.name != "__pycache__"}
    assert len(entries) <= 27, sorted(entries)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_no_file_is_longer_than_400_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_no_class_has_more_than_16_attributes(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            assert len(attributes(node)) <= 16, f"{node.name}: {sorted(attributes(node))}"


def attributes(node):
    """Fields and what methods set on `self`; constants of the class are not state."""
    fields = [s.target.id for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]
    fields = {
        s
        for s in fields
        if not any(
            "ClassVar" in ast.unparse(a.annotation)
            for a in node.body
            if isinstance(a, ast.AnnAssign) and ast.unparse(a.target) == s
        )
    }
    stores = (n for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return fields | {n.attr for n in stores if isinstance(n.value, ast.Name) and n.value.id == "self"}
