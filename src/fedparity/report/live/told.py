"""What there is to tell of a followed run: one sentence, numbers by method, who is furthest behind, what happened."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedparity.core.ledger import NEVER
from fedparity.metrics import gini
from fedparity.report import words
from fedparity.report.live.follow import Followed, Follower

BEHIND, EVENTS, NAMED, RECENT = 10, 30, 3, 20
"""Clients and events that are listed, clients named in one event, and rounds that a pace is taken from."""


@dataclass(frozen=True, slots=True, eq=False)
class Limit:
    """How far one method is from the least unequal counts, both after so many rounds."""

    rounds: int
    gini: float
    best: float
    counts: NDArray[np.int64]
    """Of the fairest schedule with as many requests."""
    behind: NDArray[np.int64]
    """By how much each client's requests fall short of it."""

    @property
    def avoidable(self) -> float:
        """What is ours."""
        return max(0.0, self.gini - self.best)


def limit_of(run: Follower, one: Followed) -> Limit | None:
    """The limit as far as it was computed."""
    if run.limit is None or run.limit[0] > len(one.rounds):
        return None
    rounds, best = run.limit
    counts = one.counts_after(rounds)
    fairest = best.at_total(min(int(counts.sum()), best.total)).counts
    missing = np.zeros(len(counts), np.int64)
    missing[: len(fairest)] = fairest - counts[: len(fairest)]
    return Limit(rounds, gini(counts), gini(fairest), fairest, missing)


def client_name(run: Follower, client: int) -> str:
    """What a client is called in its trace, or its number."""
    names = run.trace.names
    return names[client] if names is not None and client < len(names) else str(client)


def _gini(value: float) -> str:
    return words.of("gini", value)


def _of(run: Follower) -> str:
    return "" if run.rounds_in_all is None else f" of {run.rounds_in_all:,}"


def sentence(run: Follower, one: Followed) -> str:
    """Where the run is and how fair it is, in one line."""
    if not one.rounds:
        return f"No round of {one.method} was read yet."
    now, done = one.rounds[-1], len(one.rounds)
    parts = [
        f"Round {done:,}{_of(run)}.",
        f"{len(now.completed):,} of {len(now.selected):,} returned.",
    ]
    limit = limit_of(run, one)
    if limit is None:
        why = "too large for a limit while it runs" if run.too_large else "limit not computed yet"
        return " ".join([*parts, f"Gini {_gini(now.value('gini'))} ({why})."])
    when = "" if limit.rounds == done else f" after {limit.rounds:,} rounds"
    return " ".join([
        *parts,
        f"Gini {_gini(limit.gini)}{when}, limit so far {_gini(limit.best)}:",
        f"{_gini(limit.avoidable)} is ours, {_gini(min(limit.best, limit.gini))} is physics.",
    ])  # fmt: skip


def eta(run: Follower) -> float | None:
    """Seconds until the last round of the last seed at the pace of the last rounds; None if nobody is at work."""
    if run.state != "running" or not run.rounds or run.rounds_in_all is None:
        return None
    pace = sum(float(np.nanmean([r.seconds for r in one.rounds[-RECENT:]])) for one in run.methods.values())
    later = run.spec.seed + run.spec.seeds - 1 - run.seed
    left = pace * (run.spec.rounds - run.rounds + later * run.spec.rounds)
    return left if math.isfinite(left) else None


def duration(seconds: float | None) -> str:
    """`2 h 5 min`, `40 s`."""
    if seconds is None:
        return words.DASH
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def last_known(one: Followed, column: str) -> float | None:
    """The newest number of a column that is not scored every round."""
    return next((v for r in reversed(one.rounds) if math.isfinite(v := r.value(column))), None)


