"""Reading a .tgz or a zip from elsewhere: known members into memory, nothing onto disk, and no more than expected.

Members are named in full by whoever asks, so no name in the archive decides where anything goes. Links, sparse files
and repeats are refused, sizes are checked before reading, and the unpacked stream as a whole is bounded. Of a tar only
the fixed headers are read: what extended ones say is passed over, since taking them apart can cost minutes.
"""

from __future__ import annotations

import gzip
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fedparity.data.layout import NotThatError

SLACK = 64 * 2**20
"""Bytes that an archive may unpack to besides what is asked for."""


class _Bounded:
    """A stream that refuses to give more than a number of bytes."""

    def __init__(self, file: gzip.GzipFile, most: int) -> None:
        self._file, self._left = file, most

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise NotThatError("unpacks to more than it should")
        return data


def read_tgz(path: Path, wanted: Mapping[str, int]) -> dict[str, bytes]:
    """The wanted members (name -> most bytes), all of them."""
    found: dict[str, bytes] = {}
    with _damage(), gzip.open(path, "rb") as packed:
        stream = _Bounded(packed, sum(wanted.values()) + SLACK)
        for member in _members(stream):
            if member.name in wanted:
                most = -1 if member.name in found else wanted[member.name]
                found[member.name] = _read(stream, member, most)
            else:
                _pass_over(stream, member.size + -member.size % tarfile.BLOCKSIZE)
    missing = [name for name in wanted if name not in found]
    if missing:
        raise NotThatError(f"no {missing[0]} in it")
    return found


def read_zip(path: Path, wanted: Mapping[str, int]) -> dict[str, bytes]:
    """The wanted members (name -> most bytes) of a zip file (a wheel is one), all of them."""
    with _damage(), zipfile.ZipFile(path) as archive:
        return {name: _member(archive, name, most) for name, most in wanted.items()}


@contextmanager
def _damage() -> Iterator[None]:
    """What a damaged archive makes its readers raise: TarError, BadZipFile, EOFError, OSError, zlib.error, ..."""
    try:
        yield
    except NotThatError:
        raise
    except Exception as error:
        raise NotThatError(f"not a whole archive ({str(error) or type(error).__name__})") from error


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    held = [info for info in archive.infolist() if info.filename == name]
    if len(held) != 1:
        raise NotThatError(f"{'two members called' if held else 'no'} {name}{'' if held else ' in it'}")
    with archive.open(held[0]) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise NotThatError(f"{name} has more than the {most} bytes expected")
    return data


def _members(stream: _Bounded) -> Iterator[tarfile.TarInfo]:
    """The header of each member; whoever asks for the next one has read or passed over what this one holds."""
    while any(block := _exactly(stream, tarfile.BLOCKSIZE)):
        member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        if member.size < 0:
            raise NotThatError(f"{member.name} has {member.size} bytes")
        yield member


def _read(stream: _Bounded, member: tarfile.TarInfo, most: int) -> bytes:
    if member.type not in {tarfile.REGTYPE, tarfile.AREGTYPE}:
        raise NotThatError(f"{member.name} is no plain file")
    if most < 0:
        raise NotThatError(f"two members called {member.name}")
    if member.size > most:
        raise NotThatError(f"{member.name} has {member.size} bytes, at most {most} expected")
    data = _exactly(stream, member.size)
    _pass_over(stream, -member.size % tarfile.BLOCKSIZE)
    return data


def _pass_over(stream: _Bounded, size: int) -> None:
    while size:
        size -= len(_exactly(stream, min(size, 1 << 20)))


def _exactly(stream: _Bounded, size: int) -> bytes:
    parts = []
    while size and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    if size:
        raise NotThatError("the archive ends early")
    return b"".join(parts)
