"""A run as a value: what its methods left behind, in memory or read from its folder. Nothing in it can train.

`Run.open(folder)` needs neither the task nor its data: spec, trace, journal, log and the facts that only a task knew
are in the folder; the ledger follows from the journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fedparity.availability import shown_name
from fedparity.core import checks
from fedparity.core.errors import InputError, unknown
from fedparity.core.imports import without_imports
from fedparity.core.journal import GENESIS, from_json
from fedparity.core.ledger import Ledger
from fedparity.core.trace import Trace
from fedparity.core.types import NO_FLOATS, NO_IDS, FloatArray, RoundRecord
from fedparity.engines.flower.begun import scheduler_name, settings_of
from fedparity.experiment.methods import METHODS
from fedparity.experiment.metrics_log import COLUMNS, of_known
from fedparity.experiment.spec import MethodSpec, Spec
from fedparity.experiment.spec_file import parse
from fedparity.experiment.spec_parts import Population, component_text
from fedparity.metrics import Frontier, Outcome, Table, frontier, influence, span_gap, tenths
from fedparity.store import Committed, Facts, Store

OBSERVED = "./observed"
"""Availability of a deployment: as a trace file has it, and not drawn."""
LOGGED_ROW = len(COLUMNS) - 1
"""Numbers of a stored row that are columns of the log; what follows is beside them."""
UNLOGGED = [float("nan")] * (LOGGED_ROW - 2)
"""What the log of a deployment holds, whose rounds are stored without one."""


@dataclass(frozen=True, slots=True, eq=False)
class MethodRun:
    """One method with one seed."""

    method: str
    seed: int
    log: list[tuple[object, ...]]
    """Rows of metrics_log.csv."""
    ledger: Ledger
    records: list[RoundRecord]
    """Every round as it was decided."""
    journal: list[str]
    """The same as the lines that are chained."""
    head: str = GENESIS
    facts: Facts | None = None
    """None: it was cut short by force."""
    beside: list[list[float]] = field(default_factory=list)
    """Beside each row of the log: accuracy of the worst-off tenth, of clients by availability (`tenths`); recall."""

    def __repr__(self) -> str:
        return f"MethodRun({self.method!r}, seed {self.seed}: {self.ledger.rounds} rounds)"

    def column(self, name: str) -> FloatArray:
        """One column of the log, as numbers."""
        if name not in COLUMNS:
            raise unknown("column of the log", name, COLUMNS)
        at = COLUMNS.index(name)
        return np.array([row[at] for row in self.log], dtype=np.float64)

    @property
    def late(self) -> tuple[float, float, float]:
        """Mean and worst-tenth accuracy, and worst recall, over the last tenth of the rounds: single rounds swing."""
        mean, beside = self.column("avg_client_accuracy")[self._last], self._late_beside
        recall = beside[1 + self._tenths :]  # not kept by earlier versions
        return (
            float(mean.mean()) if len(mean) else np.nan,
            float(beside[0]),
            float(recall[0] if len(recall) else np.nan),
        )

    @property
    def late_by_availability(self) -> FloatArray:
        """The same of each tenth of the clients, the least available first; empty: the run was stored without."""
        return self._late_beside[1 : 1 + self._tenths]

    @property
    def _tenths(self) -> int:
        return len(tenths(self.ledger.online))

    @property
    def _last(self) -> slice:
        return slice(-max(1, len(self.log) // 10), None)

    @property
    def _late_beside(self) -> FloatArray:
        rows = [row for row in self.beside[self._last] if row]
        least = min(map(len, rows), default=0)  # an earlier version may have begun the run
        return np.array([row[:least] for row in rows], dtype=np.float64).mean(axis=0) if rows else np.array([np.nan])

    @property
    def round_seconds(self) -> float:
        """How long a round waits for its slowest participant, on average; NaN where nobody is timed."""
        waits = [np.nanmax(r.duration) for r in self.records if len(r.duration)]
        return float(np.mean(waits)) if waits else np.nan

    @property
    def accuracy(self) -> FloatArray:
        """Test accuracy of the last global model for each client; NaN where there is none."""
        return np.full(self.ledger.num_clients, np.nan) if self.facts is None else self.facts.accuracy

    @property
    def own_accuracy(self) -> FloatArray:
        """The same of the model that each client keeps, else of the global one."""
        return np.full(self.ledger.num_clients, np.nan) if self.facts is None else self.facts.own_accuracy


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """What a spec's methods left behind, seed by seed."""

    spec: Spec
    trace: Trace
    runs: list[MethodRun]
    complete: bool = True
    """False: it was stopped early; `rounds` and the seeds of `runs` say how far it came."""
    versions: Mapping[str, str] = field(default_factory=dict)
    erased: frozenset[int] = frozenset()
    """Clients that were erased: they have no row."""
    stored_spec: Spec | None = None
    """The spec as the store keeps it, with nothing left to defaults."""

    @property
    def learnt_nothing(self) -> str:
        """That no update of any client was used, and why the first was not; empty if one was."""
        if any(one.ledger.completed.any() for one in self.runs):
            return ""
        failed = (f" (client {k}, round {r.round}: {why})" for m in self.runs for r in m.records for k, why in r.failed)
        return f"Nothing was learnt: no update of any client was used{next(failed, '')}."

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """A stored run as far as it came; its folder stays as it is."""
        checks.path("folder", folder)
        with Store.read(folder) as store:
            return cls.stored(store)

    @classmethod
    def stored(cls, store: Store) -> Run:
        """What a store holds by now; a repetition that was cut short counts only if there is no whole one."""
        settings = settings_of(store.spec())
        if settings is not None:
            return cls._of_deployment(store, settings)
        with without_imports():  # a folder that came from elsewhere makes nobody run code
            spec = parse(store.spec(), f"{store.disk.root}: its spec")
        found = {where: _method_run(store, *where, spec.population.clients) for where in store.contenders()}
        runs: list[MethodRun] = []
        complete = False
        for repeat in range(spec.seeds):
            one = [found.get((spec.seed + repeat, m.name)) for m in spec.methods]
            there = [run for run in one if run is not None]
            complete = len(there) == len(one) and all(run.ledger.rounds == spec.rounds for run in there)
            runs += there if complete or not runs else []
            if not complete:
                break
        return cls(spec, store.trace(), runs, complete, store.versions(), store.erased(), spec)

    @classmethod
    def _of_deployment(cls, store: Store, settings: dict[str, str]) -> Run:
        """A run of real clients: how many there are, and who was online when, follows from its journal."""
        seed, method = next(iter(store.contenders()), (int(settings["seed"]), "parity"))
        records = [record_of(method, one) for one in store.rounds(seed, method)]
        trace, joined = store.trace(), sum(len(record.joined) for record in records)
        online = [np.union1d(record.available, record.busy) for record in records]
        if trace.num_rounds != len(records) or not records:  # it is not over yet: the trace is written at its end
            clients = max((int(ids[-1]) + 1 for ids in online if len(ids)), default=int(settings["cohort"]))
            trace = Trace.from_rounds(clients, online or [NO_IDS])
        spec = deployment_spec(store, settings, (seed, method), len(records), trace.num_clients)
        run = _method_run(store, seed, method, trace.num_clients - joined)
        return cls(spec, trace, [run] if records else [], bool(records), store.versions(), store.erased(), spec)

    @cached_property
    def resolved(self) -> Spec:
        """The spec with nothing left to defaults; of a stored run as it was kept, so that no component is built."""
        return self.spec.resolved() if self.stored_spec is None else self.stored_spec

    @property
    def hindsight(self) -> list[str]:
        """Methods that know what no server can: yardsticks, which win no comparison."""
        return [m.name for m in self.resolved.methods if m.hindsight]

    def __repr__(self) -> str:
        part = "" if self.complete else ", stopped early"
        return f"Run({self.spec.name!r}: {', '.join(self.methods)}; {self.rounds} rounds, {self.seeds} seeds{part})"

    @property
    def methods(self) -> list[str]:
        """Method names in the spec's order."""
        return [m.name for m in self.spec.methods]

    @property
    def rounds(self) -> int:
        """Rounds done by every run."""
        return min((run.ledger.rounds for run in self.runs), default=0)

    @property
    def seeds(self) -> int:
        """Repetitions that the numbers rest on."""
        return len({run.seed for run in self.runs})

    def of(self, method: str) -> list[MethodRun]:
        """The runs of one method, one per seed; none of a named method that this run is not about."""
        if method not in {*self.methods, *METHODS}:
            raise unknown("method", method, self.methods)
        return [run for run in self.runs if run.method == method]

    @cached_property
    def limit(self) -> Frontier:
        """The least unequal counts that the trace allows with every slot filled, in the rounds done by all."""
        return self._limit(self.rounds)

    def _limit(self, rounds: int) -> Frontier:
        return frontier(self.trace.head(max(1, min(rounds, self.trace.num_rounds))), self.spec.asked)

    @cached_property
    def table(self) -> Table:
        """Methods by measures, one number per seed; computed once."""
        outcomes = {name: {run.seed: self.outcome(run) for run in self.of(name)} for name in self.methods}
        return Table.of(outcomes, hindsight=self.hindsight)

    def outcome(self, run: MethodRun) -> Outcome:
        """One method with one seed, as measures see it; its limit is that of its own number of filled slots."""
        ledger = run.ledger
        # Stopped in the middle of a round, some methods are one round ahead of the others.
        best = self.limit if ledger.rounds == self.rounds else self._limit(ledger.rounds)
        told = all(record.told for record in run.records)
        return Outcome.of(
            ledger,
            self.spec.cohort,
            limit=best.at_total(min(int(ledger.selected.sum()), best.total)).counts,
            fill_limit=best.total / (self.spec.cohort * max(1, ledger.rounds)),
            test_accuracy=float(run.column("accuracy")[-1]) if run.log else float("nan"),
            accuracy=of_known(run.accuracy),
            kept_accuracy=of_known(run.own_accuracy),
            influence=influence(run.records, ledger.num_clients) if told else NO_FLOATS,
            late=run.late,
            recall=NO_FLOATS if run.facts is None or run.facts.recall is None else run.facts.recall,
            span_gap=span_gap([r.selected for r in run.records], ledger.num_clients, self.spec.cohort, ledger.since)
            if told
            else np.nan,
            round_seconds=run.round_seconds,
        )

    def save(self, folder: str | Path, spec_text: str | None = None) -> None:
        """Write it as plain files (docs/formats.md); `spec_text` is the spec as its author wrote it."""
        from fedparity.experiment.results import write_files

        checks.path("folder", folder)
        write_files(self, folder, spec_text)

    def summary(self) -> dict[str, Any]:
        """What `--json` prints and summary.json holds."""
        return {
            "name": self.spec.name,
            "clients": self.spec.population.clients,
            "erased": len(self.erased),
            "rounds": self.rounds,
            "cohort": self.spec.cohort,
            "seeds": self.seeds,
            "availability": shown_name(self.spec.population.shown),
            "utility": component_text(self.spec.utility),
            "normaliser": self.spec.reading,
            "complete": self.complete,
            "methods": [
                {"method": name, "journal_sha256": [run.head for run in self.of(name)], **self.table.row(name)}
                for name in self.methods
            ],
        }


