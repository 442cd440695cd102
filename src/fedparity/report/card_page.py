"""The fairness card as a page: on paper it is one sheet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedparity.audit.card import (
    NAME,
    PLAIN,
    below_line,
    chance_line,
    change_line,
    client_line,
    fairness_card,
    left_out_line,
    one_page,
)
from fedparity.metrics import MEASURES
from fedparity.report import fill, words
from fedparity.report.frame import document, template


def render_card(told: Mapping[str, Any]) -> str:
    """The page of what was `told` of an audit."""
    card = one_page(fairness_card(told))
    rows = [
        (MEASURES[name].heading, *(words.of(name, parts[key]) for key in ("value", "limit", "avoidable")), PLAIN[name])
        for name, parts in card["measures"].items()
    ]
    name = words.shortened(", ".join(log["name"] for log in told["logs"] if log["role"] == "log"), NAME)
    context = {
        "card": card,
        "rows": rows,
        "chance": chance_line(card),
        "left_out": left_out_line(card),
        "line": lambda one: client_line(card, one),
        "change": change_line,
        "plural": words.plural,
        "below": below_line(card["left_out"]["groups_below_four_fifths"]),
        "name": name,
        "short": lambda text: words.shortened(text, NAME),
    }
    return document(f"Fairness card of {name}", fill("card.html.j2", context), style=template("card.css"), scripts=())
