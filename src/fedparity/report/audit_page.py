"""The page of an audit: the same style as a run's report, from the audit's own numbers alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedparity.audit import Audit
from fedparity.audit.card import NOT_ADVICE, REQUIREMENTS
from fedparity.core.types import FloatArray
from fedparity.metrics import MEASURES, lorenz
from fedparity.report import charts, fill, strip, words
from fedparity.report.clients import MOST, ClientTable, Column, client_table
from fedparity.report.figures import round_ticks, strip_notes, thinned
from fedparity.report.frame import document

SHOWN = ("selection_gap", "gini", "cv_counts", "jain_counts", "never_served", "never_available", "coverage", "fill")
MORE = (
    "cv_per_opportunity",
    "completed_selection_gap",
    "completed_gini",
    "utility_cv",
    "jain_utility",
    "influence_gini",
    "avg_client_accuracy",
    "worst_accuracy",
)
"""Shown where the log knows enough for them."""
BARS = ("selection_gap", "gini", "cv_counts")
LISTED = 20
PARTS = ("", "_limit", "_avoidable")


def render_audit(audit: Audit, told: Mapping[str, Any]) -> str:
    """The page of what was `told` of an audit."""
    found = context(audit, told)
    return document(f"Audit of {found['name']}", fill("audit.html.j2", found))


def context(audit: Audit, told: Mapping[str, Any]) -> dict[str, Any]:
    """Everything the template shows."""
    series = _series(audit)
    return {
        "told": told,
        "name": ", ".join(log["name"] for log in told["logs"] if log["role"] == "log"),
        "facts": _facts(told),
        "rows": [_row(name, told) for name in (*SHOWN, *MORE) if told.get(name) is not None],
        "ends": _ends(told),
        "funnel": [_step(step, told) for step in told["funnel"]],
        "chance": _chance(told),
        "lorenz": charts.lorenz(
            series,
            _curve("the limit", 0, audit.outcome.limit),
            title="Lorenz curve of requests",
            desc=told["verdict"][0],
        ),
        "legend": [(one.label, charts.swatch(one.index)) for one in series],
        "strip": _strip(audit),
        "windows": _windows(told),
        "groups": [_group(group) for group in told["groups"] or ()],
        "clients": [
            (title, [_client(one) for one in told[key][:LISTED]], max(0, told[count] - LISTED))
            for key, count, title in (
                ("left_out_clients", "left_out", "Asked less often than by a random draw"),
                ("favoured_clients", "favoured", "Asked more often than by a random draw"),
            )
            if told[key]
        ],
        "everybody": _everybody(audit),
        "definitions": [(name, MEASURES[name].says) for name in (*SHOWN, *MORE) if told.get(name) is not None],
        "requirements": REQUIREMENTS,
        "not_advice": NOT_ADVICE,
        "hidden": _hidden(told),
        "brief": words.brief,
        "probability": probability,
    }


def _everybody(audit: Audit) -> ClientTable:
    """All clients, those that chance explains least first; without their groups, some of which may be too small."""
    log, ledger, chance, waited = audit.log, audit.outcome.ledger, audit.chance, audit.waits
    unlikely = ledger.selected if chance is None else np.minimum(chance.fewer, chance.more)
    ids = np.argsort(unlikely, kind="stable")[:MOST]
    columns = [Column("Asked", ledger.selected[ids].tolist())]
    if audit.online_known:
        columns.insert(0, Column("Rounds online", ledger.online[ids].tolist()))
    if chance is not None:
        columns.append(Column("By chance", chance.expected[ids].tolist(), 1))
    if audit.outcome.limit is not None:
        columns.append(Column("At the limit", np.asarray(audit.outcome.limit)[ids].tolist()))
    if audit.parity is not None:
        columns.append(Column("By parity", audit.parity.counts[ids].tolist()))
    if waited is not None:
        columns.append(Column("Longest wait", waited.longest[ids].tolist()))
    if chance is not None:
        columns += [
            Column("p, as few", chance.fewer[ids].tolist(), None),
            Column("p, as many", chance.more[ids].tolist(), None),
        ]
    return client_table([log.names[k] for k in ids.tolist()], columns, total=log.num_clients)


def _facts(told: Mapping[str, Any]) -> list[tuple[str, str]]:
    p = told["p_value"]
    left_out = "Left out" if told["availability_known"] else "Left out, at most"
    return [
        ("Clients, N", f"{told['clients']:,}"),
        *([("Of them erased", f"{told['erased']:,}")] if told["erased"] else []),
        ("Rounds, T", f"{told['rounds']:,}"),
        ("Slots, m", f"{told['cohort']:,}"),
        ("Requests", f"{told['requests']:,}"),
        ("Who was there", "logged" if told["availability_known"] else "not logged"),
        (left_out, words.DASH if told["left_out"] is None else f"{told['left_out']:,}"),
        ("p, by chance", probability(p)),
    ]


def _row(name: str, told: Mapping[str, Any]) -> dict[str, Any]:
    value, limit, avoidable = (told.get(f"{name}{part}") for part in PARTS)
    bar = ""
    if name in BARS and limit is not None and avoidable is not None:
        bar = charts.split_bar(limit, avoidable, max(value, limit, 1e-9))
    parity = (told["parity"] or {}).get(name)
    return {
        "name": name,
        "title": MEASURES[name].heading,
        "value": value,
        "shown": words.of(name, value),
        "limit": "" if limit is None else words.of(name, limit),
        "avoidable": "" if avoidable is None else words.of(name, avoidable),
        "parity": "" if parity is None else words.of(name, parity),
        "bar": bar,
    }


def _ends(told: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Limit and avoidable part of the Gini coefficient at both ends."""
    said = {"always_there": "everybody registered was always there", "only_when_asked": "clients came only when asked"}
    return [
        (said[end], *(words.of(f"gini{part}", found[f"gini{part}"]) for part in PARTS[1:]))
        for end, found in (told["ends"] or {}).items()
    ]


