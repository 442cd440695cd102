"""2,000 strings that try something, in what is no page: LaTeX, tables, addresses, a terminal."""

import csv
import io
import re
from urllib.parse import parse_qs, urlsplit

from fedparity.cli.console import printable
from fedparity.core.files import csv_text
from fedparity.report.latex import SPECIAL, latex_escape
from fedparity.report.live.clients import Query
from injections import STRINGS, inert

COMMANDS = re.compile("|".join(re.escape(shown) for shown in sorted(SPECIAL.values(), key=len, reverse=True)))


def test_latex_prints_them_and_runs_none_of_them():
    for text in STRINGS:
        escaped = latex_escape(text)
        assert inert(escaped, lines="")
        assert not set(COMMANDS.sub("", escaped)) & set(SPECIAL), escaped  # nothing but what we wrote ourselves


def test_a_spreadsheet_calculates_none_of_them():
    text = csv_text(("name",), [(name,) for name in STRINGS])
    cells = [row[0] for row in csv.reader(io.StringIO(text, newline=""))]
    assert len(cells) == len(STRINGS) + 1
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


def test_an_address_leads_nowhere_else():
    for text in STRINGS:
        found = urlsplit(Query(text, search=text).address("key", "/client/3"))
        assert (found.scheme, found.netloc, found.path, found.fragment) == ("", "", "/client/3", "")
        assert parse_qs(found.query, keep_blank_values=True)["q"] == [text]
        assert found.query.isascii()


def test_a_terminal_shows_them():
    assert all(inert(printable(text), lines="") for text in STRINGS)
