"""From a spec to results: one trace, all methods side by side on it, once for every seed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedparity.availability import AVAILABILITY, looks_like_a_path
from fedparity.core.coordinator import Coordinator, State
from fedparity.core.errors import ConfigError, InputError
from fedparity.core.journal import Journal, from_json
from fedparity.core.ledger import Ledger
from fedparity.core.loop import Stopped, run_side_by_side
from fedparity.core.protocols import Estimator, Task
from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import Evals, RoundRecord, Vector
from fedparity.data.dataset import Progress as DataProgress
from fedparity.data.dataset import silent
from fedparity.engines import InProcess, Intermittent
from fedparity.estimators import ESTIMATORS, ORACLE, Oracle
from fedparity.experiment.facts import facts_of
from fedparity.experiment.inputs import input_digests
from fedparity.experiment.metrics_log import MetricsLog
from fedparity.experiment.results import MethodRun, Results
from fedparity.experiment.spec import NUMPY, MethodSpec, Spec, parse, to_toml
from fedparity.experiment.tasks import build_task, processors
from fedparity.local.rules import LOCALS, Difference, PhpFl
from fedparity.metrics import frontier
from fedparity.schedulers import SCHEDULERS, Fixed
from fedparity.servers import SERVERS
from fedparity.servers.rate_schedules import RATE_SCHEDULES, Scaled
from fedparity.store import Committed, Store, finish_erasure
from fedparity.store.origin import versions
from fedparity.store.tree import classes_in
from fedparity.surrogates import SURROGATES
from fedparity.traces import load_trace
from fedparity.utility import UTILITIES
from fedparity.weightings import WEIGHTINGS, QFair

Asked = Callable[[], bool]
"""Whether the run has been asked to stop."""
Progress = Callable[[int, str, dict[str, float]], None]
"""Told after each round of each method: the round (over all seeds), the method, and its row of numbers."""


def draw_trace(spec: Spec) -> Trace:
    """Who is there in this run."""
    people, seed = spec.population, spec.resolved().population.trace_seed or 0
    text = people.availability
    if looks_like_a_path(text):
        trace = load_trace(
            text,
            rounds=spec.rounds,
            round_seconds=people.round_seconds,
            start=people.start,
            work_seconds=people.work_seconds,
            rule=people.rule,
            watch=people.watch,
        )
    else:
        trace = AVAILABILITY.build(text).draw(people.clients, spec.rounds, seed)
    if trace.num_clients != people.clients:
        raise ConfigError(f"population.clients={people.clients} but {text} has {trace.num_clients}; set it to that")
    return trace.with_dropout(people.dropout, stream(seed, "dropout")) if people.dropout else trace


def build_coordinator(
    spec: Spec, contender: MethodSpec, seed: int, task: Task | None = None, trace: Trace | None = None
) -> Coordinator:
    """One contender of the spec; the task tells which labels clients hold, the trace what an oracle knows."""
    m = contender.resolved()
    rate = spec.task.rate if m.rate is None else m.rate
    weighting = WEIGHTINGS.build(str(m.weighting))
    if isinstance(weighting, QFair):
        weighting = weighting.with_rate(rate)
    scheduler = SCHEDULERS.build(str(m.scheduler))
    if trace is not None and isinstance(scheduler, Fixed):
        scheduler = Fixed(frontier(trace, spec.cohort).schedule)
    return Coordinator(
        spec.cohort,
        seed=seed,
        scheduler=scheduler,
        estimator=_estimator(spec, m, trace),
        weighting=weighting,
        utility=UTILITIES.build(spec.utility),
        surrogate=SURROGATES.build(str(m.surrogate)),
        mixing=1.0 if m.mixing is None else m.mixing,
        local=LOCALS.build(str(m.local)),
        server=SERVERS.build(str(m.server)),
        local_rate=Scaled(RATE_SCHEDULES.build(spec.task.schedule), rate / spec.task.rate),
        over_select=spec.over_select,
        min_reports=spec.min_reports,
        labels=labels() if callable(labels := getattr(task, "label_counts", None)) else None,
    )


def _estimator(spec: Spec, m: MethodSpec, trace: Trace | None) -> Estimator[Any] | None:
    if m.estimator != ORACLE:
        return None if m.estimator is None else ESTIMATORS.build(m.estimator)
    nobody = Trace.from_rounds(spec.population.clients, [np.empty(0, np.int64)])
    return Oracle(trace or nobody)  # without a trace nothing is run: the state's shape is all that matters


class _Record:
    """An observer that keeps what the report shows, for each method apart."""

    def __init__(self, spec: Spec, seed: int, engine: Intermittent, task: Task) -> None:
        score: Any = getattr(task, "accuracy", None)
        self.log = MetricsLog(spec.cohort, engine, score)
        self.journal = Journal()
        self.seed = seed
        self.records: dict[str, list[RoundRecord]] = {m.name: [] for m in spec.methods}
        self._task = task
        self._updates = [m.name for m in spec.methods if isinstance(LOCALS.build(str(m.resolved().local)), Difference)]
        """Methods whose clients keep an update, not a model."""

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        self.log.on_round(method, record, ledger, params)
        self.journal.on_round(method, record, ledger, params)
        self.records[method].append(record)

    def restore(self, method: str, done: Iterable[Committed]) -> None:
        """Take up rounds that an earlier process committed."""
        for committed in done:
            try:
                record = from_json(committed.line)
            except (KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
                raise InputError(f"round {committed.round} of {method}: not a journal line ({error})") from error
            self.journal.add(method, committed.line)
            self.log.rows.append((*committed.row, committed.seconds))
            self.records[method].append(record)

    def run(self, method: str, state: State, store: Store | None) -> MethodRun:
        ledger, records = state.ledger, self.records[method]
        evals: Evals = self._task.evaluate(state.params, np.arange(ledger.num_clients), "accuracy")
        score: Any = getattr(self._task, "own_accuracy", None)
        own = evals.accuracy.copy()
        if score is not None and method not in self._updates:
            size = len(state.params)
            own[list(state.client_models)] = [score(k, v[:size]) for k, v in state.client_models.items()]
        if store is not None and store.facts(self.seed, method) is None:
            store.put_facts(self.seed, method, facts_of(self._task, state, evals.accuracy, own))
        return MethodRun(
            method=method,
            seed=self.seed,
            log=[row for row in self.log.rows if row[1] == method],
            ledger=ledger.copy(),
            accuracy=evals.accuracy,
            own_accuracy=own,
            selected=[r.selected for r in records],
            completed=[r.completed for r in records],
            journal=self.journal.lines(method),
            head=self.journal.head(method),
        )


@dataclass(frozen=True, slots=True)
class Watch:
    """Who wants to know about a run, and where it is kept."""

    progress: Progress | None = None
    stop: Asked | None = None
    """Whether to end after the round, when every method has done it."""
    hurry: Asked | None = None
    """Whether to give the round up: rounds of large models outlast anyone's patience."""
    store: Store | None = None
    go: bool = True
    """False: only take up what is stored."""
    data: DataProgress = silent
    """Told what is being made ready, how much of it is done and how much there is."""


