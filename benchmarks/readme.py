"""What README.md shows of commands and code, printed anew: `python benchmarks/readme.py` writes it into the page.

A `text` block holds what the `python` block before it prints, a `console` block what its command does: of `demo` the table.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
PYTHON = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
DEMO = re.compile(r"(?<=^\$ fedparity demo\n)(.*?)(?=^```)", re.MULTILINE | re.DOTALL)


def printed(*words: str) -> str:
    """What a Python of its own prints, 80 columns wide."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=folder,
            env=os.environ | {"COLUMNS": "80"},
            capture_output=True,
            text=True,
            check=True,
        )
    return done.stdout


def demo_table(output: str) -> str:
    """The first lines of the demo: where, and one row per method."""
    lines = output.splitlines()
    end = next(i for i, line in enumerate(lines) if line.startswith("accuracy, worst 10%:"))
    return "\n".join(line.rstrip() for line in lines[:end]) + "\n"


def with_demo(page: str, output: str) -> str:
    """The page with the table that the demo prints."""
    return DEMO.sub(lambda _: demo_table(output), page)


def with_results(page: str) -> str:
    """The page with what its Python prints; each block goes on where the one before ended."""
    codes = [found[1] for found in PYTHON.finditer(page)]
    outputs = iter(printed("-c", "\nprint(end=chr(0))\n".join(codes)).split("\0"))
    return PYTHON.sub(lambda found: f"```python\n{found[1]}```\n\n```text\n{next(outputs)}```", page)


if __name__ == "__main__":
    page = with_results(README.read_text(encoding="utf-8"))
    README.write_text(with_demo(page, printed("-m", "fedparity", "demo")), encoding="utf-8")
