"""The journal of a run as it stands in its database: line by line, each checked, and none missing."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fedparity.core.journal import GENESIS, link
from fedparity.store.database import DamagedError, Database, decoding, digest
from fedparity.store.erasures import chain_start
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
    resumed: str = ""
    """Telemetry: when the run was resumed with this round; nothing if it was not."""


def timed(seconds: float, *, again: bool) -> str:
    """A round's telemetry as it is stored; `again`: it is the first since the run was resumed, which was now."""
    return f"{seconds!r} {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())}" if again else repr(seconds)


def round_digest(key: tuple[int, str, int], line_sha256: str, chain: str, row: str) -> str:
    """What a row of `rounds` is sealed with."""
    return digest(*map(str, key), line_sha256, chain, row)


def sealed_round(key: tuple[int, str, int], chain: str, line: str, row: list[Any]) -> tuple[str, str, str, str, str]:
    """A round as it is stored behind its key: line, its digest, the chain with it, the log row and the seal."""
    line_sha256, shown = hashlib.sha256(line.encode()).hexdigest(), json.dumps(row)
    linked = link(chain, line_sha256)
    return line, line_sha256, linked, shown, round_digest(key, line_sha256, linked, shown)


def chained_anew(db: Database, contender: tuple[int, str], rounds: Iterable[tuple[str, list[Any]]]) -> str:
    """Put other lines and log rows in the place of all of a method's, in a transaction; the chain they end with."""
    chain = chain_start(db)
    for number, (line, row) in enumerate(rounds):
        new = sealed_round((*contender, number), chain, line, row)
        chain = new[2]
        db.run(
            "UPDATE rounds SET line = ?, line_sha256 = ?, chain = ?, row = ?, digest = ?"
            " WHERE seed = ? AND method = ? AND round = ?",
            (*new, *contender, number),
        )
    return chain


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
    (done, chain), start = after, chain_start(db)
    chain = chain if done else start
    known, expected = heads.known.get((seed, method), (0, GENESIS))
    for number, line, line_sha256, linked, row, check, value in db.rows(query, (seed, method, done)):
        where = f"{root}: {method}, seed {seed}, round {number}"
        with decoding(where):
            found = hashlib.sha256(line.encode()).hexdigest()
            chain = link(chain, line_sha256)
            sealed = round_digest((seed, method, number), line_sha256, linked, row)
        if number != done or linked != chain or check != sealed:
            raise DamagedError(f"{where}: the chain is broken; restore run.db from a copy")
        if found != line_sha256:
            raise DamagedError(f"{where}: the journal line was changed; restore run.db from a copy")
        with decoding(where):
            took, _, resumed = (value or "nan").partition(" ")
            committed = Committed(number, line, linked, list(json.loads(row)), float(took), resumed)
        done += 1
        if done == known and chain != expected:
            raise DamagedError(f"{where}: another round was committed here; restore run.db from a copy")
        yield committed
    refuse_loss(db, heads, (seed, method), done)


def ends(db: Database) -> dict[tuple[int, str], Head]:
    """How far each method came, by the database."""
    query = "SELECT seed, method, max(round), chain FROM rounds GROUP BY seed, method"
    return {(int(seed), str(method)): (int(last) + 1, str(chain)) for seed, method, last, chain in db.rows(query)}


def refuse_loss(db: Database, heads: Heads, contender: tuple[int, str], found: int) -> None:
    """Refuse a method of which fewer rounds are found than were committed."""
    known, _ = heads.known.get(contender, (0, GENESIS))
    if found < known:
        raise DamagedError(
            f"{db.path.parent}: {contender[1]}, seed {contender[0]}: {found} rounds, but {known} were committed; run.db"
            " or its log lost the others: restore them from a copy, or begin anew with --overwrite"
        )