def _run_seed(spec: Spec, trace: Trace, repeat: int, watch: Watch) -> list[MethodRun]:
    seed = spec.seed + repeat
    workers = spec.workers or processors()
    task = build_task(spec, seed, workers, watch.data)
    # NumPy's small products gain nothing from threads.
    threads = 1 if spec.task.dataset in NUMPY else workers
    engine = Intermittent(InProcess(task, threads, watch.hurry), trace)
    record = _Record(spec, seed, engine, task)
    methods = {m.name: build_coordinator(spec, m, seed, task, trace) for m in spec.methods}
    first = task.init(stream(seed, "init"))
    now = {name: coordinator.init(task.num_clients, first, trace.before) for name, coordinator in methods.items()}
    if watch.store is not None:
        for name, fresh in now.items():
            kept = watch.store.load(seed, name, classes_in(fresh))
            if kept is not None:
                now[name] = kept
                record.restore(name, watch.store.rounds(seed, name))
    last = spec.methods[-1].name

    def after(method: str, done: RoundRecord, state: State) -> None:
        now[method] = state
        if watch.store is not None:
            *row, seconds = record.log.rows[-1]
            line = record.journal.lines(method)[-1]
            watch.store.commit(seed, method, state, line, row, float(str(seconds)))
        if watch.progress is not None:
            watch.progress(repeat * spec.rounds + done.round, method, record.log.last())
        if watch.stop is not None and method == last and watch.stop():
            raise Stopped

    with contextlib.suppress(Stopped):
        if watch.go:
            run_side_by_side(methods, engine, spec.rounds, states=dict(now), observers=[record], after=after)
    return [record.run(name, state, watch.store if watch.go else None) for name, state in now.items()]


