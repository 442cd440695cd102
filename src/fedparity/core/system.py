"""The calls that change a disk, in one place: what the file layer and the database are made of.

`core.files`, `store.disk` and the store's database reach the disk through `system()` alone. Usually that is the
operating system; a laboratory (`fedparity.testing.FaultyDisk`) puts one in its place that counts the calls, fails at
one of them, or remembers what a power cut would leave.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedparity.core.errors import ConfigError

READ = os.O_RDONLY
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
ANEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
LONGER = os.O_WRONLY | os.O_CREAT | os.O_APPEND


class System:
    """The operating system."""

    def open(self, path: Path, flags: int) -> int:
        """A handle of a file, which may be made by it."""
        return os.open(path, flags, 0o666)

    def write(self, handle: int, data: Any) -> int:
        """Write as many of these bytes as there is room for; how many."""
        return os.write(handle, data)

    def truncate(self, handle: int, size: int) -> None:
        """Cut a file to so many bytes."""
        os.ftruncate(handle, size)

    def fsync(self, handle: int) -> None:
        """Make what a file holds, or the names in a folder, survive a power cut."""
        os.fsync(handle)

    def close(self, handle: int) -> None:
        """Let go of a handle."""
        os.close(handle)

    def replace(self, old: Path, new: Path) -> None:
        """Give a file another name, which takes the place of whatever had it."""
        os.replace(old, new)  # noqa: PTH105 - beside the other calls

    def unlink(self, path: Path) -> None:
        """Take a file's name away; FileNotFoundError if there is none."""
        os.unlink(path)  # noqa: PTH108 - beside the other calls

    def mkdir(self, path: Path) -> None:
        """Make a folder."""
        os.mkdir(path)  # noqa: PTH102 - beside the other calls

    def connect(self, path: Path) -> sqlite3.Connection:
        """A database for writing, in which every statement is a transaction unless one is begun."""
        return sqlite3.connect(path, isolation_level=None, timeout=1.0)


_in_place: list[System] = [System()]


def system() -> System:
    """What calls go to."""
    return _in_place[-1]


@contextlib.contextmanager
def in_place(other: System) -> Iterator[None]:
    """Have the calls of this process go to another system."""
    if len(_in_place) > 1:
        raise ConfigError("another disk is in place already; leave its `with` first")
    _in_place.append(other)
    try:
        yield
    finally:
        _in_place.remove(other)


def sync(path: Path) -> None:
    """Make what a file holds, or the names in a folder, durable."""
    handle = system().open(path, READ)
    try:
        system().fsync(handle)
    finally:
        system().close(handle)


def make_folders(path: Path) -> None:
    """Make a folder and those above it, durably; one that is there is fine."""
    if path.is_dir():
        return
    make_folders(path.parent)
    with contextlib.suppress(FileExistsError):
        system().mkdir(path)
    sync(path.parent)
