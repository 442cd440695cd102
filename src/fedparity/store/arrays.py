"""Arrays as bytes: safetensors of several small ones, and a file of its own for each large one, named by its digest.

A name that is the SHA-256 of the content makes writing twice harmless, lets two states share a file that did not
change between them, and lets a reader see a torn or flipped file without asking anybody.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays

from fedparity.core.rows import let_go
from fedparity.core.tree import Arrays
from fedparity.store.database import DamagedError
from fedparity.store.disk import Disk

FOLDER = "arrays/"
DTYPES = {"<f8": "F64", "<f4": "F32", "<f2": "F16", "<i8": "I64", "<i4": "I32", "<i2": "I16", "|i1": "I8"}
DTYPES |= {"<u8": "U64", "<u4": "U32", "<u2": "U16", "|u1": "U8", "|b1": "BOOL"}
"""What states are made of, as safetensors calls it."""


def file_of(sha256: str) -> str:
    """Where an array with this digest lies."""
    return f"{FOLDER}{sha256}.safetensors"


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
        data = self.disk.read(file_of(sha256))
        if hashlib.sha256(data).hexdigest() != sha256:
            raise DamagedError(f"{self.disk.path(file_of(sha256))}: differs from what was written")
        self._sound.add(sha256)
        found = unpacked(data, file_of(sha256))
        if "array" not in found:
            raise DamagedError(f"{file_of(sha256)}: lacks array")
        return found["array"]

    def remove(self, digests: Iterable[str]) -> None:
        """Forget these files."""
        for sha256 in digests:
            self.disk.remove(file_of(sha256))

    def distrust(self, names: Iterable[str]) -> None:
        """Files that differ from the manifest: swept, unless they are written or read whole before."""
        self._suspect |= set(names)

    def sweep(self, needed: Iterable[str]) -> list[str]:
        """Remove files that no state needs, and those that are damaged; those damaged that nobody knew of."""
        kept = {file_of(sha256): sha256 for sha256 in needed}
        there = set(self.disk.names())
        known = self._suspect - {file_of(sha256) for sha256 in self._sound}
        # A run that was killed has no manifest: of the state before the last nobody has looked at the files yet.
        unread = [name for name, sha256 in kept.items() if sha256 not in self._sound and name in there - known]
        found = [name for name in unread if hashlib.sha256(self.disk.read(name)).hexdigest() != kept[name]]
        for name in there:
            if name in known or name in found or (name.startswith(FOLDER) and name not in kept):
                self.disk.remove(name)
        self._suspect.clear()
        return found
