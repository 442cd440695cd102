"""Where data sets are kept: one folder each, written whole or not at all, mapped into memory when read.

    cifar10/header.json     format, name, source, digests, and of every array its file, shape, type and SHA-256
    cifar10/x_train.u8      the bytes of the array, row by row; likewise y_train, x_test, y_test

A new copy is made in a hidden folder beside it and renamed; so is the one it replaces.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedparity.core.errors import InputError
from fedparity.data.dataset import Arrays, DataSet, Progress, silent
from fedparity.data.layout import Known, NotThatError
from fedparity.data.sources import no_room, writing

FORMAT = "fedparity-data 1"
HEADER = "header.json"
STALE = 24 * 3600
"""Seconds after which the work folder of a process that was killed is removed."""


def cache_folder() -> Path:
    """FEDPARITY_CACHE, else fedparity in XDG_CACHE_HOME, else ~/.cache/fedparity."""
    own = os.environ.get("FEDPARITY_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(shared) if Path(shared).is_absolute() else Path.home() / ".cache"
    return base / "fedparity"


@contextmanager
def work_folder(name: str) -> Iterator[Path]:
    """A hidden folder in the cache, gone afterwards whatever happens."""
    root = cache_folder()
    try:
        root.mkdir(parents=True, exist_ok=True)
        for old in root.glob(f".{name}-*"):
            if time.time() - old.stat().st_mtime > STALE:
                shutil.rmtree(old, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=root))
    except OSError as error:
        raise no_room(root, error.strerror) from error
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def store(known: Known, arrays: Arrays, source: str, work: Path, progress: Progress = silent) -> None:
    """Write a data set and put it in its place."""
    new = work / "new"
    parts = arrays.parts()
    entries = {}
    with writing(cache_folder()):
        new.mkdir()
        for i, (name, array) in enumerate(parts.items()):
            progress("storing", i, len(parts))
            data = np.ascontiguousarray(array)
            with (new / f"{name}.u8").open("xb") as file:
                file.write(data.data)
                file.flush()
                os.fsync(file.fileno())
            entries[name] = {
                "file": f"{name}.u8",
                "shape": list(array.shape),
                "dtype": "uint8",
                "sha256": hashlib.sha256(data.data).hexdigest(),
            }
        header = {
            "format": FORMAT,
            "name": known.name,
            "source": source,
            "classes": known.classes,
            "peak": known.peak,
            "labels": {"x_train": "y_train.u8", "x_test": "y_test.u8"},
            "digests": dict(known.digests),
            "arrays": entries,
        }
        (new / HEADER).write_text(json.dumps(header, indent=1) + "\n", encoding="utf-8")
        place(new, cache_folder() / known.name, work / "old")
    progress("storing", len(parts), len(parts))


def place(new: Path, target: Path, aside: Path) -> None:
    """Rename a folder that has a header; another process that was faster wrote the same."""
    if target.exists():
        target.rename(aside)
    try:
        new.rename(target)
    except OSError:
        if not (target / HEADER).is_file():
            raise


def load(known: Known, *, verify: bool = False) -> DataSet:
    """The data set as it is kept: sizes and header are checked, with `verify` also every official digest."""
    folder = cache_folder() / known.name
    fix = f"run: fedparity data fetch {known.name}"
    if not (folder / HEADER).exists():
        raise InputError(f"{known.name} is not in {cache_folder()}; {fix}")
    try:
        header = json.loads((folder / HEADER).read_bytes())
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise NotThatError(f"{HEADER}: format must be {FORMAT!r}")  # noqa: TRY301 - one place adds folder and fix
        arrays = Arrays(**{name: _map(folder, header, name, shape) for name, shape in known.shapes.items()})
        if verify:
            check(known, arrays)
    except (NotThatError, OSError, ValueError, RecursionError) as error:
        raise InputError(f"{folder}: damaged ({error}); {fix}") from error
    return data_set(known, arrays, str(header.get("source", "")))


def data_set(known: Known, arrays: Arrays, source: str) -> DataSet:
    """A known data set made of these arrays."""
    return DataSet(
        name=known.name,
        x_train=arrays.x_train,
        y_train=arrays.y_train.astype(np.int64),
        x_test=arrays.x_test,
        y_test=arrays.y_test.astype(np.int64),
        classes=known.classes,
        source=source,
        digests=dict(known.digests),
        path=cache_folder() / known.name,
        peak=known.peak,
    )


def _map(folder: Path, header: dict[str, Any], name: str, shape: tuple[int, ...]) -> np.memmap[Any, np.dtype[np.uint8]]:
    arrays = header.get("arrays")
    entry = arrays.get(name) if isinstance(arrays, dict) else None
    path = folder / f"{name}.u8"
    wanted = {"file": path.name, "shape": list(shape), "dtype": "uint8"}
    if not isinstance(entry, dict) or {key: entry.get(key) for key in wanted} != wanted:
        raise NotThatError(f"{HEADER}: key arrays.{name} must say {wanted}")
    if path.stat().st_size != math.prod(shape):
        raise NotThatError(f"{path.name}: {path.stat().st_size} bytes, {math.prod(shape)} expected")
    return np.memmap(path, dtype=np.uint8, mode="r", shape=shape)


def check(known: Known, arrays: Arrays, progress: Progress = silent) -> None:
    """Hold arrays to the official digests."""
    total = len(known.digests)
    for i, (name, digest) in enumerate(known.official(arrays)):
        progress("verifying", i + 1, total)
        if digest != known.digests[name]:
            raise NotThatError(f"{name}: digest {digest}, the official one is {known.digests[name]}")
