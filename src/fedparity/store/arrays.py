"""Arrays as bytes: safetensors of several small ones, and a file of its own for each large one, named by its digest.

A name that is the SHA-256 of the content makes writing twice harmless, lets two states share a file that did not
change between them, and lets a reader see a torn or flipped file without asking anybody.

A file that two states share is lost to both. Where rounds cannot be computed again (a deployment), `copies` keeps a
second file of each that is shared: what a memory holds of clients that did not take part since. Models, which change
in every round, have none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays

from fedparity.core.errors import FedparityError
from fedparity.core.rows import let_go
from fedparity.core.tree import Arrays
from fedparity.store.database import DamagedError
from fedparity.store.disk import Disk

FOLDER = "arrays/"
DTYPES = {"<f8": "F64", "<f4": "F32", "<f2": "F16", "<i8": "I64", "<i4": "I32", "<i2": "I16", "|i1": "I8"}
DTYPES |= {"<u8": "U64", "<u4": "U32", "<u2": "U16", "|u1": "U8", "|b1": "BOOL"}
"""What states are made of, as safetensors calls it."""
DIGEST = re.compile("[0-9a-f]{64}")


def file_of(sha256: str) -> str:
    """Where an array with this digest lies."""
    return f"{FOLDER}{sha256}.safetensors"


def copy_of(sha256: str) -> str:
    """Where its second copy lies, if there is one."""
    return f"{FOLDER}{sha256}.copy.safetensors"


def packed(arrays: Mapping[str, Any]) -> bytes:
    """Arrays as one piece of safetensors: the same bytes for the same arrays, whatever library reads or wrote them."""
    whole = {name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}
    return b"".join((_start(whole), *(array.tobytes() for array in whole.values()))) if whole else b""


def _start(arrays: Arrays) -> bytes:
    """The header of a safetensors file with these arrays, one after the other."""
    kinds, at = {}, 0
    for name, array in arrays.items():
        end = at + array.nbytes
        kinds[name] = {"dtype": DTYPES[array.dtype.str], "shape": array.shape, "data_offsets": [at, end]}
        at = end
    header = json.dumps(kinds).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header


def unpacked(data: bytes, where: str) -> Arrays:
    """All arrays of a safetensors file."""
    try:
        return dict(load_arrays(data)) if data else {}
    except (SafetensorError, ValueError) as error:
        raise DamagedError(f"{where}: not an array file ({error})") from error


class ArrayFiles:
    """The large arrays of a run."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self._sound: set[str] = set()
        """Files that this process wrote or read whole: those it need not write again."""
        self._suspect: set[str] = set()
        self.copies = False
        """Whether files that two states share are kept twice."""
        self._copied: set[str] = set()
        self._mendable: set[str] = set()
        """Files that are damaged and have a copy that is not."""

    def write(self, array: Any) -> str:
        """A large array as a file, hashed and written without a copy; its digest."""
        whole = np.asarray(array, order="C")
        start, body = _start({"array": whole}), whole.reshape(-1).view("u1").data
        h = hashlib.sha256(start)
        h.update(body)
        sha256 = h.hexdigest()
        if sha256 not in self._sound or not self.disk.path(file_of(sha256)).exists():
            self.disk.write(file_of(sha256), start, body)  # one that was there already may be damaged
            self._sound.add(sha256)
        let_go([whole])
        return sha256

    def read(self, sha256: str) -> Any:
        """A large array, checked against its name."""
        found = unpacked(self._bytes(sha256), file_of(sha256))
        if "array" not in found:
            raise DamagedError(f"{file_of(sha256)}: lacks array")
        return found["array"]

    def _bytes(self, sha256: str) -> bytes:
        if not DIGEST.fullmatch(sha256):  # whatever else a damaged checkpoint names is no file of ours
            raise DamagedError(f"{self.disk.root}: a checkpoint names the array {sha256[:80]!r}, which is no SHA-256")
        try:
            data = self._whole(file_of(sha256), sha256)
        except FedparityError:
            if not self.disk.path(copy_of(sha256)).exists():
                raise
            data = self._whole(copy_of(sha256), sha256)
            self._mendable.add(sha256)
        self._sound.add(sha256)
        return data

    def _whole(self, name: str, sha256: str) -> bytes:
        data = self.disk.read(name)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise DamagedError(f"{self.disk.path(name)}: differs from what was written")
        return data

    def copy(self, shared: Iterable[str]) -> None:
        """A second file of each of these, if they are to be kept twice."""
        for sha256 in sorted(set(shared) - self._copied) if self.copies else ():
            with contextlib.suppress(DamagedError):  # one that is damaged by now is found when the run is opened again
                if not self.disk.path(copy_of(sha256)).exists():
                    self.disk.write(copy_of(sha256), self._whole(file_of(sha256), sha256))
                self._copied.add(sha256)

    def mend(self) -> list[str]:
        """Write files that were read from their copies anew; what is to be said of it."""
        said = [f"{self.disk.path(file_of(sha256))}: was damaged; its copy is whole" for sha256 in self._mendable]
        for sha256 in self._mendable:
            self.disk.write(file_of(sha256), self._whole(copy_of(sha256), sha256))
        self._mendable.clear()
        return said

    def remove(self, digests: Iterable[str]) -> None:
        """Forget these files."""
        for sha256 in digests:
            self.disk.remove(file_of(sha256))
            self.disk.remove(copy_of(sha256))
            self._copied.discard(sha256)

    def distrust(self, names: Iterable[str]) -> None:
        """Files that differ from the manifest: swept, unless they are written or read whole before."""
        self._suspect |= set(names)

    def sweep(self, needed: Iterable[str]) -> list[str]:
        """Remove files that no state needs, and those that are damaged; those damaged that nobody knew of."""
        kept = {name(sha256): sha256 for sha256 in needed for name in (file_of, copy_of)}
        there, sound = set(self.disk.names()), {file_of(sha256) for sha256 in self._sound}
        known = self._suspect - sound
        # A run that was killed has no manifest: of the state before the last nobody has looked at the files yet.
        unread = [name for name in kept if name in there - known - sound]
        found = [name for name in unread if hashlib.sha256(self.disk.read(name)).hexdigest() != kept[name]]
        for name in there:
            if name in known or name in found or (name.startswith(FOLDER) and name not in kept):
                self.disk.remove(name)
        self._suspect.clear()
        self._copied.clear()
        return found
