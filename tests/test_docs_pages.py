"""Pages that promise more than that their code runs: the tutorial shows its output, the glossary is in order."""

import re
import subprocess
import sys
from pathlib import Path

from fedparity.experiment.spec_parts import TABLES

DOCS = Path(__file__).parents[1] / "docs"


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)


def test_the_tutorial_prints_what_it_shows(tmp_path):
    page = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    code = "\n".join(blocks(page, "python"))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(blocks(page, "text"))


def test_the_tutorial_needs_public_names_only():
    page = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    found = re.findall(r"^(?:from|import) (fedparity[\w.]*)", "\n".join(blocks(page, "python")), flags=re.MULTILINE)
    assert found
    assert set(found) == {"fedparity", "fedparity.testing"}


def test_the_first_example_of_the_tutorial_is_short():
    page = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    assert len(blocks(page, "python")[0].splitlines()) <= 10


def test_the_glossary_has_one_line_per_word_in_order():
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", page, flags=re.MULTILINE)
    words = [word for word, _ in rows if word != "word"]
    assert len(words) > 50
    assert words == sorted(words, key=str.lower)
    assert len({word.lower() for word in words}) == len(words)
    assert all(meaning.endswith(".") for word, meaning in rows if word != "word")


def test_the_architecture_lists_every_group_of_entry_points():
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    listed = re.search(r"The groups are `fedparity\.` and ([^.]*)\.", page)[1]
    assert set(re.findall(r"`(\w+)`", listed)) == {table.group for table in TABLES}
