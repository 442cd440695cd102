"""The rows of Table 2, and what the paper prints in its tables.

Surrogates that credit utility never touch the model, so "ours without" and "ours with surrogate" are two readings of
one run: the second counts what surrogates credited. Their error bound is given (the most that a round can credit)
instead of measured, which would score every absent client in every round and change nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from fedparity.experiment.spec import MethodSpec

GIVEN_BOUND = "utility:epsilon=10"
"""A utility surrogate whose error is bounded by the most that `global_loss_drop` credits."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    name: str
    """What it is called in the files."""
    label: str
    """What it is, in words."""
    method: str
    """The named method that is run."""
    changed: dict[str, Any] = field(default_factory=dict)
    """Components that differ from the named method."""
    aided: bool = False
    """Whether utility counts what surrogates credited."""
    ours: bool = False
    printed: str | None = None
    """The row of the paper's table that it stands beside."""
    stored: str = ""
    """What its run is called in the cells; empty: the method's name."""

    @property
    def run(self) -> str:
        """The run that it reads; rows may share one."""
        return self.stored or self.method

    def spec(self, rate: float | None = None) -> MethodSpec:
        """What is run, at a rate of its own if one was tuned."""
        given = {"name": self.method, **self.changed} | ({} if rate is None else {"rate": rate})
        return MethodSpec.model_validate(given)


OURS, OURS_WITH = "Ours (no surrogate)", "Ours (with surrogate)"
TABLE_2 = {
    "q-FFL": (0.601, 0.72, 0.64, 0.42, 0.80, 0.35),
    "PHP-FL": (0.6771, 0.80, 0.42, 0.78, 0.52, 0.20),
    OURS: (0.8043, 0.975, 0.28, 0.88, 0.31, 0.04),
    OURS_WITH: (0.8043, 0.975, 0.19, 0.94, 0.31, 0.04),
}
"""As printed: columns in the order of `TABLE_2_COLUMNS`; accuracies as shares of 1."""
TABLE_2_COLUMNS = ("avg_client_accuracy", "jain_accuracy", "utility_cv", "jain_utility", "selection_gap", "gini")

TABLE_1 = (
    (0.1437, None, 5.45), (0.2625, 0.0003, 8.24), (0.3609, 0.0072, 11.12), (0.4422, 0.1099, 14.12),
    (0.4641, 0.2604, 14.12), (0.5078, 0.2490, 14.12), (0.5328, 0.2283, 16.94), (0.5688, 0.2348, 16.94),
    (0.5813, 0.2054, 19.95), (0.5984, 0.1689, 22.99), (0.6156, 0.1406, 22.99), (0.6422, 0.1294, 22.99),
    (0.6547, 0.1155, 22.99), (0.6688, 0.1168, 22.99), (0.6844, 0.1090, 22.99), (0.7078, 0.1087, 22.99),
    (0.7234, 0.0984, 22.99), (0.7328, 0.1086, 22.99), (0.7422, 0.1146, 22.99), (0.7438, 0.1140, 22.99),
)  # fmt: skip
"""Accuracy, fairness variance and surrogate contribution of rounds 1 to 20, as printed."""

_ROWS = (
    Row("qffl", "q-FFL", "qffl", printed="q-FFL"),
    Row("ipw_fedavg", "PHP-FL as the paper describes it: updates over the chance to take part", "ipw_fedavg",
        printed="PHP-FL"),
    Row("php_fl", "PHP-FL as published, an approximation", "php_fl", printed="PHP-FL"),
    Row("parity", "ours, target share, no surrogate", "parity", {"surrogate": GIVEN_BOUND}, ours=True, printed=OURS),
    Row("parity_surrogate", "ours, target share, with surrogate", "parity", {"surrogate": GIVEN_BOUND}, aided=True,
        ours=True, printed=OURS_WITH),
    Row("cup", "ours: fair scheduling, utility credit and memory together", "cup", {"surrogate": GIVEN_BOUND},
        aided=True, ours=True, printed=OURS_WITH),
    Row("cup_light", "the same with server momentum instead of stored updates", "cup_light",
        {"surrogate": GIVEN_BOUND}, aided=True, ours=True, printed=OURS_WITH),
    Row("parity_opportunity", "ours, target opportunity", "parity_opportunity", ours=True),
    Row("parity_utility", "ours, target utility", "parity_utility", ours=True),
    Row("cup_paper", "the paper's rule as printed", "cup_paper", {"surrogate": GIVEN_BOUND}, aided=True,
        printed=OURS_WITH),
    Row("cup_authors", "the rule in the authors' code", "cup_authors", printed=OURS),
    Row("fedavg", "FedAvg", "fedavg"),
    Row("uniform", "uniform among the available", "uniform"),
    Row("afl", "AFL", "afl"),
    Row("fairfedcs", "FairFedCS", "fairfedcs"),
    Row("fedfv", "FedFV", "fedfv"),
    Row("corefed", "CoreFed", "corefed"),
    Row("least_served", "least served first", "least_served"),
    Row("inverse", "inverse availability (Lemma 2)", "inverse"),
    Row("oracle", "the limit's own schedule, in hindsight", "oracle"),
    Row("mifa", "MIFA", "mifa"),
    Row("fedau", "FedAU", "fedau"),
    Row("f3ast", "F3AST", "f3ast"),
)  # fmt: skip
ALL = tuple(row.name for row in _ROWS)
"""The rows of Table 2."""
LEVEL = "cup_paper_level"
_TABLE_1 = Row(
    LEVEL,
    "the paper's rule, surrogates by loss level as in the authors' code",
    "cup_paper",
    {"surrogate": f"{GIVEN_BOUND},g=level"},
    aided=True,
    stored=LEVEL,
)
ROWS: dict[str, Row] = {row.name: row for row in (*_ROWS, _TABLE_1)}


def runs_of(rows: Iterable[str]) -> dict[str, Row]:
    """What has to be run for these rows, each once, by name."""
    return {ROWS[name].run: ROWS[name] for name in rows}
