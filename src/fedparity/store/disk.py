"""The one seam to the file system: whole files, durable before anything refers to them.

A write is a temporary file, fsync, rename, fsync of the folder: after it returns the file survives a crash, and before
that nobody sees it. Tests put a disk in its place that loses, tears or refuses writes.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from fedparity.core.errors import InputError, OutputError

Buffer: TypeAlias = Any
"""Bytes, or an array laid out in one piece."""

PARTIAL = ".partial"
DEEPEST = 32


@dataclass(frozen=True, slots=True)
class Disk:
    """Files below one folder, named by relative paths that cannot leave it."""

    root: Path

    def path(self, name: str) -> Path:
        """Where `name` lives."""
        parts = Path(name).parts
        deep = len(parts) > DEEPEST
        if not parts or deep or Path(name).is_absolute() or ".." in parts or "\0" in name or not _encodes(name):
            raise InputError(f"{name!r} is not a name inside {self.root}")
        return self.root.joinpath(*parts)

    def write(self, name: str, *parts: Buffer) -> None:
        """Make a file of these parts durable, whole or not at all."""
        target = self.path(name)
        partial = target.with_name(target.name + PARTIAL)
        try:
            if not target.parent.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                _sync(target.parent.parent)
            handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            try:
                for part in parts:
                    view = memoryview(part).cast("B")
                    while view:
                        view = view[os.write(handle, view) :]
                os.fsync(handle)
            finally:
                os.close(handle)
            os.replace(partial, target)  # noqa: PTH105 - the pair of os.open
            _sync(target.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise _unwritten(target, error) from error

    def append(self, name: str, data: bytes) -> None:
        """Make a file longer by these bytes, durably; what was there stays, whatever happens."""
        target = self.path(name)
        try:
            new = not target.exists()
            handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            try:
                size = os.fstat(handle).st_size
                try:
                    if os.write(handle, data) != len(data):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301 - one place handles it
                    os.fsync(handle)
                except OSError:
                    with contextlib.suppress(OSError):
                        os.ftruncate(handle, size)
                    raise
            finally:
                os.close(handle)
            if new:
                _sync(target.parent)
        except OSError as error:
            raise _unwritten(target, error) from error

    def sync(self, name: str) -> None:
        """Make a file that somebody else wrote durable."""
        target = self.path(name)
        try:
            _sync(target)
            _sync(target.parent)
        except OSError as error:
            raise _unwritten(target, error) from error

    def read(self, name: str) -> bytes:
        """A whole file."""
        try:
            return self.path(name).read_bytes()
        except OSError as error:
            raise InputError(f"{self.path(name)}: cannot be read ({error.strerror})") from error

    def remove(self, name: str) -> None:
        """Forget a file; one that is gone already is fine."""
        try:
            self.path(name).unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"{self.path(name)}: cannot be removed ({error.strerror}); check the folder") from error

    def names(self) -> list[str]:
        """Every file below the folder, sorted."""
        try:
            return sorted(str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file())
        except OSError as error:
            raise InputError(f"{self.root}: cannot be read ({error.strerror})") from error


def _sync(path: Path) -> None:
    """Make what a file holds, or the names in a folder, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unwritten(target: Path, error: OSError) -> OutputError:
    return OutputError(f"{target}: cannot be written ({error.strerror}); free space or choose another disk")


def _encodes(name: str) -> bool:
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True
