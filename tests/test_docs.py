"""The documentation: every command shown runs, every name, file and link is there."""

import functools
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from commands import command

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))]
PAGES += sorted((ROOT / "docs").glob("*.md"))
COMMANDS = [page for page in PAGES if page == README or page.parent.name == "docs"]
"""The pages whose commands are run."""

SHELLS = {"sh", "bash", "console", "shell"}
NOT_RUN = "# not run here"
SHOWN = ("fedparity ", "make ", "python examples/")
SMALLER = {
    "demo": ["--set", "rounds=2", "--set", "seeds=1"],
    "run": ["--set", "rounds=2", "--set", "seeds=1", "--set", "data.set=logistic"],
    "compare --methods": ["--rounds", "2", "--seeds", "2", "--set", "data.set=logistic"],
    "tune": ["--set", "rounds=2", "--set", "data.set=logistic"],
}
"""Options added to a command that would take minutes as it is shown."""
AT_MOST = {"--rounds": 20, "--clients": 50, "--cohort": 5, "--draws": 2}
"""Options of `schedule` made smaller."""

pytestmark = pytest.mark.filterwarnings("ignore:.*Click 9:DeprecationWarning")


def fences(page):
    """Language and lines of every fenced block of a page."""
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", text, flags=re.MULTILINE | re.DOTALL):
        yield found[2], found[3].splitlines()


def prose(page):
    """A page without its fenced blocks."""
    return re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def shown_in(page):
    """The `fedparity` and `make` lines of the page's shell blocks, a list a block."""
    for language, lines in fences(page):
        if language not in SHELLS:
            continue
        joined = "\n".join(lines).replace("\\\n", " ").splitlines()
        plain = [line.strip().removeprefix("$ ") for line in joined]
        commands = [line for line in plain if line.startswith(SHOWN) or line == "make"]
        if commands:
            yield commands


HELD_TO_THEIR_OUTPUT = {"README.md", "tutorial.md"}
"""Their Python is run by tests/benchmarks/test_readme.py and tests/test_docs_pages.py, which know what it prints."""
WITH_PYTHON = [page for page in COMMANDS if any(language == "python" for language, _ in fences(page))]


@pytest.mark.parametrize("page", [page for page in WITH_PYTHON if page.name not in HELD_TO_THEIR_OUTPUT])
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path):
    code = "\n".join("\n".join(lines) for language, lines in fences(page) if language == "python")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


BLOCKS = [
    pytest.param(page, commands, id=f"{page.name}-{number}")
    for page in COMMANDS
    for number, commands in enumerate(shown_in(page))
]


def words_of(line):
    """The words of the first command of a line, without its comment and what is done with its output."""
    plain = re.split(r"\s(?:[|>]|&&|2>)", line.partition(" #")[0])[0]
    return shlex.split(plain)


@functools.cache
def printed(*words):
    """What a command prints."""
    done = command(*words, columns=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def help_of(*command):
    return printed(*command, "--help")


def run_example(script, target, cwd):
    """A script of examples/, its output in a file."""
    done = subprocess.run([sys.executable, ROOT / script], cwd=cwd, capture_output=True, text=True, check=True)
    (cwd / target).write_text(done.stdout, encoding="utf-8")


def made_small(words):
    command, *rest = words
    if command == "schedule":
        small = []
        for before, word in zip([command, *rest], rest, strict=False):
            small.append(str(min(int(word), AT_MOST[before])) if before in AT_MOST and word.isdigit() else word)
        given = [option for option in AT_MOST if option not in rest]
        files = any(Path(word).suffix in {".csv", ".gz"} for word in rest)
        return [command, *small, *([] if files else [x for o in given for x in (o, str(AT_MOST[o]))])]
    made = command == "compare" and "--methods" in rest  # finished runs are compared as they are
    return [*words, *SMALLER.get("compare --methods" if made else command, [])]


@functools.cache
def targets():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    rules = set(re.findall(r"^([a-z][\w-]*)\s*:(?!=)", text, flags=re.MULTILINE))
    phony = set(" ".join(re.findall(r"^\.PHONY:(.*)$", text, flags=re.MULTILINE)).split())
    assert phony <= rules, f"in .PHONY, but without a rule: {phony - rules}"
    return rules


def check_make(words):
    wanted = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    for target in wanted:
        assert target in targets(), f"`make {target}` is shown, but the Makefile has no such target"


def check_options(words):
    """The command and its options exist; nothing is run."""
    command, *rest = words
    assert command in commands_there(), f"no such command: fedparity {command}"
    grouped = command in ("trace", "data", "deploy") and rest  # the command is the next word
    text = help_of(command, rest[0]) if grouped else help_of(command)
    for word in rest:
        if word.startswith("--"):
            option = word.partition("=")[0]
            assert re.search(rf"{re.escape(option)}\b", text), f"fedparity {command} has no {option}"


@functools.cache
def commands_there():
    section = help_of().partition("Commands:")[2]
    return set(re.findall(r"^  (\w[\w-]*)", section, flags=re.MULTILINE))


# --- commands


def test_the_readme_is_there():
    assert list(shown_in(README)), "README.md shows no command"


@pytest.mark.parametrize(("page", "commands"), BLOCKS)
def test_every_command_shown_runs(page, commands, tmp_path):
    """A block is one session: its commands run one after the other in one folder."""
    for line in commands:
        words = words_of(line)
        if words[0] == "make":
            check_make(words)
            continue
        if words[0] == "python":
            run_example(words[1], line.partition(">")[2].strip(), tmp_path)
            continue
        check_options(words[1:]) if not words[1].startswith("-") else None
        if NOT_RUN in line:
            continue
        if words[1] == "run" and len(words) > 2 and not (tmp_path / words[2]).exists():
            source = ROOT / words[2]
            if source.exists():
                words[2] = str(source)
            else:
                command("init", words[2], cwd=tmp_path)
        done = command(*made_small(words[1:]), cwd=tmp_path, columns=200)
        assert done.returncode == 0, f"{page.name}: {line}\n{done.stderr}"
        assert "Traceback" not in done.stderr


def test_made_small_changes_sizes_and_nothing_else():
    assert made_small(["schedule", "--rounds", "500", "--scheduler", "parity", "--clients", "9"]) == [
        *["schedule", "--rounds", "20", "--scheduler", "parity", "--clients", "9"],
        *["--cohort", "5", "--draws", "2"],
    ]
    assert made_small(["list", "parity"]) == ["list", "parity"]
    assert made_small(["demo"]) == ["demo", "--set", "rounds=2", "--set", "seeds=1"]


def test_what_is_shown_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\n$ fedparity run a.toml \\\n  --json | head   # a run\nmake demo\nls\n```\n"
        "```\nfedparity nope\n```\n```console\nfedparity list  # not run here\n```\n",
        encoding="utf-8",
    )
    first, second = shown_in(page)
    assert [words_of(line) for line in first] == [["fedparity", "run", "a.toml", "--json"], ["make", "demo"]]
    assert second == ["fedparity list  # not run here"]
    with pytest.raises(AssertionError, match="no such target"):
        check_make(["make", "nothing"])
    with pytest.raises(AssertionError, match="has no --nope"):
        check_options(["list", "--nope"])


