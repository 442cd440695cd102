"""Samples as `.npz`: four to six arrays in a zip file, read by a reader that knows numbers and no objects.

    x_train, x_test             uint8 or floats: N x H x W or N x H x W x C (images), N x D (lists of numbers)
    y_train, y_test             whole numbers 0, 1, ...: N or N x 1
    groups_train, groups_test   optional, whole numbers, N: who wrote, took or owns each sample

Bytes are divided by 255 when they are used; floats are taken as they are, rounded to float32.

Each array is a `.npy` file of version 1, 2 or 3. Its header is matched against one pattern, not evaluated; its type is
one of a few; and its size must be what the zip file says, and all arrays together within a budget, before anything is
allocated: at most 8 GiB, and beyond 64 MiB at most 100 times the file.
"""

from __future__ import annotations

import io
import math
import os
import re
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fedparity.core.errors import InputError, in_line
from fedparity.data.dataset import DataSet, Inputs, Labels

MOST_BYTES = 8 * 2**30
"""That the arrays of a file may take in all."""
MOST_RATIO, SURELY_FINE = 100, 1 << 26
"""A file may unpack to so many times its size, or to so many bytes: more can only be meant to fill memory."""
ARRAYS = ("x_train", "y_train", "x_test", "y_test")
GROUPS = ("groups_train", "groups_test")
_HEADER = re.compile(
    r"\{'descr': '(?P<dtype>[|<>](?:[iu][1248]|f[248]))', 'fortran_order': (?P<fortran>True|False), "
    r"'shape': \((?P<shape>(?:[0-9]{1,12}, ?)*(?:[0-9]{1,12})?,?)\),? ?\} *\n?"
)


def load_npz(path: str | os.PathLike[str]) -> DataSet:
    """Any samples through the same door as the known data sets."""
    where = Path(path)
    with _problems(where), zipfile.ZipFile(where) as archive:
        names = [info.filename for info in archive.infolist()]
        arrays = {}
        _check_budget(archive, where)
        for name in (*ARRAYS, *GROUPS):
            held = names.count(f"{name}.npy")
            if held == 1:
                arrays[name] = _member(archive, name, where)
            elif held or name not in GROUPS:
                known = ", ".join(sorted(in_line(n.removesuffix(".npy")[:40]) for n in names)[:10]) or "nothing"
                raise InputError(
                    f"{where}: {'two arrays' if held else 'no array'} called {name} (it holds {known}); "
                    "write it with numpy.savez(FILE, x_train=, y_train=, x_test=, y_test=)"
                )
    x, y, groups = {}, {}, {}
    for part in ("train", "test"):
        x[part] = _inputs(arrays[f"x_{part}"], f"{where}: x_{part}")
        y[part] = _labels(arrays[f"y_{part}"], f"{where}: y_{part}", len(x[part]))
        if f"groups_{part}" in arrays:
            groups[part] = _whole(arrays[f"groups_{part}"], f"{where}: groups_{part}", len(x[part]))
    if x["train"].shape[1:] != x["test"].shape[1:] or x["train"].dtype != x["test"].dtype:
        shapes = " and ".join(f"{part.dtype} of shape {part.shape[1:]}" for part in x.values())
        raise InputError(f"{where}: x_train and x_test hold {shapes}; make them the same")
    return DataSet(
        name=where.stem,
        x_train=x["train"],
        y_train=y["train"],
        x_test=x["test"],
        y_test=y["test"],
        classes=1 + int(max(y["train"].max(), y["test"].max())),
        source=str(where),
        digests={},
        path=where,
        peak=255 if x["train"].dtype == np.uint8 else 1,
        groups=groups.get("train"),
        groups_test=groups.get("test"),
    )


def _check_budget(archive: zipfile.ZipFile, where: Path) -> None:
    """Refuse a file by the sizes it states; `read_npy` holds each array to the size that is stated for it."""
    total = sum(info.file_size for info in archive.infolist() if info.filename[:-4] in {*ARRAYS, *GROUPS})
    size = where.stat().st_size
    if total > min(MOST_BYTES, max(SURELY_FINE, MOST_RATIO * size)):
        raise InputError(
            f"{where}: {size} bytes would unpack to {total}, at most {MOST_BYTES >> 30} GiB and {MOST_RATIO} times the "
            "file are read; write it with numpy.savez instead of savez_compressed, or use fewer samples"
        )


