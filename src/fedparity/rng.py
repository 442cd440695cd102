"""Keyed random streams: what is drawn depends on what it is for, never on what was drawn before.

`stream(seed, purpose, round, client)` is a fresh generator for that key alone, so results do not depend on the order in
which clients train, on how many workers there are, or on where a run was resumed.
"""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, purpose: str, round: int = -1, client: int = -1) -> np.random.Generator:
    """A generator for one purpose, one round and one client (-1: not tied to one)."""
    key = hashlib.blake2b(f"{seed}/{purpose}/{round}/{client}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(key, "little")))
