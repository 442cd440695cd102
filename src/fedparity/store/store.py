"""A run is a folder that survives anything: what is committed stays, whole, and resuming equals never having stopped.

    run.db             SQLite (WAL, synchronous=FULL, STRICT): one transaction per round
      origin           the resolved spec, the trace, the digests of all inputs, versions; sealed
      rounds           the journal line, its digest and the chain; the log row; a check over all of it   (kept for good)
      states           what changed in the state since the round before, and a whole one now and then    (pruned)
      facts            what only a task can tell of a finished method
      telemetry        times; not part of any digest
      erasures         the numbers of clients that were erased, chained too
    arrays/*.safetensors   large arrays, named by the SHA-256 of their bytes
    heads.jsonl        how many rounds are committed: what tells a database that lost some
    manifest.json      SHA-256 of every file, written on a clean close and removed on opening

A large array is durable before the transaction that names it commits, so a committed round never lacks a file.
Everything but a state can be read without any array file, any data set and any task.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from fedparity.core.errors import FedparityError, InputError
from fedparity.core.journal import GENESIS
from fedparity.core.trace import Trace
from fedparity.store import lock
from fedparity.store.arrays import ArrayFiles
from fedparity.store.checkpoints import Checkpoints, Contender
from fedparity.store.database import (
    DATABASE,
    SCHEMA,
    TABLES,
    DamagedError,
    Database,
    copy_if_left_open,
    decoding,
    digest,
    storage_errors,
)
from fedparity.store.disk import PARTIAL, Disk
from fedparity.store.erasures import Erasing, chain_start
from fedparity.store.facts import Facts
from fedparity.store.heads import HEADS, Head, Heads
from fedparity.store.manifest import DERIVED, MANIFEST, write_manifest
from fedparity.store.origin import Origin, trace_bytes
from fedparity.store.rounds import Committed, committed_rounds, ends, refuse_loss, sealed_round, timed

FORMAT = 2
LEFT = re.compile(rf"({MANIFEST}|{HEADS}){PARTIAL}|\.({'|'.join(map(re.escape, DERIVED))})\.[0-9a-f]{{16}}")
"""Files that were being written when a process died."""
ERASING = "erasing"
SECRET = "secret"  # noqa: S105 - where it is kept, not what it is


class Store:
    """One open run; `with Store.open(folder) as store:` holds its lock."""

    def __init__(self, disk: Disk, db: Database, heads: Heads, handle: int | None) -> None:
        self.disk = disk
        self.db = db
        self.heads = heads
        self._lock = handle
        """None: opened for reading only."""
        self.running = False
        """Whether another process was writing the run when this one opened it for reading."""
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self.arrays = ArrayFiles(disk)
        self.checkpoints = Checkpoints(db, self.arrays)
        self.origin = Origin(db, str(disk.root))
        self.notices: list[str] = []
        """What was found damaged and left behind."""

    @classmethod
    def open(cls, folder: str | Path, disk: Disk | None = None, *, create: bool = True, copies: bool = False) -> Self:
        """Open a run for writing, or refuse: another process has it, or its format is not ours; `copies`: `arrays`."""
        disk = disk or Disk(Path(folder))
        if not create:
            _must_be_there(disk)
        handle = lock.take(disk.root)
        try:
            store = cls(disk, Database.writable(disk.root / DATABASE), Heads(disk), handle)
        except BaseException:
            os.close(handle)
            raise
        store.arrays.copies = copies
        try:
            store._prepare()
        except BaseException:
            store.abandon()
            raise
        return store

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """Open a run for reading, as it is now: nothing in its folder changes, and later changes are not seen."""
        disk = Disk(Path(folder))
        _must_be_there(disk)
        with lock.reading(disk.root) as running:
            heads = Heads(disk)  # before the database: rounds committed in between are no loss
            copied = copy_if_left_open(disk, running=running)
            path = disk.root / DATABASE
            source = path if copied is None else Path(copied.name) / DATABASE
            store = cls(disk, Database.readable(path, source, running=running), heads, None)
        store._copy, store.running = copied, running
        try:
            store._check_format()
        except BaseException:
            store.abandon()
            raise
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def _prepare(self) -> None:
        with storage_errors(self.db.path):
            known = self.db.one("SELECT 1 FROM sqlite_schema WHERE name = 'meta'")
            if known and self._meta("format") is not None:
                self._check_format()
            self.db.connection.executescript(SCHEMA)
            if self._meta("format") is None:
                self._set_meta("format", str(FORMAT))
        if self.heads_differ(closed=self.disk.path(MANIFEST).exists()):
            self.notices.append(f"{self.disk.path(HEADS)}: differs from what was written")
        erasing = self.erasing() is not None  # then all rounds are about to be chained anew
        self.heads.catch_up({} if erasing else ends(self.db))
        self.disk.remove(MANIFEST)

    def heads_differ(self, *, closed: bool) -> bool:
        """Whether the heads are not those that were written; `closed`: there is a manifest.

        A crash can tear the last line, but not once there is a manifest, and leave out the last round, but no more.
        """
        (committed,) = self.db.one("SELECT count(*) FROM rounds") or (0,)
        behind = committed > 1 + sum(rounds for rounds, _ in self.heads.known.values())
        excused = self.running or self.erasing() is not None  # an erasure chains all rounds anew
        return self.heads.damaged or (closed and self.heads.torn) or (behind and not excused)

    def _check_format(self) -> None:
        found = self._meta("format")
        if found == "1":
            raise InputError(
                f"{self.disk.root}: run format 1 but this fedparity reads {FORMAT}; write its tables with the version"
                f" that made it (a checkout from before 0.2.0): fedparity export {self.disk.root}"
            )
        if found is None and self.heads.known:
            raise DamagedError(
                f"{self.db.path}: lost everything that was committed; restore it and its log from a copy"
            )
        if found != str(FORMAT):
            raise InputError(
                f"{self.disk.root}: run format {found} but this fedparity reads {FORMAT}; use the version that wrote it"
            )

    def abandon(self) -> None:
        """Let go of the run as a crash would: what is committed stays, and no manifest is written."""
        self.db.connection.close()
        if self._copy is not None:
            self._copy.cleanup()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def close(self) -> None:
        """Leave nothing behind but whole files, each with its digest in the manifest."""
        if self._lock is None:
            self.abandon()
            return
        try:
            self.db.settle()
            self.db.connection.close()
            write_manifest(self.disk)
            self.heads.write(closed=True)
        finally:
            self.abandon()

    def _meta(self, key: str) -> str | None:
        row = self.db.one("SELECT value FROM meta WHERE key = ?", (key,))
        return None if row is None else str(row[0])

    def _set_meta(self, key: str, value: str) -> None:
        self.db.run(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value)
        )

    def secret(self) -> bytes:
        """What this run's nonces are keyed with: random, durable before it is used, in no digest and no export."""
        if self._meta(SECRET) is None:
            self._set_meta(SECRET, secrets.token_hex(32))
        return bytes.fromhex(self._meta(SECRET) or "")

    # -- what a run began with ----------------------------------------------------------------------------------------

    def begin(self, spec: str, trace: Trace, inputs: Mapping[str, str]) -> None:
        """Write what the run begins with, once; on a run that has it, refuse whatever changed since.

        `inputs` is the SHA-256 of every input by name. Clients that were erased since are taken out of the trace.
        """
        self.origin.begin(spec, trace_bytes(trace.without(self.erased())), inputs)

    def spec(self) -> str:
        """The resolved spec."""
        return self.origin.spec

    def trace(self) -> Trace:
        """Who is there in which round, without those who were erased."""
        return self.origin.trace

    def inputs(self) -> dict[str, str]:
        """The SHA-256 of every input by name."""
        return self.origin.names("inputs")

    def versions(self) -> dict[str, str]:
        """What the run was begun with."""
        return self.origin.names("versions")

    # -- committing ---------------------------------------------------------------------------------------------------

    def commit(  # noqa: PLR0917 - one round has that many parts
        self, seed: int, method: str, state: Any, line: str, row: list[Any], seconds: float
    ) -> None:
        """Make one more round durable: afterwards it is there for good, before that it never was."""
        contender = (seed, method)
        packed = self.checkpoints.pack(contender, state)
        last = self.checkpoints.last[contender]
        key = (*contender, last.round)
        sealed = sealed_round(key, last.chain if last.round else chain_start(self.db), line, row)
        chain, again = sealed[2], last.round > 0 and contender not in self.checkpoints.begun
        with self.db.transaction():
            self.db.run("INSERT INTO rounds VALUES (?,?,?,?,?,?,?,?)", (*key, *sealed))
            self.checkpoints.insert(contender, packed)
            self.db.run("INSERT INTO telemetry VALUES (?,?,?,?)", (*key, timed(seconds, again=again)))
            self.db.run("DELETE FROM facts WHERE seed = ? AND method = ?", contender)  # they were of an earlier round
        self.checkpoints.committed(contender, packed, chain)
        self.heads.add(seed, method, (last.round, chain))

    def put_facts(self, seed: int, method: str, facts: Facts) -> None:
        """Store what only the task can tell, as of the last committed round; nothing of clients that were erased."""
        value = facts.without(np.array(sorted(self.erased()), dtype=np.int64)).to_bytes()
        key = (seed, method)
        self.db.run("INSERT OR REPLACE INTO facts VALUES (?,?,?,?)", (*key, value, _facts_digest(key, value)))

    # -- reading ------------------------------------------------------------------------------------------------------

    def contenders(self) -> list[Contender]:
        """Every (seed, method) with a committed round."""
        query = "SELECT DISTINCT seed, method FROM rounds UNION SELECT DISTINCT seed, method FROM states ORDER BY 1, 2"
        with decoding(str(self.disk.root)):
            return [(int(s), str(m)) for s, m in self.db.rows(query)]

    def rounds(self, seed: int, method: str, after: Head = (0, GENESIS)) -> Iterator[Committed]:
        """Committed rounds, oldest first, each checked against its digest and the chain, and none missing.

        `after` leaves out so many that are known already, which ended with that chain.
        """
        return committed_rounds(self.db, self.heads, seed, method, after)

    def facts(self, seed: int, method: str) -> Facts | None:
        """What the task told after the last committed round; None if it was not asked."""
        row = self.db.one("SELECT value, digest FROM facts WHERE seed = ? AND method = ?", (seed, method))
        if row is None:
            return None
        where = f"{self.disk.root}: facts of {method}, seed {seed}"
        if _facts_digest((seed, method), row[0]) != row[1]:
            raise DamagedError(f"{where}: they were changed; restore run.db from a copy")
        return Facts.from_bytes(row[0], where)

    def digest(self) -> str:
        """One digest for all that the run is: what it began with, every chain, facts and erasures; never times."""
        self.origin.check()
        parts: list[str | bytes] = [f"fedparity-run {FORMAT}"]
        parts += [self.origin.part(name) for name in ("spec", "trace", "inputs")]
        for query in (
            "SELECT seed, method, max(round), chain FROM rounds GROUP BY seed, method ORDER BY 1, 2",
            "SELECT seed, method, digest FROM facts ORDER BY 1, 2",
            "SELECT number, client, chain FROM erasures ORDER BY 1",
        ):
            found = [*self.db.rows(query)]
            parts += [str(len(found)), *(str(cell) for row in found for cell in row)]
        return digest(*parts)

    def load(self, seed: int, method: str, classes: dict[str, type], *, anew: bool = False) -> Any | None:
        """The last state of a method, or None before its first round.

        A damaged last round is dropped and the one before it is returned; for reading only, it is an error. Files that
        both of them need are lost to both: with `anew`, for a run that can compute its rounds again, all rounds are
        dropped then.
        """
        contender = (seed, method)
        numbers = self.checkpoints.numbers(contender)
        (end,) = self.db.one("SELECT max(round) FROM rounds WHERE seed = ? AND method = ?", contender) or (None,)
        if end != (numbers[0] if numbers else None):
            raise DamagedError(f"{self.disk.root}: {method}, seed {seed}: journal and checkpoints end at other rounds")
        refuse_loss(self.db, self.heads, contender, 0 if end is None else end + 1)
        trouble: FedparityError | None = None
        for number in numbers:
            try:
                state, last = self.checkpoints.load(contender, number, classes)
            except FedparityError as error:
                trouble = error
                continue
            if trouble is not None:
                if self._lock is None:
                    break
                self.heads.lower(seed, method, (last.round, last.chain))
                self._drop_after(contender, number)
                self.notices.append(f"{trouble}; going on from round {number}")
            self.notices += [] if self._lock is None else self.arrays.mend()
            self.checkpoints.last[contender] = last
            return state
        if trouble is not None:
            if not anew or self._lock is None or self.erased():  # with an erasure rounds would not be the same again
                raise trouble
            self.heads.lower(seed, method, (0, GENESIS))
            self._drop_after(contender, -1)
            self.notices.append(f"{trouble}; {method}, seed {seed}, is computed anew")
        return None

    def _drop_after(self, contender: Contender, number: int) -> None:
        with self.db.transaction():
            for table in ("rounds", "states", "telemetry"):
                self.db.run(
                    f"DELETE FROM {table} WHERE seed = ? AND method = ? AND round > ?",  # noqa: S608 - names are ours
                    (*contender, number),
                )
            self.db.run("DELETE FROM facts WHERE seed = ? AND method = ?", contender)

    # -- erasures -----------------------------------------------------------------------------------------------------

    def erased(self) -> frozenset[int]:
        """Clients that were erased."""
        with decoding(f"{self.disk.root}: erasures"):
            return frozenset(int(client) for (client,) in self.db.rows("SELECT client FROM erasures"))

    def erasing(self) -> Erasing | None:
        """A client whose erasure has begun and is not finished."""
        with decoding(f"{self.disk.root}: erasures"):
            found = self._meta(ERASING)
            return None if found is None else Erasing.of(found)

    def intend_erasure(self, what: Erasing | None) -> None:
        """Say that a client is being erased (None: that it is), durably."""
        if what is None:
            self.db.run("DELETE FROM meta WHERE key = ?", (ERASING,))
        else:
            self._set_meta(ERASING, str(what))

    # -- housekeeping -------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget everything: the folder is as good as new."""
        self.disk.remove(HEADS)  # first: rounds that are meant to go are no loss
        self.heads = Heads(self.disk)
        with self.db.transaction():
            for table in TABLES:
                self.db.run(f"DELETE FROM {table}")  # noqa: S608 - names are ours
            self._set_meta("format", str(FORMAT))
        self.db.run("VACUUM")
        self.checkpoints.last.clear()
        self.sweep()

    def distrust(self, names: Iterable[str]) -> None:
        """Files that differ from the manifest: said aloud. Arrays are swept unless they are written or read whole."""
        self.arrays.distrust(names)
        self._say_damaged(names)

    def _say_damaged(self, names: Iterable[str]) -> None:
        self.notices += [f"{self.disk.path(name)}: differs from what was written" for name in names]

    def sweep(self) -> None:
        """Remove files that nothing refers to: leftovers of a round that never committed."""
        if self._lock is None:
            return
        for name in self.disk.names():
            if LEFT.fullmatch(name):
                self.disk.remove(name)
        self._say_damaged(self.arrays.sweep(self.checkpoints.needed()))


def _facts_digest(contender: Contender, value: bytes) -> str:
    return digest(*map(str, contender), value)


def _must_be_there(disk: Disk) -> None:
    if not disk.path(DATABASE).exists():
        raise InputError(f"{disk.root}: no run here ({DATABASE} is missing); check the folder")
