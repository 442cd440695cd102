"""The database of a run: its tables, its digests, its transactions, and what its errors are called."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedparity.core.errors import InputError, OutputError
from fedparity.core.system import system
from fedparity.store.disk import Disk

DATABASE = "run.db"
LOG = f"{DATABASE}-wal"
SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS origin (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rounds (
  seed INTEGER NOT NULL, method TEXT NOT NULL, round INTEGER NOT NULL,
  line TEXT NOT NULL, line_sha256 TEXT NOT NULL, chain TEXT NOT NULL, row TEXT NOT NULL, digest TEXT NOT NULL,
  PRIMARY KEY (seed, method, round)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (
  seed INTEGER NOT NULL, method TEXT NOT NULL, round INTEGER NOT NULL, whole INTEGER NOT NULL,
  tree TEXT NOT NULL, small BLOB NOT NULL, files TEXT NOT NULL, digest TEXT NOT NULL,
  PRIMARY KEY (seed, method, round)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (
  seed INTEGER NOT NULL, method TEXT NOT NULL, value BLOB NOT NULL, digest TEXT NOT NULL,
  PRIMARY KEY (seed, method)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS telemetry (
  seed INTEGER NOT NULL, method TEXT NOT NULL, round INTEGER NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (seed, method, round)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS erasures (
  number INTEGER PRIMARY KEY, client INTEGER NOT NULL, lines TEXT NOT NULL, chain TEXT NOT NULL) STRICT;
"""
PRAGMAS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA trusted_schema = OFF")
TABLES = ("rounds", "states", "facts", "telemetry", "erasures", "origin", "meta")


class DamagedError(InputError):
    """A run's folder holds something else than what was written."""


def digest(*parts: str | bytes) -> str:
    """SHA-256 of parts, each with its length, so that no two lists of parts collide."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        h.update(len(data).to_bytes(8, "big"))
        h.update(data)
    return h.hexdigest()


@contextlib.contextmanager
def decoding(where: str) -> Iterator[None]:
    """What a file with right digests but senseless content raises, as one error."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise DamagedError(f"{where}: makes no sense ({type(error).__name__}: {error})") from error


def names_of(text: str, where: str) -> dict[str, str]:
    """A JSON object of strings."""
    with decoding(where):
        return {str(key): str(value) for key, value in json.loads(text).items()}


def _begin(connection: sqlite3.Connection, *statements: str) -> None:
    """Carry out the first statements of a connection; one that fails closes it."""
    try:
        for statement in statements:
            connection.execute(statement).fetchone()
    except BaseException:
        connection.close()
        raise


class Database:
    """One connection to `run.db`; what SQLite raises comes out as our errors."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.connection = connection

    @classmethod
    def writable(cls, path: Path) -> Database:
        """Ready for writing: a transaction that is committed is on the disk."""
        with storage_errors(path):
            connection = system().connect(path)
            _begin(connection, *PRAGMAS)
        return cls(path, connection)

    @classmethod
    def readable(cls, path: Path, source: Path, *, running: bool) -> Database:
        """For reading `source` under the name of `path`: as it was at this moment, whatever a writer does meanwhile."""
        still = "" if running or source.with_name(LOG).exists() else "&immutable=1"
        with storage_errors(path):
            address = f"{source.resolve().as_uri()}?mode=ro{still}"
            connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=1.0)
            _begin(connection, "BEGIN", "SELECT 1 FROM sqlite_schema")  # the snapshot is taken by the second
        return cls(path, connection)

    def rows(self, query: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """What a query finds."""
        with storage_errors(self.path):
            for row in self.connection.execute(query, values):  # noqa: UP028 - which would close a cursor of a closed database
                yield row

    def one(self, query: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """The first row that a query finds."""
        return next(self.rows(query, values), None)

    def run(self, statement: str, values: tuple[Any, ...] = ()) -> None:
        """Carry out a statement."""
        with storage_errors(self.path):
            self.connection.execute(statement, values)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing."""
        with storage_errors(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self.connection.execute("ROLLBACK")
                raise
            self.connection.execute("COMMIT")

    def settle(self) -> None:
        """Move everything from the log into the file; the log is empty then."""
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """What SQLite raises, as our errors."""
    try:
        yield
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # a torn schema is quoted in errors, byte by byte
        text = str(error)
        if "full" in text or "I/O" in text or "readonly" in text or "unable to open" in text:
            raise OutputError(f"{path}: cannot be written ({text}); free space, then go on with --resume") from error
        raise DamagedError(f"{path}: is damaged ({text}); restore it from a copy") from error


def copy_if_left_open(disk: Disk, *, running: bool) -> tempfile.TemporaryDirectory[str] | None:
    """The database in a folder of its own if a process that died left its log behind: reading it would write."""
    if running or not disk.path(LOG).exists():
        return None
    folder = tempfile.TemporaryDirectory(prefix="fedparity-")
    try:
        for name in (DATABASE, LOG):
            shutil.copy(disk.path(name), folder.name)
    except OSError as error:
        folder.cleanup()
        raise InputError(f"{disk.root}: cannot be read ({error.strerror})") from error
    return folder
