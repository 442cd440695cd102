"""SQLite on a faulty disk: a VFS that passes every call on, and tells the disk of it.

The index of the log (`-shm`) is left out: SQLite keeps it in memory when a database is locked for one process, which
a run's always is, and it means nothing after a crash.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fedparity.core.errors import ConfigError

if TYPE_CHECKING:
    from fedparity.testing.disks.faulty import FaultyDisk

try:
    import apsw
except ImportError as error:  # pragma: no cover - a development dependency
    raise ConfigError("FaultyDisk needs the package apsw to watch SQLite: pip install apsw") from error

Named = Callable[[str], str]
_numbers = itertools.count()
FULL, EIO = 13, 10
"""SQLite's numbers of these errors."""


def _fail(disk: FaultyDisk, code: int) -> None:
    try:
        disk.die_or_raise(code)
    except OSError as error:
        raise apsw.exception_for(FULL if code == errno.ENOSPC else EIO) from error


class _File(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: str, given: Any, flags: list[int], *, log: bool) -> None:
        super().__init__("", given, flags)
        self._disk = disk
        self._name = name
        self._new_log = log

    def excepthook(self, etype: object, evalue: object, etraceback: object) -> bool:
        """Errors that nobody can be told of are not printed either."""
        return True

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802 - SQLite's name
        data = bytes(data)
        code = self._disk.goes_wrong()
        fit = len(data) // 2 if code is not None else self._disk.fits(len(data))
        if fit:
            super().xWrite(data[:fit], offset)
            self._disk.remember("write", self._name, at=offset, data=data[:fit])
        if fit < len(data):
            _fail(self._disk, errno.ENOSPC if code is None else code)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        if (code := self._disk.goes_wrong()) is not None:
            _fail(self._disk, code)
        super().xTruncate(newsize)
        self._disk.remember("truncate", self._name, at=newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        """Nothing is passed on: the real disk need not be waited for."""
        if (code := self._disk.goes_wrong()) is not None:
            _fail(self._disk, code)
        site = f"SQLite {Path(self._name).name}"
        self._disk.remember("fsync", self._name, site=site)
        if self._new_log:  # SQLite's own VFS syncs the folder of a new journal or log with its first sync
            self._disk.remember("fsync", str(Path(self._name).parent), site=f"{site}'s folder")
            self._new_log = False


class _Vfs(apsw.VFS):
    def __init__(self, disk: FaultyDisk, named: Named) -> None:
        self.name = f"fedparity-{next(_numbers)}"
        super().__init__(self.name, "")
        self._disk = disk
        self._named = named

    def excepthook(self, etype: object, evalue: object, etraceback: object) -> bool:
        """Errors that nobody can be told of are not printed either."""
        return True

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        known = self._named(path) if path else ""
        if not known:
            return apsw.VFSFile("", name, flags)
        new = not Path(path).exists()
        if new and (code := self._disk.goes_wrong()) is not None:
            _fail(self._disk, code)
        log = flags[0] & (apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL)
        file = _File(self._disk, known, name, flags, log=bool(log) and new)
        if new:
            self._disk.remember("make", known)
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802, FBT001
        if (code := self._disk.goes_wrong()) is not None:
            _fail(self._disk, code)
        super().xDelete(filename, False)  # noqa: FBT003 - as apsw has it
        known = self._named(filename)
        self._disk.remember("unlink", known)
        if syncdir:
            self._disk.remember("fsync", str(Path(known).parent), site=f"SQLite {Path(known).name} deleted")


class _Connection:
    """As much of `sqlite3.Connection` as a store needs."""

    def __init__(self, disk: FaultyDisk, path: Path, named: Named) -> None:
        self._vfs = _Vfs(disk, named)
        with _as_sqlite3():
            self._connection = apsw.Connection(str(path), vfs=self._vfs.name)
            self._connection.set_busy_timeout(1000)
            self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> _Cursor:
        with _as_sqlite3():
            return _Cursor(self._connection.execute(statement, values))

    def executescript(self, script: str) -> None:
        self.execute(script)

    def close(self) -> None:
        with contextlib.suppress(apsw.Error):  # SQLite closes all the same, and the module sqlite3 does not say so
            self._connection.close()
        self._vfs.unregister()


class _Cursor:
    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        with _as_sqlite3():
            return cast("tuple[Any, ...]", next(self._cursor))

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self, None)


class _as_sqlite3:  # noqa: N801 - a context manager, told like a function
    """What apsw raises, as what the module sqlite3 does."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, apsw.Error):
            text = {apsw.FullError: "database or disk is full", apsw.IOError: "disk I/O error"}.get(type(error))
            raise sqlite3.OperationalError(text or str(error)) from error


def connect(disk: FaultyDisk, path: Path, named: Named) -> sqlite3.Connection:
    """A connection whose calls go through the disk; `named` gives the names of files that it watches."""
    return cast("sqlite3.Connection", _Connection(disk, path, named))
