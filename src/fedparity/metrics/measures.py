"""Every number that is reported, each defined once: its name, what it says, its formula, heading, digits, direction.

A measure of a run is a function of an `Outcome`, what one method left behind with one seed. Where a limit is known the
measure splits into an unavoidable and an avoidable part, `NAME_limit` and `NAME_avoidable`: the limit is the measure of
the least unequal schedule that the same availability and the same number of filled slots allow (`metrics.frontier`).

`MEASURES` is what terminal, page, CSV, JSON and LaTeX read; a number that is not in it is not reported.
S_k: selections of client k; m slots, T rounds, N clients; u_k: cumulative utility; pi_k: share of rounds online.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedparity.core.types import FloatArray
from fedparity.metrics import inequality as spread
from fedparity.metrics import participation as shares
from fedparity.metrics.measure import AVOIDABLE, LIMIT, NAN, Direction, Measure, Of, Outcome


def _shared(name: str, says: str, of: Of, head: str, **how: Any) -> Measure:
    """A measure of how evenly slots were shared: one profile is best at all of them together."""

    def limit(outcome: Outcome) -> float | None:
        best = outcome.at_limit()
        return None if best is None else of(best)

    return Measure(name, says, of, head, limit=limit, **({"better": "lower"} | how))


def _if_known(of: Callable[[FloatArray], float], which: str = "accuracy") -> Of:
    """A measure of clients' accuracies; undefined where one is."""

    def measured(outcome: Outcome) -> float:
        values: FloatArray = getattr(outcome, which)
        return of(values) if len(values) and bool(np.isfinite(values).all()) else NAN

    return measured


def _of_utility(of: Callable[[FloatArray], float], *, aided: bool = False) -> Of:
    return lambda o: of(o.ledger.normalised_utility(with_surrogates=aided))


def _variance(x: FloatArray) -> float:
    return float(x.var()) if len(x) else NAN


def _utility(name: str, says: str, of: Callable[[FloatArray], float], head: str, **how: Any) -> tuple[Measure, Measure]:
    """A measure of normalised utility, without and with what surrogates credited."""
    better: Direction = how.pop("better", "lower")
    kinds: dict[str, Any] = {"scope": "utility", "normaliser": "availability", "better": better}
    title = how.pop("title", head)
    return (
        Measure(name, says, _of_utility(of), head, title=title, **kinds, **how),
        Measure(
            f"{name}_with_surrogates",
            f"{says}; u_k with what surrogates credited",
            _of_utility(of, aided=True),
            f"{head}+",
            title=f"{title}, surrogates counted",
            **kinds,
            **how,
        ),
    )


def _gap(counts: Any, o: Outcome) -> float:
    return shares.selection_gap(counts, o.cohort, o.rounds)


