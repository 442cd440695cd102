"""Sums over rows of updates: in row order and chunk by chunk, so that bits never depend on a number of threads.

Rows may be float32, may lie on disk, and together be larger than memory: only a chunk of each is looked at a time, and
pages of mapped files are given back as the pass goes on.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedparity.core.types import NO_FLOATS, NO_IDS, ClientReport, FloatArray, RoundPlan, Rows, Vector

CHUNK = 1 << 16
"""Numbers of a row taken at a time: what fits a processor's cache."""
RELEASE = 1 << 22
"""Bytes of mapped files looked at before their pages are given back; the system maps some of what lies around them."""


class Step(NamedTuple):
    """What a round's rows and weights made of the model, and what must be said of it."""

    rows: Rows
    weights: FloatArray
    notes: tuple[str, ...] = ()
    usable: bool = True

    @classmethod
    def none(cls, rows: Rows, why: str) -> Step:
        """The model stays as it is."""
        return cls(rows.only(np.zeros(len(rows.clients), dtype=np.bool_)), NO_FLOATS, (why,), usable=False)


def fresh_rows(plan: RoundPlan, used: Sequence[ClientReport], labels: NDArray[np.int64] | None) -> Rows:
    """The updates of a round, in the order of the reports."""
    shares = None if labels is None or not labels.sum() else labels.sum(1) / labels.sum()
    if not used:
        return Rows(NO_IDS, (), NO_IDS, NO_FLOATS, NO_FLOATS, NO_FLOATS, plan.rate, None, shares)
    clients = np.array([r.client for r in used], dtype=np.int64)
    return Rows(
        clients=clients,
        deltas=[np.asarray(r.delta) for r in used],
        ages=np.zeros(len(used), dtype=np.int64),
        sizes=np.array([r.num_samples for r in used], dtype=np.float64),
        losses=np.array([r.loss_before for r in used], dtype=np.float64),
        # A late report may be of a client beyond the last one asked: what stands there is replaced.
        probs=np.append(plan.cohort.probs, 1.0)[np.searchsorted(plan.cohort.clients, clients)],
        rate=plan.rate,
        shares=shares,
    )


def mapping_of(row: Vector) -> mmap.mmap | None:
    """The mapped file that a row lies in; None: it lies in memory."""
    base: object = getattr(row, "base", None)
    # A slice's base is the array it was cut from, and so on down to what owns the memory.
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, mmap.mmap) else None


def let_go(rows: Iterable[Vector]) -> None:
    """Give back the memory that mapped rows took by being looked at; they are read again when needed."""
    _let_go(_files(rows))


def _files(rows: Iterable[Vector]) -> list[mmap.mmap]:
    bases = {id(row.base): row for row in rows if row.base is not None}  # many rows are of one matrix
    found = (mapping_of(row) for row in bases.values())
    return list({id(file): file for file in found if file is not None}.values())


def _let_go(files: list[mmap.mmap]) -> None:
    for file in files:
        if hasattr(mmap, "MADV_DONTNEED"):  # not everywhere; elsewhere the system decides by itself
            file.madvise(mmap.MADV_DONTNEED)


def _chunks(size: int) -> Iterator[slice]:
    return (slice(first, first + CHUNK) for first in range(0, size, CHUNK))


def combine(weights: FloatArray, rows: Sequence[Vector], size: int) -> NDArray[np.float64]:
    """The sum of weights[i] * rows[i] in float64, one pass over the rows."""
    # Chunks outside, rows inside: a chunk of the total stays in the cache while every row is added to it, in row order
    # however many chunks there are. Rows of weight 0 are not even read.
    total = np.zeros(size)
    used = [(w, row) for w, row in zip(weights.tolist(), rows, strict=True) if w != 0]
    files = _files(row for _, row in used)
    scratch = np.empty(min(size, CHUNK))
    looked_at = 0
    for part in _chunks(size):
        into = total[part]
        product = scratch[: len(into)]
        for weight, row in used:
            # In float64 whatever the row's type, so that float32 rows lose nothing in the sum.
            np.multiply(row[part], weight, out=product, dtype=np.float64)
            into += product
            # Pages of mapped files count as this process's memory until they are given back.
            if files:
                looked_at += row.itemsize * len(into)
                if looked_at >= RELEASE:
                    _let_go(files)
                    looked_at = 0
    _let_go(files)
    return total


def dot(a: Vector, b: Vector) -> float:
    """The inner product of two rows, in float64."""
    total = 0.0
    for part in _chunks(len(a)):
        x, y = a[part].astype(np.float64, copy=False), b[part].astype(np.float64, copy=False)
        total += float(np.einsum("i,i->", x, y))  # einsum rather than BLAS: one thread, one order
    let_go((a, b))
    return total


def squared_lengths(rows: Sequence[Vector]) -> FloatArray:
    """|row|^2 of every row."""
    return np.array([dot(row, row) for row in rows], dtype=np.float64)


def gram(rows: Sequence[Vector]) -> NDArray[np.float64]:
    """All inner products of rows."""
    # Pair by pair rather than as one matrix product: rows may not fit into memory together, and BLAS would add up in an
    # order that depends on its number of threads.
    found = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        for j in range(i + 1):
            found[i, j] = found[j, i] = dot(row, rows[j])
    return found
