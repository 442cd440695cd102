"""Worked numbers of the published selection rules, computed by hand or by independent readers."""

import math

import numpy as np
import pytest

from fedparity import SCHEDULERS, ClientReport, Ledger, stream
from fedparity.core.protocols import Feedback
from fedparity.core.types import RoundView
from fedparity.schedulers.f3ast import priority
from fedparity.schedulers.fedgs import balance, distances, search
from fedparity.schedulers.oort_parts import (
    clipped,
    paced,
    preferred_duration,
    slowness,
    statistical_utility,
    uncertainty,
)


def view_of(clients, cohort, *, ledger=None, round=0, **more):
    ids = np.arange(clients)
    return RoundView(round, None, cohort, ids, np.ones(clients), None, ledger or Ledger.empty(clients), **more)


def helped(round, clients):
    """Everybody's contribution is positive: nobody can say otherwise."""
    reports = [ClientReport(int(k), np.zeros(1)) for k in clients]
    return Feedback(round, np.zeros(1), reports, Ledger.empty(4), None)


def test_fairfedcs_sequence():
    """N=4, m=2, sigma=.6, all contributions positive: two turns, Q and Psi as worked out for equations 3, 4 and 13."""
    rule = SCHEDULERS.build("fairfedcs")
    state, turns = rule.init(4), []
    queues, indices = (
        [[0, 0, 0.25, 0.25], [0.3, 0.3, 0, 0]],
        [[0.3] * 4, [0.36, 0.36, 0.55, 0.55], [0.66, 0.66, 0.36, 0.36]],
    )
    for t in range(3):
        index = 0.6 * state.reputation() + state.queue
        cohort, state = rule.select(state, view_of(4, 2), stream(0, "x", t))
        turns.append(cohort.clients.tolist())
        order = [*turns[0], *(k for k in range(4) if k not in turns[0])]  # ties of the first round are drawn by lot
        assert index[order] == pytest.approx(indices[t])
        if t < 2:
            assert state.queue[order] == pytest.approx(queues[t])
        state = rule.learn(state, helped(t, cohort.clients))
    assert turns[0] == turns[2]
    assert set(turns[0]) | set(turns[1]) == set(range(4))


def test_fairfedcs_other_queue():
    """Reading A: after the first round those not asked have m/N = .5."""
    rule = SCHEDULERS.build("fairfedcs:queue=share")
    cohort, state = rule.select(rule.init(4), view_of(4, 2), stream(0, "x"))
    assert sorted(state.queue.tolist()) == [0, 0, 0.5, 0.5]
    assert (state.queue[cohort.clients] == 0).all()


def test_f3ast():
    """p=(.5,.3,.2), r=(.6,.2,.2), M=1, beta=.1: scores (.694, 2.25, 1), client 1, r=(.54,.28,.18), weight 1.0714."""
    p, r = np.array([0.5, 0.3, 0.2]), np.array([0.6, 0.2, 0.2])
    assert priority(p, r) == pytest.approx([0.694444, 2.25, 1.0], abs=1e-6)
    labels = np.array([[3, 2], [3, 0], [0, 2]])
    cohort, after = SCHEDULERS.build("f3ast:beta=.1").select(r, view_of(3, 1, labels=labels), stream(0, "x"))
    assert cohort.clients.tolist() == [1]
    assert after == pytest.approx([0.54, 0.28, 0.18])
    assert p[1] / after[1] == pytest.approx(1.071429, abs=1e-6)


def test_oort_score():
    """Losses (1,2,3): 6.480741; 20 s where 10 are wanted: a quarter; at R=100 with the last round 25: .135723."""
    utility = statistical_utility(3, math.sqrt((1 + 4 + 9) / 3))
    assert utility == pytest.approx(6.480741, abs=1e-6)
    assert utility * slowness(np.array([20.0]), 10, 2) == pytest.approx([1.620185], abs=1e-6)
    assert uncertainty(100, np.array([25.0])) == pytest.approx([0.135723], abs=1e-6)