_MODEL: dict[str, Any] = {"scope": "model", "better": "higher", "form": "percent", "digits": 1}
_MEASURES = (
    # what the model can do
    Measure(
        "accuracy",
        "accuracy of the global model on test data",
        lambda o: o.test_accuracy,
        "accuracy",
        title="Accuracy, test",
        **_MODEL,
    ),
    Measure(
        "avg_client_accuracy",
        "mean over clients of the accuracy on their own test data: (1/N) sum_k a_k",
        _if_known(lambda a: float(a.mean())),
        "client",
        title="Accuracy, mean client",
        **_MODEL,
    ),
    Measure(
        "own_accuracy",
        "the same of the model that each client keeps, where it keeps one",
        _if_known(lambda a: float(a.mean()), "kept_accuracy"),
        "kept",
        title="Accuracy, kept models",
        **_MODEL,
    ),
    Measure(
        "worst_accuracy",
        "mean accuracy of the worst-off tenth of clients",
        _if_known(spread.worst),
        "worst 10%",
        title="Accuracy, worst tenth",
        **_MODEL,
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
        _if_known(_variance),
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
    # how evenly slots were shared
    _shared(
        "selection_gap",
        "l1 distance of selections from equal shares: (1/T) sum_k |S_k/m - T/N|; 0 is equal",
        lambda o: _gap(o.counts, o),
        "gap",
        title="Selection gap",
    ),
    _shared(
        "gini",
        "Gini coefficient of selections: sum_i sum_j |S_i - S_j| / (2 N sum_k S_k); 0 is equal, at most 1 - 1/N",
        lambda o: spread.gini(o.counts),
        "Gini",
    ),
    _shared(
        "cv_counts",
        "coefficient of variation of selections: std(S) / mean(S), population std; 0 is equal",
        lambda o: spread.cv(o.counts),
        "CV",
        title="CV, selections",
    ),
    _shared(
        "jain_counts",
        "Jain's index of selections: (sum_k S_k)^2 / (N sum_k S_k^2) = 1 / (1 + CV^2); 1 is equal",
        lambda o: spread.jain(o.counts),
        "Jain",
        title="Jain, selections",
        better="higher",
    ),
    _shared(
        "max_minus_min",
        "most selections of one client minus fewest: max_k S_k - min_k S_k",
        lambda o: spread.max_minus_min(o.counts),
        "max-min",
        title="Most minus fewest",
        form="count",
    ),
    _shared(
        "never_served",
        "clients never selected, those never online included: #{k: S_k = 0}",
        lambda o: float(shares.never_served(o.counts)),
        "never",
        title="Never served",
        form="count",
    ),
    Measure(
        "never_available",
        "clients never online: no scheduler could have served them",
        lambda o: float(shares.never_served(o.ledger.online)),
        "absent",
        title="Never online",
        form="count",
    ),
    Measure(
        "coverage",
        "share of clients selected at least once: #{k: S_k > 0} / N",
        lambda o: shares.coverage(o.counts),
        "coverage",
        title="Coverage",
        better="higher",
        form="percent",
        digits=0,
    ),
    Measure(
        "participation_std",
        "standard deviation across clients of the participation frequency S_k / T",
        lambda o: shares.participation_std(o.counts, o.rounds),
        "std(S/T)",
        title="Std, participation frequency",
        better="lower",
    ),
    Measure(
        "fill",
        "slots used over slots there were: sum_k S_k / (m T)",
        lambda o: shares.fill(float(o.counts.sum()), o.cohort, o.rounds),
        "fill",
        title="Fill",
        better="higher",
        form="percent",
        digits=0,
        limit=lambda o: o.fill_limit,
    ),
    Measure(
        "completed_selection_gap",
        "selection gap of the updates that arrived and were used",
        lambda o: _gap(o.ledger.completed, o),
        "gap done",
        title="Gap, completed",
        better="lower",
    ),
    Measure(
        "completed_gini",
        "Gini coefficient of the updates that arrived and were used",
        lambda o: spread.gini(o.ledger.completed),
        "Gini done",
        title="Gini, completed",
        better="lower",
    ),
    Measure(
        "completed_never_served",
        "clients of which no update was ever used",
        lambda o: float(shares.never_served(o.ledger.completed)),
        "none used",
        title="No update used",
        better="lower",
        form="count",
    ),
    # how evenly selections and benefit were shared per opportunity
    Measure(
        "cv_per_opportunity",
        "coefficient of variation of S_k / (rounds online), over clients online at least once",
        lambda o: spread.cv(shares.per_opportunity(o.counts, o.ledger.online)),
        "CV(S/online)",
        title="CV, selections per round online",
        better="lower",
        limit=lambda o: o.opportunity_limit,
    ),
    *_utility(
        "utility_cv",
        "coefficient of variation of u_k/pi_k, over clients online at least once",
        spread.cv,
        "CV(u/pi)",
        title="Utility CV",
    ),
    *_utility(
        "jain_utility",
        "Jain's index of u_k/pi_k, over clients online at least once; 1 is equal",
        spread.jain,
        "Jain(u/pi)",
        title="Jain, utility",
        better="higher",
    ),
    *_utility(
        "fairness_variance",
        "V_T: population variance of u_k/pi_k, over clients online at least once; 0 is equal",
        _variance,
        "V_T",
        title="V_T, variance of u/π",
        form="brief",
    ),
    # one round
    Measure("available", "clients online in the round", lambda r: len(r.available), "online", scope="round"),
    Measure("selected", "clients asked in the round", lambda r: len(r.selected), "asked", scope="round"),
    Measure(
        "completed",
        "clients whose update arrived and was accepted",
        lambda r: len(r.completed),
        "completed",
        scope="round",
    ),
    Measure(
        "surrogate_contribution",
        "utility added for missing clients: sum_k eta_k g_k, eta_k = eta0 e^(-lambda delta_k)",
        lambda r: float(r.surrogate.utility.sum()),
        "surrogates",
        scope="round",
    ),
    Measure(
        "bias_bound",
        "Lemma 3's bound on what surrogates can bias the round by, eps * sum_k eta_k; empty where it is unknown",
        lambda r: r.surrogate.bias_bound,
        "bias",
        scope="round",
    ),
    # what a run cost
    Measure("asked", "models sent to clients", lambda c: c.asked, "asked", form="count", scope="cost"),
    Measure(
        "updates", "updates that came back and were used", lambda c: c.updates, "updates", form="count", scope="cost"
    ),
    Measure("parameters", "numbers in the model", lambda c: c.parameters, "parameters", form="count", scope="cost"),
    Measure(
        "megabytes",
        "models sent and updates used, times parameters, times 4 bytes",
        lambda c: c.megabytes,
        "MB sent",
        form="brief",
        scope="cost",
    ),
    Measure(
        "server_words",
        "numbers that the method's rules keep on the server after the first seed's run",
        lambda c: c.server_words,
        "memory",
        form="count",
        scope="cost",
    ),
    Measure(
        "client_words",
        "numbers that clients keep of their own",
        lambda c: c.client_words,
        "at clients",
        form="count",
        scope="cost",
    ),
    Measure(
        "local_steps",
        "mini-batch steps behind the updates that were used",
        lambda c: c.local_steps,
        "steps",
        form="count",
        scope="cost",
    ),
    # telemetry: never part of a result
    Measure(
        "seconds", "wall-clock time of the round, or of the run", lambda c: c.seconds, "seconds", digits=1, scope="time"
    ),
    Measure(
        "seconds_per_round",
        "time that scheduling one round took",
        lambda o: o.seconds_per_round,
        "s/round",
        form="brief",
        scope="time",
    ),
)
MEASURES: dict[str, Measure] = {measure.name: measure for measure in _MEASURES}
"""Every reported number by name."""

_ENDS = ("counts", "utility", "model")
SCHEDULED: tuple[Measure, ...] = tuple(m for m in _MEASURES if m.scope in _ENDS[:2])
"""What is known without training."""
RUN: tuple[Measure, ...] = tuple(m for m in _MEASURES if m.scope in _ENDS)


def numbers(outcome: Outcome, measures: tuple[Measure, ...] = RUN) -> dict[str, float]:
    """Every measure of one outcome with its parts, by name; NaN where undefined."""
    return {name: float(value) for measure in measures for name, value in measure.parts(outcome)}


def measure_of(key: str) -> Measure:
    """The measure that a name with or without a suffix belongs to."""
    return MEASURES[key.removesuffix(AVOIDABLE).removesuffix(LIMIT)]


def heading(key: str, *, narrow: bool = False) -> str:
    """How a column is headed: that of its measure, or which part of it."""
    measure = measure_of(key)
    if key.endswith(LIMIT):
        return "limit" if narrow else f"{measure.heading}, limit"
    if key.endswith(AVOIDABLE):
        return "avoidable" if narrow else f"{measure.heading}, avoidable"
    return measure.head if narrow else measure.heading


def higher_is_better(key: str) -> bool:
    """Which way a column is better; an avoidable part always should be small."""
    return not key.endswith(AVOIDABLE) and measure_of(key).better == "higher"
