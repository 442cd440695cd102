"""Comparison with chance: uniform where nothing is wrong, sharp where somebody is left out, exact where it says so."""

import itertools
import math

import numpy as np
import pytest
from logs import random_log, uniform_log
from scipy import stats

from fedparity.audit import chance
from fedparity.audit.chance import Null, compare_with_chance, group_test
from fedparity.core.trace import Trace
from fedparity.metrics import gini


def compared(online, asked, key=0):
    return compare_with_chance(Trace.from_matrix(online), Trace.from_matrix(asked), key)


def every_draw(online, asked):
    """Every log that lots could make, all equally likely within a round: counts and their chance."""
    found = {(0,) * online.shape[1]: 1.0}
    for there, taken in zip(online, asked.sum(axis=1), strict=True):
        sets = list(itertools.combinations(np.flatnonzero(there), int(taken)))
        after = {}
        for counts, mass in found.items():
            for one in sets:
                key = tuple(s + (k in one) for k, s in enumerate(counts))
                after[key] = after.get(key, 0.0) + mass / len(sets)
        found = after
    return np.array(list(found)), np.array(list(found.values()))


def test_tails_and_moments_are_those_of_every_possible_draw():
    rng = np.random.default_rng(0)
    for _ in range(60):
        online, asked = random_log(rng)
        counts, mass = every_draw(online, asked)
        got = asked.sum(axis=0)
        found = compared(online, asked)
        mean, variance, *_ = Null(Trace.from_matrix(online), asked.sum(axis=1)).moments()
        assert mean == pytest.approx(mass @ counts)
        assert variance == pytest.approx(mass @ (counts - mean) ** 2, abs=1e-12)
        free = found.variance > 0
        assert found.fewer[free] == pytest.approx((mass @ (counts <= got))[free])
        assert found.more[free] == pytest.approx((mass @ (counts >= got))[free])
        member = rng.random(online.shape[1]) < 0.5
        expected, p = group_test(Null(Trace.from_matrix(online), asked.sum(axis=1)), member, int(got[member].sum()))
        sums = counts[:, member].sum(axis=1)
        assert expected == pytest.approx(mass @ sums)
        tails = mass[sums <= got[member].sum()].sum(), mass[sums >= got[member].sum()].sum()
        assert p == pytest.approx(min(1.0, 2 * min(tails)))


def test_draws_are_uniform_among_those_online_and_fill_as_many_slots():
    rng = np.random.default_rng(1)
    online, asked = uniform_log(rng, 9, 12, 3)
    null = Null(Trace.from_matrix(online), asked.sum(axis=1))
    drawn = null.draw(4000, 0, 7)
    mean, variance, *_ = null.moments()
    assert (drawn.sum(axis=1) == asked.sum()).all()
    assert (drawn <= online.sum(axis=0)).all()
    assert np.abs(drawn.mean(axis=0) - mean).max() < 5 * np.sqrt(variance.max() / 4000)
    assert chance._ginis(drawn[:5]) == pytest.approx([gini(one) for one in drawn[:5]])


def p_values(logs, clients, rounds, slots, seed=0):
    found = []
    for i in range(logs):
        rng = np.random.default_rng([seed, i])
        found.append(compared(*uniform_log(rng, clients, rounds, slots), key=i).p)
    return np.array(found)


def assert_uniform(p):
    assert stats.kstest(p, "uniform").pvalue > 0.001
    for level in (0.01, 0.05, 0.1, 0.5):
        assert abs((p <= level).mean() - level) < 4 * math.sqrt(level * (1 - level) / len(p))


def test_the_p_value_of_500_uniform_logs_is_uniform():
    assert_uniform(p_values(500, clients=12, rounds=15, slots=3))


@pytest.mark.slow
def test_the_p_value_of_500_larger_uniform_logs_is_uniform():
    assert_uniform(p_values(500, clients=100, rounds=200, slots=10))


def test_the_approximation_for_large_logs_is_uniform_too(monkeypatch):
    monkeypatch.setattr(chance, "WORK", 0)
    assert compared(*uniform_log(np.random.default_rng(0), 60, 60, 6)).method == "gamma approximation"
    assert_uniform(p_values(300, clients=60, rounds=60, slots=6))


def named_in(online, asked, found, *, fewer=True):
    return chance.named(Trace.from_matrix(online), Trace.from_matrix(asked), found, fewer=fewer)


def test_whom_holm_names_is_named_and_the_level_is_kept():
    more = wrong = 0
    for i in range(60):
        rng = np.random.default_rng([3, i])
        online, asked = uniform_log(rng, 30, 60, 4, 0.4, range(3), 0.1)
        found = compared(online, asked, key=i)
        for fewer, tail in ((True, found.fewer), (False, found.more)):
            plain, mine = set(found.outliers(tail)), set(named_in(online, asked, found, fewer=fewer))
            assert plain <= mine
            more += len(mine - plain)
        null = compared(*(pair := uniform_log(rng, 30, 60, 4, 0.4)), key=i)
        wrong += len(named_in(*pair, null)) > 0
    assert more > 0
    assert wrong <= 8  # a level of .05 in 60 logs, and 2.9 standard deviations


def test_a_level_that_is_not_kept_counts_as_reached():
    levels = np.array([[0.0001, 0.0002], [0.0001, 0.001], [0.9, 1.0]])
    assert chance._steps(levels, np.array([1, 1, 1]), np.arange(3)).tolist() == [0, 1]


def found_suppressed(logs, rate):
    """How often the log is told from lots, which share of five suppressed clients is named, and others wrongly."""
    told, named, wrong = [], [], []
    for i in range(logs):
        online, asked = uniform_log(np.random.default_rng([9, i]), 100, 200, 10, 0.5, range(5), rate)
        found = compared(online, asked, key=i)
        out = named_in(online, asked, found)
        told.append(found.p <= 0.05)
        named.append((out < 5).sum() / 5)
        wrong.append((out >= 5).any())
    return np.mean(told), np.mean(named), np.mean(wrong)


def test_five_suppressed_of_a_hundred_are_found():
    told, named, wrong = found_suppressed(8, rate=0.0)
    assert told >= 0.9
    assert named >= 0.9
    assert wrong <= 0.25  # a level of .05, in 8 logs


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_suppressed_clients_are_found_in_200_logs(rate):
    told, named, wrong = found_suppressed(200, rate)
    assert told >= 0.9
    assert named >= 0.9
    assert wrong <= 0.1


def test_lots_that_leave_no_choice_are_no_evidence():
    online = np.ones((5, 3), bool)
    found = compared(online, online)
    assert found.p == 1.0
    assert not len(named_in(online, online, found))
    assert group_test(Null(Trace.from_matrix(online), online.sum(axis=1)), np.array([True, False, False]), 5)[1] == 1.0
