"""README.md shows what its code and its demo print, to the digit."""

from __future__ import annotations

import importlib.util
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("readme", ROOT / "benchmarks" / "readme.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


readme = load()
PAGE = readme.README.read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _the_build_that_it_was_made_with() -> None:
    pytest.importorskip("torch")
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    if f"torch=={version('torch').partition('+')[0]}\n" not in pinned:
        pytest.skip("another build of torch gives other bits")


def test_the_python_prints_what_it_shows() -> None:
    assert len(readme.PYTHON.findall(PAGE)) == PAGE.count("```python") == 2
    assert readme.with_results(PAGE) == PAGE


def test_the_first_example_is_short() -> None:
    assert len(readme.PYTHON.findall(PAGE)[0][0].splitlines()) <= 10


def test_a_table_is_put_where_the_demo_s_stands() -> None:
    output = "where\nmethod accuracy\ncup 9\naccuracy, worst 10%: of the model\nmore\n"
    assert readme.demo_table(output) == "where\nmethod accuracy\ncup 9\n"
    assert "$ fedparity demo\nwhere\nmethod accuracy\ncup 9\n```" in readme.with_demo(PAGE, output)


@pytest.mark.slow
def test_the_demo_prints_the_table() -> None:
    assert readme.with_demo(PAGE, readme.printed("-m", "fedparity", "demo")) == PAGE
