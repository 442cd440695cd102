"""The arrays of a state: which of their numbers changed, and files of large ones, named by their digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays

from fedparity.core.rows import let_go
from fedparity.store.database import DamagedError
from fedparity.store.tree import Arrays

SAMPLED = 1 << 16
"""Bytes from which on an array is first compared in a few places."""
DTYPES = {"<f8": "F64", "<f4": "F32", "<f2": "F16", "<i8": "I64", "<i4": "I32", "<i2": "I16", "|i1": "I8"}
DTYPES |= {"<u8": "U64", "<u4": "U32", "<u2": "U16", "|u1": "U8", "|b1": "BOOL"}
"""What states are made of, as safetensors calls it."""


def file_of(sha256: str) -> str:
    """Where an array with this digest lies."""
    return f"arrays/{sha256}.safetensors"


def is_replaced(path: str) -> bool:
    """Whether an array is replaced when it changes and never written into, so that it can be compared without a copy.

    These are the vectors of clients: what they keep, and what a memory has in a dict called `kept`.
    """
    return path.startswith("/kept/") or (path.startswith("/memory/") and "/kept/" in path)


def as_file(array: Any) -> tuple[str, bytes, memoryview]:
    """The digest, the header and the body of a safetensors file of one array, the body without a copy."""
    kind = {"dtype": DTYPES[array.dtype.str], "shape": array.shape, "data_offsets": [0, array.nbytes]}
    header = json.dumps({"array": kind}).encode()
    header += b" " * (-len(header) % 8)
    start = len(header).to_bytes(8, "little") + header
    body = array.reshape(-1).view("u1").data
    h = hashlib.sha256(start)
    h.update(body)
    return h.hexdigest(), start, body


def same_kind(a: Any, b: Any) -> bool:
    """Whether two arrays can be told apart by their numbers alone."""
    return bool(a.shape == b.shape and a.dtype == b.dtype)


def changed_places(array: Any, before: Any) -> Any:
    """Where two arrays of one kind differ in any bit."""
    words = f"u{array.itemsize}" if array.itemsize in (1, 2, 4, 8) else array.dtype
    flat = [np.ascontiguousarray(a).reshape(-1).view(words) for a in (array, before)]
    step = max(1, array.size // 64)
    if array.nbytes >= SAMPLED and np.count_nonzero(flat[0][::step] != flat[1][::step]) > 60:
        return np.arange(array.size)  # a model after a step: all of it changed, no need to look closer
    found = np.flatnonzero(flat[0] != flat[1])
    let_go((array, before))
    return found


def unpacked(data: bytes, where: str) -> Arrays:
    """All arrays of a safetensors file."""
    try:
        return dict(load_arrays(data)) if data else {}
    except (SafetensorError, ValueError) as error:
        raise DamagedError(f"{where}: not an array file ({error})") from error


def unpacked_one(data: bytes, key: str, where: str) -> Any:
    """One of them."""
    arrays = unpacked(data, where)
    if key not in arrays:
        raise DamagedError(f"{where}: lacks {key}")
    return arrays[key]


def paths_in(node: Any) -> Iterator[str]:
    """Every array that a skeleton names."""
    if isinstance(node, dict):
        if isinstance(node.get("array"), str):
            yield node["array"]
        for value in node.values():
            yield from paths_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from paths_in(value)
