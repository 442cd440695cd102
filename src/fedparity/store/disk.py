"""The one seam to the file system: whole files, durable before anything refers to them.

A write is a temporary file, fsync, rename, fsync of the folder: after it returns the file survives a crash, and before
that nobody sees it. Its calls go to `core.system`, where a laboratory puts one that loses, tears or refuses writes.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from fedparity.core.errors import InputError, OutputError
from fedparity.core.files import write_all
from fedparity.core.system import ANEW, LONGER, make_folders, sync, system

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
            make_folders(target.parent)
            handle = system().open(partial, ANEW)
            try:
                for part in parts:
                    write_all(handle, part)
                system().fsync(handle)
            finally:
                system().close(handle)
            system().replace(partial, target)
            sync(target.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                system().unlink(partial)
            raise _unwritten(target, error) from error

    def append(self, name: str, data: bytes) -> None:
        """Make a file longer by these bytes, durably; what was there stays, whatever happens."""
        target = self.path(name)
        try:
            new = not target.exists()
            handle = system().open(target, LONGER)
            try:
                size = os.fstat(handle).st_size
                try:
                    if system().write(handle, data) != len(data):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301 - one place handles it
                    system().fsync(handle)
                except OSError:
                    with contextlib.suppress(OSError):
                        system().truncate(handle, size)
                    raise
            finally:
                system().close(handle)
            if new:
                sync(target.parent)
        except OSError as error:
            raise _unwritten(target, error) from error

    def sync(self, name: str) -> None:
        """Make what somebody else wrote into a file durable; its name is, once its folder is written to again."""
        target = self.path(name)
        try:
            sync(target)
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
            with contextlib.suppress(FileNotFoundError):
                system().unlink(self.path(name))
        except OSError as error:
            raise OutputError(f"{self.path(name)}: cannot be removed ({error.strerror}); check the folder") from error

    def names(self) -> list[str]:
        """Every file below the folder, sorted."""
        try:
            return sorted(str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file())
        except OSError as error:
            raise InputError(f"{self.root}: cannot be read ({error.strerror})") from error


def _unwritten(target: Path, error: OSError) -> OutputError:
    return OutputError(f"{target}: cannot be written ({error.strerror}); free space or choose another disk")


def _encodes(name: str) -> bool:
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True
