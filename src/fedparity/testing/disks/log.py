"""What a power cut leaves: every call that changed a disk, played back into what had reached it by then.

A disk promises little. What was written to a file since its last fsync may be there, in part, or not at all, and in any
order; a name that was made, changed or taken away since its folder's last fsync may be as before. So a cut is drawn:

    content of a file    all of its pending writes, none of them, or each by the toss of a coin and perhaps torn
    names of a folder    all of its pending changes, none of them, or each by the toss of a coin; a rename is one change

What was synced is there in every draw. Nothing else is assumed: not that writes keep their order, not that a file that
was renamed has its content, not that fsync of a file keeps its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import numpy as np

T = TypeVar("T")
Kind: TypeAlias = Literal["make", "write", "truncate", "fsync", "rename", "unlink", "folder"]
Change: TypeAlias = tuple[int, bytes] | int
"""A write (where, what), or the length that a file is cut to."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call that changes the disk."""

    kind: Kind
    path: str
    """Relative to the folder that is watched; '.' is that folder."""
    at: int = 0
    """Where a write begins, or what a file is cut to."""
    data: bytes = b""
    to: str = ""
    """The new name."""
    site: str = ""
    """Who asked for an fsync: the function, and where it calls; of SQLite, the file."""


@dataclass(slots=True, eq=False)
class _File:
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)
    folder: bool = False


Names: TypeAlias = dict[str, _File | None]


class Platter:
    """What has reached the disk, and what has not yet."""

    def __init__(self, files: dict[str, bytes], folders: Iterable[str]) -> None:
        self.now: dict[str, _File] = {name: _File(bytearray(data)) for name, data in files.items()}
        self.now |= {name: _File(folder=True) for name in folders}
        self.durable = dict(self.now)
        self.pending: dict[str, list[Names]] = {}
        """Changes of names since the last fsync of their folder."""

    def play(self, call: Call) -> None:
        """One call more."""
        if call.kind == "make":
            self._rename(call.path, {call.path: _File()})
        elif call.kind == "folder":
            self._rename(call.path, {call.path: _File(folder=True)})
        elif call.kind == "write":
            self.now[call.path].pending.append((call.at, call.data))
        elif call.kind == "truncate":
            self.now[call.path].pending.append(call.at)
        elif call.kind == "rename":
            self._rename(call.to, {call.path: None, call.to: self.now[call.path]})
        elif call.kind == "unlink":
            self._rename(call.path, {call.path: None})
        else:
            self._sync(call.path)

    def _rename(self, path: str, names: Names) -> None:
        self.pending.setdefault(_folder_of(path), []).append(names)
        _apply(names, self.now)

    def _sync(self, path: str) -> None:
        file = self.now.get(path)
        if file is None or file.folder:  # the folder that is watched itself is no entry
            for names in self.pending.pop(path, []):
                _apply(names, self.durable)
            return
        for change in file.pending:
            _lay(file.durable, change)
        file.pending.clear()

    def cut(self, rng: np.random.Generator | None, into: Path) -> None:
        """Write what a power cut may leave, one of the possible outcomes; None: all that was written is there."""
        found = dict(self.durable)
        for _, changes in sorted(self.pending.items()):
            for names in _survivors(changes, rng):
                _apply(names, found)
        into.mkdir(parents=True, exist_ok=True)
        files: dict[int, bytes] = {}
        for name, file in sorted(found.items(), key=lambda entry: (entry[0].count("/"), entry[0])):
            target = into / name
            if not target.parent.is_dir():
                continue  # its folder is lost
            if file.folder:
                target.mkdir()
                continue
            if id(file) not in files:
                content = bytearray(file.durable)
                for change in _survivors(file.pending, rng):
                    _lay(content, _torn(change, rng))
                files[id(file)] = bytes(content)
            target.write_bytes(files[id(file)])


def _folder_of(path: str) -> str:
    return str(Path(path).parent)


def _apply(names: Names, to: dict[str, _File]) -> None:
    for name, file in names.items():
        if file is None:
            to.pop(name, None)
        else:
            to[name] = file


def _lay(content: bytearray, change: Change) -> None:
    """Carry a change out; what was never written before a write is zeros."""
    if isinstance(change, int):
        del content[change:]
        content.extend(bytes(change - len(content)))
        return
    at, data = change
    content.extend(bytes(max(0, at - len(content))))
    content[at : at + len(data)] = data


def _survivors(changes: list[T], rng: np.random.Generator | None) -> list[T]:
    if rng is None:
        return changes
    how = int(rng.integers(3))
    if how < 2:
        return changes if how else []
    return [change for change in changes if rng.random() < 0.5]


def _torn(change: Change, rng: np.random.Generator | None) -> Change:
    """A write that may have got only so far."""
    if rng is None or isinstance(change, int) or rng.random() < 0.75:
        return change
    at, data = change
    return at, data[: int(rng.integers(len(data) + 1))]


def playback(
    files: dict[str, bytes], folders: Iterable[str], calls: Iterable[Call], without: Collection[str]
) -> Platter:
    """The platter after these calls, had nobody asked for the fsyncs of the sites in `without`."""
    platter = Platter(files, folders)
    for call in calls:
        if not (call.kind == "fsync" and call.site in without):
            platter.play(call)
    return platter
