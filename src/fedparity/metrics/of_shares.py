"""Measures of how evenly slots were shared, among all and per opportunity."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fedparity.metrics import inequality as spread
from fedparity.metrics import participation as shares
from fedparity.metrics.measure import NAN, Measure, Of, Outcome


def _shared(name: str, says: str, of: Of, head: str, **how: Any) -> Measure:
    """A measure of how evenly slots were shared: one profile is best at all of them together."""

    def limit(outcome: Outcome) -> float | None:
        best = outcome.at_limit()
        return None if best is None else of(best)

    return Measure(name, says, of, head, limit=limit, **({"better": "lower"} | how))


def _gap(counts: Any, o: Outcome) -> float:
    return shares.selection_gap(counts, o.cohort, o.rounds)


def _online(name: str, what: str, of: Callable[[Any, Outcome], float], heading: str) -> Measure:
    """A measure of the fairest schedule known that does not know the future."""
    says = f"{what} of the fairest scheduler known that does not know the future, on the same availability"
    return Measure(name, says, lambda o: NAN if o.online is None else of(o.online, o), "online", title=heading)


_lower = partial(Measure, better="lower")
SHARES = (
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
    _online("selection_gap_online", "selection gap", _gap, "Selection gap, online limit"),
    _online("gini_online", "Gini coefficient", lambda counts, _: spread.gini(counts), "Gini, online limit"),
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
    _lower(
        "participation_std",
        "standard deviation across clients of the participation frequency S_k / T, T since the client registered",
        lambda o: shares.participation_std(o.counts, o.ledger.stayed()),
        "std(S/T)",
        title="Std, participation frequency",
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
    _lower(
        "span_gap",
        "selection gap within spans of ceil(N/m) rounds, in which everybody could be asked once; mean over whole spans,"
        " N registered when the span begins",
        lambda o: o.span_gap,
        "gap, spans",
        title="Selection gap within spans",
    ),
    _lower(
        "completed_selection_gap",
        "selection gap of the updates that arrived and were used",
        lambda o: _gap(o.ledger.completed, o),
        "gap done",
        title="Gap, completed",
    ),
    _lower(
        "completed_gini",
        "Gini coefficient of the updates that arrived and were used",
        lambda o: spread.gini(o.ledger.completed),
        "Gini done",
        title="Gini, completed",
    ),
    _lower(
        "completed_never_served",
        "clients of which no update was ever used",
        lambda o: float(shares.never_served(o.ledger.completed)),
        "none used",
        title="No update used",
        form="count",
    ),
    _lower(
        "cv_per_opportunity",
        "coefficient of variation of S_k / (rounds online), over clients online at least once",
        lambda o: spread.cv(shares.per_opportunity(o.counts, o.ledger.online)),
        "CV(S/online)",
        title="CV, selections per round online",
        limit=lambda o: o.opportunity_limit,
    ),
)
