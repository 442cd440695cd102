"""What stands in several places of the repository says the same everywhere: versions, platforms, licence, citation."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

import fedparity
from fedparity.engines.flower.shim import BELOW, LOWEST

ROOT = Path(__file__).parents[1]
PYTHONS = ["3.11", "3.12", "3.13"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def named(classifier):
    return [line.rpartition(" :: ")[2] for line in PROJECT["classifiers"] if line.startswith(f"{classifier} :: ")]


# --- pyproject


def test_classifiers_requirement_and_workflow_name_the_same_pythons():
    numbered = [name for name in named("Programming Language :: Python") if "." in name]
    (matrix,) = re.findall(r"^ +python: \[(.+)\]$", text(".github/workflows/ci.yml"), flags=re.MULTILINE)
    assert numbered == PYTHONS
    assert re.findall(r'"([\d.]+)"', matrix) == PYTHONS
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"


def test_the_platforms_are_those_that_have_file_locks():
    assert named("Operating System") == ["MacOS", "Linux"]
    assert "Linux and macOS" in text("README.md")


def test_the_version_stands_in_one_place():
    assert PROJECT["dynamic"] == ["version"]
    assert "version" not in PROJECT


def test_urls_lead_somewhere():
    """The package is on no index yet: a page of its own there would be a dead link."""
    assert PROJECT["urls"]["Paper"] in text("CITATION.cff")
    assert all(url.startswith("https://") and "pypi.org" not in url for url in PROJECT["urls"].values())


def test_every_file_beside_the_code_is_declared_as_data_of_the_package():
    whole = tomllib.loads(text("pyproject.toml"))
    patterns = whole["tool"]["setuptools"]["package-data"]["fedparity"]
    package = ROOT / "src" / "fedparity"
    files = [p for p in package.rglob("*") if p.is_file() and p.suffix not in {".py", ".pyc"}]
    names = [path.relative_to(package).as_posix() for path in files]
    assert [name for name in names if not any(fnmatch(name, pattern) for pattern in patterns)] == []
    assert [pattern for pattern in patterns if not any(fnmatch(name, pattern) for name in names)] == []


def test_the_range_of_pytorch_in_the_readme_is_the_package_s():
    (torch,) = [need for need in PROJECT["optional-dependencies"]["torch"] if need.startswith("torch")]
    low, high = re.fullmatch(r"torch>=([\d.]+),<([\d.]+)", torch).groups()
    assert f"{low} ≤ version < {high}" in text("README.md")


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_every_pip_line_names_extras_and_files_that_exist(page):
    for line in re.findall(r"pip install ([^`\n#]+)", text(page)):
        for extras in re.findall(r"\[([\w,]+)\]", line):
            assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"]), line
        for name in re.findall(r"-c (\S+)", line):
            assert (ROOT / name).exists(), line


# --- continuous integration and tools


def test_the_workflow_runs_what_ci_runs_and_nothing_else():
    workflow = text(".github/workflows/ci.yml")
    assert re.findall(r"^ +- run: (.+)$", workflow, flags=re.MULTILINE) == ["bash .ci/run"]
    assert re.findall(r"^ +- uses: ([\w/-]+)@", workflow, flags=re.MULTILINE) == ["actions/checkout"]
    assert len(re.findall(r"^ +- ", workflow, flags=re.MULTILINE)) == 2


def test_ci_tests_the_code_crashes_the_papers_tables_the_page_the_package_and_real_processes():
    made = re.findall(r"^make (\S+)$", text(".ci/run"), flags=re.MULTILINE)
    assert made == ["test", "crash-small", "paper", "test-browser", "package", "chaos", "flower-versions"]


def test_every_minor_version_of_flower_that_is_supported_is_tried():
    """One is what everybody installs, the other that of `make flower-versions`."""
    pinned = [text("constraints.txt"), text("benchmarks/training/requirements-flower.txt")]
    tried = {tuple(map(int, re.search(r"^flwr==(\d+)\.(\d+)\.", pins, flags=re.MULTILINE).groups())) for pins in pinned}
    (low, below), (high, end) = LOWEST, BELOW
    assert low == high
    assert tried == {(low, minor) for minor in range(below, end)}
    assert PROJECT["optional-dependencies"]["flower"] == [f"flwr>={low}.{below},<{high}.{end}"]
    (other,) = re.findall(r"flwr --version \| grep -F \" ([\d.]+)\.\"", text("Makefile"))
    assert f"\nflwr=={other}." in pinned[1]


def test_commits_are_held_to_the_tools_of_make_test():
    entries = re.findall(r"^ +entry: \.venv/bin/(.+)$", text(".pre-commit-config.yaml"), flags=re.MULTILINE)
    assert [" ".join(word for word in entry.split() if not word.startswith("-")) for entry in entries] == [
        "ruff check",
        "ruff format",
        "mypy",
    ]


@pytest.mark.parametrize("name", ["bug", "question"])
def test_issue_forms_have_what_a_form_must(name):
    form = text(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert re.findall(r"^([a-z]+):", form, flags=re.MULTILINE) == ["name", "description", "labels", "body"]
    fields = re.split(r"^  - type: ", form, flags=re.MULTILINE)[1:]
    for field in fields:
        kind, rest = field.split("\n", 1)
        wanted = ["      value: "] if kind == "markdown" else ["    id: ", "      label: "]
        assert all(f"\n{key}" in f"\n{rest}" for key in wanted), field


# --- release


def test_the_version_is_the_last_release_or_on_the_way_to_the_next():
    """What is not released yet has a version of its own, so that its runs are not taken for the release's."""
    before, _, coming = text("CHANGELOG.md").partition("\n## [Unreleased]\n")
    assert "\n## " not in before
    coming, released = re.split(r"^## \[([\d.]+)\] - \d{4}-\d\d-\d\d$", coming, flags=re.MULTILINE)[:2]
    version, on_the_way = re.fullmatch(r"([\d.]+?)(\.dev\d+)?", fedparity.__version__).groups()
    assert bool(coming.strip()) == bool(on_the_way)
    numbers = [tuple(map(int, one.split("."))) for one in (version, released)]
    assert numbers[0] > numbers[1] if on_the_way else numbers[0] == numbers[1]


