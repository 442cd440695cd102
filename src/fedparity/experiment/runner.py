"""From a spec to results: one trace, all methods side by side on it, once for every seed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from fedparity.availability import AVAILABILITY, ESTIMATORS, load_trace, looks_like_a_path
from fedparity.coordinator import Coordinator
from fedparity.engines import InProcess, Intermittent
from fedparity.errors import ConfigError
from fedparity.experiment.metrics_log import MetricsLog
from fedparity.experiment.results import MethodRun, Results, versions
from fedparity.experiment.spec import MethodSpec, Spec
from fedparity.journal import Journal
from fedparity.ledger import Ledger
from fedparity.loop import run_side_by_side
from fedparity.metrics import frontier
from fedparity.protocols import Task
from fedparity.rng import stream
from fedparity.schedulers import SCHEDULERS
from fedparity.surrogates import SURROGATES
from fedparity.tasks import Logistic, Quadratic
from fedparity.trace import Trace
from fedparity.types import Evals, RoundRecord, Vector
from fedparity.utility import UTILITIES
from fedparity.weightings import WEIGHTINGS

Asked = Callable[[], bool]
"""Whether the run has been asked to stop."""
Progress = Callable[[int, str, dict[str, float]], None]
"""Told after each round of each method: the round (over all seeds), the method, and its row of numbers."""


def draw_trace(spec: Spec) -> Trace:
    """Who is there in this run."""
    people, seed = spec.population, spec.resolved().population.trace_seed or 0
    text = people.availability
    if looks_like_a_path(text):
        trace = load_trace(text, rounds=spec.rounds)
    else:
        trace = AVAILABILITY.build(text).draw(people.clients, spec.rounds, seed)
    if trace.num_clients != people.clients:
        raise ConfigError(f"population.clients={people.clients} but {text} has {trace.num_clients}; set it to that")
    return trace.with_dropout(people.dropout, stream(seed, "dropout")) if people.dropout else trace


def build_task(spec: Spec, seed: int) -> Task:
    """What the clients learn, with data dealt by `seed`."""
    t, clients = spec.task, spec.population.clients
    if t.dataset == "quadratic":
        return Quadratic.random(clients, seed=seed, rate=t.rate, steps=t.epochs)
    if t.dataset == "logistic":
        return Logistic.synthetic(clients, seed=seed)
    from fedparity.tasks.torch_task import digits_task

    return digits_task(
        clients,
        labels_per_client=t.labels_per_client,
        hidden=t.hidden,
        epochs=t.epochs,
        batch=t.batch,
        rate=t.rate,
        seed=seed,
    )


def build_coordinator(spec: Spec, contender: MethodSpec, seed: int) -> Coordinator:
    """One contender of the spec."""
    m = contender.resolved()
    return Coordinator(
        spec.cohort,
        seed=seed,
        scheduler=SCHEDULERS.build(str(m.scheduler)),
        estimator=None if m.estimator is None else ESTIMATORS.build(m.estimator),
        weighting=WEIGHTINGS.build(str(m.weighting)),
        utility=UTILITIES.build(spec.utility),
        surrogate=SURROGATES.build(str(m.surrogate)),
        mixing=1.0 if m.mixing is None else m.mixing,
        over_select=spec.over_select,
        min_reports=spec.min_reports,
    )


class _Record:
    """An observer that keeps what the report shows, for each method apart."""

    def __init__(self, spec: Spec, seed: int, engine: InProcess | Intermittent, task: Task) -> None:
        score: Any = getattr(task, "accuracy", None)
        self.log = MetricsLog(spec.cohort, engine, score)
        self.journal = Journal()
        self.seed = seed
        self.selected: dict[str, list[Any]] = {}
        self.completed: dict[str, list[Any]] = {}
        self.ledgers: dict[str, Ledger] = {}
        self.params: dict[str, Vector] = {}
        self._task = task

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        self.log.on_round(method, record, ledger, params)
        self.journal.on_round(method, record, ledger, params)
        self.selected.setdefault(method, []).append(record.selected)
        self.completed.setdefault(method, []).append(record.completed)
        self.ledgers[method] = ledger
        self.params[method] = params

    def run(self, method: str) -> MethodRun:
        ledger = self.ledgers[method]
        evals: Evals = self._task.evaluate(self.params[method], np.arange(ledger.num_clients))
        return MethodRun(
            method=method,
            seed=self.seed,
            log=[row for row in self.log.rows if row[1] == method],
            ledger=ledger.copy(),
            accuracy=evals.accuracy,
            selected=self.selected[method],
            completed=self.completed[method],
            journal=self.journal.lines(method),
            head=self.journal.head(method),
        )


class _Stopped(Exception):  # noqa: N818 - not an error: somebody asked for it
    """The run was asked to stop."""


class _Tell:
    """Tells of every round, and stops between two of them, when every method has done the same number."""

    def __init__(self, record: _Record, base: int, last: str, progress: Progress | None, stop: Asked | None) -> None:
        self._record, self._base, self._last, self._progress, self._stop = record, base, last, progress, stop

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        if self._progress is not None:
            self._progress(self._base + record.round, method, self._record.log.last())
        if self._stop is not None and method == self._last and self._stop():
            raise _Stopped


def _run_seed(spec: Spec, trace: Trace, repeat: int, progress: Progress | None, stop: Asked | None) -> list[MethodRun]:
    seed = spec.seed + repeat
    task = build_task(spec, seed)
    engine = Intermittent(InProcess(task, spec.workers), trace)
    record = _Record(spec, seed, engine, task)
    tell = _Tell(record, repeat * spec.rounds, spec.methods[-1].name, progress, stop)
    methods = {m.name: build_coordinator(spec, m, seed) for m in spec.methods}
    first = task.init(stream(seed, "init"))
    with contextlib.suppress(_Stopped):
        run_side_by_side(
            methods, engine, spec.rounds, params=first, num_clients=task.num_clients, observers=[record, tell]
        )
    return [record.run(m.name) for m in spec.methods]


def run_spec(spec: Spec, progress: Progress | None = None, stop: Asked | None = None) -> Results:
    """Carry out a spec. When `stop` says so it ends after the round, and `complete` is False.

    A repetition that was cut short counts only if there is no whole one.
    """
    trace = draw_trace(spec)
    runs: list[MethodRun] = []
    complete = True
    for repeat in range(spec.seeds):
        new = _run_seed(spec, trace, repeat, progress, stop)
        complete = new[0].ledger.rounds == spec.rounds
        runs += new if complete or not runs else []
        if not complete or (stop is not None and stop()):
            complete = complete and repeat == spec.seeds - 1
            break
    limit = frontier(trace.head(runs[0].ledger.rounds), spec.cohort)
    return Results(spec, trace, limit, runs, complete, versions())
