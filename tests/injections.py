"""Names that try something: in a page, a spreadsheet, a terminal, LaTeX, a shell, a path or an address."""

import html.parser
import itertools
import json
import re

PIECES = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", '"><svg onload=alert(1)>', "' onmouseover='x",
    "{{7*7}}", "{% for x in y %}", "{{ ''.__class__ }}", "=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1",
    "\x1b[2J\x1b[31m", "\x1b]0;title\x07", "\u202eevil", "\u2066x", "\x9b31m", "a\rb", "a\nb", "\\input{/etc/passwd}",
    "\\write18{rm}", "$(rm -rf /)", "`id`", "; rm -rf /", "| nc x", "../../etc/passwd", "C:\\x", "javascript:alert(1)",
    "https://evil.example/?q=1", "[x](javascript:alert(1))", "![x](https://e.example)", "# head", "- item", "| a | b |",
    "__proto__", "constructor", "%s%n", "${jndi:ldap://x}", "<!--", "]]>", "&lt;b&gt;", "</style>", "[bold red]x[/]",
    "<b>x", "www.evil.example", "\ufeffx", "1. x", "~~x~~", "a@b.example", "*x* _y_",
)  # fmt: skip
STRINGS = [f"{a}{b}{i}" for i, (a, b) in enumerate(itertools.islice(itertools.product(PIECES, PIECES), 2000))]


class Tags(html.parser.HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text):
        super().__init__()
        self.seen, self.scripts = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag == "script":
            self.scripts.append(dict(attrs).get("type"))
        for name, value in attrs:
            assert not name.startswith("on"), (name, value)
            assert name not in {"src", "srcset", "formaction", "xlink:href"}, (name, value)
            assert name not in {"href", "action"} or value.startswith(("#", "/")) or value == "data:,", value


def inert(text, *, lines="\n"):
    """Nothing in it moves a cursor or turns text around."""
    return all(c.isprintable() or c in lines or c in "\u202f\xa0\u2009" for c in text)


def check_page(text, scripts=1):
    """A page with nothing but text in it, our own scripts, and the data they read; the names in that data."""
    assert inert(text, lines="\n\r\t")
    tags = Tags(text)
    assert not tags.seen & {"img", "iframe", "object", "embed", "base"}
    assert "<b>x" not in text
    assert tags.scripts.count(None) == scripts
    assert set(tags.scripts) <= {None, "application/json"}
    assert "alert(1)" in text
    found = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, flags=re.DOTALL)
    return [name for data in found for name in json.loads(data)["names"]]
