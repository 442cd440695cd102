"""The FLASH replay: 100 real devices, 200 rounds from hour 30 on; a visible skip without the file."""

from pathlib import Path

import pytest

from fedparity import load_trace
from fedparity.estimators import ESTIMATORS
from fedparity.experiment import Setting, schedule
from fedparity.schedulers import SCHEDULERS

FLASH = Path(__file__).parents[3] / "shared/data/traces/flash_000_099_events.json.gz"
pytestmark = pytest.mark.skipif(not FLASH.exists(), reason=f"{FLASH} is not here")


@pytest.mark.parametrize(
    ("scheduler", "estimator", "watch", "gap", "gini"),
    [
        ("least_served", None, 0, 1.009, 1.063),
        ("parity", "mean", 0, 1.009, 1.053),
        ("parity", None, 0, 1.007, 1.054),
        ("parity", None, None, 1.002, 1.037),
        ("parity", "oracle", 0, 1.000, 1.006),
    ],
)
def test_how_near_the_limit(scheduler, estimator, watch, gap, gini):
    trace = load_trace(FLASH, rounds=200, start=108_000, watch=watch)
    known = estimator if estimator in {None, "oracle"} else ESTIMATORS.build(estimator)
    setting = Setting(trace, trace.num_clients, 200, 5, estimator=known)
    found = schedule(SCHEDULERS.build(scheduler), setting).means()
    assert found["selection_gap"] / found["selection_gap_limit"] == pytest.approx(gap, abs=5e-4)
    assert found["gini"] / found["gini_limit"] == pytest.approx(gini, abs=5e-4)
    assert setting.watched == (60 if watch is None else 0)
