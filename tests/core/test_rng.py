"""Keyed streams: the key decides, and nothing else."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedparity.core.rng import stream, streams

keys = st.tuples(st.integers(), st.text(max_size=5).filter(lambda s: "/" not in s), st.integers(-1), st.integers(-1))


@given(keys, keys)
def test_the_key_decides(one, other):
    first = stream(*one).random(4)
    stream(*other).random(100)
    assert np.array_equal(stream(*one).random(4), first)
    assert np.array_equal(stream(*other).random(4), first) == (one == other)


def test_every_part_of_the_key_counts():
    drawn = [
        stream(seed, purpose, round, client).random()
        for seed, purpose, round, client in itertools.product((0, 1, 10), ("a", "b"), (-1, 0, 1), (-1, 0, 1))
    ]
    assert len(set(drawn)) == len(drawn)


def test_streams_look_independent_and_uniform():
    first = np.array([stream(7, "x", t).random() for t in range(3000)])
    assert abs(first.mean() - 0.5) < 5 * np.sqrt(1 / 12 / 3000)
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 5 / np.sqrt(3000)


def test_the_streams_of_version_one_stay():
    assert stream(0, "availability", 0).integers(1 << 32, size=2).tolist() == [3998693414, 633494582]


@given(st.integers(), st.integers(-1, 10**6), st.lists(st.integers(-1, 10**9), max_size=20))
def test_many_streams_are_the_streams_of_each(seed, round, clients):
    made = streams(seed, "x", round, clients)
    assert [m.bit_generator.state for m in made] == [
        stream(seed, "x", round, client).bit_generator.state for client in clients
    ]