def deployment_spec(
    store: Store, settings: dict[str, str], contender: tuple[int, str], rounds: int, clients: int
) -> Spec:
    """What a deployment is as a spec, with the rounds and clients that there are by now."""
    seed, method = contender
    cohort = int(settings["cohort"])
    return Spec(
        name=store.disk.root.name or "run",
        seed=seed,
        rounds=max(1, rounds),
        cohort=cohort,
        population=Population(clients=max(clients, cohort), availability=OBSERVED),
        methods=(MethodSpec(name=method, scheduler=scheduler_name(settings)),),
    )


def _method_run(store: Store, seed: int, method: str, clients: int) -> MethodRun:
    committed = list(store.rounds(seed, method))
    records = [record_of(method, one) for one in committed]
    return MethodRun(
        method,
        seed,
        log=[(*(one.row[:LOGGED_ROW] or [one.round, method, *UNLOGGED]), one.seconds) for one in committed],
        beside=[one.row[LOGGED_ROW:] for one in committed],
        ledger=Ledger.replay(clients, records),
        records=records,
        journal=[one.line for one in committed],
        head=committed[-1].chain if committed else GENESIS,
        facts=store.facts(seed, method),
    )


def record_of(method: str, committed: Committed) -> RoundRecord:
    """A committed round as it was decided."""
    try:
        return from_json(committed.line)
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise InputError(f"round {committed.round} of {method}: not a journal line ({error})") from error