@contextmanager
def _problems(where: Path) -> Iterator[None]:
    """What zip files and disks raise, as one error that names the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{where}: cannot be read ({error.strerror or error}); check the path") from error
    except InputError:
        raise
    except Exception as error:
        # A damaged zip file raises BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ...
        raise InputError(f"{where}: not a readable .npz file ({error}); write it again with numpy.savez") from error


def _member(archive: zipfile.ZipFile, name: str, where: Path) -> NDArray[Any]:
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as file:
        return read_npy(file, info.file_size, f"{where}: {name}")


def read_npy(file: IO[bytes], size: int, label: str) -> NDArray[Any]:
    """One array of numbers; `size` is how many bytes the file has."""
    start = file.read(12)
    if len(start) < 12 or start[:6] != b"\x93NUMPY" or start[6] not in {1, 2, 3}:
        raise InputError(f"{label} is no .npy array; write the file with numpy.savez")
    wide = start[6] > 1
    length = struct.unpack("<I", start[8:12])[0] if wide else struct.unpack("<H", start[8:10])[0]
    if length > 4096:
        raise InputError(f"{label} has a header of {length} bytes; only plain arrays of numbers are read")
    text = (b"" if wide else start[10:12]) + file.read(length if wide else max(0, length - 2))
    found = _HEADER.fullmatch(text.decode("latin-1"))
    if found is None:
        shown = text[:80].decode("latin-1")
        raise InputError(
            f"{label}: header {shown!r} is not that of a plain array of numbers; use uint8, float32, int64"
        )
    dtype = np.dtype(found["dtype"])
    shape = tuple(int(n) for n in found["shape"].replace(",", " ").split())
    total = math.prod(shape) * dtype.itemsize
    if len(shape) > 8 or total > MOST_BYTES:
        raise InputError(f"{label}: shape {shape} is more than the {MOST_BYTES} bytes that are read")
    if size != total + length + (12 if wide else 10):
        raise InputError(f"{label}: shape {shape} needs {total} bytes, the file has {size}; write it again")
    data = bytearray(total)
    if io.BufferedReader(_Whole(file)).readinto(data) != total or file.read(1):
        raise InputError(f"{label}: the file ends early; write it again")
    flat = np.frombuffer(data, dtype=dtype)
    return flat.reshape(shape, order="F" if found["fortran"] == "True" else "C")


class _Whole(io.RawIOBase):
    """A zip member as a raw file, so that a buffered reader fills a whole array from it."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._file.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)


def _inputs(array: NDArray[Any], label: str) -> Inputs:
    if (array.dtype != np.uint8 and array.dtype.kind != "f") or array.ndim < 2 or not array.size:
        raise InputError(
            f"{label} is {array.dtype} of shape {array.shape}; give uint8 or floats of shape N x H x W, "
            "N x H x W x C or N x D"
        )
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    return finite(array, label)


def finite(array: NDArray[Any], label: str) -> NDArray[np.float32]:
    """Numbers as float32, all of them finite."""
    with np.errstate(over="ignore"):
        found = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(found).all():
        row = int(np.flatnonzero(~np.isfinite(found.reshape(len(found), -1)).all(axis=1))[0])
        raise InputError(f"{label}: row {row} holds a number that is not finite in float32; leave it out")
    return found


def _labels(array: NDArray[Any], label: str, samples: int) -> Labels:
    found = _whole(array, label, samples)
    if found.min() < 0 or found.max() > 65_535:
        raise InputError(f"{label} holds {found.min()}..{found.max()}; labels must be whole numbers from 0 to 65535")
    return found


def _whole(array: NDArray[Any], label: str, samples: int) -> Labels:
    flat = array.reshape(-1) if array.ndim == 2 and array.shape[1] == 1 else array
    if flat.shape != (samples,) or flat.dtype.kind not in "iu":
        raise InputError(
            f"{label} is {array.dtype} of shape {array.shape} for {samples} samples; give one whole number per sample"
        )
    if flat.dtype.kind == "u" and flat.max() > np.iinfo(np.int64).max:
        raise InputError(f"{label} holds {flat.max()}, more than a 64-bit number; number them from 0")
    return flat.astype(np.int64)
