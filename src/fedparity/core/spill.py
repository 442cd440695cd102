"""Where remembered vectors lie: in memory up to a limit, beyond it in mapped temporary files.

One vector per client is N x D x 4 bytes in float32: 100 clients of a ResNet-18 are 4.5 GB. At most `ram` bytes of them
stay in memory (1 GB); the rest lies in files without a name in the temporary folder (TMPDIR), which are gone when
nobody refers to them any more, however the process ends. Sums over rows have no more of the files mapped at a time than
`rows.RELEASE` and a chunk of each row. A vector is written once and replaced, never changed.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Iterable

import numpy as np

from fedparity.core import checks
from fedparity.core.errors import OutputError
from fedparity.core.rows import mapping_of
from fedparity.core.types import Vector

GIGABYTE = 10**9
FIRST = 8
"""Places in the first file; every further one has twice as many, so that a million clients need few files."""
LARGEST32 = float(np.finfo(np.float32).max)

Place = tuple[int, mmap.mmap, int]
"""The descriptor of a file, the same mapped, and where in it."""


def as_float32(vector: Vector) -> Vector:
    """A copy to keep, in float32 and read-only; what float32 cannot hold becomes the largest number it can."""
    fits = vector.dtype == np.float32
    kept = vector.copy() if fits else np.clip(vector, -LARGEST32, LARGEST32).astype(np.float32)
    kept.setflags(write=False)
    return kept


class SpillFile:
    """Files for the vectors that do not fit into memory. It holds no state of a run: an empty one will do as well."""

    __slots__ = ("_free", "_places", "ram")

    def __init__(self, ram: int = GIGABYTE) -> None:
        checks.at_least("ram", ram, 0)
        self.ram = ram
        """Bytes that an owner without a limit of its own holds in memory."""
        self._free: dict[int, list[Place]] = {}
        """Unused places by their size in bytes."""
        self._places: dict[int, int] = {}

    def __reduce__(self) -> tuple[type[SpillFile], tuple[int]]:
        """A copy starts empty: files are not shared between owners."""
        return SpillFile, (self.ram,)

    def replace(self, kept: dict[int, Vector], new: Iterable[tuple[int, Vector]], ram: int) -> None:
        """Keep a float32 copy of each new vector in place of its client's last one, one after the other."""
        held = self.settle(kept, ram)
        for client, vector in new:
            old = kept.pop(client, None)
            held -= old.nbytes if old is not None and mapping_of(old) is None else 0
            copied = as_float32(vector)
            fits = held + copied.nbytes <= ram
            kept[client] = copied if fits else self.put(copied)
            held += copied.nbytes if fits else 0

    def settle(self, kept: dict[int, Vector], ram: int) -> int:
        """Move the vectors beyond `ram` bytes into files; how many bytes stay in memory.

        A vector that several clients share is counted and moved once.
        """
        held, moved = 0, dict[int, Vector]()
        counted: set[int] = set()
        for client, vector in kept.items():
            key = id(vector)
            if key in moved:
                kept[client] = moved[key]
            elif key not in counted and mapping_of(vector) is None:
                if held + vector.nbytes <= ram:
                    held += vector.nbytes
                    counted.add(key)
                else:
                    kept[client] = moved[key] = self.put(vector)
        return held

    def put(self, vector: Vector) -> Vector:
        """The same vector, in a file."""
        if not vector.size:
            return vector
        places = self._free.setdefault(vector.nbytes, [])
        try:
            if not places:
                places += self._more(vector.nbytes)
            file, mapped, at = place = places[-1]
            data = np.ascontiguousarray(vector).view(np.uint8).data
            done = 0
            while done < len(data):
                done += os.pwrite(file, data[done:], at + done)
        except OSError as error:
            folder = tempfile.gettempdir()
            raise OutputError(
                f"{folder}: cannot hold {vector.nbytes} bytes more ({error.strerror}); set TMPDIR"
            ) from error
        places.pop()
        found: Vector = np.frombuffer(mapped, vector.dtype, vector.size, at)
        weakref.finalize(found, places.append, place).atexit = False
        return found

    def _more(self, size: int) -> list[Place]:
        count = self._places[size] = 2 * self._places.get(size, FIRST // 2)
        with tempfile.TemporaryFile(prefix="fedparity-") as file:
            file.truncate(count * size)
            mapped = mmap.mmap(file.fileno(), count * size, access=mmap.ACCESS_READ)
            descriptor = os.dup(file.fileno())
        weakref.finalize(mapped, os.close, descriptor)  # with the last of its places
        return [(descriptor, mapped, n * size) for n in reversed(range(count))]
