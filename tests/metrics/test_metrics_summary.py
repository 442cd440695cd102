"""Count summaries, their split against the limit, and the table of definitions."""

from __future__ import annotations

import dataclasses
import math

import pytest

from fedparity import metrics
from fedparity.core.errors import ConfigError
from fedparity.metrics import METRICS, SUFFIXES, CountSummary, Split, split, summarise_counts
from fedparity.metrics.summary import SPLIT

# N=4, m=2, T=4. Client 3 is online once; client 2 twice.
ONLINE = [4, 4, 2, 1]
GOT = summarise_counts([4, 3, 1, 0], ONLINE, cohort=2, rounds=4)
LIMIT = summarise_counts([3, 2, 2, 1], ONLINE, cohort=2, rounds=4)


def test_summary_by_hand():
    expected = CountSummary(
        selection_gap=(1 + 0.5 + 0.5 + 1) / 4,
        gini=28 / 64,  # differences 1, 3, 4, 2, 3, 1 = 14, each pair twice, over 2 * 4 * 8
        cv_counts=math.sqrt(2.5) / 2,
        jain_counts=64 / (4 * 26),
        cv_per_opportunity=metrics.cv([1, 0.75, 0.5, 0]),
        max_minus_min=4,
        never_served=1,
        never_available=0,
        participation_std=math.sqrt(2.5) / 4,
        fill=1.0,
    )
    assert dataclasses.asdict(GOT) == pytest.approx(dataclasses.asdict(expected))


def test_clients_that_never_came_are_zeros_but_not_opportunities():
    summary = summarise_counts([2, 2, 0], [2, 2, 0], cohort=1, rounds=5)
    assert (summary.never_served, summary.never_available) == (1, 1)
    assert summary.cv_per_opportunity == 0
    assert summary.gini == pytest.approx(1 / 3)
    assert summary.fill == 0.8


def test_nobody_ever_came():
    summary = summarise_counts([0, 0], [0, 0], cohort=1, rounds=3)
    assert (summary.gini, summary.cv_counts, summary.jain_counts, summary.fill) == (0, 0, 1, 0)
    assert (summary.selection_gap, summary.never_available) == (1, 2)
    assert math.isnan(summary.cv_per_opportunity)


def test_no_clients():
    summary = summarise_counts([], [], cohort=1, rounds=3)
    assert math.isnan(summary.gini)
    assert math.isnan(summary.selection_gap)
    assert (summary.never_served, summary.fill) == (0, 0)


def test_bad_input_is_refused():
    with pytest.raises(ConfigError, match=r"counts\[0\]=nan"):
        summarise_counts([math.nan], [1], 1, 1)
    with pytest.raises(ConfigError, match="counts has 1 clients but online has 2"):
        summarise_counts([1], [1, 1], 1, 1)


def test_split_is_what_the_scheduler_added():
    parts = split(GOT, LIMIT)
    assert list(parts) == ["selection_gap", "gini", "cv_counts", "jain_counts", "max_minus_min", "never_served"]
    assert parts["selection_gap"] == Split(0.75, 0.25)
    assert parts["selection_gap"].avoidable == 0.5
    assert parts["never_served"].avoidable == 1
    assert parts["max_minus_min"].avoidable == 2
    assert all(part.avoidable > 0 for part in parts.values())


def test_jain_is_split_the_other_way_round():
    part = split(GOT, LIMIT)["jain_counts"]
    assert part.higher_is_better
    assert part.avoidable == pytest.approx(64 / 72 - 64 / 104)


def test_at_the_limit_nothing_is_avoidable():
    assert {part.avoidable for part in split(LIMIT, LIMIT).values()} == {0}


def test_summaries_and_splits_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        GOT.gini = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        Split(1, 0).value = 0


def test_every_reported_metric_is_defined():
    log = (
        "available,selected,completed,accuracy,avg_client_accuracy,jain_accuracy,fairness_variance,utility_cv,"
        "jain_utility,selection_gap,gini,surrogate_contribution,bias_bound,seconds"
    )
    fields = [f.name for f in dataclasses.fields(CountSummary)]
    assert {*fields, *SPLIT, *log.split(",")} <= set(METRICS)
    assert all(text.strip() and "\n" not in text for text in (METRICS | SUFFIXES).values())


def test_exports_are_there():
    assert [name for name in metrics.__all__ if not hasattr(metrics, name)] == []