def inline(page):
    """What stands between single backticks in the prose of a page."""
    return [" ".join(text.split()) for text in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose(page))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_named_in_the_text_exists(page):
    for text in inline(page):
        if text.startswith("make ") or text == "make":
            check_make(text.split())
        if not text.startswith("fedparity "):
            continue
        words = shlex.split(text)[1:]
        if words[0].startswith("-") or words[0].isupper():
            continue
        check_options(words)
        if words[0] == "list" and len(words) > 1 and not words[1].startswith("-") and words[1] != "NAME":
            assert printed("list", words[1]), f"{page.name}: {text}"


# --- links and files


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page):
    text = prose(page)
    links = re.findall(r"\]\(([^)\s]+)[^)]*\)", text) + re.findall(r"^\[[^\]]+\]:\s*(\S+)", text, flags=re.MULTILINE)
    links += re.findall(r"(?:src|href|srcset)=\"([^\"]+)\"", text)
    for link in links:
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page if not path else (page.parent / path)
        assert target.exists(), f"{page.name} links to {link}, which is not there"
        assert target.resolve().is_relative_to(ROOT.resolve()), f"{page.name} links out of the repository: {link}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name} links to {link}, but there is no such heading"


def anchors(page):
    """The anchors that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+\s+(.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


FOLDERS = ("tests/", "docs/", "src/", "examples/", "benchmarks/", ".ci/")
MADE = re.compile(r"^(runs/|benchmarks/out)")
"""Paths that a command makes."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_named_in_the_text_is_there(page):
    for text in inline(page):
        name = text.partition("::")[0].partition(" ")[0]
        if name.startswith(FOLDERS) and not MADE.match(name) and not any(c in name for c in "*<{"):
            assert (ROOT / name).exists(), f"{page.name} names {name}, which is not there"
    for name in re.findall(
        r"(?<![\w/.-])((?:tests|docs|examples|benchmarks)/[\w./-]+\.(?:py|md|json|toml))", prose(page)
    ):
        assert (ROOT / name).exists(), f"{page.name} names {name}, which is not there"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_package_in_backticks_is_there(page):
    """`availability/`, `show.py` and the like: parts of the package, named as the architecture names them."""
    for text in inline(page):
        if re.fullmatch(r"[a-z_]+/", text) and not text.startswith(("runs/", "tests/", "docs/")):
            places = (ROOT / text, ROOT / "src" / "fedparity" / text, ROOT / "tests" / text)
            assert any(place.is_dir() for place in places), f"{page.name} names {text}, which is not there"
        if re.fullmatch(r"[a-z_]+\.py", text):
            assert list(ROOT.glob(f"**/{text}")), f"{page.name} names {text}, which is not there"


def test_the_makefile_s_targets_are_phony():
    """A file called `test` or `demo` must not stop a command."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(" ".join(re.findall(r"^\.PHONY:(.*)$", text, flags=re.MULTILINE)).split())
    assert targets() == phony


def test_the_changelog_names_only_commands_that_exist():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    line = re.search(r"^- Commands: (.+?)(?:;|$)", text, flags=re.MULTILINE)
    assert line is not None
    assert set(re.findall(r"`(\w+)`", line[1])) <= commands_there()
