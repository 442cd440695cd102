"""The database of a run: its tables, its digests, its transactions, and what its errors are called."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fedparity.core.errors import InputError, OutputError
from fedparity.store.disk import Disk
from fedparity.store.manifest import LOCK

DATABASE = "run.db"
SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rounds (
  seed INTEGER NOT NULL, method TEXT NOT NULL, round INTEGER NOT NULL,
  line TEXT NOT NULL, line_sha256 TEXT NOT NULL, chain TEXT NOT NULL, row TEXT NOT NULL, digest TEXT NOT NULL,
  PRIMARY KEY (seed, method, round)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (
  seed INTEGER NOT NULL, method TEXT NOT NULL, round INTEGER NOT NULL, whole INTEGER NOT NULL,
  tree TEXT NOT NULL, small BLOB NOT NULL, files TEXT NOT NULL, digest TEXT NOT NULL,
  PRIMARY KEY (seed, method, round)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS telemetry (
  seed INTEGER NOT NULL, method TEXT NOT NULL, round INTEGER NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (seed, method, round)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS erasures (
  number INTEGER PRIMARY KEY, client INTEGER NOT NULL, lines TEXT NOT NULL, chain TEXT NOT NULL) STRICT;
"""


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


def round_digest(key: tuple[int, str, int], line_sha256: str, chain: str, row: str) -> str:
    """What a row of `rounds` is sealed with."""
    return digest(*map(str, key), line_sha256, chain, row)


def state_digest(key: tuple[int, str, int], whole: int, tree: str, small: bytes, names: str) -> str:
    """What a row of `states` is sealed with."""
    return digest(*map(str, (*key, int(whole))), tree, small, names)


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


def connect(path: Path) -> sqlite3.Connection:
    """The database, ready for writing: a transaction that is committed is on the disk."""
    with storage_errors(path):
        connection = sqlite3.connect(path, isolation_level=None, timeout=1.0)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA trusted_schema = OFF")
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


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


def copy_if_left_open(disk: Disk) -> tempfile.TemporaryDirectory[str] | None:
    """The database in a folder of its own if a process that died left its log behind: reading it would write."""
    if not disk.path(f"{DATABASE}-wal").exists():
        return None
    with contextlib.ExitStack() as stack:
        try:
            lock = os.open(disk.root / LOCK, os.O_RDONLY)
            stack.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            pass
        except OSError:
            return None  # somebody is writing: read along
        folder = tempfile.TemporaryDirectory(prefix="fedparity-")
        try:
            for name in (DATABASE, f"{DATABASE}-wal"):
                shutil.copy(disk.path(name), folder.name)
        except OSError as error:
            folder.cleanup()
            raise InputError(f"{disk.root}: cannot be read ({error.strerror})") from error
    return folder