def test_an_entry_of_the_changelog_has_each_section_once():
    for entry in re.split(r"^## ", text("CHANGELOG.md"), flags=re.MULTILINE)[1:]:
        sections = re.findall(r"^### (.+)$", entry, flags=re.MULTILINE)
        assert sections == [name for name in ("Added", "Changed", "Removed", "Fixed") if name in sections]


def test_the_citation_has_what_its_format_requires_and_what_the_package_says():
    cited = text("CITATION.cff")
    top = dict(re.findall(r"^([a-z-]+):(?: (.+))?$", cited, flags=re.MULTILINE))
    assert {"cff-version", "message", "title", "authors"} <= set(top)
    assert top["cff-version"] == "1.2.0"
    (released,) = re.findall(r"^## \[([\d.]+)\]", text("CHANGELOG.md"), flags=re.MULTILINE)[:1]
    assert top["version"] == released, "who cites it cites a release"
    assert top["license"] == PROJECT["license"]
    assert f"[{top['version']}] - {top['date-released'].strip(chr(34))}" in text("CHANGELOG.md")
    (author,) = PROJECT["authors"]
    assert f"authors:\n  - name: {author['name']}\n" in cited


def test_the_citation_refers_to_the_paper_with_its_authors():
    reference = text("CITATION.cff").partition("\nreferences:\n")[2]
    keys = set(re.findall(r"^(?:  - |    )([a-z-]+):", reference, flags=re.MULTILINE))
    assert {"type", "title", "authors"} <= keys, "each is required of a reference"
    assert re.findall(r"family-names: (\w+)", reference) == ["Behfar", "Mortier"]
    assert "title: Cumulative Utility Parity for Fair Federated Learning" in reference
