"""Tables: one row per sample, one column with its label, perhaps one with its client, all others its features.

A frame is any object with `columns` whose columns have `to_numpy()` (pandas, polars); a file is CSV with one line of
names, or Parquet (read by polars). Features are numbers, all finite, and are taken as they are, as float32. Labels and
clients are whole numbers or texts, and are numbered in sorted order. Of each client's rows of a label (of each label's,
if there is no client column) the first, fifth, ninth, ... are for testing (`dataset.every_fourth`).
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedparity.core.errors import ConfigError, InputError, in_line, unknown
from fedparity.data.dataset import DataSet, Labels, every_fourth
from fedparity.data.npy import finite

MOST_CELLS = 2**28
"""Rows times columns of a file: 1 GiB as float32."""
MOST_BYTES = 2**27
"""Of a CSV file: cells take some ten times as much while they are read."""
SUFFIXES = (".csv", ".parquet")


class Frame(Protocol):
    """A table of pandas, polars, or anything like them."""

    @property
    def columns(self) -> Iterable[str]:
        """Names of its columns."""
        ...

    def __getitem__(self, name: str, /) -> Any:
        """One column, which has `to_numpy()`."""
        ...


def from_frame(frame: Frame, label: str, client: str | None = None, *, source: str = "frame") -> DataSet:
    """A data set of the rows of a frame; with `client`, `groups` and `groups_test` say whose each row is."""
    if hasattr(frame, "collect") or not (hasattr(frame, "columns") and hasattr(frame, "__getitem__")):
        fix = "collect() it first" if hasattr(frame, "collect") else "give one of pandas or polars"
        raise ConfigError(f"frame: {type(frame).__name__} is no frame that holds columns; {fix}")
    names = [str(name) for name in frame.columns]
    return _data_set({name: np.asarray(frame[name].to_numpy()) for name in names}, label, client, source)


def load_table(path: str | os.PathLike[str], label: str, client: str | None = None) -> DataSet:
    """The same of a file that ends in .csv or .parquet."""
    where = Path(path)
    try:
        columns = _parquet(where) if where.suffix == ".parquet" else _csv(where)
    except OSError as error:
        raise InputError(f"{where}: cannot be read ({error.strerror or error}); check the path") from error
    return _data_set(columns, label, client, str(where))


def _csv(where: Path) -> dict[str, NDArray[Any]]:
    if (size := where.stat().st_size) > MOST_BYTES:
        raise InputError(f"{where}: {size} bytes, more than {MOST_BYTES}; write it as Parquet or .npz")
    try:
        with where.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, strict=True)
            names = next(lines, [])
            rows = [row for row in lines if row]
    except (csv.Error, ValueError) as error:
        raise InputError(f"{where}: not a table in CSV ({error}); write it in UTF-8 with commas") from error
    if len(set(names)) < len(names):
        raise InputError(f"{where}: two columns have the same name; rename one")
    short = next((i for i, row in enumerate(rows) if len(row) != len(names)), None)
    if short is not None:
        raise InputError(f"{where}: row {short} has {len(rows[short])} cells for {len(names)} columns; fill it in")
    return {name: _typed([row[i] for row in rows]) for i, name in enumerate(names)}


def _typed(cells: list[str]) -> NDArray[Any]:
    """Whole numbers if all are, else numbers if all are, else texts."""
    for kind, dtype in ((int, np.int64), (float, np.float64)):
        try:
            return np.array([kind(cell) for cell in cells], dtype=dtype)
        except (ValueError, OverflowError):
            continue
    return np.array(cells, dtype=object)


def _parquet(where: Path) -> dict[str, NDArray[Any]]:
    try:
        import polars as pl
    except ImportError as error:
        raise ConfigError("Parquet is read by polars; pip install 'fedparity[report]'") from error
    try:
        lazy = pl.scan_parquet(where)
        names = lazy.collect_schema().names()
        rows = int(lazy.select(pl.len()).collect().item())
        if rows * len(names) > MOST_CELLS:
            raise InputError(f"{where}: {rows} x {len(names)} cells, more than {MOST_CELLS}; use fewer rows or columns")
        frame = lazy.collect()
    except pl.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{where}: not a table in Parquet ({reason}); write it again") from error
    return {name: frame[name].to_numpy() for name in names}


def _data_set(columns: Mapping[str, NDArray[Any]], label: str, client: str | None, source: str) -> DataSet:
    for name in (label, client):
        if name is not None and name not in columns:
            raise InputError(f"{source}: {unknown('column', name, columns)}")
    features = [name for name in columns if name not in {label, client}]
    y, classes = _numbered(columns[label], f"{source}: column {label!r}")
    if not features or len(y) < 2:
        raise InputError(f"{source}: {len(features)} columns of features and {len(y)} rows; give at least 1 and 2")
    x = np.empty((len(y), len(features)), dtype=np.float32)
    for i, name in enumerate(features):
        x[:, i] = _feature(columns[name], f"{source}: column {name!r}")
    owner = None if client is None else _numbered(columns[client], f"{source}: column {client!r}")[0]
    _check_several(y if owner is None else owner, columns[label if client is None else client], source)
    test = every_fourth(y) if owner is None else every_fourth(owner, y)
    return DataSet(
        name=Path(source).stem,
        x_train=x[~test],
        y_train=y[~test],
        x_test=x[test],
        y_test=y[test],
        classes=classes,
        source=source,
        digests={},
        path=Path(source),
        peak=1,
        groups=None if owner is None else owner[~test],
        groups_test=None if owner is None else owner[test],
    )


def _check_several(keys: Labels, names: NDArray[Any], source: str) -> None:
    counts = np.bincount(keys)
    if counts.min() < 2:
        name = names[np.flatnonzero(keys == counts.argmin())[0]]
        shown = in_line(str(name)[:40])
        raise InputError(f"{source}: {shown} has a single row; one to train on and one to test on are needed")


def _numbered(column: NDArray[Any], label: str) -> tuple[Labels, int]:
    """Each value's place in sorted order, and how many values there are."""
    texts = column.dtype.kind == "O" and all(isinstance(value, str) for value in column)
    if not texts and column.dtype.kind not in "iubUT":
        raise InputError(f"{label} holds {column.dtype}, or cells are empty; give whole numbers or texts")
    values, found = np.unique(column, return_inverse=True)
    return found.reshape(-1).astype(np.int64), len(values)


def _feature(column: NDArray[Any], label: str) -> NDArray[np.float32]:
    if column.dtype.kind in "cMm":
        raise InputError(f"{label} holds {column.dtype}, which is no number; encode it as numbers or leave it out")
    try:
        return finite(column.astype(np.float64), label)
    except (ValueError, TypeError) as error:
        fix = "encode it as numbers, leave it out, or name it as the column that says whose each row is"
        raise InputError(f"{label} holds what is no number ({error}); {fix}") from error
