"""Who was erased from a run: a list with a chain of its own, with which the chain of every method begins."""

from __future__ import annotations

from typing import NamedTuple

from fedparity.core.journal import GENESIS, link
from fedparity.store.database import DamagedError, Database, decoding, digest


class Erasing(NamedTuple):
    """An erasure that is under way."""

    client: int
    totals: bool = False
    """Whether rounds go, too, but for what each client had in all."""

    def __str__(self) -> str:
        return f"{self.client} --totals" if self.totals else str(self.client)

    @classmethod
    def of(cls, text: str) -> Erasing:
        """From its text; ValueError if it is none."""
        client, _, totals = text.partition(" ")
        return cls(int(client), bool(totals))


def chain_start(db: Database) -> str:
    """What the chain of every method begins with: that of the erasures, so that their list cannot be changed either."""
    chain, where = GENESIS, f"{db.path.parent}: erasures"
    for client, lines, linked in db.rows("SELECT client, lines, chain FROM erasures ORDER BY number"):
        with decoding(where):
            chain = link(chain, digest(str(client), lines))
        if chain != linked:
            raise DamagedError(f"{where}: the list was changed; restore run.db from a copy")
    return chain


def add_erasure(db: Database, client: int) -> None:
    """Add to the list; `lines` stays empty: how many rounds spoke of a client is a fact about it, too."""
    row = (client, "", link(chain_start(db), digest(str(client), "")))
    db.run("INSERT INTO erasures (client, lines, chain) VALUES (?, ?, ?)", row)
