"""What the templates of the live view are given."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from fedparity.core.types import BoolArray, FloatArray
from fedparity.report import charts, fill, frame, strip, svg, words
from fedparity.report.live.clients import FILTERS, SORTS, Query, place, presence, table, why_not
from fedparity.report.live.follow import Followed, Follower
from fedparity.report.live.told import client_name, client_told, duration, limit_of, told

SCRIPTS = ("page.js", "live.js")
POINTS, ROWS, ROUNDS = 300, 48, 80
"""The most points of a line, and the most clients and rounds of the strip."""


def policy() -> str:
    """What a page of the live view may do: run our script, which is told by its digest, and ask this server."""
    more = "form-action 'self'; connect-src 'self'; img-src data:; frame-ancestors 'none'"
    return frame.policy(SCRIPTS).replace("form-action 'none'", more)


def _common(run: Follower, query: Query, token: str) -> dict[str, Any]:
    return {
        "name": run.spec.name,
        "query": query,
        "token": token,
        "trouble": run.trouble,
        "when": time.strftime("%H:%M:%S"),
        "address": lambda path="/", **changed: query.address(token, path, **changed),
        "of": words.of,
        "number": _number,
        "version": run.version,
    }


def _document(title: str, name: str, context: dict[str, Any]) -> str:
    return frame.document(title, fill(name, context), scripts=SCRIPTS, served=True)


def main_page(run: Follower, query: Query, token: str) -> str:
    """The page of a run."""
    one = run.methods[query.method]
    now = told(run, query.method)
    most = max((m["gini"] or 0.0 for m in now["methods"]), default=0.0)
    for index, method in enumerate(now["methods"]):
        parts = (method["gini_limit"], method["gini_avoidable"])
        method["bar"] = "" if None in parts else charts.split_bar(*parts, most)
        method["swatch"] = charts.swatch(index)
    return _document(
        run.spec.name,
        "live.html.j2",
        _common(run, query, token)
        | {
            "now": now,
            "facts": _facts(run, now, one),
            "accuracy": _chart(run, "avg_client_accuracy", "Accuracy over rounds", unit=True),
            "variance": _chart(run, "fairness_variance", "V_T over rounds", unit=False),
            "gini": _chart(run, "gini", "Gini over rounds", unit=False),
            "strip": last_rounds(run, one),
            "table": table(run, one, query),
            "sorts": SORTS,
            "filters": FILTERS,
            "too_large": run.too_large,
        },
    )


def client_page(run: Follower, query: Query, token: str, client: int) -> str:
    """The page of one client."""
    one = run.methods[query.method]
    there = presence(run, one, client)
    why, rows = why_not(one, client, there)
    about = client_told(run, one, limit_of(run, one), client)
    return _document(
        f"Client {about['name']}",
        "live_client.html.j2",
        _common(run, query, token)
        | {
            "about": about,
            "methods": list(run.methods),
            "place": place(one, client) if one.rounds else "No round was read yet.",
            "why": why,
            "missed": rows,
            "history": _history(there) if one.rounds else None,
            "sorts": SORTS,
        },
    )


def _number(value: float | None) -> str:
    if value is None:
        return words.DASH
    return f"{value:,}" if isinstance(value, int) else words.brief(value)


def _progress(run: Follower, now: dict[str, Any]) -> list[tuple[str, str]]:
    if run.rounds_in_all is None:
        return [("Rounds", f"{now['rounds']:,}")]
    return [
        ("Rounds", f"{now['rounds']:,} of {run.rounds_in_all:,}"),
        ("Time left", duration(now["eta_seconds"])),
        ("Repetition", f"{run.seed - run.spec.seed + 1} of {run.spec.seeds}"),
    ]


def _facts(run: Follower, now: dict[str, Any], one: Followed) -> list[tuple[str, str]]:
    last, never = one.rounds[-1] if one.rounds else None, {*np.flatnonzero(one.ledger.selected == 0).tolist()}
    return [
        ("State", str(now["state"])),
        *_progress(run, now),
        ("Online", words.DASH if last is None else f"{last.online:,} of {one.ledger.num_clients:,}"),
        ("Asked", words.DASH if last is None else f"{len(last.selected):,}"),
        ("Failed", words.DASH if last is None else f"{len(last.failed):,}"),
        ("Never asked", words.DASH if last is None else f"{len(never - run.erased):,}"),
        *([("Erased", f"{len(run.erased):,}")] if run.erased else []),
    ]


def _thinned(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rounds and values, the known ones, and not more than a screen has room for; the last is always there."""
    known = np.flatnonzero(np.isfinite(values))
    known = known[svg.evenly(len(known), POINTS)]
    return known.astype(np.float64) + 1, values[known]


def _chart(run: Follower, column: str, title: str, *, unit: bool) -> str:
    series = []
    for index, one in enumerate(run.methods.values()):
        x, y = _thinned(one.column(column))
        if len(x):
            series.append(charts.Series(one.method, index, x, y))
    if not series:
        return ""
    return charts.lines(series, title=title, desc="One line per method.", unit=unit).markup


def last_rounds(run: Follower, one: Followed) -> dict[str, Any] | None:
    """Who was there, asked and failed in the last rounds; of many clients evenly many of every rank of presence."""
    done = len(one.rounds)
    if not done:
        return None
    first = max(0, done - ROUNDS)
    ranked = np.argsort(-one.ledger.online, kind="stable")[svg.evenly(one.ledger.num_clients, ROWS)]
    cells = strip.Strip(ranked.astype(np.int64), done - first, 1)
    recent, clients = one.rounds[first:], one.ledger.num_clients
    online = cells.marks((run.trace.online(t) for t in range(first, min(done, run.trace.num_rounds))), clients)
    failed = [np.array([k for k, _ in r.failed], np.int64) for r in recent]
    layer = strip.Layer(cells.marks((r.completed for r in recent), clients), cells.marks(failed, clients))
    title, said = f"Rounds {first + 1:,} to {done:,}", "One row per client, one column per round."
    labels = strip.Labels([client_name(run, int(k)) for k in ranked], first + 1)
    return {
        "drawing": strip.draw(online, [layer], 0, title=title, desc=said, labels=labels),
        "height": strip.height(len(ranked)),
        "first": first + 1,
        "last": done,
        "shown": len(ranked),
        "clients": clients,
    }


def _history(there: dict[str, BoolArray]) -> dict[str, Any]:
    """One client's rounds in lines of so many that a screen has room for."""
    rounds = len(there["online"])
    width = min(100, rounds)
    lines = math.ceil(rounds / width)

    def folded(marks: BoolArray) -> BoolArray:
        padded = np.zeros(lines * width, np.bool_)
        padded[:rounds] = marks
        return padded.reshape(lines, width)

    drawn = strip.draw(
        folded(there["online"]),
        [strip.Layer(folded(there["returned"]), folded(there["failed"]))],
        0,
        title=f"Rounds 1 to {rounds:,}",
        desc=f"{width} rounds per line.",
    )
    return {"drawing": drawn, "height": 22 * lines, "width": width, "rounds": rounds}
