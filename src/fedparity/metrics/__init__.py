"""What it did to whom, and what could not have been fairer."""

from __future__ import annotations

from fedparity.metrics.frame import ClientFrame
from fedparity.metrics.frontier import Fractional, Frontier, fractional_frontier, frontier, weighted_frontier
from fedparity.metrics.inequality import (
    cv,
    gini,
    hoover,
    jain,
    lorenz,
    max_minus_min,
    mean,
    std,
    variance,
    worst,
)
from fedparity.metrics.participation import (
    coverage,
    fill,
    influence,
    never_served,
    participation_std,
    per_opportunity,
    selection_gap,
    windowed,
    windowed_gap,
)
from fedparity.metrics.summary import CountSummary, Split, split, summarise_counts

METRICS: dict[str, str] = {
    # how evenly slots were shared
    "selection_gap": "l1 distance of selections from equal shares: (1/T) sum_k |S_k/m - T/N|; 0 is equal",
    "gini": "Gini coefficient of selections: sum_i sum_j |S_i - S_j| / (2 N sum_k S_k); 0 is equal, at most 1 - 1/N",
    "hoover": "share of selections that would have to move: sum_k |S_k - mean S| / (2 sum_k S_k); gap/2 at full slots",
    "cv_counts": "coefficient of variation of selections: std(S) / mean(S), population std; 0 is equal",
    "jain_counts": "Jain's index of selections: (sum_k S_k)^2 / (N sum_k S_k^2) = 1 / (1 + CV^2); 1 is equal",
    "cv_per_opportunity": "coefficient of variation of S_k / (rounds online), over clients online at least once",
    "max_minus_min": "most selections of a client minus fewest: max_k S_k - min_k S_k",
    "never_served": "clients never selected, those never online included: #{k: S_k = 0}",
    "never_available": "clients never online: no scheduler could have served them",
    "coverage": "share of clients selected at least once: #{k: S_k > 0} / N",
    "participation_std": "standard deviation across clients of the participation frequency S_k / T",
    "fill": "slots used over slots there were: sum_k S_k / (m T)",
    "windowed_gap": "selection gap of every W consecutive rounds (appendix C): fair for a while, not only in the end",
    "influence": "whose data moved the model: |sum of a client's row weights| / that of all, summed over rounds",
    # how evenly benefit was shared
    "fairness_variance": "V_T: population variance of u_k/pi_k, over clients online at least once; 0 is equal",
    "utility_cv": "coefficient of variation of u_k/pi_k: std / (|mean| + eps), over clients online at least once",
    "jain_utility": "Jain's index of u_k/pi_k, over clients online at least once; 1 is equal",
    "jain_accuracy": "Jain's index of the clients' accuracies: (sum_k a_k)^2 / (N sum_k a_k^2); 1 is equal",
    "avg_client_accuracy": "mean over clients of the accuracy on their own data: (1/N) sum_k a_k",
    "accuracy": "accuracy of the global model on test data",
    "worst_accuracy": "mean accuracy of the worst-off tenth of clients",
    "influence_gini": "Gini coefficient of influence: how unevenly clients moved the model",
    "worst": "mean of the lowest share of clients (10 % unless told): of ceil(.1 N) entries",
    "group_gap": "highest mean of a group of clients minus the lowest",
    # the rounds themselves
    "available": "clients online in the round",
    "selected": "clients asked in the round",
    "completed": "clients whose update arrived and was accepted",
    "surrogate_contribution": "utility added for missing clients: sum_k eta_k g_k, eta_k = eta0 e^(-lambda delta_k)",
    "bias_bound": "Lemma 3's bound on what surrogates can bias the round by: eps * sum_k eta_k",
    "seconds": "wall-clock time of the round; telemetry, never part of a result",
}
"""Every reported number by name, in one line: S_k selections, m slots a round, T rounds, N clients."""

SUFFIXES: dict[str, str] = {
    "_limit": "the metric of the least unequal schedule that availability and the same filled slots allow",
    "_avoidable": "what the scheduler added to the limit: metric - limit (Jain, higher is better: limit - metric)",
    "_sd": "standard deviation over draws",
}
"""What may stand behind a metric's name."""

__all__ = [
    "METRICS",
    "SUFFIXES",
    "ClientFrame",
    "CountSummary",
    "Fractional",
    "Frontier",
    "Split",
    "coverage",
    "cv",
    "fill",
    "fractional_frontier",
    "frontier",
    "gini",
    "hoover",
    "influence",
    "jain",
    "lorenz",
    "max_minus_min",
    "mean",
    "never_served",
    "participation_std",
    "per_opportunity",
    "selection_gap",
    "split",
    "std",
    "summarise_counts",
    "variance",
    "weighted_frontier",
    "windowed",
    "windowed_gap",
    "worst",
]
