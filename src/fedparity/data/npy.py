"""Images as `.npz`: four arrays, perhaps a fifth, in a zip file, read by a reader that knows numbers and no objects.

    x_train, x_test     uint8, N x H x W or N x H x W x C
    y_train, y_test     whole numbers 0, 1, ...: N or N x 1
    groups_train        optional, whole numbers, N: who wrote, took or owns each training image

Each array is a `.npy` file of version 1, 2 or 3. Its header is matched against one pattern, not evaluated; its type is
one of a few; and its size must be what the zip file says before anything is allocated.
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

from fedparity.core.errors import InputError
from fedparity.data.dataset import DataSet, Images, Labels

MOST_BYTES = 8 * 2**30
"""The largest array that is read."""
_HEADER = re.compile(
    r"\{'descr': '(?P<dtype>[|<>][iu][1248])', 'fortran_order': (?P<fortran>True|False), "
    r"'shape': \((?P<shape>(?:[0-9]{1,12}, ?)*(?:[0-9]{1,12})?,?)\),? ?\} *\n?"
)


def load_npz(path: str | os.PathLike[str]) -> DataSet:
    """Any images through the same door as the known data sets."""
    where = Path(path)
    with _problems(where), zipfile.ZipFile(where) as archive:
        names = [info.filename for info in archive.infolist()]
        arrays = {}
        for name in ("x_train", "y_train", "x_test", "y_test", "groups_train"):
            held = names.count(f"{name}.npy")
            if held == 1:
                arrays[name] = _member(archive, name, where)
            elif held or name != "groups_train":
                known = ", ".join(sorted(n.removesuffix(".npy")[:40] for n in names)[:10]) or "nothing"
                raise InputError(
                    f"{where}: {'two arrays' if held else 'no array'} called {name} (it holds {known}); "
                    "write it with numpy.savez(FILE, x_train=, y_train=, x_test=, y_test=)"
                )
    images, labels = {}, {}
    for part in ("train", "test"):
        images[part] = _images(arrays[f"x_{part}"], f"{where}: x_{part}")
        labels[part] = _labels(arrays[f"y_{part}"], f"{where}: y_{part}", len(images[part]))
    if images["train"].shape[1:] != images["test"].shape[1:]:
        shapes = f"{images['train'].shape[1:]} and {images['test'].shape[1:]}"
        raise InputError(f"{where}: x_train and x_test hold images of shapes {shapes}; make them the same")
    classes = 1 + int(max(labels["train"].max(), labels["test"].max()))
    groups = None
    if "groups_train" in arrays:
        groups = _whole(arrays["groups_train"], f"{where}: groups_train", len(images["train"]))
    return DataSet(
        name=where.stem,
        x_train=images["train"],
        y_train=labels["train"],
        x_test=images["test"],
        y_test=labels["test"],
        classes=classes,
        source=str(where),
        digests={},
        path=where,
        groups=groups,
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
    """One array of whole numbers; `size` is how many bytes the file has."""
    start = file.read(12)
    if len(start) < 12 or start[:6] != b"\x93NUMPY" or start[6] not in {1, 2, 3}:
        raise InputError(f"{label} is no .npy array; write the file with numpy.savez")
    wide = start[6] > 1
    length = struct.unpack("<I", start[8:12])[0] if wide else struct.unpack("<H", start[8:10])[0]
    if length > 4096:
        raise InputError(f"{label} has a header of {length} bytes; only plain arrays of whole numbers are read")
    text = (b"" if wide else start[10:12]) + file.read(length if wide else max(0, length - 2))
    found = _HEADER.fullmatch(text.decode("latin-1"))
    if found is None:
        shown = text[:80].decode("latin-1")
        raise InputError(f"{label}: header {shown!r} is not that of a plain array of whole numbers; use uint8 or int64")
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


def _images(array: NDArray[Any], label: str) -> Images:
    if array.dtype != np.uint8 or array.ndim not in {3, 4} or not array.size:
        raise InputError(
            f"{label} is {array.dtype} of shape {array.shape}; give uint8 images of shape N x H x W or N x H x W x C"
        )
    return np.ascontiguousarray(array)


def _labels(array: NDArray[Any], label: str, images: int) -> Labels:
    found = _whole(array, label, images)
    if found.min() < 0 or found.max() > 65_535:
        raise InputError(f"{label} holds {found.min()}..{found.max()}; labels must be whole numbers from 0 to 65535")
    return found


def _whole(array: NDArray[Any], label: str, images: int) -> Labels:
    flat = array.reshape(-1) if array.ndim == 2 and array.shape[1] == 1 else array
    if flat.shape != (images,):
        raise InputError(f"{label} has shape {array.shape} for {images} images; give one whole number an image")
    if flat.dtype.kind == "u" and flat.max() > np.iinfo(np.int64).max:
        raise InputError(f"{label} holds {flat.max()}, more than a 64-bit number; number them from 0")
    return flat.astype(np.int64)
