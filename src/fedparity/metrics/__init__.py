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
from fedparity.metrics.frontier import Fractional, Frontier, fractional_frontier, frontier, weighted_frontier
from fedparity.metrics.inequality import (
    best,
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
from fedparity.metrics.paired import (
    MeanRanks,
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
from fedparity.metrics.performance import PerformanceSummary, summarise_performance
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
    "best": "mean of the highest share of clients (10 % unless told): of ceil(.1 N) entries",
    # one value a client, as papers print it (`summarise_performance`)
    "worst5": "mean of the lowest 5 % of clients (FedFV)",
    "best5": "mean of the highest 5 % of clients (FedFV)",
    "worst10": "mean of the lowest 10 % of clients (q-FFL)",
    "best10": "mean of the highest 10 % of clients (q-FFL)",
    "variance_percent2": "population variance of accuracies in percent: 10^4 times that of shares (q-FFL)",
    "bottom_decile": "value of the client at n // 10 from below (FederatedScope)",
    "top_decile": "value of the client at 9 n // 10 from below (FederatedScope)",
    "cos1": "cosine between the clients' values and equal ones: mean / rms = sqrt(Jain); 1 is equal (FederatedScope)",
    "entropy": "-sum_k p_k log p_k of p_k = x_k / sum x, in nats; log N is equal (FederatedScope)",
    # who the improvement is owed to, and what was given for it (Federated Fairness Analytics)
    "shapley": "mean of v(S + k) - v(S) over orders of arrival; v: drop of validation loss by the mean update of S",
    "individual_fairness": "f_j: Jain's index of accuracy / Shapley contribution, over clients that contributed",
    "group_fairness": "f_g: 1 - mean over sensitive labels of the median client's |equalised-odds difference|",
    "incentive_fairness": "f_r: Jain's index of the received model's accuracy / Shapley contribution",
    "orchestrator_fairness": "f_o: mean accuracy of the clients",
    "general_fairness": "F_T: mean of individual, group, incentive and orchestrator fairness",
    # methods compared seed by seed
    "paired_difference": "mean over seeds of method - reference, with a paired t interval and a sign-flip test",
    "mean_rank": "mean over seeds of a method's place among all, 1 the best, ties sharing the mean of their places",
    # the rounds themselves
    "available": "clients online in the round",
    "selected": "clients asked in the round",
    "completed": "clients whose update arrived and was accepted",
    "surrogate_contribution": "utility added for missing clients: sum_k eta_k g_k, eta_k = eta0 e^(-lambda delta_k)",
    "bias_bound": "Lemma 3's bound on what surrogates can bias the round by, eps * sum_k eta_k; empty if unknown",
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
    "FairnessAnalytics",
    "Fractional",
    "Frontier",
    "MeanRanks",
    "PairedDifference",
    "PerformanceSummary",
    "Split",
    "align_seeds",
    "best",
    "coalition_model",
    "compare_methods",
    "coverage",
    "cv",
    "differences",
    "fairness_analytics",
    "federated_shapley",
    "fill",
    "fractional_frontier",
    "frontier",
    "gini",
    "group_fairness",
    "holm",
    "hoover",
    "incentive_fairness",
    "individual_fairness",
    "influence",
    "jain",
    "label_eod",
    "lorenz",
    "max_minus_min",
    "mean",
    "mean_ranks",
    "never_served",
    "pairs_needed",
    "participation_std",
    "per_opportunity",
    "selection_gap",
    "shapley",
    "sign_flip",
    "split",
    "std",
    "summarise_counts",
    "summarise_performance",
    "t_interval",
    "variance",
    "weighted_frontier",
    "windowed",
    "windowed_gap",
    "worst",
]
