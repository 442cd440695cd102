"""Keyed random streams: what is drawn depends on what it is for, never on what was drawn before.

`stream(seed, purpose, round, client)` is a fresh generator for that key alone, so results do not depend on the order in
which clients train, on how many workers there are, or on where a run was resumed. `streams` makes those of many clients
at once: the same generators, several times faster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

from fedparity.core.errors import ConfigError
from fedparity.core.reprs import one_line

Words: TypeAlias = NDArray[np.uint32]


def stream(seed: int, purpose: str, round: int = -1, client: int = -1) -> np.random.Generator:
    """A generator for one purpose, one round and one client (-1: not tied to one)."""
    if not isinstance(seed, (int, np.integer)):
        raise ConfigError(f"seed={one_line(seed)} must be a whole number; 3.0 would draw other numbers than 3")
    key = int.from_bytes(_digest(seed, purpose, round, client), "little")
    return np.random.Generator(np.random.PCG64(key))


def streams(seed: int, purpose: str, round: int, clients: Iterable[int]) -> list[np.random.Generator]:
    """`stream` for each of many clients."""
    keys = b"".join([_digest(seed, purpose, round, client) for client in clients])
    states = _seed_states(np.frombuffer(keys, "<u4").reshape(-1, 4))
    # NumPy takes any ISeedSequence; its stubs know one.
    return [np.random.Generator(np.random.PCG64(_Known(state))) for state in states]  # type: ignore[arg-type]


def _digest(seed: int, purpose: str, round: int, client: int) -> bytes:
    return hashlib.blake2b(f"{seed}/{purpose}/{round}/{client}".encode(), digest_size=16).digest()


class _Known(ISeedSequence):
    """A seed sequence whose state is already worked out."""

    def __init__(self, state: NDArray[np.uint64]) -> None:
        self.state = state

    def generate_state(self, n_words: int, dtype: Any = np.uint64) -> NDArray[np.uint64]:
        return self.state


def _powers(first: int, factor: int, count: int) -> Words:
    return np.array([first * pow(factor, i, 1 << 32) % (1 << 32) for i in range(count)], dtype=np.uint32)


# NumPy's SeedSequence (whose results NumPy keeps the same from version to version), on columns of keys rather than on
# one: building it one client at a time takes longer than the client's training steps on a small model.
_POOL, _SHIFT = 4, np.uint32(16)
_MIX = _powers(0x43B0D7E5, 0x931E8875, _POOL * _POOL + 1)[:, None]
_OUT = _powers(0x8B51F9DD, 0x58F38DED, 2 * _POOL + 1)[:, None]
_LEFT, _RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)


def _hashed(words: Words, constants: Words) -> Words:
    """Each row of words with its constant, and the next one."""
    words = (words ^ constants[:-1]) * constants[1:]
    return np.asarray(words ^ (words >> _SHIFT))


def _seed_states(keys: Words) -> NDArray[np.uint64]:
    """`SeedSequence(key).generate_state(4, uint64)` of every row of four words."""
    pool = _hashed(keys.T, _MIX[: _POOL + 1])
    at = _POOL
    for source in range(_POOL):
        others = [target for target in range(_POOL) if target != source]
        mixed = pool[others] * _LEFT - _hashed(pool[source], _MIX[at : at + _POOL]) * _RIGHT
        pool[others] = mixed ^ (mixed >> _SHIFT)
        at += _POOL - 1
    return np.ascontiguousarray(_hashed(np.concatenate([pool, pool]), _OUT).T).view(np.uint64)