def _step(step: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    share = step["client_rounds"] / max(1, told["clients"] * told["rounds"])
    rate = "" if step["rate"] is None else words.percent(step["rate"])
    between = "" if step["rate"] is None else f"{words.percent(step['low'])} to {words.percent(step['high'])}"
    return {**step, "bar": charts.split_bar(0.0, share, 1.0), "rate": rate, "between": between}


def _chance(told: Mapping[str, Any]) -> str:
    found = told["chance"]
    if not found:
        return "The log is too large to be compared with a random draw."
    said = f"{found['method'][0].upper()}{found['method'][1:]}; p = {probability(told['p_value'])}."
    if found["gini"] is None:
        return said
    low, high, mean = (words.fixed(found[key]) for key in ("low", "high", "gini"))
    return f"{said} The Gini of drawn logs is {mean} on average, and in 95{words.NARROW}% of them {low} to {high}."


def _curve(label: str, index: int, counts: Any) -> charts.Series:
    return charts.Series(label, index, *thinned(*lorenz(counts)))


def _series(audit: Audit) -> list[charts.Series]:
    found = [_curve("the log", 0, audit.outcome.counts)]
    if audit.parity is not None:
        found.append(_curve("parity, same presence", 2, audit.parity.counts))
    return found


def _strip(audit: Audit) -> dict[str, Any] | None:
    """Who was there and who was asked; None where nobody logged who was there."""
    log = audit.log
    if log.online is None:
        return None
    drawn = strip.Strip.of(log.online)
    online, asked = drawn.marks(log.online, log.num_clients), drawn.marks(log.asked, log.num_clients)
    layer = strip.Layer(asked, np.zeros_like(asked))
    title, said = "Who was there and who was asked", "One row per client, one column per round."
    labels = strip.Labels([log.names[k] for k in drawn.clients.tolist()], log.first, drawn.bin)
    return {
        "drawing": strip.draw(online, [layer], 0, title=title, desc=said, labels=labels),
        "height": strip.height(drawn.shape[0]),
        "ticks": [(log.first + t - 1, left) for t, left in round_ticks(log.num_rounds)],
        "notes": strip_notes(drawn, log.num_clients),
    }


def _windows(told: Mapping[str, Any]) -> str:
    found = told["windows"]
    ends: FloatArray = np.array([w["last"] - told["first_round"] + 1 for w in found], dtype=np.float64)

    def line(label: str, index: int, key: str) -> charts.Series:
        return charts.Series(label, index, ends, np.array([w[key] for w in found], dtype=np.float64))

    series = [line("the log", 0, "gini"), line("the limit", 6, "gini_limit")]
    series = [one for one in series if np.isfinite(one.y).any()]
    desc = f"Gini coefficient of requests in each of {len(found)} windows of rounds."
    return charts.lines(series, title="Inequality window by window", desc=desc).markup if len(found) > 1 else ""


def _group(group: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": group["name"],
        "flagged": group["flagged"],
        "cells": [
            f"{group['clients']:,}",
            f"{group['online']:,}",
            f"{group['asked']:,}",
            words.DASH if group["expected"] is None else words.brief(group["expected"]),
            f"{words.brief(group['per_client'])} ({words.brief(group['low'])} to {words.brief(group['high'])})",
            words.percent(group["per_online"]),
            words.fixed(group["impact_ratio"], 2),
            words.fixed(group["opportunity_ratio"], 2),
            probability(group["p"]),
        ],
    }


def _client(one: Mapping[str, Any]) -> list[str]:
    return [
        one["name"],
        f"{one['online']:,}",
        f"{one['asked']:,}",
        words.fixed(one["expected"], 1),
        f"{one['at_limit']:,}",
        words.DASH if one["parity"] is None else f"{one['parity']:,}",
        "never" if one["last_asked"] is None else f"{one['last_asked']:,}",
        "no change seen" if one["since"] is None else f"round {one['since']:,}",
        f"{one['longest_wait']:,}",
        probability(one["p"]),
    ]


def _hidden(told: Mapping[str, Any]) -> str:
    """How much of the groups is not shown; empty: nothing."""
    found = told["groups_hidden"]
    if not found or not found["groups"]:
        return ""
    return (
        f"Too small to be shown: {words.plural(found['groups'], 'group')}, {words.plural(found['clients'], 'client')}."
    )


def probability(p: float | None) -> str:
    """Two digits that count; none of it is more exact."""
    return words.DASH if p is None else f"{p:.2g}".replace("-", "−")
