"""Who was left out and since when, who was favoured, and what `parity` would have done instead."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedparity.audit.chance import Chance, Null
from fedparity.audit.log import Log
from fedparity.audit.over_time import SHORTEST, Waits, asked_flags, farthest
from fedparity.core.trace import Trace
from fedparity.core.types import Ids
from fedparity.experiment.schedule import Setting, run_draw
from fedparity.metrics import Outcome
from fedparity.metrics.paired import LEVEL
from fedparity.schedulers import Parity

LISTED = 50
"""The most clients that are listed."""
MOST_ENTRIES, MOST_ASKED, MOST_ROUNDS = 5_000_000, 300_000, 20_000
"""Sizes up to which `parity` is tried on the same availability."""


@dataclass(frozen=True, slots=True)
class Client:
    """One client that got less, or more, than chance would have given it."""

    name: str
    online: int
    asked: int
    expected: float
    p: float
    """Chance of as few (or as many); one client alone."""
    last_asked: int | None
    """As rounds are called outside; None: never."""
    since: int | None
    """The round from which it went so; None: all the time."""
    longest_wait: int
    """Rounds online in a row without being asked."""
    at_limit: int
    """Requests in one of the most even schedules."""
    parity: int | None = None
    """Requests that `parity` would have made."""


def clients_listed(
    log: Log,
    presence: Trace,
    chance: Chance,
    who: Ids,
    *,
    waited: Waits,
    limit: NDArray[np.integer],
    other: Outcome | None,
    fewer: bool,
) -> list[Client]:
    """Some clients with their story, those farthest from chance first."""
    tail = chance.fewer if fewer else chance.more
    short = log.ledger.selected - chance.expected if fewer else chance.expected - log.ledger.selected
    names = np.array([log.names[k] for k in who.tolist()], dtype=object)
    ranked = who[np.lexsort((names.astype(str), short[who], tail[who]))][:LISTED]
    null = Null(presence, log.asked.sizes())
    hit = asked_flags(presence, log.asked)
    rounds = np.repeat(np.arange(presence.num_rounds), presence.sizes())
    found = []
    for k in ranked.tolist():
        mine = np.flatnonzero(presence.clients == k)
        p = null.chance[rounds[mine]]
        at, unlikely = farthest(hit[mine] - p, p * (1 - p))
        changed = unlikely <= LEVEL and SHORTEST <= at < len(mine)
        last = int(log.ledger.last_selected[k])
        found.append(
            Client(
                name=log.names[k],
                online=len(mine),
                asked=int(log.ledger.selected[k]),
                expected=float(chance.expected[k]),
                p=float(tail[k]),
                last_asked=None if last < 0 else log.first + last,
                since=log.first + int(rounds[mine[at]]) if changed else None,
                longest_wait=int(waited.longest[k]),
                at_limit=int(limit[k]),
                parity=None if other is None else int(other.counts[k]),
            )
        )
    return found


def counterfactual(log: Log) -> Outcome | None:
    """What `parity` would have made of the same availability; None where that is not known, or takes too long."""
    online = log.online
    if online is None or len(online.clients) > MOST_ENTRIES or online.num_rounds > MOST_ROUNDS:
        return None
    if int(np.minimum(online.sizes(), log.slots).sum()) > MOST_ASKED:
        return None
    setting = Setting(online, log.num_clients, log.num_rounds, min(log.slots, log.num_clients))
    return run_draw(setting, Parity(), 0, "share").outcome
