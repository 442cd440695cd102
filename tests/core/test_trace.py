"""Availability as data, against plain loops over its matrix."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedparity.core.errors import ConfigError
from fedparity.core.trace import Trace


@st.composite
def matrices(draw):
    clients, rounds = draw(st.integers(1, 5)), draw(st.integers(1, 15))
    row = st.lists(st.booleans(), min_size=clients, max_size=clients)
    return np.array(draw(st.lists(row, min_size=rounds, max_size=rounds)))


def plain_sessions(online):
    found = []
    for k in range(online.shape[1]):
        first = None
        for t in range(len(online) + 1):
            there = t < len(online) and online[t, k]
            if there and first is None:
                first = t
            elif not there and first is not None:
                found.append((k, first, t - first))
                first = None
    return found


@given(matrices())
def test_columns_agree_with_the_matrix(online):
    trace = Trace.from_matrix(online)
    assert (trace.num_rounds, trace.num_clients) == online.shape
    assert np.array_equal(trace.matrix(), online)
    assert np.array_equal(trace.sizes(), online.sum(axis=1))
    assert np.array_equal(trace.counts(), online.sum(axis=0))
    assert np.array_equal(trace.rates(), online.mean(axis=0))
    for t, ids in enumerate(trace):
        assert ids.dtype == np.int64
        assert np.array_equal(ids, np.flatnonzero(online[t]))
        assert np.array_equal(trace.staying(t), ids)


@given(matrices())
def test_sessions_and_gaps_agree_with_a_plain_loop(online):
    trace = Trace.from_matrix(online)
    runs = plain_sessions(online)
    assert [tuple(row) for row in trace.sessions().tolist()] == runs
    gaps = [b[1] - a[1] - a[2] for a, b in itertools.pairwise(runs) if a[0] == b[0]]
    assert trace.gaps().tolist() == gaps


def test_sessions_by_hand():
    trace = Trace.from_matrix([[1, 0], [1, 1], [0, 1], [1, 0]])
    assert trace.sessions().tolist() == [[0, 0, 2], [0, 3, 1], [1, 1, 2]]
    assert trace.gaps().tolist() == [1]


@given(matrices(), st.data())
def test_head_is_the_beginning(online, data):
    rounds = data.draw(st.integers(1, len(online)))
    trace = Trace.from_matrix(online).with_dropout(0.5, np.random.default_rng(0))
    head = trace.head(rounds)
    assert np.array_equal(head.matrix(), online[:rounds])
    for t in range(rounds):
        assert np.array_equal(head.staying(t), trace.staying(t))


@pytest.mark.parametrize("rounds", [0, 4, -1])
def test_head_refuses_rounds_it_does_not_have(rounds):
    with pytest.raises(
        ConfigError, match=f"rounds={rounds} must be (a whole number of at least 1|between 1 and the 3)"
    ):
        Trace.from_matrix(np.ones((3, 2), dtype=bool)).head(rounds)


def test_dropout_thins_who_stays_and_nothing_else():
    trace = Trace.from_matrix(np.ones((200, 50), dtype=bool))
    thin = trace.with_dropout(0.3, np.random.default_rng(1))
    assert np.array_equal(thin.matrix(), trace.matrix())
    assert thin.stays.mean() == pytest.approx(0.7, abs=0.025)
    thinner = thin.with_dropout(0.5, np.random.default_rng(2))
    assert not np.any(thinner.stays & ~thin.stays)
    assert thinner.stays.mean() == pytest.approx(0.35, abs=0.025)
    assert thin.with_dropout(0, np.random.default_rng(3)).stays.tolist() == thin.stays.tolist()
    assert not trace.with_dropout(1, np.random.default_rng(3)).stays.any()


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_dropout_refuses_what_is_no_rate(rate):
    with pytest.raises(ConfigError, match=f"dropout={rate}"):
        Trace.from_matrix([[1]]).with_dropout(rate, np.random.default_rng(0))


def test_names_and_stays_are_carried():
    trace = Trace.from_rounds(2, [np.array([0, 1]), np.array([1])], [np.array([1, 0]), np.array([1])], ("a", "b"))
    assert trace.staying(0).tolist() == [0]
    assert trace.staying(1).tolist() == [1]
    assert trace.head(1).names == trace.with_dropout(0, np.random.default_rng(0)).names == ("a", "b")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Trace.from_rounds(0, [np.array([], dtype=int)]), "clients=0"),
        (lambda: Trace.from_rounds(3, []), "rounds=0"),
        (lambda: Trace.from_rounds(3, [np.array([3])]), "names client 3"),
        (lambda: Trace.from_rounds(3, [np.array([-1, 2])]), "a trace of 3 clients"),
        (lambda: Trace.from_rounds(3, [np.array([0, 1])], [np.array([True])]), "'stays' of a trace"),
    ],
)
def test_traces_that_make_no_sense_are_refused(make, says):
    with pytest.raises(ConfigError, match=says):
        make()


def test_a_trace_in_which_nobody_ever_comes():
    trace = Trace.from_matrix(np.zeros((3, 2), dtype=bool))
    assert trace.sessions().shape == (0, 3)
    assert trace.gaps().tolist() == []
    assert trace.rates().tolist() == [0, 0]


def test_half_a_character_is_no_name():
    with pytest.raises(ConfigError, match=r"client 'b\\ud800' is not a name that can be written as UTF-8; rename it"):
        Trace.from_rounds(2, [np.array([0])], names=("a", "b\ud800"))


def test_without_clients_nobody_else_changes():
    trace = Trace.from_rounds(
        3, [np.array([0, 1]), np.array([1, 2])], [np.array([1, 0]), np.array([1, 1])], ("a", "b", "c")
    )
    found = dataclasses.replace(trace, before=trace.head(1)).without({1})
    assert [ids.tolist() for ids in found] == [[0], [2]]
    assert found.stays.tolist() == [True, True]
    assert found.names == ("a", "", "c")
    assert [ids.tolist() for ids in found.before] == [[0]]
    assert trace.without(frozenset()) is trace
