"""The per-round log of Algorithm 1: one row per method and round, written to `metrics_log.csv`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedparity.core.files import csv_text, write_text
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Engine
from fedparity.core.types import FloatArray, Ids, RoundRecord, Vector
from fedparity.metrics import MEASURES, Outcome

LOGGED = (
    "available", "selected", "completed", "accuracy", "avg_client_accuracy", "jain_accuracy", "fairness_variance",
    "utility_cv", "jain_utility", "selection_gap", "gini", "surrogate_contribution", "bias_bound",
)  # fmt: skip
"""Measures of a round, and of the run so far."""
COLUMNS = ("round", "method", *LOGGED, "seconds")


def measured(record: RoundRecord, outcome: Outcome) -> list[float]:
    """What is logged of a round and of the run so far."""
    measures = (MEASURES[name] for name in LOGGED)
    return [measure.of(record if measure.scope == "round" else outcome) for measure in measures]


class MetricsLog:
    """An observer that measures every round; `seconds` is telemetry, everything else is determined by the spec."""

    def __init__(
        self,
        cohort: int,
        engine: Engine | None = None,
        score: Callable[[Vector], float | None] | None = None,
        scored: Callable[[int], bool] = lambda _round: True,
        groups: Sequence[Ids] = (),
        *,
        recall: Callable[[Vector], FloatArray | None] | None = None,
    ) -> None:
        """With an `engine`, the model is evaluated on all clients every so many rounds; without, accuracies stay empty.

        Means are over the clients whose accuracy is known: real ones may not answer. `score` gives the model's accuracy
        on shared test data; without one, `accuracy` is the mean over clients. In rounds that are not `scored` they
        stay empty.
        Accuracies of `groups` of clients are kept beside the log, and the worst `recall` of a label.
        """
        self.rows: list[tuple[object, ...]] = []
        self.beside: list[list[float]] = []
        """Beside each row, whose columns are the paper's: accuracy of the worst-off tenth, of each group; recall."""
        self._cohort = cohort
        self._engine = engine
        self._score = score
        self._scored = scored
        self._groups = groups
        self._recall = recall
        self.erased: frozenset[int] = frozenset()
        """Whose accuracy is nobody's business any more."""
        self._clock = time.perf_counter()

    def __repr__(self) -> str:
        return f"MetricsLog({len(self.rows)} rows)"

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        """Add the row of one round."""
        known, scores = np.full(ledger.num_clients, np.nan), dict[str, Any]()
        if self._scored(record.round):
            known, scores = self._scores(params, known)
        outcome = Outcome.of(ledger, self._cohort, **scores)
        now = time.perf_counter()
        self.rows.append((record.round, method, *measured(record, outcome), now - self._clock))
        means = [mean_of_known(known[ids]) for ids in self._groups]
        self.beside.append([MEASURES["worst_accuracy"].of(outcome), *means, MEASURES["worst_recall"].of(outcome)])
        self._clock = now

    def _scores(self, params: Vector, known: FloatArray) -> tuple[FloatArray, dict[str, Any]]:
        """How good the model is, as far as anybody can tell: on each client's data, and in all."""
        found: dict[str, Any] = {}
        if self._engine is not None:
            known = self._engine.evaluate(params, np.arange(len(known)), "accuracy").accuracy.copy()
            known[sorted(self.erased)] = np.nan
            found = {"accuracy": of_known(known), "test_accuracy": mean_of_known(known)}
        shared = None if self._score is None else self._score(params)
        if shared is not None:
            found["test_accuracy"] = shared
        recall = None if self._recall is None else self._recall(params)
        if recall is not None:
            found["recall"] = recall
        return known, found

    def last(self) -> dict[str, float]:
        """The numbers of the newest row, by column."""
        pairs = zip(COLUMNS, self.rows[-1], strict=True)
        return {name: float(value) for name, value in pairs if isinstance(value, (int, float))}

    def save(self, path: str | Path) -> None:
        """Write the log, whole or not at all."""
        write_text(path, csv_text(COLUMNS, self.rows))


def of_known(accuracies: FloatArray) -> FloatArray:
    """Those of clients that answered, and were not erased."""
    return accuracies[np.isfinite(accuracies)]


def mean_of_known(accuracies: FloatArray) -> float:
    """The mean over them."""
    answered = of_known(accuracies)
    return float(answered.mean()) if len(answered) else float("nan")
