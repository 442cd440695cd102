"""A disk to test what writes a run: it counts calls, and can fail, fill up, kill the process or lose what is unsynced.

    with FaultyDisk(folder) as disk:                    # all that fedparity writes below it goes through the disk
        execute(spec, out=folder / "run")
    disk.power_cut(elsewhere, after=100, seed=7)        # what may be left if the power had gone after call 100

    with FaultyDisk(folder, fail_at=17):                # call 17 fails with "No space left on device"
        execute(spec, out=folder / "other")             # OutputError, and the rounds before it are safe

SQLite's calls are among those counted: its files are reached through a VFS, which needs the package apsw.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sqlite3
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from fedparity.core import checks
from fedparity.core.system import System, in_place
from fedparity.testing.disks.log import Call, Kind, playback

Fault: TypeAlias = Literal["error", "kill"]


class FaultyDisk(System):
    """Stands for the disk below `folder` while it is entered; files elsewhere are left alone."""

    def __init__(
        self,
        folder: str | Path,
        *,
        fail_at: int | None = None,
        fault: Fault = "error",
        code: int = errno.ENOSPC,
        for_good: bool = False,
        room: int | None = None,
        keep: bool = True,
    ) -> None:
        """Make one ready.

        Args:
            folder: What is watched.
            fail_at: The number of the call, from 0, that goes wrong; a write has done half of its work by then.
            fault: What happens there: `error` raises OSError, `kill` is SIGKILL to this process.
            code: The number of that error: errno.ENOSPC, errno.EIO, errno.EROFS.
            for_good: Whether every later call that needs the disk fails, too.
            room: Bytes that can be written before the disk is full.
            keep: Whether to remember what was written, for `power_cut`.

        """
        self.folder = Path(folder).resolve()
        if fail_at is not None:
            checks.at_least("fail_at", fail_at, 0)
        self._fail_at, self._fault, self._code, self._for_good = fail_at, fault, code, for_good
        self._room = room
        self._keep = keep
        self.count = 0
        """Calls so far that change the disk."""
        self.calls: list[Call] = []
        """Those calls, in their order, unless `keep` is False."""
        self._handles: dict[int, tuple[str, bool]] = {}
        self._began: tuple[dict[str, bytes], list[str]] = ({}, [])
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if self._keep:
            there = [path for path in sorted(self.folder.rglob("*")) if not path.is_symlink()]
            files = {self._name(path): path.read_bytes() for path in there if path.is_file()}
            self._began = files, [self._name(path) for path in there if path.is_dir()]
        self.calls.clear()
        self.count = 0
        self._stack.enter_context(in_place(self))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def power_cut(
        self, into: str | Path, *, after: int | None = None, seed: int | None = 0, without: Collection[str] = ()
    ) -> None:
        """Write into a new folder what may be left when the power goes after that many calls (None: after all).

        The seed picks one of the possible outcomes; None: the process was killed, and nothing that it wrote is lost.
        Fsyncs asked for by the sites in `without` were never made.
        """
        calls = self.calls[: len(self.calls) if after is None else after]
        rng = None if seed is None else np.random.default_rng([seed, len(calls)])
        playback(*self._began, calls, without).cut(rng, Path(into))

    def sites(self) -> list[str]:
        """Who asked for an fsync."""
        return sorted({call.site for call in self.calls if call.kind == "fsync"})

    # -- counting, and going wrong ------------------------------------------------------------------------------------

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.folder))

    def _watched(self, path: Path) -> str | None:
        """The name of a path below the folder; the folder itself is '.'."""
        whole = Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would follow the file itself
        return self._name(whole) if whole.is_relative_to(self.folder) else None

    def goes_wrong(self) -> int | None:
        """One more call: the number of the error that it ends in, if it does."""
        at, self.count = self.count, self.count + 1
        if self._fail_at is None or at < self._fail_at or (at > self._fail_at and not self._for_good):
            return None
        return self._code

    def die_or_raise(self, code: int) -> None:
        """What happens at the call that goes wrong."""
        if self._fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(code, os.strerror(code))

    def fits(self, size: int) -> int:
        """How many of so many bytes there is room for."""
        if self._room is None:
            return size
        fit = max(0, min(size, self._room))
        self._room -= size
        return fit

    def remember(self, kind: Kind, path: str, **more: Any) -> None:
        """The call was carried out."""
        if self._keep:
            self.calls.append(Call(kind, path, **more))

    def _change(self, kind: Kind, path: Path, act: Any, *, to: Path | None = None, site: str = "") -> None:
        name = self._watched(path)
        if name is not None and (code := self.goes_wrong()) is not None:
            self.die_or_raise(code)
        act()
        if name is not None:
            self.remember(kind, name, to="" if to is None else self._watched(to) or "", site=site)

    # -- the calls ----------------------------------------------------------------------------------------------------

    def open(self, path: Path, flags: int) -> int:
        """Making a file is a change of its folder, and making it empty one of the file."""
        name = self._watched(path)
        writes = bool(flags & os.O_CREAT)
        if name is not None and writes and (code := self.goes_wrong()) is not None:
            self.die_or_raise(code)
        new = writes and not path.exists()
        handle = super().open(path, flags)
        if name is not None:
            self._handles[handle] = name, bool(flags & os.O_APPEND)
            if new:
                self.remember("make", name)
            elif flags & os.O_TRUNC:
                self.remember("truncate", name, at=0)
        return handle

    def write(self, handle: int, data: Any) -> int:
        """A write that goes wrong has done half of its work."""
        if handle not in self._handles:
            return super().write(handle, data)
        name, longer = self._handles[handle]
        data = bytes(data)
        code = self.goes_wrong()
        fit = len(data) // 2 if code is not None else self.fits(len(data))
        at = os.fstat(handle).st_size if longer else os.lseek(handle, 0, os.SEEK_CUR)
        if fit or not data:
            done = super().write(handle, data[:fit])
            self.remember("write", name, at=at, data=data[:done])
        if code is not None:
            self.die_or_raise(code)
        if data and not fit:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return fit

    def truncate(self, handle: int, size: int) -> None:
        """Counted like any other change."""
        name, _ = self._handles.get(handle, (None, False))
        if name is not None and (code := self.goes_wrong()) is not None:
            self.die_or_raise(code)
        super().truncate(handle, size)
        if name is not None:
            self.remember("truncate", name, at=size)

    def fsync(self, handle: int) -> None:
        """Remembered with who asked for it."""
        name, _ = self._handles.get(handle, (None, False))
        if name is None:
            super().fsync(handle)
            return
        if (code := self.goes_wrong()) is not None:
            self.die_or_raise(code)
        self.remember("fsync", name, site=_caller())

    def close(self, handle: int) -> None:
        """The handle may be another file's from now on."""
        self._handles.pop(handle, None)
        super().close(handle)

    def replace(self, old: Path, new: Path) -> None:
        """One change of the folder."""
        self._change("rename", old, lambda: super(FaultyDisk, self).replace(old, new), to=new)

    def unlink(self, path: Path) -> None:
        """A file that is not there is no change."""
        if not path.exists():
            super().unlink(path)  # which says so
        self._change("unlink", path, lambda: super(FaultyDisk, self).unlink(path))

    def mkdir(self, path: Path) -> None:
        """A change of the folder above."""
        self._change("folder", path, lambda: super(FaultyDisk, self).mkdir(path))

    def connect(self, path: Path) -> sqlite3.Connection:
        """Through a VFS of SQLite's, so that its calls are counted, too."""
        if self._watched(path) is None:
            return super().connect(path)
        from fedparity.testing.disks.database import connect

        return connect(self, path, lambda file: self._watched(Path(file)) or "")


def _caller() -> str:
    """Who asked for an fsync: the first function above the file layer's helpers, and where."""
    frame = sys._getframe(2)  # noqa: SLF001 - the documented way to one's callers
    while frame.f_code.co_name == "sync" and frame.f_code.co_filename.endswith("system.py") and frame.f_back:
        frame = frame.f_back
    where = Path(frame.f_code.co_filename)
    return f"{where.parent.name}/{where.name}:{frame.f_lineno} {frame.f_code.co_qualname}"
