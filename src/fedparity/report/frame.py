"""What every page is set in: one style sheet, one script, one policy.

A page holds everything and asks nobody for anything. The script only adds to a page that reads without it: sorting,
searching, and values under the pointer. The policy lets this script run and no other, told by its digest, so that
whatever a name from outside tries comes to nothing.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from fedparity.report.svg import escape

STYLE, SCRIPT = "page.css", "page.js"


def template(name: str) -> str:
    """A template, style sheet or script as it stands in the package."""
    return (resources.files("fedparity.report") / "templates" / name).read_text(encoding="utf-8")


def policy(scripts: tuple[str, ...] = (SCRIPT,)) -> str:
    """What a page may do: look as it does and run our scripts."""
    digests = (base64.b64encode(hashlib.sha256(template(name).encode()).digest()).decode() for name in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def document(
    title: str, body: str, *, style: str = "", scripts: tuple[str, ...] = (SCRIPT,), served: bool = False
) -> str:
    """A whole page around `body`, which is markup; where it is `served`, the server says the policy."""
    said = "" if served else f'<meta http-equiv="Content-Security-Policy" content="{policy(scripts)}">\n'
    icon = '<link rel="icon" href="data:,">\n' if served else ""  # browsers ask a server for one
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{said}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n{icon}'
        f"<title>{escape(title)} · fedparity</title>\n<style>\n{template(STYLE)}{style}</style>\n</head>\n"
        f"<body>\n{body.strip()}\n"
        + "".join(f"<script>{template(name)}</script>\n" for name in scripts)
        + "</body>\n</html>\n"
    )
