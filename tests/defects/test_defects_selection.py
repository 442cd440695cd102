"""Mistakes found in published selection code, each with a test that ours does not have it."""

import warnings

import numpy as np
import pytest

from fedparity import SCHEDULERS, ClientReport, Ledger, stream
from fedparity.core.protocols import Feedback
from fedparity.core.types import RoundView


def view_of(available, cohort, clients, *, round=0, ledger=None, **more):
    ids = np.array(available, dtype=np.int64)
    ledger = ledger or Ledger.empty(clients)
    return RoundView(round, None, cohort, ids, np.full(len(ids), 0.5), None, ledger, **more)


def explored(rule, clients, ledger):
    """A state of Oort in which everybody has reported."""
    reports = [ClientReport(k, np.zeros(1), num_samples=5, loss_rms=1.0 + k) for k in range(clients)]
    ledger.last_completed[:] = 0
    return rule.learn(rule.init(clients), Feedback(0, np.zeros(1), reports, ledger, None))


def test_f3ast_never_fills_a_thin_round_with_the_absent():
    """mriberodiaz/f3ast @27b4e33: top_k over all clients takes absent ones (score 0) if fewer than M are there."""
    rule = SCHEDULERS.build("f3ast")
    for available in ([], [3], [1, 7]):
        cohort, state = rule.select(rule.init(10), view_of(available, 5, 10), stream(0, "x"))
        assert cohort.clients.tolist() == available
        assert cohort.wasted == 0
        absent = np.setdiff1d(np.arange(10), available)
        assert (state[absent] < 0.1).all(), "the rate of the absent only fades"


def test_f3ast_rates_that_fade_for_ever_divide_nothing_by_zero():
    """Not seen in the code, but near: p^2 / r^2 leaves the finite numbers for a client that never comes."""
    rule = SCHEDULERS.build("f3ast:beta=.9")
    state = rule.init(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(600):
            _, state = rule.select(state, view_of([0], 1, 3), stream(0, "x"))
        cohort, _ = rule.select(state, view_of([0, 1, 2], 2, 3), stream(0, "x"))
    assert cohort.clients.tolist() == [1, 2]


@pytest.mark.parametrize("name", ["oort", "oort_code", "oort:exploration=0", "oort_code:exploration=0,least=0"])
def test_oort_with_everybody_exploited(name):
    """SymbioticLab/Oort @05a3aa1: scores[sorted[exploitLen]] is an IndexError when all that are known are exploited."""
    rule, ledger = SCHEDULERS.build(name), Ledger.empty(6)
    state = explored(rule, 6, ledger)
    for cohort in (1, 5, 6, 9):
        chosen, state = rule.select(state, view_of(range(6), cohort, 6, round=1, ledger=ledger), stream(0, "x"))
        assert len(chosen.clients) == min(cohort, 6)


@pytest.mark.parametrize("name", ["oort:blacklist=1", "oort_code:blacklist=1"])
def test_oort_blacklist_is_cut_to_a_whole_number(name):
    """SymbioticLab/Oort @05a3aa1: blacklist[:share * N] is a TypeError, since the share makes it a float."""
    rule, ledger = SCHEDULERS.build(name), Ledger.empty(7)
    state = explored(rule, 7, ledger)
    ledger.selected[:] = [9, 8, 7, 2, 2, 2, 2]
    out = rule._blacklisted(view_of(range(7), 2, 7, ledger=ledger))
    assert np.flatnonzero(out).tolist() == [0, 1], "30 % of 7 are two, those asked most"
    for i in range(30):
        chosen, state = rule.select(state, view_of(range(7), 3, 7, round=1, ledger=ledger), stream(i, "x"))
        assert not np.isin(chosen.clients, [0, 1]).any()


def test_oort_ends_even_if_all_that_are_there_are_blacklisted():
    """SymbioticLab/Oort @f5fccf3: the loop that fills a cohort draws for ever if too few may be drawn."""
    rule, ledger = SCHEDULERS.build("oort:blacklist=1,blacklist_share=1"), Ledger.empty(7)
    state = explored(rule, 7, ledger)
    ledger.selected[:] = 5
    chosen, _ = rule.select(state, view_of(range(7), 3, 7, round=1, ledger=ledger), stream(0, "x"))
    assert len(chosen.clients) == 3


def test_power_of_choice_ranks_are_ranks_of_candidates():
    """WwZzz/easyFL (flgo) @ea07f1d: ranks within the d candidates index the available: wrong clients if d < |A|."""
    losses = stream(0, "losses").random(40)
    rule, asked = SCHEDULERS.build("power_of_choice:d=8"), []

    def told(ids, _):
        asked.append(ids)
        return losses[ids]

    for i in range(50):
        available = np.flatnonzero(stream(i, "a").random(40) < 0.6)
        chosen, _ = rule.select(None, view_of(available, 3, 40, losses=told), stream(i, "x"))
        candidates = asked[-1]
        assert len(candidates) == 8
        assert np.isin(candidates, available).all()
        assert set(chosen.clients) == set(candidates[np.argsort(-losses[candidates])[:3]])


def test_power_of_choice_draws_candidates_by_size():
    """SMILELab-FL/FedLab @92552a7 draws candidates uniformly, whatever clients hold."""
    rule, labels = SCHEDULERS.build("power_of_choice:d=1"), np.array([[90], [5], [5]])
    hits = np.zeros(3)
    for i in range(2000):
        view = view_of(range(3), 1, 3, losses=lambda ids, _: np.zeros(len(ids)), labels=labels)
        hits[rule.select(None, view, stream(i, "x"))[0].clients] += 1
    assert hits / 2000 == pytest.approx([0.9, 0.05, 0.05], abs=0.02)


def test_uniform_fills_its_cohort_from_those_that_are_there():
    """WwZzz/easyFL (flgo) @ea07f1d: `md` draws from all clients and drops the absent, unsaid."""
    view = view_of([1, 4, 6, 8], 3, 50)
    for i in range(50):
        assert len(SCHEDULERS.build("uniform").select(None, view, stream(i, "x"))[0].clients) == 3
        cohort, _ = SCHEDULERS.build("population").select(None, view, stream(i, "x"))
        assert len(cohort.clients) + cohort.wasted == 3


def test_fedgs_asks_for_one_client():
    """WwZzz/FedGS @55cc89d: 2 / (M (M - 1)) divides by zero for M = 1."""
    labels = np.eye(5, dtype=np.int64)
    ledger = Ledger.empty(5)
    ledger.selected[:] = [1, 1, 0, 1, 1]
    chosen, _ = SCHEDULERS.build("fedgs").select(
        None, view_of(range(5), 1, 5, ledger=ledger, labels=labels), stream(0, "x")
    )
    assert chosen.clients.tolist() == [2]


def test_fedgs_with_nothing_in_common():
    """WwZzz/FedGS @55cc89d: similarities are divided by their range, 0 when no two clients share a label."""
    for labels in (np.eye(5, dtype=np.int64), np.ones((5, 3), np.int64), np.zeros((5, 2), np.int64)):
        view = view_of(range(5), 3, 5, labels=labels)
        chosen, _ = SCHEDULERS.build("fedgs:alpha=1").select(None, view, stream(0, "x"))
        assert len(chosen.clients) == 3
