"""From a spec to results: one trace, all methods side by side on it, once for every seed."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedparity.core import checks
from fedparity.core.coordinator import Coordinator
from fedparity.core.errors import ConfigError, InputError
from fedparity.core.gate import Gate
from fedparity.core.imports import without_imports
from fedparity.core.journal import Journal
from fedparity.core.ledger import Ledger
from fedparity.core.loop import Stopped, run_side_by_side
from fedparity.core.protocols import Estimator, Observer, Task
from fedparity.core.reprs import brief
from fedparity.core.rng import stream
from fedparity.core.state import State
from fedparity.core.trace import Trace
from fedparity.core.tree import classes_in
from fedparity.core.types import Evals, RoundRecord, Vector
from fedparity.data.dataset import Progress as DataProgress
from fedparity.data.dataset import silent
from fedparity.engines import InProcess, Intermittent
from fedparity.engines.flower.begun import settings_of
from fedparity.engines.flower.begun import state_classes as deployed_classes
from fedparity.estimators import Oracle
from fedparity.experiment.erasing import relogged
from fedparity.experiment.facts import facts_of
from fedparity.experiment.inputs import input_digests
from fedparity.experiment.methods import METHODS
from fedparity.experiment.metrics_log import MetricsLog
from fedparity.experiment.results import open_store, refuse_change
from fedparity.experiment.run import MethodRun, Run
from fedparity.experiment.spec import MethodSpec, Parts, Spec
from fedparity.experiment.spec_file import parse, to_toml
from fedparity.experiment.spec_parts import NUMPY
from fedparity.experiment.tasks import (
    Given,
    build_task,
    check_utility,
    clock_of,
    given_task,
    own_digest,
    owned,
    processors,
)
from fedparity.metrics import frontier, tenths
from fedparity.schedulers import Fixed
from fedparity.servers.rate_schedules import Scaled
from fedparity.store import Facts, Store, finish_erasure
from fedparity.store.origin import versions
from fedparity.traces import load_trace
from fedparity.weightings import QFair

Asked = Callable[[], bool]
"""Whether the run has been asked to stop."""
Progress = Callable[[int, str, dict[str, float]], None]
"""Told after each round of each method: the round (over all seeds), the method, and its row of numbers."""


def draw_trace(spec: Spec) -> Trace:
    """Who is there in this run."""
    people, seed = spec.population, spec.resolved().population.trace_seed or 0
    if people.path is not None:
        trace = load_trace(
            people.path,
            rounds=spec.rounds,
            round_seconds=people.round_seconds,
            start=people.start,
            work_seconds=people.work_seconds,
            rule=people.rule,
            open_end=people.open_end is not False,
            watch=people.watch,
        )
    else:
        trace = people.model.draw(people.clients, spec.rounds, seed)
    if trace.num_clients != people.clients:
        raise ConfigError(
            f"population.clients={people.clients} but {people.shown} has {trace.num_clients}; set it to that"
        )
    return trace.with_dropout(people.dropout, stream(seed, "dropout")) if people.dropout else trace


def build_coordinator(
    spec: Spec, contender: MethodSpec, seed: int, task: Task | None = None, trace: Trace | None = None
) -> Coordinator:
    """One contender of the spec; the task tells which labels clients hold, the trace what an oracle knows."""
    parts, usual = contender.parts, spec.training.rate
    rate = usual if contender.rate is None else contender.rate
    weighting, scheduler = parts.weighting, parts.scheduler
    if isinstance(weighting, QFair):
        weighting = weighting.with_rate(rate)
    if trace is not None and isinstance(scheduler, Fixed):
        scheduler = Fixed(frontier(trace, spec.asked).schedule)
    return Coordinator(
        spec.cohort,
        seed=seed,
        scheduler=scheduler,
        estimator=_estimator(spec, parts, trace),
        weighting=weighting,
        utility=spec.worth,
        surrogate=parts.surrogate,
        memory=parts.memory,
        local=parts.local,
        server=parts.server,
        local_rate=Scaled(parts.schedule or spec.training.course, rate / usual),
        over_select=spec.over_select,
        min_reports=spec.min_reports,
        labels=None if task is None else task.label_counts(),
        gate=METHODS[contender.name].gate if contender.name in METHODS else Gate(),
    )


def _estimator(spec: Spec, parts: Parts, trace: Trace | None) -> Estimator[Any]:
    if not isinstance(parts.estimator, str):
        return parts.estimator
    nobody = Trace.from_rounds(spec.population.clients, [np.empty(0, np.int64)])
    return Oracle(trace or nobody)  # without a trace nothing is run: the state's shape is all that matters


class _Record:
    """An observer that keeps what a run is made of, for each method apart."""

    def __init__(self, spec: Spec, seed: int, engine: Intermittent, task: Task, store: Store | None) -> None:
        groups = tenths(engine.trace.counts())
        self.log = MetricsLog(spec.cohort, engine, task.accuracy, spec.scored, groups, recall=task.recall)
        if store is not None:
            self.log.erased = store.erased()
        self.journal = Journal()
        self.seed = seed
        self.records: dict[str, list[RoundRecord]] = {m.name: [] for m in spec.methods}
        self._task = task
        self._local = {m.name: m.parts.local for m in spec.methods}

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        self.log.on_round(method, record, ledger, params)
        self.journal.on_round(method, record, ledger, params)
        self.records[method].append(record)

    def facts(self, method: str, state: State) -> Facts:
        """What nobody can tell later without the task."""
        evals: Evals = self._task.evaluate(state.params, np.arange(state.ledger.num_clients), "accuracy")
        own = evals.accuracy.copy()
        for client, kept in state.kept.items():
            model = self._local[method].personal(kept, len(state.params))
            score = None if model is None else self._task.kept_accuracy(client, model)
            own[client] = own[client] if score is None else score
        return facts_of(self._task, state, evals.accuracy, own)

    def run(self, method: str, state: State) -> MethodRun:
        """One method as a value."""
        return MethodRun(
            method,
            self.seed,
            log=[row for row in self.log.rows if row[1] == method],
            beside=[more for row, more in zip(self.log.rows, self.log.beside, strict=True) if row[1] == method],
            ledger=state.ledger.copy(),
            records=self.records[method],
            journal=self.journal.lines(method),
            head=self.journal.head(method),
            facts=self.facts(method, state),
        )


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Who wants to know how a run goes, and may stop it."""

    progress: Progress | None = None
    stop: Asked | None = None
    """Whether to end after the round, when every method has done it."""
    hurry: Asked | None = None
    """Whether to give the round up: rounds of large models outlast anyone's patience."""
    data: DataProgress = silent
    """Told what is being made ready, how much of it is done and how much there is."""

    __repr__ = brief