def method_told(run: Follower, one: Followed) -> dict[str, Any]:
    """One method in numbers."""
    now, limit, ledger = (one.rounds[-1] if one.rounds else None), limit_of(run, one), one.ledger
    return {
        "method": one.method,
        "round": len(one.rounds),
        "online": None if now is None else now.online,
        "asked": None if now is None else len(now.selected),
        "returned": None if now is None else len(now.completed),
        "failed": None if now is None else len(now.failed),
        "asked_in_all": int(ledger.selected.sum()),
        "failed_in_all": int(ledger.failed.sum()),
        "never_served": int(((ledger.selected == 0) & ledger.seen()).sum()),
        # of the round that the limit is of: parts of numbers from different rounds would not add up
        "gini": limit.gini if limit is not None else None if now is None else gini(ledger.selected),
        "gini_limit": None if limit is None else limit.best,
        "gini_avoidable": None if limit is None else limit.avoidable,
        "limit_round": None if limit is None else limit.rounds,
        "accuracy": last_known(one, "accuracy"),
        "fairness_variance": last_known(one, "fairness_variance"),
        "sentence": sentence(run, one),
    }


def furthest_behind(run: Follower, one: Followed) -> list[dict[str, Any]]:
    """Who was asked least beside the fairest schedule; without a limit, whoever was there most for each request."""
    limit, ledger = limit_of(run, one), one.ledger
    key = ledger.online / (1 + ledger.selected) if limit is None else limit.behind + 0.0
    order = np.lexsort((-ledger.online, -key))[:BEHIND]
    return [client_told(run, one, limit, int(k)) for k in order if key[k] > 0]


def client_told(run: Follower, one: Followed, limit: Limit | None, client: int) -> dict[str, Any]:
    """One client in numbers."""
    ledger = one.ledger
    last = int(ledger.last_selected[client])
    return {
        "client": client,
        "name": client_name(run, client),
        "online_now": bool(one.rounds) and int(ledger.last_online[client]) == ledger.rounds - 1,
        "online": int(ledger.online[client]),
        "asked": int(ledger.selected[client]),
        "returned": int(ledger.completed[client]),
        "failed": int(ledger.failed[client]),
        "last_asked": None if last == NEVER else last + 1,
        "at_limit": None if limit is None or client >= len(limit.counts) else int(limit.counts[client]),
        "behind": None if limit is None else int(limit.behind[client]),
        "utility": float(ledger.utility[client]),
    }


def happened(run: Follower, one: Followed) -> list[dict[str, Any]]:
    """What happened, newest first: to the run while it was followed, then rounds in which something failed."""
    found: list[dict[str, Any]] = [{"round": None, "at": at, "what": what} for at, what in reversed(run.events)]
    for number in range(len(one.rounds), 0, -1):
        if len(found) >= EVENTS:
            break
        done = one.rounds[number - 1]
        if done.abandoned:
            found.append({"round": number, "at": None, "what": "the round was given up: too few usable updates"})
        if done.failed:
            named = [f"{client_name(run, client)} ({why})" for client, why in done.failed[:NAMED]]
            named += [f"{len(done.failed) - NAMED:,} more"] if len(done.failed) > NAMED else []
            what = f"{len(done.failed):,} of {len(done.selected):,} not used: {', '.join(named)}"
            found.append({"round": number, "at": None, "what": what})
    return found[:EVENTS]


def told(run: Follower, method: str | None = None) -> dict[str, Any]:
    """What `fedparity watch --once --json` prints."""
    one = run.methods[method or next(iter(run.methods))]
    return {
        "name": run.spec.name,
        "state": run.state,
        "rounds": run.rounds,
        "rounds_in_all": run.rounds_in_all,
        "seed": run.seed,
        "first_seed": run.spec.seed,
        "seeds": run.spec.seeds,
        "clients": one.ledger.num_clients,
        "erased": len(run.erased),
        "cohort": run.spec.cohort,
        "eta_seconds": eta(run),
        "method": one.method,
        "sentence": sentence(run, one),
        "methods": [method_told(run, other) for other in run.methods.values()],
        "behind": furthest_behind(run, one),
        "events": happened(run, one),
    }
