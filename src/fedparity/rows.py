"""Sums over rows of updates: in row order and chunk by chunk, so that bits never depend on a number of threads.

Rows may be float32, may lie on disk, and together be larger than memory: only a chunk of each is looked at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fedparity.types import FloatArray, Vector

CHUNK = 1 << 16
"""Numbers of a row taken at a time: what fits a processor's cache."""


def _chunks(size: int) -> Iterator[slice]:
    return (slice(first, first + CHUNK) for first in range(0, size, CHUNK))


def combine(weights: FloatArray, rows: Sequence[Vector], size: int) -> NDArray[np.float64]:
    """The sum of weights[i] * rows[i] in float64, one pass over the rows."""
    total = np.zeros(size)
    used = [(float(w), row) for w, row in zip(weights, rows, strict=True) if w != 0]
    for part in _chunks(size):
        into = total[part]
        for weight, row in used:
            into += weight * row[part].astype(np.float64, copy=False)
    return total


def dot(a: Vector, b: Vector) -> float:
    """The inner product of two rows, in float64."""
    total = 0.0
    for part in _chunks(len(a)):
        x, y = a[part].astype(np.float64, copy=False), b[part].astype(np.float64, copy=False)
        total += float(np.einsum("i,i->", x, y))  # einsum rather than BLAS: one thread, one order
    return total


def squared_lengths(rows: Sequence[Vector]) -> FloatArray:
    """|row|^2 of every row."""
    return np.array([dot(row, row) for row in rows], dtype=np.float64)


def gram(rows: Sequence[Vector]) -> NDArray[np.float64]:
    """All inner products of rows."""
    found = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        for j in range(i + 1):
            found[i, j] = found[j, i] = dot(row, rows[j])
    return found
