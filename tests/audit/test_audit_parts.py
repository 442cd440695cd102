"""Groups, windows, change points and waits: each held to a plain computation."""

import itertools

import numpy as np
import pytest
from logs import gini, random_log, uniform_log
from scipy import stats

from fedparity.audit.groups import UNKNOWN, group_table
from fedparity.audit.over_time import change_points, farthest, waits, windows
from fedparity.core.ledger import Ledger
from fedparity.core.trace import Trace


def ledger_of(online, asked):
    ledger = Ledger.empty(online.shape[1])
    ledger.online[:], ledger.selected[:] = online.sum(axis=0), asked.sum(axis=0)
    ledger.completed[:] = ledger.selected
    return ledger


def test_waits_are_runs_of_rounds_online_without_a_request():
    rng = np.random.default_rng(0)
    for _ in range(100):
        online, asked = random_log(rng, 5, 9)
        found = waits(Trace.from_matrix(online), Trace.from_matrix(asked))
        for k in range(5):
            longest, begins, run, start = 0, None, 0, None
            for t in np.flatnonzero(online[:, k]).tolist():
                run, start = (0, None) if asked[t, k] else (run + 1, t if run == 0 else start)
                if run > longest:
                    longest, begins = run, start
            assert found.longest[k] == longest
            assert found.now[k] == run
            if longest:
                assert found.longest_from[k] == begins


def test_groups_are_compared_with_the_best_served_and_small_ones_hidden():
    online, asked = uniform_log(np.random.default_rng(1), 40, 50, 5)
    names = ["a"] * 12 + ["b"] * 20 + ["c"] * 3 + [None] * 5
    found = group_table(names, ledger_of(online, asked), Trace.from_matrix(online), Trace.from_matrix(asked), 5)
    counts = asked.sum(axis=0)
    means = {"a": counts[:12].mean(), "b": counts[12:32].mean(), UNKNOWN: counts[35:].mean()}
    assert (found.hidden, found.hidden_clients) == (1, 3)
    assert {group.name for group in found.shown} == set(means)
    assert [g.per_client for g in found.shown] == sorted(g.per_client for g in found.shown)
    for group in found.shown:
        mine = counts[[i for i, name in enumerate(names) if (name or UNKNOWN) == group.name]]
        assert group.per_client == pytest.approx(means[group.name])
        assert group.impact_ratio == pytest.approx(means[group.name] / max(means.values()))
        assert group.share_ratio == pytest.approx(means[group.name] / counts.mean())
        assert group.flagged == (group.impact_ratio < 0.8)
        half = stats.t.ppf(0.975, len(mine) - 1) * mine.std(ddof=1) / np.sqrt(len(mine))
        assert group.high == pytest.approx(mine.mean() + half)
    assert found.lowest == min(g.impact_ratio for g in found.shown)


def test_windows_cover_the_log_and_have_their_own_limit():
    online, asked = uniform_log(np.random.default_rng(2), 10, 47, 3)
    found = windows(Trace.from_matrix(online), Trace.from_matrix(asked), 3, first=5)
    assert (found[0].first, found[-1].last) == (5, 51)
    assert all(a.last + 1 == b.first for a, b in itertools.pairwise(found))
    for window in found:
        part = slice(window.first - 5, window.last - 4)
        assert window.gini == pytest.approx(gini(asked[part].sum(axis=0)))
        assert window.gini_limit <= window.gini
        assert window.online == online[part].sum(axis=1).mean()
    assert windows(None, Trace.from_matrix(asked), 3, 0)[0].gini_limit is None


def test_a_change_is_found_where_it_is_and_seldom_where_there_is_none():
    members = {"ours": np.arange(40) < 10}
    at, false = [], 0
    for i in range(40):
        rng = np.random.default_rng([4, i])
        online, asked = uniform_log(rng, 40, 120, 6)
        trace = Trace.from_matrix(online)
        false += bool(change_points(trace, Trace.from_matrix(asked), members, 0))
        for t in range(70, 120):  # from here on they are not asked
            there = np.flatnonzero(online[t] & ~members["ours"])
            asked[t] = False
            asked[t, rng.permutation(there)[:6]] = True
        found = change_points(trace, Trace.from_matrix(asked), members, 0)
        assert found
        at.append(found[0].round)
        assert found[0].after < 0.1
    assert abs(np.median(at) - 70) <= 2
    assert false <= 3  # a level of .01


def test_a_straight_line_has_no_farthest_point():
    assert farthest(np.full(50, 0.3), np.ones(50))[1] == pytest.approx(1.0)
    assert farthest(np.zeros(5), np.zeros(5)) == (0, 1.0)
    at, p = farthest(np.repeat([-1.0, 1.0], 30), np.ones(60))
    assert (at, p < 1e-6) == (30, True)
