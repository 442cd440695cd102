"""The physical limit, against brute force on tiny cases and by its own laws on larger ones."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedparity import AVAILABILITY, SCHEDULERS, ConfigError, Coordinator, Intermittent, NoTraining, Trace, run, stream
from fedparity.metrics import cv, fractional_frontier, frontier, gini, max_minus_min, selection_gap, weighted_frontier
from fedparity.schedulers import Fixed

CASES = 1000


def tiny(i):
    rng = stream(i, "tiny")
    n, t, m = rng.integers(2, 6), rng.integers(1, 6), int(rng.integers(1, 4))
    return rng.random((t, n)) < rng.uniform(0.1, 1, n), m


def reachable(online, m, *, full=True):
    """Every count vector of every schedule, by brute force; full=False also leaves slots empty."""
    vectors = {(0,) * online.shape[1]}
    for row in online:
        ids = np.flatnonzero(row)
        most = min(m, len(ids))
        picks = [c for k in ([most] if full else range(most + 1)) for c in itertools.combinations(ids, k)]
        vectors = {tuple(v[i] + (i in c) for i in range(len(v))) for v in vectors for c in picks}
    return np.array(sorted(vectors))


def majorised_by_all(counts, others):
    mine = np.cumsum(np.sort(counts)[::-1])
    return bool((mine <= np.cumsum(np.sort(others, axis=1)[:, ::-1], axis=1)).all())


def test_exact_against_brute_force_on_a_thousand_cases():
    for i in range(CASES):
        online, m = tiny(i)
        best, others = frontier(Trace.from_matrix(online), m), reachable(online, m)
        assert (best.counts == others).all(1).any(), i
        assert majorised_by_all(best.counts, others), i
        assert gini(best.counts) <= min(map(gini, others)) + 1e-12
        assert (
            selection_gap(best.counts, m, len(online)) <= min(selection_gap(v, m, len(online)) for v in others) + 1e-12
        )
        assert max_minus_min(best.counts) == min(map(max_minus_min, others))
        assert (best.counts == 0).sum() == (others == 0).sum(1).min()


def test_exact_at_every_smaller_total():
    for i in range(120):
        online, m = tiny(i)
        best, others = frontier(Trace.from_matrix(online), m), reachable(online, m, full=False)
        for total in range(best.total + 1):
            cut = best.at_total(total)
            assert cut.total == total
            assert majorised_by_all(cut.counts, others[others.sum(1) == total]), (i, total)


def test_the_number_of_clients_above_a_count_is_a_difference_of_maximum_flows():
    """F(c) - F(c - 1), F(c) the maximum flow when every client is capped at c, by SciPy's solver."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_flow

    online = stream(3, "flow").random((25, 30)) < stream(3, "pi").beta(0.5, 1.5, 30)
    rounds, clients = online.shape
    counts = frontier(Trace.from_matrix(online), 4).counts

    def flow(cap):
        graph = np.zeros((clients + rounds + 2, clients + rounds + 2), dtype=np.int32)
        graph[0, 1 : clients + 1] = cap
        graph[1 : clients + 1, clients + 1 : -1] = online.T
        graph[clients + 1 : -1, -1] = 4
        return maximum_flow(csr_matrix(graph), 0, clients + rounds + 1).flow_value

    flows = [flow(c) for c in range(rounds + 1)]
    assert [int((counts >= c).sum()) for c in range(1, rounds + 1)] == np.diff(flows).tolist()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), cohort=st.integers(1, 8))
