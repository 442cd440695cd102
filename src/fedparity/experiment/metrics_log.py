"""The per-round log of Algorithm 1: one row a method and round, written to `metrics_log.csv`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedparity.core.files import csv_text, write_text
from fedparity.core.ledger import Ledger
from fedparity.core.protocols import Engine
from fedparity.core.types import RoundRecord, Vector
from fedparity.metrics import cv, gini, jain, selection_gap

COLUMNS = (
    "round",
    "method",
    "available",
    "selected",
    "completed",
    "accuracy",
    "avg_client_accuracy",
    "jain_accuracy",
    "fairness_variance",
    "utility_cv",
    "jain_utility",
    "selection_gap",
    "gini",
    "surrogate_contribution",
    "bias_bound",
    "seconds",
)


class MetricsLog:
    """An observer that measures every round; `seconds` is telemetry, everything else is determined by the spec."""

    def __init__(
        self, cohort: int, engine: Engine | None = None, score: Callable[[Vector], float | None] | None = None
    ) -> None:
        """With an `engine`, the model is evaluated on all clients every round; without, accuracies stay empty.

        `score` gives the model's accuracy on shared test data; without one, `accuracy` is the mean over clients.
        """
        self.rows: list[tuple[object, ...]] = []
        self._cohort = cohort
        self._engine = engine
        self._score = score
        self._clock = time.perf_counter()

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        """Add the row of one round."""
        accuracy = mean_accuracy = jain_accuracy = float("nan")
        if self._engine is not None:
            evals = self._engine.evaluate(params, np.arange(ledger.num_clients), "accuracy")
            if not np.isnan(evals.accuracy).any():
                accuracy = mean_accuracy = float(evals.accuracy.mean())
                jain_accuracy = jain(evals.accuracy)
        shared = None if self._score is None else self._score(params)
        accuracy = accuracy if shared is None else shared
        normalised = ledger.normalised_utility()
        now = time.perf_counter()
        self.rows.append(
            (
                record.round,
                method,
                len(record.available),
                len(record.selected),
                len(record.completed),
                accuracy,
                mean_accuracy,
                jain_accuracy,
                ledger.fairness_variance(),
                cv(normalised),
                jain(normalised),
                selection_gap(ledger.selected, self._cohort, ledger.rounds),
                gini(ledger.selected),
                float(record.surrogate.utility.sum()),
                record.surrogate.bias_bound,
                now - self._clock,
            )
        )
        self._clock = now

    def last(self) -> dict[str, float]:
        """The numbers of the newest row, by column."""
        pairs = zip(COLUMNS, self.rows[-1], strict=True)
        return {name: float(value) for name, value in pairs if isinstance(value, (int, float))}

    def save(self, path: str | Path) -> None:
        """Write the log, whole or not at all."""
        write_text(path, csv_text(COLUMNS, self.rows))
