"""Features of images, computed once: only rows that were never asked for cost anything.

    features/KEY/header.json     format, and what the features are of
    features/KEY/features.f32    images x width, float32, row by row; rows not yet computed take no room on most disks
    features/KEY/marks.u32       of each row its CRC-32, 0 if it is not there yet

KEY is made of the images (their bytes), the extractor's digest and the width. Rows are on disk before their marks are
written, and a row whose mark does not fit (a crash, a bad disk) is computed again. Several processes may share a cache:
marks are whole words that only ever go from 0 to the same value.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.errors import ConfigError, OutputError
from fedparity.data import cache
from fedparity.data.dataset import Images, Progress, silent
from fedparity.data.sources import no_room

FORMAT = "fedparity-features 1"
CHUNK = 256
"""Rows between two writes."""

Features: TypeAlias = NDArray[np.float32]
Extract: TypeAlias = Callable[[Images], Features]
"""Images (uint8, N x ...) to N x width floats; a row must not depend on the others."""


class FeatureCache:
    """The features of one array of images under one extractor."""

    def __init__(self, images: Images, extract: Extract, digest: str, width: int) -> None:
        """`digest` names everything about the extractor that decides about its numbers."""
        checks.at_least("width", width, 1)
        self.images = images
        self.extract = extract
        self.width = width
        self._facts = {
            "format": FORMAT,
            "images": _digest(images),
            "extractor": digest,
            "rows": len(images),
            "width": width,
        }
        key = hashlib.sha256(json.dumps(self._facts).encode()).hexdigest()
        self.path = cache.cache_folder() / "features" / key[:32]

    def rows(self, indices: Sequence[int] | NDArray[np.integer[Any]], progress: Progress = silent) -> Features:
        """The features of these images, in this order; those in a row on disk are a read-only map of it.

        `progress` is told how many of the missing rows are computed.
        """
        wanted = self._checked(indices)
        if not len(wanted):
            return np.empty((0, self.width), dtype=np.float32)
        features = self._complete(np.unique(wanted), progress)
        first, count = int(wanted[0]), len(wanted)
        if np.array_equal(wanted, np.arange(first, first + count)):
            return features[first : first + count]
        return np.asarray(features[wanted])

    def missing(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> int:
        """How many of these images `rows` would have to compute."""
        wanted = np.unique(self._checked(indices))
        with _disk():
            return len(self._missing(wanted, self._features()) if len(wanted) and self._whole() else wanted)

    def _complete(self, rows: NDArray[np.int64], progress: Progress) -> Features:
        """A map of the file in which every one of `rows` was found right."""
        for _ in range(3):  # the second time finds all, unless another process replaced the files meanwhile
            with _disk():
                self._open()
                features = self._features()
                missing = self._missing(rows, features)
            if not len(missing):
                return features
            for at in range(0, len(missing), CHUNK):
                progress("computing features", at, len(missing))
                self._compute(missing[at : at + CHUNK])
            progress("computing features", len(missing), len(missing))
        raise OutputError(f"{self.path}: rows do not stay as they are written; set FEDPARITY_CACHE to another disk")

    def _checked(self, indices: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        found = np.asarray(indices)
        if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
            raise ConfigError(f"indices of type {found.dtype} and shape {found.shape} must be a list of whole numbers")
        rows = found.astype(np.int64)
        outside = rows[(rows < 0) | (rows >= len(self.images))]
        if len(outside):
            raise ConfigError(f"index {outside[0]} must be one of the {len(self.images)} images, 0 to the last")
        return rows

    def _open(self) -> None:
        """Make the folder, or another one in place of one that cannot be it."""
        if self._whole():
            return
        with cache.work_folder("features") as work:
            new = work / "new"
            new.mkdir()
            for name, size in self._sizes().items():
                with (new / name).open("xb") as file:
                    file.truncate(size)
            (new / cache.HEADER).write_text(json.dumps(self._facts, indent=1) + "\n", encoding="utf-8")
            self.path.parent.mkdir(exist_ok=True)
            if not self._whole():  # another process may have been faster, and have begun
                cache.place(new, self.path, work / "old")

    def _sizes(self) -> dict[str, int]:
        return {"features.f32": len(self.images) * self.width * 4, "marks.u32": len(self.images) * 4}

    def _whole(self) -> bool:
        try:
            header = json.loads((self.path / cache.HEADER).read_bytes())
            sizes = {name: (self.path / name).stat().st_size for name in self._sizes()}
        except (OSError, ValueError, RecursionError):
            return False
        return bool(header == self._facts and sizes == self._sizes())

    def _features(self) -> np.memmap[Any, np.dtype[np.float32]]:
        shape = (len(self.images), self.width)
        return np.memmap(self.path / "features.f32", dtype="<f4", mode="r", shape=shape)

    def _missing(self, rows: NDArray[np.int64], features: Features) -> NDArray[np.int64]:
        """Those of `rows` whose mark is not that of what is there."""
        marks = np.fromfile(self.path / "marks.u32", dtype="<u4")[rows]
        plain = np.asarray(features)  # indexing a map is slower
        right = [mark and mark == _mark(plain[row]) for row, mark in zip(rows.tolist(), marks.tolist(), strict=True)]
        return rows[~np.array(right, dtype=np.bool_)]

    def _compute(self, rows: NDArray[np.int64]) -> None:
        found = np.asarray(self.extract(np.asarray(self.images[rows])))
        if found.shape != (len(rows), self.width) or found.dtype != np.float32:
            wanted = f"float32 of {(len(rows), self.width)}"
            raise ConfigError(f"the extractor gave {found.dtype} of shape {found.shape}; {wanted} expected")
        if not np.isfinite(found).all():
            bad = rows[~np.isfinite(found).all(1)][0]
            raise ConfigError(f"the extractor gave a feature of image {bad} that is not finite; check its weights")
        marks = np.array([_mark(row) for row in found], dtype="<u4")
        with _disk(), suppress(FileNotFoundError):  # replaced just now: the next look finds the rows missing
            _write(self.path / "features.f32", rows, found.astype("<f4"))
            _write(self.path / "marks.u32", rows, marks)


@contextmanager
def _disk() -> Iterator[None]:
    """Whatever a disk refuses, as an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise no_room(cache.cache_folder(), error.strerror) from error


def _digest(images: Images) -> str:
    if images.dtype != np.uint8 or images.ndim < 2:
        raise ConfigError(f"images are {images.dtype} of shape {images.shape}; give uint8, one row per image")
    digest = hashlib.sha256(f"{list(images.shape)}\n".encode())
    for at in range(0, len(images), 4096):
        digest.update(np.ascontiguousarray(images[at : at + 4096]).data)
    return digest.hexdigest()


def _mark(row: Features) -> int:
    return zlib.crc32(np.ascontiguousarray(row).data) or 1


def _write(path: Path, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
    """Through a file, not a map: a full disk is then an error and not a signal. On disk when this returns."""
    size = values[0].nbytes
    with path.open("r+b") as file:
        for row, value in zip(rows.tolist(), values, strict=True):
            file.seek(row * size)
            file.write(value.tobytes())
        file.flush()
        os.fsync(file.fileno())