def test_the_witness_is_a_schedule_with_those_counts(seed, cohort):
    rng = stream(seed, "w")
    online = rng.random((20, 15)) < rng.beta(0.5, 1, 15)
    best = frontier(Trace.from_matrix(online), cohort)
    for row, ids in zip(online, best.schedule, strict=True):
        assert row[ids].all()
        assert len(ids) == min(cohort, row.sum())
        assert len(set(ids.tolist())) == len(ids)
    assert np.array_equal(np.bincount(np.concatenate(best.schedule), minlength=15), best.counts)
    for total in (0, best.total // 2, max(0, best.total - 1)):
        cut = best.at_total(total)
        assert np.array_equal(np.bincount(np.concatenate([*cut.schedule, []]).astype(int), minlength=15), cut.counts)


@pytest.mark.parametrize(
    "availability", ["paper_like", "outages", "adversarial", "adversarial:kind=crowding", "bursty"]
)
def test_no_scheduler_goes_below_it_and_its_witness_can_be_replayed(availability):
    trace = AVAILABILITY.build(availability).draw(60, 60, 4)
    best = frontier(trace, 6)
    for name in ("uniform", "inverse", "reactive", "parity", "least_served", "round_robin"):
        coordinator = Coordinator(6, scheduler=SCHEDULERS.build(name))
        counts = run(coordinator, Intermittent(NoTraining(60), trace), 60, num_clients=60).ledger.selected
        assert majorised_by_all(best.counts, counts[None, :])
    oracle = Coordinator(6, scheduler=Fixed(best.schedule))
    replayed = run(oracle, Intermittent(NoTraining(60), trace), 60, num_clients=60).ledger.selected
    assert np.array_equal(replayed, best.counts)


def test_long_exchange_paths_are_found():
    """Client k is online in rounds k and k + 1 only, one slot each: only a chain through all of them balances."""
    n = 40
    online = np.zeros((n, n), bool)
    for k in range(n):
        online[k, k] = online[min(k + 1, n - 1), k] = True
    assert frontier(Trace.from_matrix(online), 1).counts.tolist() == [1] * n


def test_weighted_squares_are_exact_and_bounded_by_the_fractional_optimum():
    for i in range(300):
        online, m = tiny(i)
        if not online.any():
            continue
        rates = online.mean(0)
        weights = np.where(rates > 0, rates, 1.0)
        trace, others = Trace.from_matrix(online), reachable(online, m)
        best = weighted_frontier(trace, m, rates)
        lowest = (others**2 / weights).sum(1).min()
        assert (best.counts**2 / weights).sum() == pytest.approx(lowest)
        fraction = fractional_frontier(trace, m, rates)
        assert fraction.gap <= 1e-6
        assert (fraction.shares**2 / weights).sum() <= lowest * (1 + 1e-6) + 1e-9
        assert fraction.shares.sum() == pytest.approx(best.total)


def lowest_cv(online, m, weights):
    """By `weighted_frontier`, and by brute force."""
    seen = online.any(0)
    best = weighted_frontier(Trace.from_matrix(online), m, weights, "cv")
    for row, ids in zip(online, best.schedule, strict=True):
        assert row[ids].all()
        assert len(ids) == min(m, row.sum())
    shares = reachable(online, m)[:, seen] / weights[seen]
    return cv(best.counts[seen] / weights[seen]), (shares.std(1) / shares.mean(1)).min()


@pytest.mark.parametrize("beta", [0.5, 1, 2, 4])
def test_weighted_cv_is_exact(beta):
    for i in range(150):
        online, m = tiny(i)
        if online.any():
            found, lowest = lowest_cv(online, m, online.mean(0) ** beta)
            assert found == pytest.approx(lowest, abs=1e-9), i


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.floats(0.01, 10), min_size=5, max_size=5))
def test_weighted_cv_is_exact_for_any_weights(seed, weights):
    online, m = tiny(seed)
    if online.any():
        found, lowest = lowest_cv(online, m, np.array(weights[: online.shape[1]]))
        assert found == pytest.approx(lowest, rel=1e-7, abs=1e-6)


def test_fractional_optimum_by_hand():
    """Two clients online only together, one slot: proportional shares; a third always alone gets all it can."""
    trace = Trace.from_matrix([[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    found = fractional_frontier(trace, 1, np.array([2.0, 1.0, 1.0]))
    assert found.shares == pytest.approx([4 / 3, 2 / 3, 1], abs=1e-3)


def test_refusals_name_the_rule():
    trace = Trace.from_matrix([[1, 0]])
    with pytest.raises(ConfigError, match="cohort=0 must be a whole number of at least 1"):
        frontier(trace, 0)
    with pytest.raises(ConfigError, match="total=5 must be between 0 and the 1 slots"):
        frontier(trace, 1, total=5)
    with pytest.raises(ConfigError, match=r"weights of shape \(1,\) for 2 clients"):
        weighted_frontier(trace, 1, np.ones(1))
    with pytest.raises(ConfigError, match="above 0 for every client"):
        fractional_frontier(trace, 1, np.zeros(2))


def test_nobody_ever_online():
    trace = Trace.from_matrix(np.zeros((3, 4), bool))
    assert frontier(trace, 2).counts.tolist() == [0, 0, 0, 0]
    assert fractional_frontier(trace, 2, np.ones(4)).shares.tolist() == [0, 0, 0, 0]
