"""A fairness card: one page about one log, in the manner of a model card (Mitchell et al. 2019), Markdown or JSON.

What comes from a log (names of clients, groups, files) is written so that Markdown takes it as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fedparity.metrics import printed
from fedparity.metrics.measures import MEASURES

PURPOSE = (
    "Says how evenly the clients of a federated system were asked to take part, how much of the difference could have "
    "been avoided with the same clients present, and how the log compares with chance. It does not judge the model."
)
SHOWN = ("gini", "selection_gap", "jain_counts", "never_served", "fill")
REQUIREMENTS = (
    ("EU AI Act, article 10 (data and data governance)", "population, groups, who was left out, known gaps"),
    ("EU AI Act, article 12 (record-keeping)", "period, digests of the logs, findings, command"),
    ("NIST AI RMF, Measure", "measures with limits, comparison with chance, change points, assumptions"),
)
NOT_ADVICE = "A help to find what is asked for in such documents; not legal advice, and no claim that a duty is met."
LISTED = 5


def card_text(told: Mapping[str, Any], suffix: str) -> str:
    """The card of what an audit found, as `.md` or `.json`."""
    card = fairness_card(told)
    return "\n".join(_markdown(card)) + "\n" if suffix == ".md" else json.dumps(card, indent=2, allow_nan=False) + "\n"


def fairness_card(told: Mapping[str, Any]) -> dict[str, Any]:
    """The card as plain values."""
    groups = told["groups"] or []
    return {
        "purpose": PURPOSE,
        "summary": told["verdict"],
        "population": {
            "clients": told["clients"],
            "groups": {group["name"]: group["clients"] for group in groups},
            "groups_not_shown": told["groups_hidden"],
        },
        "period": {
            "first_round": told["first_round"],
            "last_round": told["first_round"] + told["rounds"] - 1,
            "rounds": told["rounds"],
            "requests": told["requests"],
        },
        "measures": {
            name: {part or "value": told.get(f"{name}{mark}") for part, mark in _PARTS} | {"means": MEASURES[name].says}
            for name in SHOWN
        },
        "chance": {"p_value": told["p_value"], **(told["chance"] or {})},
        "left_out": {
            "clients": told["left_out"],
            "first": [
                {key: one[key] for key in ("name", "online", "asked", "expected", "since")}
                for one in told["left_out_clients"][:LISTED]
            ],
            "why": _why(told),
            "groups_below_four_fifths": [group["name"] for group in groups if group["flagged"]],
        },
        "known_gaps": [*(f"the log has no {name}" for name in told["missing"]), *told["assumptions"], *told["limits"]],
        "findings": told["findings"],
        "requirements": {"note": NOT_ADVICE, "map": dict(REQUIREMENTS)},
        "made": {key: told[key] for key in ("version", "command", "logs")},
    }


_PARTS = (("", ""), ("limit", "_limit"), ("avoidable", "_avoidable"))


def _why(told: Mapping[str, Any]) -> list[str]:
    """Why clients got nothing, as far as a log can tell."""
    never, absent = told["never_served"], told["never_available"]
    if not never:
        return ["nobody went without"]
    if not told["availability_known"]:
        return [f"{never:.0f} clients were never asked; whether they were there is not known"]
    limit = told["never_served_limit"] or 0.0
    return [
        f"{absent:.0f} clients were never online",
        f"{limit - absent:.0f} were online but could not all have been reached with these slots",
        f"{max(0.0, never - limit):.0f} could have been asked and were not",
    ]


def _text(value: object) -> str:
    """Text that Markdown does not read as anything else, on one line."""
    plain = "".join(c if c.isprintable() else "\ufffd" for c in str(value))
    plain = re.sub(r"([\\`*_{}\[\]<>|~&$])", r"\\\1", plain)
    plain = re.sub(r"^(\s*)([#+=-])", r"\1\\\2", plain)  # a heading or a list
    plain = re.sub(r"^(\s*\d+)([.)])", r"\1\\\2", plain)
    return plain.replace("://", "&#58;//").replace("www.", "www&#46;").replace("@", "&#64;")  # no links


def _markdown(card: Mapping[str, Any]) -> Iterator[str]:
    yield from ("# Fairness card", "", card["purpose"], "")
    yield from (f"{number}. {_text(sentence)}" for number, sentence in enumerate(card["summary"], start=1))
    people, period = card["population"], card["period"]
    yield from ("", "## Population and period", "")
    yield f"- {people['clients']:,} clients, {period['requests']:,} requests"
    yield f"- rounds {period['first_round']:,} to {period['last_round']:,} ({period['rounds']:,})"
    yield from (f"- group {_text(name)}: {size:,} clients" for name, size in people["groups"].items())
    hidden = people["groups_not_shown"]
    if hidden and hidden["groups"]:
        yield f"- too small to be shown: {hidden['groups']} groups, {hidden['clients']} clients"
    yield from ("", "## Measures", "", "| measure | value | limit | avoidable |", "|---|---|---|---|")
    for name, parts in card["measures"].items():
        cells = (printed(name, parts[key]) for key in ("value", "limit", "avoidable"))
        yield f"| {MEASURES[name].heading} | {' | '.join(cells)} |"
    p = card["chance"]["p_value"]
    yield from ("", f"A random draw among those present: p = {'not known' if p is None else f'{p:.2g}'}.")
    out = card["left_out"]
    yield from ("", "## Who was left out, and why", "")
    yield from (f"- {_text(reason)}" for reason in out["why"])
    if out["clients"]:
        yield f"- {out['clients']:,} clients were asked less often than chance explains; first:"
        yield from (
            f"  - {_text(one['name'])}: there in {one['online']:,} rounds, asked {one['asked']:,} times, "
            f"{one['expected']:.0f} by chance" + ("" if one["since"] is None else f", since round {one['since']:,}")
            for one in out["first"]
        )
    yield from (f"- group {_text(name)} is below four fifths" for name in out["groups_below_four_fifths"])
    yield from ("", "## Known gaps", "")
    yield from (f"- {_text(gap)}" for gap in card["known_gaps"])
    yield from (f"- {_text(one['what'])}: {one['count']:,} ({_text(one['says'])})" for one in card["findings"])
    yield from ("", "## Where to find what is asked for", "", f"*{card['requirements']['note']}*", "")
    yield from ("| asked by | see |", "|---|---|")
    yield from (f"| {asked} | {see} |" for asked, see in card["requirements"]["map"].items())
    made = card["made"]
    yield from ("", "## How to check it", "", f"Made by fedparity {made['version']}: {_text(made['command'])}", "")
    yield from (f"- {_text(log['name'])} ({log['role']}): SHA-256 {log['sha256']}" for log in made["logs"])
