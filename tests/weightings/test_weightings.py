"""FedAvg's three averages, by hand."""

import numpy as np
import pytest

from fedparity import ClientReport, Coordinator, Ledger, Rows
from fedparity.schedulers import Fixed
from fedparity.weightings import BySize, Mean, OverAll

ROWS = Rows(
    clients=np.array([1, 4]),
    deltas=np.array([[1.0, 0.0], [0.0, 2.0]]),
    ages=np.zeros(2, dtype=np.int64),
    sizes=np.array([30.0, 10.0]),
    losses=np.array([1.0, 2.0]),
    probs=np.array([0.5, 1.0]),
)


@pytest.mark.parametrize(
    ("rule", "weights", "model"),
    [
        (Mean(), [0.5, 0.5], [0.5, 1.0]),
        (BySize(), [0.75, 0.25], [0.75, 0.5]),
        (OverAll(), [0.1, 0.1], [0.1, 0.2]),
    ],
)
def test_by_hand(rule, weights, model):
    found, _ = rule.weigh(rule.init(10), ROWS, Ledger.empty(10))
    assert found.tolist() == weights
    coordinator = Coordinator(2, scheduler=Fixed([ROWS.clients]), weighting=rule)
    plan, state = coordinator.plan(coordinator.init(10, np.zeros(2)), np.arange(10))
    reports = [ClientReport(int(k), d, int(n)) for k, d, n in zip(ROWS.clients, ROWS.deltas, ROWS.sizes, strict=True)]
    record, state = coordinator.absorb(state, plan, reports)
    assert record.row_weights.tolist() == weights
    assert record.row_clients.tolist() == [1, 4]
    assert state.params.tolist() == model


def test_by_size_of_one_sample_each_is_the_mean():
    rows = Rows(ROWS.clients, ROWS.deltas, ROWS.ages, np.ones(2), ROWS.losses, ROWS.probs)
    assert BySize().weigh(None, rows, Ledger.empty(10))[0].tolist() == [0.5, 0.5]
