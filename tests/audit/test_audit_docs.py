"""docs/audit.md shows what its commands print, and names every key of the JSON."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedparity.core.errors import ConfigError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
pytestmark = pytest.mark.filterwarnings("ignore:.*Click 9:DeprecationWarning")


@pytest.fixture
def log(tmp_path):
    script = ROOT / "examples" / "participation_log.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    (tmp_path / "log.csv").write_text(done.stdout, encoding="utf-8")


@pytest.mark.usefixtures("log")
def test_the_page_shows_what_is_printed(fedparity, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    code, out, _ = fedparity("audit", "log.csv", "--map", "group=model", "--html", "audit.html", "--card", "card.md")
    assert code == 0
    shown = re.search(r"^```text\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)[1]
    assert [line.rstrip() for line in out.splitlines()] == shown.splitlines()


@pytest.mark.usefixtures("log")
def test_the_page_names_every_key(fedparity, tmp_path):
    (tmp_path / "key").write_bytes(b"0123456789abcdef")
    code, out, _ = fedparity("audit", "log.csv", "--map", "group=model", "--json", "--sign", "key")
    assert code == 0
    words = set(re.findall(r"\w+", PAGE.partition("## JSON")[2]))
    found = json.loads(out)
    from fedparity.metrics.measures import measure_of

    for key, value in found.items():
        try:
            measure_of(key)
        except ConfigError:
            assert key in words, key
        rows = value if isinstance(value, list) else [value] if key not in ("parity", "ends", "options") else []
        for row in rows:
            assert not isinstance(row, dict) or key == "signature" or set(row) <= words, key
