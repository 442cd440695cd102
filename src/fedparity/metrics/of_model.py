"""Measures of what the model can do, and for whom."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fedparity.core.types import FloatArray
from fedparity.metrics import inequality as spread
from fedparity.metrics.measure import NAN, Measure, Of, Outcome


def _if_known(of: Callable[[FloatArray], float], which: str = "accuracy") -> Of:
    """A measure of clients' accuracies; undefined where one is."""

    def measured(outcome: Outcome) -> float:
        values: FloatArray = getattr(outcome, which)
        return of(values) if len(values) and bool(np.isfinite(values).all()) else NAN

    return measured


def _of_labels(of: Callable[[FloatArray], Any]) -> Of:
    """A measure of labels' recall; those that no test sample has are left out."""

    def measured(outcome: Outcome) -> float:
        known = outcome.recall[np.isfinite(outcome.recall)]
        return float(of(known)) if len(known) else NAN

    return measured


_percent = partial(Measure, scope="model", better="higher", form="percent", digits=1)
MODEL = (
    _percent(
        "accuracy",
        "accuracy of the global model on test data",
        lambda o: o.test_accuracy,
        "last acc.",
        title="Accuracy, test, last round",
    ),
    _percent(
        "avg_client_accuracy",
        "mean over clients of the accuracy on their own test data: (1/N) sum_k a_k",
        _if_known(lambda a: float(a.mean())),
        "client",
        title="Accuracy, mean client, last round",
    ),
    _percent(
        "own_accuracy",
        "the same of the model that each client keeps, where it keeps one",
        _if_known(lambda a: float(a.mean()), "kept_accuracy"),
        "kept",
        title="Accuracy, kept models",
    ),
    _percent(
        "worst_accuracy",
        "mean accuracy of the worst-off tenth of clients after the last round",
        _if_known(spread.worst),
        "last worst",
        title="Accuracy, worst tenth, last round",
    ),
    _percent(
        "late_accuracy",
        "mean over clients of the accuracy on their own test data, averaged over the last tenth of the rounds",
        lambda o: o.late[0],
        "accuracy",
        title="Accuracy, mean client",
    ),
    _percent(
        "late_worst_accuracy",
        "mean accuracy of the worst-off tenth of clients, averaged over the last tenth of the rounds",
        lambda o: o.late[1],
        "worst 10%",
        title="Accuracy, worst tenth",
    ),
    _percent(
        "worst_recall",
        "recall of the label that the global model recognises least: the lowest share of a label's test samples",
        _of_labels(np.min),
        "last label",
        title="Recall, worst label, last round",
    ),
    _percent(
        "late_worst_recall",
        "the same, averaged over the last tenth of the rounds",
        lambda o: o.late[2],
        "worst label",
        title="Recall, worst label",
    ),
    _percent(
        "mean_recall",
        "mean over labels of the share of their test samples that the global model recognises",
        _of_labels(np.mean),
        "recall",
        title="Recall, mean over labels",
    ),
    Measure(
        "jain_accuracy",
        "Jain's index of the clients' accuracies: (sum_k a_k)^2 / (N sum_k a_k^2); 1 is equal",
        _if_known(spread.jain),
        "Jain acc.",
        title="Jain, accuracy",
        better="higher",
        scope="model",
    ),
    Measure(
        "accuracy_variance",
        "population variance over clients of their accuracies, as shares of 1",
        _if_known(spread.variance),
        "variance",
        title="Variance of client accuracy",
        better="lower",
        form="brief",
        scope="model",
    ),
    Measure(
        "variance_percent2",
        "the same of accuracies in percent: 10^4 times that of shares (q-FFL)",
        _if_known(lambda a: spread.variance(100 * np.sort(a))),
        "variance %²",
        title="Variance of client accuracy (percent squared)",
        better="lower",
        digits=1,
        scope="model",
    ),
    Measure(
        "influence_gini",
        "Gini coefficient of influence, |sum of a client's row weights| / that of all, summed over rounds",
        lambda o: spread.gini(o.influence) if o.influence.any() else NAN,
        "influence",
        title="Gini, influence",
        better="lower",
        scope="model",
    ),
    Measure(
        "round_seconds",
        "simulated seconds that a round waits for its slowest participant, mean over rounds with any",
        lambda o: o.round_seconds,
        "wait, s",
        title="Seconds per round",
        better="lower",
        form="brief",
        scope="model",
    ),
)