QUIET = Callbacks()


def _task(spec: Spec, given: Given | None, seed: int, told: Callbacks) -> tuple[Task, int]:
    """What is learnt, and how many clients train at a time."""
    if given is not None:  # a task of others may not bear threads
        return given_task(given, seed, spec.population.clients), spec.execution.workers or 1
    workers = spec.execution.workers or processors()
    # NumPy's small products gain nothing from threads.
    return build_task(spec, seed, workers, told.data), 1 if spec.data.set in NUMPY else workers


def _run_seed(  # noqa: PLR0917 - one caller
    spec: Spec,
    given: Given | None,
    trace: Trace,
    repeat: int,
    store: Store | None,
    told: Callbacks,
    observers: Iterable[Observer],
) -> list[MethodRun] | int:
    """All methods with one seed: as values or, where a store has them, how many rounds all of them did."""
    seed = spec.seed + repeat
    task, threads = _task(spec, given, seed, told)
    check_utility(spec, task)
    engine = Intermittent(InProcess(task, threads, told.hurry, clock_of(spec, task)), trace)
    record = _Record(spec, seed, engine, task, store)
    methods = {m.name: build_coordinator(spec, m, seed, task, trace) for m in spec.methods}
    first = task.init(stream(seed, "init"))
    now = {name: coordinator.init(task.num_clients, first, trace.before) for name, coordinator in methods.items()}
    if store is not None:
        for name, fresh in now.items():
            now[name] = store.load(seed, name, classes_in(fresh), anew=True) or fresh
    last = spec.methods[-1].name

    def after(method: str, done: RoundRecord, state: State) -> None:
        now[method] = state
        if store is not None:
            *row, seconds = record.log.rows[-1]
            row += record.log.beside[-1]
            store.commit(seed, method, state, record.journal.lines(method)[-1], row, float(str(seconds)))
        if told.progress is not None:
            told.progress(repeat * spec.rounds + done.round, method, record.log.last())
        if told.stop is not None and method == last and told.stop():
            raise Stopped

    with contextlib.suppress(Stopped):
        watching = [record, *observers]
        run_side_by_side(methods, engine, spec.rounds, states=dict(now), observers=watching, after=after)
    if store is None:
        return [record.run(name, state) for name, state in now.items()]
    for name, state in now.items():
        if store.facts(seed, name) is None:  # else nothing came since they were told
            store.put_facts(seed, name, record.facts(name, state))
    return min(state.round for state in now.values())


def check_methods(spec: Spec) -> None:
    """Refuse methods that do not fit the number of clients or the task."""
    for contender in spec.methods:
        try:
            coordinator = build_coordinator(spec, contender, spec.seed)
            coordinator.init(spec.population.clients)
        except ConfigError as error:
            raise ConfigError(f"method {contender.name!r}: {error}") from error
        if "labels" in coordinator.scheduler.requires and spec.data.set == "quadratic":
            raise ConfigError(
                f"method {contender.name!r} compares clients by labels, which data.set='quadratic' has not; use"
                " data.set='digits', or leave the method out"
            )
        torch_alone = coordinator.local.joint is not None or "prototypes" in coordinator.report_fields
        if torch_alone and spec.data.set in NUMPY:
            raise ConfigError(
                f"method {contender.name!r} needs a classifier trained with PyTorch; use data.set='digits'"
            )


