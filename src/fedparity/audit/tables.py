"""One row per client, for any tool."""

from __future__ import annotations

from fedparity.audit.audit import Audit
from fedparity.core.files import csv_text

CLIENT_COLUMNS = (
    "client",
    "group",
    "online",
    "asked",
    "failed",
    "used",
    "expected_by_chance",
    "p_as_few",
    "p_as_many",
    "last_asked",
    "longest_wait",
    "waiting_at_the_end",
    "at_limit",
    "parity",
    "influence",
)


def client_csv(audit: Audit) -> str:
    """Clients in the order of their names; what is not known is empty."""
    log, led, chance, waited = audit.log, audit.outcome.ledger, audit.chance, audit.waits
    limit, other = audit.outcome.limit, audit.parity
    rows = []
    for k in sorted(range(log.num_clients), key=log.names.__getitem__):
        last = int(led.last_selected[k])
        rows.append(
            (
                log.names[k],
                None if log.groups is None else log.groups[k],
                int(led.online[k]) if audit.online_known else None,
                int(led.selected[k]),
                int(led.failed[k]) if "failed" in log.known else None,
                int(led.completed[k]) if "completed" in log.known else None,
                None if chance is None else float(chance.expected[k]),
                None if chance is None else float(chance.fewer[k]),
                None if chance is None else float(chance.more[k]),
                None if last < 0 else log.first + last,
                None if waited is None else int(waited.longest[k]),
                None if waited is None else int(waited.now[k]),
                None if limit is None else int(limit[k]),
                None if other is None else int(other.counts[k]),
                float(log.influence[k]) if len(log.influence) else None,
            )
        )
    return csv_text(CLIENT_COLUMNS, rows)
