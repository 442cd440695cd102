"""The clients of a followed run: a table that is searched, sorted and cut into pages here, and one client's history.

Sorting and searching are array operations on the ledger: a page of 10^5 clients is found in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedparity.core.types import BoolArray, FloatArray
from fedparity.report import words
from fedparity.report.live.follow import Followed, Follower
from fedparity.report.live.told import Limit, client_told, limit_of

PAGE = 50
FILTERS = {
    "all": "all clients",
    "online": "online now",
    "never": "online, never asked",
    "failed": "failed at least once",
}
SORTS = {
    "client": "Client",
    "online": "Rounds online",
    "asked": "Asked",
    "returned": "Returned",
    "failed": "Failed",
    "last_asked": "Last asked",
    "at_limit": "At the limit",
    "behind": "Behind",
    "utility": "Utility",
}
"""Columns of the table with their headings; each can be sorted by."""
MISSED = 10
"""Rounds listed in which a client was there and not asked."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which clients, in which order; whatever the address says that makes no sense is left at its default."""

    method: str
    search: str = ""
    show: str = "all"
    sort: str = "behind"
    down: bool = True
    page: int = 1

    @classmethod
    def of(cls, run: Follower, given: Mapping[str, str], first: str | None = None) -> Query:
        """What an address asks for."""
        usual = first or next(iter(run.methods))
        method, sort, number = given.get("method", usual), given.get("sort", "behind"), given.get("page", "1")
        return cls(
            method if method in run.methods else usual,
            given.get("q", "").strip()[:80],
            given.get("show", "all") if given.get("show") in FILTERS else "all",
            sort if sort in SORTS else "behind",
            given.get("down", "1") != "0",
            max(1, int(number)) if number.isascii() and number.isdigit() and len(number) < 9 else 1,
        )

    def address(self, token: str, path: str = "/", **changed: Any) -> str:
        """The address of the same query with some of it changed."""
        from urllib.parse import urlencode

        parts = {
            "token": token,
            "method": self.method,
            "q": self.search,
            "show": self.show,
            "sort": self.sort,
            "down": int(self.down),
            "page": self.page,
        } | changed
        return f"{path}?{urlencode(parts)}"


@dataclass(frozen=True, slots=True)
class Table:
    """One page of clients."""

    rows: list[dict[str, Any]]
    found: int
    page: int
    pages: int


def table(run: Follower, one: Followed, query: Query) -> Table:
    """The page that is asked for."""
    limit, shown = limit_of(run, one), np.flatnonzero(_shown(run, one, query))
    keys = _keys(one, limit)[query.sort][shown]
    order = np.lexsort((shown, -keys if query.down else keys))  # ties by number, whatever the direction
    pages = max(1, -(-len(shown) // PAGE))
    page = min(query.page, pages)
    ids = shown[order[(page - 1) * PAGE : page * PAGE]]
    return Table([client_told(run, one, limit, int(k)) for k in ids], len(shown), page, pages)


def _keys(one: Followed, limit: Limit | None) -> dict[str, FloatArray]:
    ledger = one.ledger
    unknown = np.zeros(ledger.num_clients)
    at_limit = unknown.copy()
    if limit is not None:
        at_limit[: len(limit.counts)] = limit.counts
    columns: dict[str, Any] = {
        "client": np.arange(ledger.num_clients),
        "online": ledger.online,
        "asked": ledger.selected,
        "returned": ledger.completed,
        "failed": ledger.failed,
        "last_asked": ledger.last_selected,
        "at_limit": at_limit,
        "behind": unknown if limit is None else limit.behind,
        "utility": ledger.utility,
    }
    return {name: np.asarray(column, np.float64) for name, column in columns.items()}


def _shown(run: Follower, one: Followed, query: Query) -> BoolArray:
    ledger = one.ledger
    shown: BoolArray = {
        "all": np.ones(ledger.num_clients, np.bool_),
        "online": (ledger.last_online == ledger.rounds - 1) & (ledger.rounds > 0),
        "never": (ledger.selected == 0) & ledger.seen(),
        "failed": ledger.failed > 0,
    }[query.show]
    if query.search:
        names = np.array(run.trace.names or np.arange(ledger.num_clients), dtype=np.str_)
        names = names if len(names) == ledger.num_clients else np.arange(ledger.num_clients).astype(np.str_)
        shown &= np.char.find(np.char.lower(names), query.search.lower()) >= 0
    return shown


def presence(run: Follower, one: Followed, client: int) -> dict[str, BoolArray]:
    """In which rounds a client was online, asked, used and failed."""
    rounds = len(one.rounds)
    head = run.trace.clients[: run.trace.starts[min(rounds, run.trace.num_rounds)]]
    online = np.zeros(rounds, np.bool_)
    online[np.searchsorted(run.trace.starts, np.flatnonzero(head == client), side="right") - 1] = True
    return {
        "online": online,
        "asked": np.array([client in r.selected for r in one.rounds], np.bool_),
        "returned": np.array([client in r.completed for r in one.rounds], np.bool_),
        "failed": np.array([any(k == client for k, _ in r.failed) for r in one.rounds], np.bool_),
    }


def place(one: Followed, client: int) -> str:
    """Where a client stands among all, and among those that were online about as often."""
    ledger = one.ledger
    asked, online = ledger.selected, ledger.online
    less = int((asked < asked[client]).sum())
    alike = np.abs(online - online[client]) <= max(1, int(online[client]) // 10)
    mean = float(asked[alike].mean())
    return (
        f"{words.plural(less, 'client')} of {ledger.num_clients:,} {'was' if less == 1 else 'were'} asked less often."
        f" The {words.plural(int(alike.sum()), 'client')} that were online about as often (within a tenth, itself"
        f" among them) were asked {words.brief(mean)} times on average, this one {int(asked[client]):,}."
    )


def why_not(one: Followed, client: int, there: Mapping[str, BoolArray]) -> tuple[str, list[tuple[int, ...]]]:
    """The last rounds in which a client was there and not asked, beside those that were asked instead.

    One row each: round, online, slots, how often the client had been asked before, and how often those had that were
    asked (least, median, most).
    """
    missed = np.flatnonzero(there["online"] & ~there["asked"])
    if not len(missed):
        return "It was asked in every round in which it was there.", []
    counts, rows = one.ledger.selected.astype(np.int64), list[tuple[int, ...]]()
    wanted = set(missed[-MISSED:].tolist())
    for t in range(len(one.rounds) - 1, min(wanted) - 1, -1):
        done = one.rounds[t]
        counts[done.selected] -= 1  # now as before round t
        if t in wanted:
            others = counts[done.selected]
            spread = (int(others.min()), int(np.median(others)), int(others.max())) if len(others) else (0, 0, 0)
            rows.append((t + 1, done.online, len(done.selected), int(counts[client]), *spread))
    needier = sum(row[5] < row[3] for row in rows)
    said = (
        f"It was there {words.plural(len(missed), 'time')} without being asked. In {needier} of the last {len(rows)} of"
        " those rounds the clients asked instead had, by their median, been asked less often than this one."
    )
    return said, rows
