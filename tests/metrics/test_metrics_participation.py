"""Participation: worked numbers, the tie between gap, Hoover and Gini, sliding windows, influence."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedparity.core.errors import ConfigError
from fedparity.core.types import NO_FLOATS, NO_IDS, RoundRecord, SurrogateCredit
from fedparity.metrics import gini, hoover
from fedparity.metrics.participation import (
    coverage,
    fill,
    influence,
    never_served,
    participation_std,
    per_opportunity,
    selection_gap,
    windowed,
    windowed_gap,
)

quick = settings(max_examples=60, deadline=None)
filled = st.lists(st.integers(0, 30), min_size=1, max_size=30).filter(any)


def record(round, weights, clients=None):
    ids = np.arange(len(weights)) if clients is None else np.array(clients, dtype=np.int64)
    return RoundRecord(
        round=round,
        available=NO_IDS,
        selected=NO_IDS,
        probs=NO_FLOATS,
        design="exact",
        wasted=0,
        completed=NO_IDS,
        utility=NO_FLOATS,
        loss=NO_FLOATS,
        failed=(),
        abandoned=False,
        row_clients=ids,
        row_ages=np.zeros(len(ids), dtype=np.int64),
        row_weights=np.array(weights, dtype=np.float64),
        surrogate=SurrogateCredit(),
        model_sha256="",
    )


def test_gap_by_hand():
    # N=4, m=2, T=4: equal is one slot-round each. |4/2 - 1| + |2/2 - 1| + |2/2 - 1| + |0 - 1| = 2, over T = 4.
    assert selection_gap([4, 2, 2, 0], cohort=2, rounds=4) == 0.5
    assert selection_gap([2, 2, 2, 2], cohort=2, rounds=4) == 0.0
    assert selection_gap([0, 0, 0, 0], cohort=2, rounds=4) == 1.0


def test_gap_of_one_who_gets_everything():
    assert selection_gap([10, 0, 0, 0, 0], cohort=1, rounds=10) == pytest.approx(2 - 2 / 5)


@pytest.mark.parametrize(("cohort", "rounds"), [(0, 5), (5, 0), (-1, 5)])
def test_gap_needs_a_cohort_and_a_round(cohort, rounds):
    with pytest.raises(ConfigError, match="at least 1"):
        selection_gap([1, 2], cohort, rounds)


@pytest.mark.parametrize("bad", [math.nan, -1])
@pytest.mark.parametrize(
    "measure",
    [
        lambda c: selection_gap(c, 1, 1),
        never_served,
        coverage,
        lambda c: per_opportunity(c, [9, 9]),
        lambda c: participation_std(c, 5),
    ],
)
def test_a_count_that_is_none_is_named(measure, bad):
    with pytest.raises(ConfigError, match=r"counts\[1\]="):
        measure([1, bad])


def test_nobody():
    assert math.isnan(selection_gap([], 1, 1))
    assert math.isnan(coverage([]))
    assert math.isnan(participation_std([], 3))
    assert never_served([]) == 0
    assert per_opportunity([], []).shape == (0,)


def test_one_client_and_zeros():
    assert selection_gap([5], 1, 5) == 0
    assert (never_served([0, 0]), coverage([0, 0]), participation_std([0, 0], 3)) == (2, 0, 0)


def test_served_and_covered():
    assert never_served([0, 3, 0, 1]) == 2
    assert coverage([0, 3, 1, 1]) == 0.75


def test_per_opportunity_leaves_out_who_was_never_there():
    np.testing.assert_array_equal(per_opportunity([2, 0, 1, 0], [4, 0, 1, 5]), [0.5, 1, 0])


def test_per_opportunity_refuses_what_cannot_be():
    with pytest.raises(ConfigError, match="client 1 was selected in 3 rounds but online in 2"):
        per_opportunity([1, 3], [1, 2])
    with pytest.raises(ConfigError, match="counts has 2 clients but online has 3"):
        per_opportunity([1, 1], [1, 2, 3])


def test_participation_std_is_of_frequencies():
    assert participation_std([2, 4], rounds=10) == pytest.approx(0.1)


def test_fill():
    assert fill(15, cohort=4, rounds=5) == 0.75
    with pytest.raises(ConfigError, match="total=-1"):
        fill(-1, 1, 1)


@quick
@given(filled, st.data())
def test_half_the_gap_is_hoover_and_below_gini_at_full_slots(counts, data):
    total = sum(counts)
    cohort = data.draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
    gap = selection_gap(counts, cohort, total // cohort)
    assert gap / 2 == pytest.approx(hoover(counts), abs=1e-12)
    assert gap / 2 <= gini(counts) + 1e-12


def test_with_empty_slots_gini_may_fall_below_half_the_gap():
    counts = [1, 1, 1, 1]
    assert gini(counts) == 0 < selection_gap(counts, cohort=2, rounds=4) / 2


@quick
@given(filled.filter(lambda c: len(c) > 1), st.data(), st.integers(1, 5), st.integers(1, 40))
def test_giving_from_rich_to_poor_never_widens_the_gap(counts, data, cohort, rounds):
    poor, rich = sorted(data.draw(st.tuples(*[st.integers(0, len(counts) - 1)] * 2)), key=lambda i: counts[i])
    given_away = data.draw(st.integers(0, (counts[rich] - counts[poor]) // 2))
    after = np.array(counts)
    after[rich] -= given_away
    after[poor] += given_away
    assert selection_gap(after, cohort, rounds) <= selection_gap(counts, cohort, rounds) + 1e-12


@quick
@given(st.lists(st.sets(st.integers(0, 6)), min_size=1, max_size=25), st.data())
def test_windows_are_what_a_loop_counts(rounds, data):
    chosen = [np.array(sorted(ids), dtype=np.int64) for ids in rounds]
    window = data.draw(st.integers(1, len(rounds)))
    naive = [
        [sum(k in rounds[t] for t in range(first, first + window)) for k in range(7)]
        for first in range(len(rounds) - window + 1)
    ]
    np.testing.assert_array_equal(np.array(list(windowed(chosen, 7, window))), naive)
    gaps = [sum(abs(s / 3 - window / 7) for s in row) / window for row in naive]
    np.testing.assert_allclose(windowed_gap(chosen, 7, window, cohort=3), gaps, atol=1e-12)


def test_a_run_can_be_fair_in_the_end_and_in_no_window():
    chosen = [np.array([0])] * 5 + [np.array([1])] * 5
    assert windowed_gap(chosen, 2, 10, cohort=1).tolist() == [0]
    assert windowed_gap(chosen, 2, 5, cohort=1) == pytest.approx([1, 0.6, 0.2, 0.2, 0.6, 1])


def test_windows_are_checked_before_they_are_read():
    with pytest.raises(ConfigError, match="window=4 but there are only 3 rounds; lower it to 3"):
        windowed([NO_IDS] * 3, 2, 4)
    with pytest.raises(ConfigError, match="at least 1"):
        windowed([NO_IDS] * 3, 2, 0)
    with pytest.raises(ConfigError, match="names client 2"):
        windowed([np.array([0, 2])], 2, 1)


def test_influence_by_hand():
    # round 0: 1/4 and 3/4; round 1: no rows; round 2: client 2 owns a fresh and a stale row, 2 - 1 = 1 beside |-1|.
    records = [record(0, [0.5, 1.5]), record(1, []), record(2, [-1.0, 2.0, -1.0], clients=[0, 2, 2])]
    np.testing.assert_allclose(influence(records, 4), [0.75, 0.75, 0.5, 0])


def test_influence_of_rounds_without_weight_is_nothing():
    np.testing.assert_array_equal(influence([record(0, [0.0, 0.0])], 2), [0, 0])
    np.testing.assert_array_equal(influence([record(0, [1.0, -1.0], clients=[1, 1])], 2), [0, 0])
    np.testing.assert_array_equal(influence([], 2), [0, 0])


def test_influence_refuses_a_weight_that_is_no_number():
    with pytest.raises(ConfigError, match="round 7: the weight of client 1 "):
        influence([record(7, [1.0, math.nan])], 2)


@quick
@given(st.lists(st.lists(st.floats(0.001, 1e3), min_size=1, max_size=6), max_size=8))
def test_every_round_with_weight_adds_one(rounds):
    total = influence([record(t, w) for t, w in enumerate(rounds)], 6).sum()
    assert total == pytest.approx(len(rounds))