def test_oort_score_through_the_scheduler():
    rule, ledger = SCHEDULERS.build("oort"), Ledger.empty(2)
    ledger.last_completed[:] = 24
    reports = [
        ClientReport(0, np.zeros(1), num_samples=3, loss_rms=math.sqrt(14 / 3), duration=20.0),
        ClientReport(1, np.zeros(1), num_samples=3, loss_rms=math.sqrt(14 / 3), duration=10.0),
    ]
    state = rule.learn(rule.init(2), Feedback(24, np.zeros(1), reports, ledger, None))
    found = rule.scores(state, view_of(2, 1, ledger=ledger, round=99), np.arange(2))
    assert found == pytest.approx(np.array([0.25, 1]) * (6.480741 + 0.135723), abs=1e-6)


def test_oort_pieces():
    assert slowness(np.array([5.0, 10.0, np.nan]), 10, 2).tolist() == [1, 1, 1]
    assert slowness(np.array([1e300, 2.0]), math.inf, 2).tolist() == [1, 1]
    ten = np.arange(1.0, 11.0)
    assert preferred_duration(ten, 10) == 2
    assert preferred_duration(ten, 100) == math.inf
    assert preferred_duration(np.full(3, np.nan), 10) == math.inf
    assert clipped(np.arange(20.0), 0.9, normalise=False).max() == 18
    scaled = clipped(np.array([1.0, 2.0, 3.0]), 1.0, normalise=True)
    assert scaled == pytest.approx((np.array([1, 2, 3]) - 0.999) / 2.001)
    assert math.isnan(statistical_utility(3, math.nan))
    assert statistical_utility(3, -1) == 0


@pytest.mark.parametrize(
    ("pacer", "earlier", "later", "after"),
    [
        ("falling", [2, 2], [1, 1], 15),
        ("falling", [1, 1], [2, 2], 10),
        ("flat", [1, 1], [1, 1.1], 15),
        ("flat", [1, 1], [2, 2], 10),
        ("flat", [1, 1], [9, 9], 5),
    ],
)
def test_oort_pacer(pacer, earlier, later, after):
    assert paced(pacer, 10, 5, earlier, later) == after


def test_fedgs_diagonals():
    """Counts (4,1,1,0), M=2."""
    assert balance(np.array([4, 1, 1, 0], np.int32), 2, 4) == pytest.approx([-1.666667, 1 / 3, 1 / 3, 1], abs=1e-6)


def test_fedgs_distances_by_hand():
    """Similarities (.5/max, 0, .5/max) of a chain: two edges of exp(-1/sigma), and twice that over the middle."""
    apart = distances(np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]), 0.01, 0.1)
    assert apart[:3, :3] == pytest.approx(np.array([[0, 0.5, 1], [0.5, 0, 0.5], [1, 0.5, 0]]))
    assert apart[3].tolist() == [1, 1, 1, 0]


def test_fedgs_search_finds_what_trying_everything_finds():
    from itertools import combinations

    rng, found_best = np.random.default_rng(0), 0
    for _ in range(50):
        alone, pairs = rng.normal(size=9), rng.random((9, 9)) * 0.5
        pairs = np.triu(pairs, 1) + np.triu(pairs, 1).T

        def value(chosen, alone=alone, pairs=pairs):
            chosen = list(chosen)
            return alone[chosen].sum() + pairs[np.ix_(chosen, chosen)].sum() / 2

        best = max(map(value, combinations(range(9), 4)))
        got = value(search(alone, pairs, 4))
        assert got > best - 0.2
        found_best += got == pytest.approx(best)
    assert found_best >= 40


def test_power_of_choice_takes_the_largest_losses_of_everybody():
    losses = np.array([0.3, 2.0, 0.1, 5.0, 1.0])
    rule = SCHEDULERS.build("power_of_choice:d=5")
    cohort, _ = rule.select(None, view_of(5, 2, losses=lambda ids, _: losses[ids]), stream(0, "x"))
    assert cohort.clients.tolist() == [1, 3]
    assert cohort.design == "deterministic"


def test_deficit_by_hand():
    """Three rounds of m=1 of N=4: due .75 or 3; asked (2,1,0,0)."""
    ledger = Ledger.empty(4)
    ledger.selected[:] = [2, 1, 0, 0]
    for due, owed in (("share", 0.75), ("missed", 3.0)):
        rule = SCHEDULERS.build(f"deficit:due={due}")
        cohort, state = rule.select(np.full(4, owed), view_of(4, 1, ledger=ledger), stream(0, "x"))
        assert cohort.probs.tolist() == [0.5]
        assert cohort.clients[0] in (2, 3)
        assert state == pytest.approx(owed + (0.25 if due == "share" else 1))
