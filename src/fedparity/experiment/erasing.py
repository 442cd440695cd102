"""The log of a method after an erasure: measured anew, over those who are left.

Counts, V_T and the other measures of a round follow from the journal. Accuracies are as they were measured, on
everybody's data, but for those of the last round: of its model each client's accuracy is known (`Facts`), and a mean
over all less the others' would be the erased one's.
"""

from __future__ import annotations

from typing import Any

from fedparity.core.imports import without_imports
from fedparity.core.ledger import Ledger
from fedparity.core.types import RoundRecord
from fedparity.engines.flower.begun import settings_of
from fedparity.experiment.metrics_log import COLUMNS, LOGGED, mean_of_known, measured, of_known
from fedparity.experiment.spec_file import parse
from fedparity.metrics import MEASURES, Outcome, tenths
from fedparity.store import Facts, Store

NAN = float("nan")
ACCURACIES = ("accuracy", "avg_client_accuracy", "jain_accuracy")
FIRST = COLUMNS.index(LOGGED[0])
END = FIRST + len(LOGGED)


def relogged(
    store: Store, method: str, records: list[RoundRecord], rows: list[list[Any]], facts: Facts | None
) -> list[list[Any]]:
    """Rows of the log from rounds without the client; `rows` are those of before."""
    if settings_of(store.spec()) is not None:
        return [[] for _ in rows]  # a deployment logs nothing
    with without_imports():  # a folder that came from elsewhere makes nobody run code
        spec = parse(store.spec(), f"{store.disk.root}: its spec")
    ledger, new = Ledger.empty(spec.population.clients), []
    for record, row in zip(records, rows, strict=True):
        ledger = ledger.then(record)
        before = dict(zip(LOGGED, row[FIRST:END], strict=True))
        found = dict(zip(LOGGED, measured(record, Outcome.of(ledger, spec.cohort)), strict=True))
        if not record.told:  # nothing of a round, and of the run only in the end, where there are totals
            found = {
                name: value if record.totals and MEASURES[name].scope != "round" else NAN
                for name, value in found.items()
            }
        found |= {name: before[name] for name in ACCURACIES}
        new.append([record.round, method, *found.values(), *row[END:]])
    if facts is not None and new:
        new[-1] = _last(store, new[-1], facts)
    return new


def _last(store: Store, row: list[Any], facts: Facts) -> list[Any]:
    """The last row with accuracies of those who are left."""
    known = of_known(facts.accuracy)
    found = dict(zip(COLUMNS, row, strict=False))
    outcome = Outcome.of(Ledger.empty(1), 1, accuracy=known)
    shared = found["accuracy"] != found["avg_client_accuracy"]  # else there is no test data but the clients' own
    for name in ACCURACIES[0 if not shared else 1 :]:
        if found[name] == found[name]:  # a round that was not scored stays so
            found[name] = mean_of_known(known) if name == "accuracy" else MEASURES[name].of(outcome)
    beside = row[END:]
    if beside:
        groups = tenths(store.trace().counts())
        means = (mean_of_known(facts.accuracy[ids]) for ids in groups)
        beside = [MEASURES["worst_accuracy"].of(outcome), *means, *beside[1 + len(groups) :]]
    return [*(found[name] for name in COLUMNS[:END]), *beside]
