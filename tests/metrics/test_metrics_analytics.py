"""Federated Fairness Analytics: worked numbers, both readings, and what a contribution of 0 or less does."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedparity.core.errors import ConfigError
from fedparity.metrics import (
    FairnessAnalytics,
    fairness_analytics,
    group_fairness,
    incentive_fairness,
    individual_fairness,
    label_eod,
)

quick = settings(max_examples=60, deadline=None)
READINGS = ["paper", "code"]
MEASURES = [individual_fairness, incentive_fairness]
shares = st.floats(0.01, 1)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("measure", MEASURES)
def test_jain_of_one_two_three(measure, reading):
    assert round(measure([1, 2, 3], [1, 1, 1], reading=reading), 6) == 0.857143
    assert round(measure([0.5, 0.5, 0.75], [0.5, 0.25, 0.25], reading=reading), 6) == 0.857143


@pytest.mark.parametrize("reading", READINGS)
def test_all_four_by_hand(reading):
    found = fairness_analytics([0.5, 1.0], [0.6, 0.6], [1.0, 2.0], [[0.2, 0.2], [0.4, 0.4]], reading=reading)
    assert found.individual == 1
    assert found.group == pytest.approx(0.7)
    assert found.incentive == pytest.approx(0.9)  # J(.6, .3) = .81 / (2 * .45)
    assert found.orchestrator == 0.75
    assert found.general == pytest.approx((1 + 0.7 + 0.9 + 0.75) / 4)
    assert found.left_out == 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.group = 1


@quick
@given(st.lists(st.tuples(shares, shares, shares, st.floats(-1, 1)), min_size=1, max_size=20))
def test_for_positive_contributions_and_one_label_the_readings_agree(clients):
    x, r, s, e = (np.array(column) for column in zip(*clients, strict=True))
    paper, code = (fairness_analytics(x, r, s, e[:, None], reading=reading) for reading in READINGS)
    assert dataclasses.astuple(paper) == pytest.approx(dataclasses.astuple(code))
    assert 0 <= paper.general <= 1


# --- contributions of 0 or less


@pytest.mark.parametrize("measure", MEASURES)
def test_the_paper_leaves_out_who_contributed_nothing_or_harm(measure):
    assert measure([1, 2, 3, 9, 9], [1, 1, 1, 0, -5]) == measure([1, 2, 3], [1, 1, 1])
    assert math.isnan(measure([1, 2], [0, -1]))


def test_who_is_left_out_is_counted_but_still_has_an_accuracy():
    found = fairness_analytics([0.2, 0.4, 0.9], [1, 1, 1], [1, 2, -1], np.zeros((3, 1)))
    assert (found.left_out, found.individual) == (1, 1)
    assert found.orchestrator == 0.5


@pytest.mark.parametrize("measure", MEASURES)
def test_as_coded_a_harm_flips_the_sign(measure):
    assert measure([1, 1, 1], [1, 1, -1], reading="code") == pytest.approx(1 / 9)
    assert measure([1, 1], [-1, -1], reading="code") == 1  # equally harmful is perfectly fair
    assert measure([1, 1, 1], [1, 1, 1e-6], reading="code") == pytest.approx(1 / 3, rel=1e-4)  # one ratio explodes


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("accuracy", [[1, 1], [1, 0]])
def test_as_coded_a_contribution_of_zero_gives_nan(measure, accuracy):
    assert math.isnan(measure(accuracy, [1, 0], reading="code"))


def test_a_ratio_too_large_for_a_number_gives_nan_not_a_crash():
    assert math.isnan(individual_fairness([1, 1], [1e-320, 1]))


def test_all_zero_ratios():
    assert individual_fairness([0, 0], [1, 2]) == incentive_fairness([0, 0], [1, 2]) == 1
    assert math.isnan(individual_fairness([0, 0], [1, 2], reading="code"))
    assert incentive_fairness([0, 0], [1, 2], reading="code") == 1
    assert incentive_fairness([1, 1], [1, -1], reading="code") == 1  # their guard asks for the sum
    assert individual_fairness([1, 1], [1, -1], reading="code") == 0


# --- protected groups


def test_as_coded_the_signs_of_labels_cancel():
    eod = [[0.5, -0.5], [0.4, -0.4], [0.6, -0.6]]
    assert group_fairness(eod, reading="code") == 1
    assert group_fairness(eod) == 0.5


def test_the_paper_takes_the_median_client_of_every_label():
    assert group_fairness([[0, 0.1], [0.2, 0.1], [1, 0.7]]) == pytest.approx(1 - (0.2 + 0.1) / 2)


def test_labels_that_a_client_does_not_have_are_left_out():
    nan = math.nan
    assert group_fairness([[0.2, nan], [0.4, nan], [nan, nan]]) == pytest.approx(0.7)
    assert math.isnan(group_fairness([[nan]]))
    assert math.isnan(group_fairness([[0.2, nan]], reading="code"))


def test_equalised_odds_of_a_label_by_hand():
    labels, predicted = [0, 0, 1, 1, 2], [0, 1, 1, 1, 0]  # right: 1 of 2, 2 of 2, 0 of 1
    np.testing.assert_allclose(label_eod(labels, predicted, [0, 1, 2]), [1 / 2 - 2 / 3, 1 - 1 / 3, 0 - 3 / 4])
    # As coded, "right" is compared with "is a": 2, 4 and 1 of 5 agree.
    np.testing.assert_allclose(label_eod(labels, predicted, [0, 1, 2], reading="code"), [-1 / 5, 3 / 5, -3 / 5])


def test_a_perfect_client_is_unfair_as_coded():
    labels = [0, 1, 2, 3]
    np.testing.assert_array_equal(label_eod(labels, labels, labels), 0)
    np.testing.assert_array_equal(label_eod(labels, labels, labels, reading="code"), -0.5)


def test_a_rate_without_samples_is_nan():
    assert np.isnan(label_eod([1, 1], [1, 0], [0, 1])).all()
    assert np.isnan(label_eod([], [], [0], reading="code")).all()


@quick
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30), st.sampled_from(READINGS))
def test_equalised_odds_stay_in_range_and_feed_the_measure(samples, reading):
    labels, predicted = zip(*samples, strict=True)
    eod = label_eod(labels, predicted, range(4), reading=reading)
    found = group_fairness([eod], reading=reading)
    assert math.isnan(found) or 0 <= found <= 1


# --- edges


def test_nobody():
    found = fairness_analytics([], [], [], np.empty((0, 2)))
    assert found.left_out == 0
    assert all(math.isnan(value) for value in dataclasses.astuple(found)[:4])
    assert math.isnan(found.general)
    assert math.isnan(incentive_fairness([], [], reading="code"))


def test_bad_input_is_refused():
    with pytest.raises(ConfigError, match="did you mean 'code'"):
        individual_fairness([1], [1], reading="coded")
    with pytest.raises(ConfigError, match="accuracy has 1 clients but contribution has 2"):
        individual_fairness([1], [1, 2])
    with pytest.raises(ConfigError, match=r"received\[0\]=inf"):
        incentive_fairness([math.inf], [1])
    with pytest.raises(ConfigError, match=r"contribution\[1\]=nan"):
        incentive_fairness([1, 1], [1, math.nan])
    with pytest.raises(ConfigError, match="eod has 1 rows but contribution 2 clients"):
        fairness_analytics([1, 1], [1, 1], [1, 1], [[0]])
    with pytest.raises(ConfigError, match=r"entries in \[-1, 1\]"):
        group_fairness([[2.0]])
    with pytest.raises(ConfigError, match="must be flat and of equal length"):
        label_eod([1, 2], [1], [0])


def test_general_is_nan_if_a_measure_is():
    assert math.isnan(FairnessAnalytics(1, math.nan, 1, 1, 0).general)