def prepare(spec: Spec, progress: DataProgress = silent) -> Trace:
    """The run's trace, if it can start: what only shows then is refused before any folder is touched.

    That needs the data read and the model built once: a file that is not there or does not fit shows only then.
    """
    check_methods(spec)
    trace = draw_trace(spec)
    check_utility(spec, build_task(spec, spec.seed, progress=progress))
    return trace


def execute(
    spec: Spec,
    *,
    task: Given | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    store: Store | None = None,
    trace: Trace | None = None,
    callbacks: Callbacks = QUIET,
    observers: Iterable[Observer] = (),
) -> Run:
    """Carry out a spec. When it is asked to stop it ends after the round, and `complete` is False.

    `task` takes the place of the spec's data and model: a task, or a function that makes one for a seed. `trace` is the
    spec's own, if it was drawn already; another belongs into a file that the spec names (`save_trace`). `out` is a
    folder for the run and its plain files: a new one, or with `resume` or `overwrite` that of a run.

    With a folder (or a store that is open already) every round is committed, and rounds that are there already are not
    done again; clients that were erased do not come back. A repetition that was cut short counts only if there is no
    whole one.
    """
    checks.instance("spec", spec, Spec, "Spec(methods=[...]) makes one")
    checks.instance("callbacks", callbacks, Callbacks, "Callbacks(stop=...) makes one")
    checks.instance("observers", observers, Iterable, "give a list of them")
    if trace is not None:
        checks.instance("trace", trace, Trace, "Trace.from_matrix(online) makes one")
    if store is not None:
        checks.instance("store", store, Store, "out=FOLDER opens one")
    if out is not None:
        checks.path("out", out)
    elif resume or overwrite:
        raise ConfigError("resume and overwrite are about the run in a folder; give it, out=FOLDER")
    spec = spec if task is None else owned(spec, task)
    check_methods(spec)
    if out is None:
        run = _execute(spec, task, store, draw_trace(spec) if trace is None else trace, callbacks, observers)
        return run if store is not None else _told(run)
    if store is not None or (resume and overwrite):
        raise ConfigError("out and store, and resume and overwrite, exclude each other; give one")
    if resume:
        refuse_change(out, spec)
    drawn = prepare(spec, callbacks.data) if task is None else draw_trace(spec)
    with open_store(out, spec, resume=resume, overwrite=overwrite) as opened:
        run = _execute(spec, task, opened, drawn if trace is None else trace, callbacks, observers)
        run.save(out)
        return _told(run)


def _told(run: Run) -> Run:
    """The run, and a warning if it is none: its table looks like any other."""
    if run.complete and run.learnt_nothing:
        logging.getLogger("fedparity").warning(run.learnt_nothing)
    return run


def _execute(  # noqa: PLR0917 - one caller
    spec: Spec,
    task: Given | None,
    store: Store | None,
    trace: Trace,
    callbacks: Callbacks,
    observers: Iterable[Observer],
) -> Run:
    if store is not None:
        finish_erasure(store, fresh_state, relogged)
        inputs = input_digests(spec) | ({} if task is None else own_digest(task, spec))
        store.begin(to_toml(spec.resolved()), trace, inputs)
        trace = trace.without(store.erased())
    runs: list[MethodRun] = []
    complete = True
    for repeat in range(spec.seeds):
        new = _run_seed(spec, task, trace, repeat, store, callbacks, observers)
        done = new if isinstance(new, int) else min(run.ledger.rounds for run in new)
        complete = done == spec.rounds
        if not isinstance(new, int):
            runs += new if complete or not runs else []
        if not complete or (callbacks.stop is not None and callbacks.stop()):
            complete = complete and repeat == spec.seeds - 1
            break
    if store is None:
        return Run(spec, trace, runs, complete, versions())
    store.sweep()
    # What is returned is what anyone will read from the folder, under the spec as it was given.
    return replace(Run.stored(store), spec=spec)


@without_imports()
def fresh_state(store: Store, method: str) -> State:
    """The first state of a stored method, without its model, from the spec stored with it."""
    if settings_of(store.spec()) is not None:
        raise InputError(
            f"{store.disk.root} is a deployment, whose state its app alone can build; there, call"
            " fedparity.store.erase(FOLDER, CLIENT, lambda *_: coordinator.init(CLIENTS, params))"
        )
    spec = parse(store.spec(), f"{store.disk.root}: its spec")
    contender = next((m for m in spec.methods if m.name == method), None)
    if contender is None:
        raise InputError(f"{store.disk.root}: method {method!r} is not in the run's spec")
    return build_coordinator(spec, contender, spec.seed).init(spec.population.clients)


def state_classes(store: Store, method: str) -> dict[str, type]:
    """Which dataclasses the state of a stored method may hold."""
    if (settings := settings_of(store.spec())) is not None:
        return deployed_classes(settings)
    return classes_in(fresh_state(store, method))
