"""What it did to whom, and what could not have been fairer."""

from __future__ import annotations

from fedparity.core.shapley import coalition_model, federated_shapley, shapley
from fedparity.metrics.analytics import (
    FairnessAnalytics,
    fairness_analytics,
    group_fairness,
    incentive_fairness,
    individual_fairness,
    label_eod,
)
from fedparity.metrics.frame import ClientFrame
from fedparity.metrics.frontier import Frontier, fractional_frontier, frontier, weighted_frontier
from fedparity.metrics.inequality import (
    best,
    cv,
    gini,
    hoover,
    jain,
    lorenz,
    max_minus_min,
    worst,
)
from fedparity.metrics.measure import SUFFIXES, Outcome
from fedparity.metrics.measures import MEASURES, numbers
from fedparity.metrics.of_utility import in_reading
from fedparity.metrics.paired import (
    PairedDifference,
    align_seeds,
    compare_methods,
    differences,
    holm,
    mean_ranks,
    pairs_needed,
    sign_flip,
    t_interval,
)
from fedparity.metrics.participation import (
    influence,
    per_opportunity,
    selection_gap,
    span_gap,
    tenths,
    windowed_gap,
)
from fedparity.metrics.performance import PerformanceSummary, summarise_performance
from fedparity.metrics.table import Leaders, Table, listed, printed

__all__ = [
    "MEASURES",
    "SUFFIXES",
    "ClientFrame",
    "FairnessAnalytics",
    "Frontier",
    "Leaders",
    "Outcome",
    "PairedDifference",
    "PerformanceSummary",
    "Table",
    "align_seeds",
    "best",
    "coalition_model",
    "compare_methods",
    "cv",
    "differences",
    "fairness_analytics",
    "federated_shapley",
    "fractional_frontier",
    "frontier",
    "gini",
    "group_fairness",
    "holm",
    "hoover",
    "in_reading",
    "incentive_fairness",
    "individual_fairness",
    "influence",
    "jain",
    "label_eod",
    "listed",
    "lorenz",
    "max_minus_min",
    "mean_ranks",
    "numbers",
    "pairs_needed",
    "per_opportunity",
    "printed",
    "selection_gap",
    "shapley",
    "sign_flip",
    "span_gap",
    "summarise_performance",
    "t_interval",
    "tenths",
    "weighted_frontier",
    "windowed_gap",
    "worst",
]