def check_methods(spec: Spec) -> None:
    """Refuse methods that do not fit the number of clients or the task."""
    for contender in spec.methods:
        coordinator = build_coordinator(spec, contender, spec.seed)
        coordinator.init(spec.population.clients)
        needs = getattr(coordinator.scheduler, "requires", ())
        if "labels" in needs and spec.task.dataset == "quadratic":
            raise ConfigError(f"method {contender.name!r} compares clients by labels, which a quadratic task has not")
        if isinstance(coordinator.local, PhpFl) and spec.task.dataset in NUMPY:
            raise ConfigError(
                f"method {contender.name!r} needs a classifier trained with PyTorch; use dataset='digits'"
            )


def ready(spec: Spec, progress: DataProgress = silent) -> Trace:
    """The run's trace, if it can start: what only shows then is refused before any folder is touched.

    That needs the data read and the model built once: a file that is not there or does not fit shows only then.
    """
    check_methods(spec)
    trace = draw_trace(spec)
    build_task(spec, spec.seed, progress=progress)
    return trace


def run_spec(spec: Spec, watch: Watch | None = None, trace: Trace | None = None) -> Results:
    """Carry out a spec. When it is asked to stop it ends after the round, and `complete` is False.

    With a store every round is committed, and rounds that are there already are not done again; clients that were
    erased do not come back. A repetition that was cut short counts only if there is no whole one.
    """
    watch = watch or Watch()
    trace = draw_trace(spec) if trace is None else trace
    erased = frozenset[int]()
    if watch.store is not None:
        if watch.go:
            finish_erasure(watch.store, fresh_state)
            watch.store.begin(to_toml(spec.resolved()), trace, input_digests(spec))
        erased = watch.store.erased()
        trace = trace.without(erased)
    runs: list[MethodRun] = []
    complete = True
    for repeat in range(spec.seeds):
        new = _run_seed(spec, trace, repeat, watch)
        complete = min(run.ledger.rounds for run in new) == spec.rounds
        runs += new if complete or not runs else []
        if not complete or (watch.stop is not None and watch.stop()):
            complete = complete and repeat == spec.seeds - 1
            break
    if watch.store is not None:
        watch.store.sweep()
    limit = frontier(trace.head(max(1, min(run.ledger.rounds for run in runs))), spec.cohort)
    return Results(spec, trace, limit, runs, complete, versions(), erased)


def fresh_state(store: Store, method: str) -> State:
    """The first state of a stored method, without its model, from the spec stored with it."""
    spec = parse(store.spec(), f"{store.disk.root}: its spec")
    contender = next((m for m in spec.methods if m.name == method), None)
    if contender is None:
        raise InputError(f"{store.disk.root}: method {method!r} is not in the run's spec")
    return build_coordinator(spec, contender, spec.seed).init(spec.population.clients)


def state_classes(store: Store, method: str) -> dict[str, type]:
    """Which dataclasses the state of a stored method may hold."""
    return classes_in(fresh_state(store, method))


def load_results(folder: str | Path, store: Store) -> Results:
    """The results of a stored run as far as it came, without doing anything more."""
    return run_spec(parse(store.spec(), f"{folder}: its spec"), Watch(store=store, go=False), store.trace())
