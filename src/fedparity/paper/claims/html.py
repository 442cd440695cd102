"""The claims as one self-contained page: verdicts first, then each claim with its figures and its picture."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fedparity.paper.claims.claim import Result, plain
from fedparity.report.frame import document
from fedparity.report.svg import element, escape

WORDS = {"holds": "holds", "fails": "fails", "needs-assumption": "needs an assumption", None: "not examined"}


def claims_page(results: Sequence[Result]) -> str:
    """The page."""
    rows = "".join(_row(result) for result in results)
    heads = "".join(element("th", name, scope="col") for name in ("Claim", "As printed", "Corrected"))
    listed = element("table", element("thead", element("tr", heads)) + element("tbody", rows), class_="sorts")
    top = (
        element("p", "fedparity claims", class_="eyebrow")
        + element("h1", "The paper, claim by claim")
        + element("p", "Behfar and Mortier, Cumulative Utility Parity, arXiv 2602.13651", class_="aside")
    )
    body = element("header", top) + element("main", listed + "".join(_section(result) for result in results))
    return document("The paper, claim by claim", body)


def _row(result: Result) -> str:
    link = element("a", escape(result.claim.id), href=f"#{result.claim.id}")
    found = result.found.corrected_holds
    corrected = "–" if found is None else "holds" if found else "fails"
    cells = element("td", WORDS[result.found.as_stated]) + element("td", corrected)
    return element("tr", element("th", link, scope="row") + cells)


def _section(result: Result) -> str:
    claim, found = result.claim, result.found
    terms = [
        ("As printed", claim.statement),
        ("Assumed", claim.assumptions),
        ("Verdict", WORDS[found.as_stated]),
        ("Found", found.reason),
        ("What is true", claim.corrected or "the same"),
        ("How", claim.method),
    ]
    parts = "".join(element("dt", name) + element("dd", escape(text)) for name, text in terms)
    figures = escape(json.dumps(plain(found.evidence), indent=1, ensure_ascii=False))
    drawn = (
        ""
        if found.picture is None
        else element("figure", element("div", found.picture.draw(), class_="crop"), class_="wide")
    )
    more = element("details", element("summary", "All figures") + element("pre", figures))
    title = element("h2", escape(claim.id)) + element("p", escape(claim.where), class_="lead")
    return element("section", title + element("dl", parts, class_="defs") + drawn + more, id=claim.id)
