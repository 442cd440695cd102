"""A fairness card: one page about one log, in the manner of a model card (Mitchell et al. 2019).

JSON holds all of it; Markdown and the page to print (`report.card_page`) are shortened to one printed page. What comes
from a log (names of clients, groups, files) is written so that Markdown takes it as text.
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
PLAIN = {
    "gini": "how unequally requests were shared: 0 everybody the same, 1 one got all",
    "selection_gap": "distance from equal shares: 0 none, 2 at most",
    "jain_counts": "how evenly requests were shared: 1 everybody the same",
    "never_served": "clients that were never asked",
    "fill": "requests made of those that could have been",
}
IF = "all were always there"
"""What the limits and who was left out rest on, where nobody logged who was online."""
LISTED = 5
MOST = 5
"""Entries of a list that fit on one page."""
FILES = 3
NAME = 30
"""Characters of a name from a log."""
LONGEST, SENTENCE = 160, 400
"""Characters of a text, and of a sentence of the verdict, that fit on one page."""
FORMS = (".md", ".json", ".html")


def card_text(told: Mapping[str, Any], suffix: str) -> str:
    """The card of what an audit found, as `.md` or `.json`."""
    card = fairness_card(told)
    return (
        "\n".join(_markdown(one_page(card))) + "\n"
        if suffix == ".md"
        else json.dumps(card, indent=2, allow_nan=False) + "\n"
    )


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
            "times": told["period"],
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
            "if": None if told["availability_known"] else IF,
            "why": _why(told),
            "groups_below_four_fifths": [group["name"] for group in groups if group["flagged"]],
        },
        "known_gaps": [*_missing(told), *told["assumptions"], *told["limits"]],
        "changes": [{key: point[key] for key in ("round", "what", "before", "after")} for point in told["changes"]],
        "findings": told["findings"],
        "requirements": {"note": NOT_ADVICE, "map": dict(REQUIREMENTS)},
        "made": {key: told[key] for key in ("version", "command", "logs")},
    }


_PARTS = (("", ""), ("limit", "_limit"), ("avoidable", "_avoidable"))


def one_page(card: Mapping[str, Any]) -> dict[str, Any]:
    """The same with lists and texts as long as one page has room for; what is left out is counted."""
    people, out, made = card["population"], card["left_out"], card["made"]
    groups = dict(list(people["groups"].items())[:MOST])
    rest = len(people["groups"]) - len(groups)
    found = {
        **card,
        "population": {**people, "groups": groups, "groups_left_off": rest},
        "left_out": {**out, "groups_below_four_fifths": _few(out["groups_below_four_fifths"], MOST)},
        "known_gaps": _few(card["known_gaps"], 2 * MOST),
        "changes": card["changes"][: MOST // 2],
        "findings": card["findings"][:MOST],
        "made": {**made, "logs": made["logs"][:FILES], "logs_left_off": max(0, len(made["logs"]) - FILES)},
    }
    most = dict.fromkeys(found, LONGEST) | dict.fromkeys(("purpose", "summary"), SENTENCE)
    return {key: _shortened(value, most[key]) for key, value in found.items()}


def _few(texts: list[str], most: int) -> list[str]:
    return texts if len(texts) <= most else [*texts[: most - 1], f"and {len(texts) - most + 1:,} more"]


def _shortened(value: Any, most: int) -> Any:
    """Every text in it cut to what one page has room for."""
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[: most - 1]}…"
    if isinstance(value, list):
        return [_shortened(one, most) for one in value]
    if isinstance(value, dict):
        return {_shortened(key, most): _shortened(one, most) for key, one in value.items()}
    return value


def _missing(told: Mapping[str, Any]) -> list[str]:
    return [f"the log has no {', '.join(told['missing'])}"] if told["missing"] else []


def _why(told: Mapping[str, Any]) -> list[str]:
    """Why clients got nothing, as far as a log can tell."""
    never, absent, erased = told["never_served"], told["never_available"], told["erased"] or 0
    if not never:
        return ["nobody went without"]
    if not told["availability_known"]:
        return [f"{never:.0f} clients were never asked; whether they were there is not known"]
    limit = told["never_served_limit"] or 0.0
    reasons = (
        (absent - erased, "never online"),
        (erased, "erased from the run"),
        (limit - absent, "online, but there were too few slots to ask all of them"),
        (never - limit, "online, could have been asked and were not"),
    )
    return [f"{count:.0f} {'client' if count == 1 else 'clients'}: {why}" for count, why in reasons if count > 0]


def chance_line(card: Mapping[str, Any]) -> str:
    """What limits rest on, and how the log compares with a random draw."""
    p, assumed = card["chance"]["p_value"], card["left_out"]["if"]
    limits = f" Limits hold if {assumed}: who was online is not in the log." if assumed else ""
    return f"A random draw among those present: p = {'not known' if p is None else f'{p:.2g}'}.{limits}"


def left_out_line(card: Mapping[str, Any]) -> str:
    """How many were asked too seldom."""
    out = card["left_out"]
    count, assumed = out["clients"], f" if {out['if']}" if out["if"] else ""
    return f"{count:,} {'client was' if count == 1 else 'clients were'} asked less often than chance explains{assumed}:"


def client_line(card: Mapping[str, Any], one: Mapping[str, Any]) -> str:
    """What one of them got."""
    there = "" if card["left_out"]["if"] else f"there in {one['online']:,} rounds, "
    since = "" if one["since"] is None else f", since round {one['since']:,}"
    return f"{there}asked {one['asked']:,} times, {one['expected']:.0f} by chance{since}"


def below_line(names: list[str]) -> str:
    """Groups that got too little."""
    shown = ", ".join(name if len(name) <= NAME else f"{name[: NAME - 1]}…" for name in names)
    return f"asked less than four fifths as often as the group asked most: {shown}"


def change_line(point: Mapping[str, Any]) -> str:
    """When somebody began to be treated otherwise."""
    before, after = ("–" if point[key] is None else f"{point[key]:.2f}" for key in ("before", "after"))
    return f"from round {point['round']:,} on, {point['what']} got {after} times what chance gives, {before} before"


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
    if period["times"]:
        yield f"- from {_text(period['times'][0])} to {_text(period['times'][1])}"
    yield from (f"- group {_text(name)}: {size:,} clients" for name, size in people["groups"].items())
    if people["groups_left_off"]:
        yield f"- and {people['groups_left_off']:,} more groups"
    hidden = people["groups_not_shown"]
    if hidden and hidden["groups"]:
        yield f"- too small to be shown: {hidden['groups']} groups, {hidden['clients']} clients"
    yield from ("", "## Measures", "", "| measure | value | limit | avoidable | says |", "|---|---|---|---|---|")
    for name, parts in card["measures"].items():
        cells = (printed(name, parts[key]) for key in ("value", "limit", "avoidable"))
        yield f"| {MEASURES[name].heading} | {' | '.join(cells)} | {PLAIN[name]} |"
    yield from ("", chance_line(card))
    out = card["left_out"]
    yield from ("", "## Who was left out, and why", "")
    yield from (f"- {_text(reason)}" for reason in out["why"])
    if out["clients"]:
        yield f"- {left_out_line(card)}"
        yield from (f"  - {_text(one['name'])}: {client_line(card, one)}" for one in out["first"])
    if out["groups_below_four_fifths"]:
        yield f"- {_text(below_line(out['groups_below_four_fifths']))}"
    yield from (f"- {_text(change_line(point))}" for point in card["changes"])
    yield from ("", "## Known gaps", "")
    yield from (f"- {_text(gap)}" for gap in card["known_gaps"])
    yield from (f"- {_text(one['what'])}: {one['count']:,} ({_text(one['says'])})" for one in card["findings"])
    yield from ("", "## Where to find what is asked for", "", f"*{card['requirements']['note']}*", "")
    yield from ("| asked by | see |", "|---|---|")
    yield from (f"| {asked} | {see} |" for asked, see in card["requirements"]["map"].items())
    made = card["made"]
    yield from ("", "## How to check it", "", f"Made by fedparity {made['version']}: {_text(made['command'])}", "")
    yield from (f"- {_text(log['name'])} ({log['role']}): SHA-256 {log['sha256']}" for log in made["logs"])
    if made["logs_left_off"]:
        yield f"- and {made['logs_left_off']:,} more files"
