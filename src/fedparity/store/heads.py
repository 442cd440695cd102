"""How far each method came, beside the database: what tells a database that lost rounds from one that never had them.

SQLite stops reading its log at the first frame that is damaged and takes what came before for everything. So after
each commit a line `SHA-256 [seed, method, rounds, chain]` is appended here and synced: a database with fewer rounds, or
with others, is damaged. A line that was being written when the process died has no newline and counts as not written.
Opening a run writes the file anew with one line per method; closing it cleanly adds the line `closed`, after the
manifest is on the disk: from then on a missing manifest is a loss, not a crash.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeAlias

from fedparity.store.disk import Disk

HEADS = "heads.jsonl"
CLOSED = "closed"
Head: TypeAlias = tuple[int, str]
"""Rounds that were committed, and the chain after the last of them."""


class Heads:
    """The heads of a run, as they stand in its folder."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.known: dict[tuple[int, str], Head] = {}
        self.closed = False
        self.torn = False
        """Whether the last line was being written when the process died."""
        self.damaged = False
        self.there = disk.path(HEADS).exists()
        if self.there:
            self._read(disk.read(HEADS))

    def _read(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        self.torn = bool(rest)
        for line in lines:
            seal, _, text = line.partition(b" ")
            try:
                entry: Any = json.loads(text) if hashlib.sha256(text).hexdigest().encode() == seal else None
                self.closed = entry == CLOSED
                if not self.closed:
                    seed, method, rounds, chain = entry
                    self.known[int(seed), str(method)] = (int(rounds), str(chain))
            except (RecursionError, TypeError, ValueError):
                self.damaged = True

    def add(self, seed: int, method: str, head: Head) -> None:
        """One more round is committed."""
        self.known[seed, method] = head
        self.disk.append(HEADS, _line([seed, method, *head]))

    def write(self, *, closed: bool = False) -> None:
        """The file anew: one line per method, and whether the run was closed."""
        entries: list[object] = [[*key, *head] for key, head in sorted(self.known.items())]
        self.disk.write(HEADS, b"".join(map(_line, [*entries, CLOSED] if closed else entries)))
        self.closed, self.torn, self.damaged, self.there = closed, False, False, True

    def catch_up(self, committed: dict[tuple[int, str], Head]) -> None:
        """The file anew with rounds whose head was not written when the process died, so that lags do not add up."""
        for key, head in committed.items():
            self.known[key] = max(self.known.get(key, head), head, key=lambda one: one[0])
        if self.there or self.known:
            self.write()

    def lower(self, seed: int, method: str, head: Head) -> None:
        """Rounds are about to be dropped: said first, so that a crash in between does not look like a loss."""
        self.known[seed, method] = head
        self.write()

    def replace(self, known: dict[tuple[int, str], Head]) -> None:
        """Other heads for all methods: before rounds are chained anew none, and afterwards those they have then."""
        self.known = known
        self.write()


def _line(entry: object) -> bytes:
    text = json.dumps(entry, separators=(",", ":")).encode()
    return b"%s %s\n" % (hashlib.sha256(text).hexdigest().encode(), text)
