"""The log of a run in which clients may not answer, and are not asked every round how good the model is."""

import numpy as np
import pytest

from fedparity import Coordinator, InProcess, run
from fedparity.core.types import Evals
from fedparity.experiment.metrics_log import COLUMNS, MetricsLog
from fedparity.tasks import Logistic

N = 4


class Silent(InProcess):
    """Client 2 never says how good the model is."""

    def evaluate(self, params, clients, measure="both"):
        found = super().evaluate(params, clients, measure)
        accuracy = np.where(clients == 2, np.nan, found.accuracy)
        return Evals(clients, found.loss, accuracy)


def logged(engine_class, **given):
    engine = engine_class(Logistic.synthetic(N))
    log = MetricsLog(2, engine, **given)
    state = run(Coordinator(2), engine, 4, params=np.zeros(36), observers=[log])
    return [dict(zip(COLUMNS, row, strict=True)) for row in log.rows], state


def test_means_are_over_those_who_answered():
    rows, state = logged(Silent)
    known = Logistic.synthetic(N).evaluate(state.params, np.array([0, 1, 3])).accuracy
    assert rows[-1]["accuracy"] == pytest.approx(known.mean())
    assert rows[-1]["avg_client_accuracy"] == pytest.approx(known.mean())


def test_rounds_that_are_not_scored_stay_empty():
    rows, _ = logged(InProcess, scored=lambda t: t % 3 == 0)
    assert [np.isfinite(row["accuracy"]) for row in rows] == [True, False, False, True]
