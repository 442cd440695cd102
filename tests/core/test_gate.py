"""The validator before every aggregator; what a refusal does to a round is in coordination/test_coordinator.py."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedparity import ClientReport, Cohort, RoundPlan
from fedparity.core.gate import MAX_SAMPLES, Gate, printable


def refusal(report, plan):
    found = Gate().admit(report, plan)
    return found if isinstance(found, str) else None


PLAN = RoundPlan(0, 0, np.arange(1), Cohort(np.arange(1), np.ones(1), "deterministic"), np.zeros(2))
GOOD = ClientReport(0, np.ones(2), 5, 1.0, 0.5, 0.25)


def test_a_good_report_passes():
    assert refusal(GOOD, PLAN) is None


def test_unknown_losses_pass():
    assert refusal(ClientReport(0, np.ones(2)), PLAN) is None


@pytest.mark.parametrize("samples", [1, MAX_SAMPLES])
def test_the_ends_of_the_range_of_samples_pass(samples):
    assert refusal(replace(GOOD, num_samples=samples), PLAN) is None


@pytest.mark.parametrize("samples", [0, -1, MAX_SAMPLES + 1, float("nan"), float("inf")])
def test_beyond_them_nothing_passes(samples):
    assert refusal(replace(GOOD, num_samples=samples), PLAN) == f"num_samples must be between 1 and {MAX_SAMPLES}"


def test_a_report_that_is_clean_as_it_comes_is_taken_as_it_is():
    assert Gate().admit(GOOD, PLAN) is GOOD


@pytest.mark.parametrize(
    "given",
    [
        {"loss_before": np.float64(1.0)},
        {"accuracy_before": 1},
        {"num_samples": np.int64(5)},
        {"client": 0.0},
        {"duration": np.float32(2.0)},
        {"delta": np.ones(2).view(type("Own", (np.ndarray,), {}))},
        {"kept": np.ones(2)},
        {"seconds": "long"},
    ],
    ids=lambda given: next(iter(given)),
)
def test_any_other_is_built_anew_of_plain_values(given):
    report = Gate().admit(replace(GOOD, **given), PLAN)
    values = [getattr(report, name) for name in report.__slots__ if name != "delta"]
    assert {type(value) for value in values} <= {int, float, type(None)}
    assert type(report.delta) is np.ndarray


@pytest.mark.parametrize("size", [1e300, 1e160])
def test_an_update_that_overflows_is_too_long_without_a_warning(size):
    assert refusal(replace(GOOD, delta=np.full(2, size)), PLAN) == "update is longer than 1e+09"


@given(st.text())
def test_a_failure_signal_is_its_own_reason(reason):
    assert refusal(replace(GOOD, failure=reason), PLAN) == printable(reason)


@given(st.lists(st.floats(), min_size=2, max_size=2).map(np.array))
def test_an_update_passes_if_it_is_finite(delta):
    fine = np.isfinite(delta).all() and np.hypot(*(delta / 1e9)) <= 1
    assert (refusal(replace(GOOD, delta=delta), PLAN) is None) == fine
