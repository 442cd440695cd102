"""Who is served when, for many rounds at once: plain arrays, since a claim takes more rounds than a run ever has."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from fedparity.core.types import BoolArray, FloatArray


def coins(rates: FloatArray, rounds: int, rng: np.random.Generator) -> BoolArray:
    """Rounds x clients: one coin per client and round."""
    return np.asarray(rng.random((rounds, len(rates)), dtype=np.float32) < rates)


def drawn(online: BoolArray, weights: FloatArray, cohort: int, rng: np.random.Generator) -> BoolArray:
    """Rounds x clients: who is selected, one by one with chances proportional to weight among those online and left.

    The `cohort` first of an exponential race in which client k runs at speed w_k (Efraimidis and Spirakis 2006).
    """
    arrival = np.where(online, rng.standard_exponential(online.shape, dtype=np.float32) / weights, np.inf)
    chosen = np.zeros(online.shape, dtype=np.bool_)
    first = np.argpartition(arrival, cohort - 1, axis=1)[:, :cohort]
    np.put_along_axis(chosen, first, values=True, axis=1)
    return chosen & online


def subsets(rates: FloatArray) -> Iterator[tuple[BoolArray, float]]:
    """Every set of clients that may be online, with its probability, for independent clients."""
    for bits in itertools.product((False, True), repeat=len(rates)):
        there = np.array(bits)
        yield there, float(np.prod(np.where(there, rates, 1 - rates)))


def cv_rows(x: FloatArray) -> FloatArray:
    """The coefficient of variation of every row."""
    return np.asarray(x.std(axis=1) / x.mean(axis=1))
