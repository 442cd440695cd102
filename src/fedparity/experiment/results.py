"""What a run leaves behind: in memory for the report, and as plain files.

spec.toml  spec.resolved.toml    what was asked for, and with every default filled in
metrics_log.csv                  a row a round, method and seed
clients.csv                      a row a client, method and seed, at the end
journal.jsonl                    every round as it was decided, chained (docs/formats.md)
summary.json                     the table of the report
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedparity.core.errors import ConfigError, InputError
from fedparity.core.files import csv_text, remove, write_text
from fedparity.core.journal import GENESIS, from_json
from fedparity.core.ledger import Ledger
from fedparity.core.trace import Trace
from fedparity.core.types import FloatArray, Ids
from fedparity.experiment.metrics_log import COLUMNS
from fedparity.experiment.spec import Spec, to_toml
from fedparity.metrics import (
    CountSummary,
    Frontier,
    Split,
    coverage,
    cv,
    frontier,
    gini,
    influence,
    jain,
    split,
    summarise_counts,
    worst,
)
from fedparity.store import DamagedError, Disk, Store
from fedparity.store.lock import LOCK
from fedparity.store.manifest import DERIVED, MANIFEST, differences


@dataclass(frozen=True, slots=True, eq=False)
class MethodRun:
    """One method with one seed."""

    method: str
    seed: int
    log: list[tuple[object, ...]]
    """Rows of metrics_log.csv."""
    ledger: Ledger
    accuracy: FloatArray
    """Test accuracy of the last global model for each client; NaN where there is none."""
    own_accuracy: FloatArray
    """The same of each client's own model, where it keeps one; else that of the global model."""
    selected: list[Ids]
    """Who was asked, round by round."""
    completed: list[Ids]
    journal: list[str]
    head: str = GENESIS

    def column(self, name: str) -> FloatArray:
        """One column of the log, as numbers."""
        at = COLUMNS.index(name)
        return np.array([row[at] for row in self.log], dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Everything a report needs."""

    spec: Spec
    trace: Trace
    limit: Frontier
    """The least unequal counts that the trace allows with every slot filled."""
    runs: list[MethodRun]
    complete: bool = True
    """False: it was stopped early; `rounds` and the seeds of `runs` say how far it came."""
    versions: dict[str, str] = field(default_factory=dict)
    erased: frozenset[int] = frozenset()
    """Clients that were erased: they have no row."""

    @property
    def methods(self) -> list[str]:
        """Method names in the spec's order."""
        return [m.name for m in self.spec.methods]

    @property
    def rounds(self) -> int:
        """Rounds done by every run."""
        return min((run.ledger.rounds for run in self.runs), default=0)

    @property
    def contenders(self) -> list[str]:
        """Those that can win: all but oracles, unless there is nothing else."""
        return [m.name for m in self.spec.methods if not m.hindsight] or self.methods

    def of(self, method: str) -> list[MethodRun]:
        """The runs of one method, one a seed."""
        return [run for run in self.runs if run.method == method]

    def counts(self, run: MethodRun) -> CountSummary:
        """Count metrics of one run."""
        return summarise_counts(run.ledger.selected, run.ledger.online, self.spec.cohort, max(1, run.ledger.rounds))

    def splits(self, run: MethodRun) -> dict[str, Split]:
        """Each count metric beside its limit at the run's own number of filled slots."""
        limit = self.limit
        if run.ledger.rounds != self.rounds:  # stopped in the middle of a round: some methods are one ahead
            limit = frontier(self.trace.head(max(1, run.ledger.rounds)), self.spec.cohort)
        total = min(int(run.ledger.selected.sum()), limit.total)
        best = summarise_counts(
            limit.at_total(total).counts, run.ledger.online, self.spec.cohort, max(1, run.ledger.rounds)
        )
        return split(self.counts(run), best)

    def row(self, method: str) -> dict[str, float | None]:
        """The table's row of one method: means over seeds, `_sd` beside them; None where undefined."""
        tables = [self.numbers(run) for run in self.of(method)]
        row: dict[str, float | None] = {}
        for key in tables[0] if tables else ():
            known = np.array([t[key] for t in tables if np.isfinite(t[key])])
            row[key] = float(known.mean()) if len(known) else None
            row[f"{key}_sd"] = float(known.std()) if len(known) else None
        return row

    def fairest(self) -> str:
        """The method that adds least to the Gini coefficient that could not be avoided."""
        return min(self.contenders, key=lambda name: self.row(name)["gini_avoidable"] or 0.0)

    def numbers(self, run: MethodRun) -> dict[str, float]:
        """Every number of the table for one run; NaN where undefined."""
        return dict(self._numbers(run))

    def _numbers(self, run: MethodRun) -> Iterator[tuple[str, float]]:
        for name in ("accuracy", "avg_client_accuracy", "jain_accuracy", "fairness_variance"):
            column = run.column(name)
            yield name, float(column[-1]) if len(column) else float("nan")
        normalised = run.ledger.normalised_utility()
        aided = run.ledger.normalised_utility(with_surrogates=True)
        yield "utility_cv", cv(normalised)
        yield "jain_utility", jain(normalised)
        yield "utility_cv_with_surrogates", cv(aided)
        yield "jain_utility_with_surrogates", jain(aided)
        for name, part in self.splits(run).items():
            yield name, part.value
            yield f"{name}_limit", part.unavoidable
            yield f"{name}_avoidable", part.avoidable
        counts = self.counts(run)
        yield "coverage", coverage(run.ledger.selected)
        known = bool(np.isfinite(run.accuracy).all())
        yield "worst_accuracy", worst(run.accuracy) if known else float("nan")
        yield "accuracy_variance", float(run.accuracy.var()) if known else float("nan")
        yield "own_accuracy", float(run.own_accuracy.mean()) if known else float("nan")
        moved = influence((from_json(line) for line in run.journal), run.ledger.num_clients)
        yield "influence_gini", gini(moved) if moved.any() else float("nan")
        yield "cv_per_opportunity", counts.cv_per_opportunity
        yield "never_available", float(counts.never_available)
        yield "fill", counts.fill

    def summary(self) -> dict[str, Any]:
        """What `--json` prints and summary.json holds."""
        return {
            "name": self.spec.name,
            "clients": self.spec.population.clients,
            "rounds": self.rounds,
            "cohort": self.spec.cohort,
            "seeds": len({run.seed for run in self.runs}),
            "availability": self.spec.population.availability,
            "utility": self.spec.utility,
            "complete": self.complete,
            "methods": [
                {"method": name, "journal_sha256": [run.head for run in self.of(name)], **self.row(name)}
                for name in self.methods
            ],
        }

    def save(self, folder: str | Path, spec_text: str | None = None) -> None:
        """Write every file into a folder made ready; what an earlier run left goes first, each appears whole."""
        target = Path(folder)
        for name in DERIVED:
            remove(target / name)
        write_text(target / "spec.toml", to_toml(self.spec) if spec_text is None else spec_text)
        write_text(target / "spec.resolved.toml", to_toml(self.spec.resolved()))
        rows = [(*row, run.seed) for run in self.runs for row in run.log]
        write_text(target / "metrics_log.csv", csv_text([*COLUMNS, "seed"], rows))
        write_text(target / "clients.csv", csv_text(CLIENT_COLUMNS, self.client_rows()))
        write_text(target / "journal.jsonl", "".join(self._journal_lines()))
        write_text(target / "summary.json", json.dumps(self.summary(), indent=2, allow_nan=False) + "\n")

    def client_rows(self) -> Iterator[list[object]]:
        """Rows of clients.csv."""
        names = self.trace.names or tuple(map(str, range(self.trace.num_clients)))
        for run in self.runs:
            led = run.ledger
            columns: list[NDArray[Any]] = [
                led.online, led.selected, self.limit.counts, led.completed, led.failed, led.utility,
                led.surrogate_utility, led.utility * led.rounds / np.where(led.online > 0, led.online, np.nan),
                led.last_online, led.last_selected, led.last_completed, led.loss, run.accuracy,
                run.own_accuracy,
            ]  # fmt: skip
            for client, (name, *values) in enumerate(zip(names, *(c.tolist() for c in columns), strict=True)):
                if client not in self.erased:
                    yield [run.method, run.seed, name, *values]

    def _journal_lines(self) -> Iterator[str]:
        for run in self.runs:
            for line in run.journal:
                yield f'{{"method":{json.dumps(run.method)},"seed":{run.seed},"record":{line}}}\n'


FILES = ("spec.toml", "spec.resolved.toml", "metrics_log.csv", "clients.csv", "journal.jsonl", "summary.json")
REPORT = "report.html"


def open_store(folder: str | Path, spec: Spec, *, resume: bool = False, overwrite: bool = False) -> Store:
    """The folder of a run, locked: new, or the same run to go on with; nothing is ever mixed with another run."""
    target = Path(folder)
    there = (target / "run.db").exists()
    if target.exists() and not there and (not target.is_dir() or any(p.name != LOCK for p in target.iterdir())):
        raise ConfigError(f"{folder} is there but is not a run; give another --out")
    if there and not resume and not overwrite:
        raise ConfigError(
            f"{folder} already holds a run; go on with --resume, replace it with --overwrite, or give --out"
        )
    text = to_toml(spec.resolved())
    damaged: list[str] = []
    if there and resume:
        damaged = _refuse_damage(target)
        with contextlib.suppress(InputError), Store.read(target) as kept:  # one just begun cannot be read, but opened
            kept.origin.same_spec(text)  # before the manifest goes
    store = Store.open(target)
    try:
        store.distrust(damaged)
        if there and overwrite and not resume:
            store.clear()
            for name in DERIVED:
                store.disk.remove(name)
        for name in set(damaged) & set(DERIVED):
            store.disk.remove(name)  # it is written anew
    except BaseException:
        store.abandon()
        raise
    return store


def _refuse_damage(folder: Path) -> list[str]:
    """Refuse a damaged database; damaged arrays are left to the store, which goes back one round, results made anew."""
    found = differences(Disk(folder)) or []
    lost = [name for name in found if name not in {*DERIVED, MANIFEST} and not name.startswith("arrays/")]
    if lost:
        raise DamagedError(f"{folder / lost[0]}: differs from what was written; restore it from a copy")
    return found


CLIENT_COLUMNS = (
    "method",
    "seed",
    "client",
    "online",
    "selected",
    "selected_limit",
    "completed",
    "failed",
    "utility",
    "surrogate_utility",
    "normalised_utility",
    "last_online",
    "last_selected",
    "last_completed",
    "loss",
    "accuracy",
    "own_accuracy",
)
