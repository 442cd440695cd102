"""The journal of a run as it stands in its database: line by line, each checked, and none missing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fedparity.core.journal import GENESIS, link
from fedparity.store.database import DamagedError, Database, decoding, digest, names_of
from fedparity.store.heads import Head, Heads


@dataclass(frozen=True, slots=True)
class Committed:
    """One round as it stands in the store."""

    round: int
    line: str
    chain: str
    row: list[Any]
    seconds: float
    """Telemetry: how long it took."""


def round_digest(key: tuple[int, str, int], line_sha256: str, chain: str, row: str) -> str:
    """What a row of `rounds` is sealed with."""
    return digest(*map(str, key), line_sha256, chain, row)


def committed_rounds(
    db: Database, heads: Heads, seed: int, method: str, after: Head = (0, GENESIS)
) -> Iterator[Committed]:
    """The rounds of a method, oldest first, each checked against its digest, the chain and the head.

    `after` is how many of them are known already, and the chain they ended with.
    """
    query = (
        "SELECT round, line, line_sha256, chain, row, digest, value FROM rounds LEFT JOIN telemetry USING"
        " (seed, method, round) WHERE seed = ? AND method = ? AND round >= ? ORDER BY round"
    )
    root = db.path.parent
    (done, chain), redacted = after, _redacted(db)
    known, expected = heads.known.get((seed, method), (0, GENESIS))
    for number, line, line_sha256, linked, row, check, seconds in db.rows(query, (seed, method, done)):
        where = f"{root}: {method}, seed {seed}, round {number}"
        with decoding(where):
            found = hashlib.sha256(line.encode()).hexdigest()
            chain = link(chain, line_sha256)
            sealed = round_digest((seed, method, number), line_sha256, linked, row)
        if number != done or linked != chain or check != sealed:
            raise DamagedError(f"{where}: the chain is broken; restore run.db from a copy")
        if found != redacted.get(f"{seed}/{method}/{number}", line_sha256):
            raise DamagedError(f"{where}: the journal line was changed; restore run.db from a copy")
        with decoding(where):
            committed = Committed(number, line, linked, list(json.loads(row)), float(seconds or "nan"))
        done += 1
        if done == known and chain != expected:
            raise DamagedError(f"{where}: another round was committed here; restore run.db from a copy")
        yield committed
    refuse_loss(db, heads, (seed, method), done)


def refuse_loss(db: Database, heads: Heads, contender: tuple[int, str], found: int) -> None:
    """Refuse a method of which fewer rounds are found than were committed."""
    known, _ = heads.known.get(contender, (0, GENESIS))
    if found < known:
        raise DamagedError(
            f"{db.path.parent}: {contender[1]}, seed {contender[0]}: {found} rounds, but {known} were committed; run.db"
            " or its log lost the others: restore them from a copy, or begin anew with --overwrite"
        )


def _redacted(db: Database) -> dict[str, str]:
    """The digests of lines that an erasure rewrote, if the erasures themselves are intact."""
    found: dict[str, str] = {}
    chain, where = GENESIS, f"{db.path.parent}: erasures"
    for client, lines, linked in db.rows("SELECT client, lines, chain FROM erasures ORDER BY number"):
        with decoding(where):
            chain = link(chain, digest(str(client), lines))
        if chain != linked:
            raise DamagedError(f"{where}: the list was changed; restore run.db from a copy")
        found |= names_of(lines, where)
    return found
