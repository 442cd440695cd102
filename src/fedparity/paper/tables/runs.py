"""One run of a row with one seed, and what is kept of it; the rates of a row, tuned.

All rows of a block and seed share one task, hence one partition and one first model, and the trace that the seed draws.
Accuracies are means over the last tenth of the rounds: a single round swings by points. Utility is read from one run
as the block's rule credited it, and as section 4.2 sums it (`accuracy_change`: the last model's accuracy minus the
first's, for every client), each under three normalisers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fedparity.core.ledger import Normaliser
from fedparity.core.protocols import Task
from fedparity.core.rng import stream
from fedparity.core.types import FloatArray
from fedparity.data.dataset import Progress as DataProgress
from fedparity.data.dataset import silent
from fedparity.experiment.run import MethodRun, Run
from fedparity.experiment.runner import Callbacks, build_coordinator, draw_trace, execute
from fedparity.experiment.schedule import Setting, schedule
from fedparity.experiment.spec import Spec
from fedparity.experiment.tasks import build_task
from fedparity.experiment.tune import grid, tuned
from fedparity.metrics import cv, jain, numbers
from fedparity.paper.tables.blocks import Block, Tuning
from fedparity.paper.tables.cells import brief
from fedparity.paper.tables.rows import Row

LATE = ("accuracy", "avg_client_accuracy", "jain_accuracy")
"""Measures averaged over the last tenth of the rounds."""
SHARES = ("selection_gap", "gini", "cv_counts", "jain_counts", "max_minus_min", "never_served", "fill")
"""Participation measures, each with its limit."""
KEPT = (
    *LATE,
    "own_accuracy",
    "worst_accuracy",
    *SHARES,
    *(f"{name}_limit" for name in SHARES),
    "never_available",
    "cv_per_opportunity",
)
NORMALISERS: tuple[Normaliser, ...] = get_args(Normaliser)
LOGGED = ("accuracy", "fairness_variance", "surrogate_contribution")
"""What is stored of each round where a block keeps its curves."""


class StoppedError(Exception):
    """Somebody asked to stop; what was done is stored."""


@dataclass(frozen=True, slots=True)
class Told:
    """Who wants to know how it goes, and may stop it."""

    cell: Callable[[str, int, int], None] = lambda _what, _done, _total: None
    """Told after each cell: what it was of, how many are done and how many there are."""
    data: DataProgress = silent
    stop: Callable[[], bool] = lambda: False
    hurry: Callable[[], bool] = lambda: False


@dataclass(slots=True)
class Tasks:
    """The last task that was built: rows of a block follow each other seed by seed."""

    key: Any = None
    task: Task | None = None
    first: FloatArray = field(default_factory=lambda: np.empty(0))
    """Every client's accuracy under the first model."""

    def of(self, spec: Spec, seed: int, told: Told) -> Task:
        """The task of a spec and seed."""
        key = (spec.data, spec.model, spec.training, spec.population.clients, seed)
        if self.task is None or key != self.key:
            self.task = None  # two of them would not fit a small machine
            self.task = build_task(spec, seed, 1, told.data)
            self.key = key
            everybody = np.arange(self.task.num_clients)
            self.first = self.task.evaluate(self.task.init(stream(seed, "init")), everybody, "accuracy").accuracy
        return self.task


def run_folder(folder: Path, block: Block, row: Row, seed: int) -> Path:
    """Where the rounds of a run that takes long are committed until its numbers are stored."""
    return folder / "runs" / f"{block.name}-{row.run}-{seed}"


def cell_of(  # noqa: PLR0917 - one caller
    folder: Path, block: Block, row: Row, seed: int, rate: float | None, tasks: Tasks, told: Told
) -> dict[str, Any]:
    """What is kept of one run."""
    spec = block.spec_of(seed, row.spec(rate))
    if not block.trained:
        return {"numbers": _kept(_scheduled(spec, row))}
    task = tasks.of(spec, seed, told)
    stops = Callbacks(stop=told.stop, hurry=told.hurry)
    if block.kept:
        out = run_folder(folder, block, row, seed)
        done = execute(spec, out=out, resume=(out / "run.db").exists(), callbacks=stops)
    else:
        done = execute(spec, task=task, callbacks=stops)
    if not done.complete:
        raise StoppedError
    (one,) = done.runs
    found: dict[str, Any] = {"numbers": _kept(_trained(done, one)) | readings(one, tasks.first)}
    if block.curves:
        found["rounds"] = {name: [brief(v) for v in one.column(name)] for name in LOGGED}
        found["rounds"]["never_cleared"] = [brief(v) for v in never_cleared(one)]
    return found


def tuned_of(block: Block, how: Tuning, row: Row, rates: Sequence[float], tasks: Tasks, told: Told) -> FloatArray:  # noqa: PLR0917 - one caller
    """Rates x seeds: accuracy on held-back training samples."""
    plain = block.spec_of(0, row.spec())
    rare = plain.execution.model_copy(update={"score_every": how.rounds})
    spec = plain.model_copy(update={"rounds": how.rounds, "execution": rare})
    wide = grid(spec, how.rates, how.seeds)
    wide = wide.model_copy(update={"methods": tuple(m for m in wide.methods if m.rate in rates)})
    stops = Callbacks(stop=told.stop, hurry=told.hurry)
    done = execute(wide, task=lambda seed: tasks.of(wide, seed, told), callbacks=stops)
    if not done.complete:
        raise StoppedError
    return np.asarray(tuned(spec, rates, done).accuracy[0])


def _kept(found: dict[str, float]) -> dict[str, float | None]:
    return {key: brief(found[key]) for key in KEPT if key in found}


def _scheduled(spec: Spec, row: Row) -> dict[str, float]:
    """One draw without training."""
    (method,) = spec.methods
    parts, trace = method.parts, draw_trace(spec)
    setting = Setting(
        trace, spec.population.clients, spec.rounds, spec.cohort, seed=spec.seed, estimator=parts.estimator
    )
    scheduler = build_coordinator(spec, method, spec.seed, trace=trace).scheduler
    table = schedule(scheduler, setting, name=row.method).table()
    return {key: float(values[row.method][0]) for key, values in table.values.items()}


def _trained(done: Run, one: MethodRun) -> dict[str, float]:
    """Every measure of one run, accuracies over the last tenth of the rounds."""
    found = numbers(done.outcome(one))
    last = max(1, one.ledger.rounds // 10)
    found |= {key: float(np.mean(one.column(key)[-last:])) for key in LATE}
    if np.array_equal(one.accuracy, one.own_accuracy):
        found["own_accuracy"] = float("nan")  # nobody keeps a model of its own
    return found


def readings(one: MethodRun, first: FloatArray) -> dict[str, float | None]:
    """Spread of utility in each of its readings, `MEASURE@UTILITY/NORMALISER`."""
    nothing = np.zeros_like(first)
    change = replace(one.ledger, utility=one.accuracy - first, surrogate_utility=nothing)
    found: dict[str, float | None] = {}
    for utility, ledger in (("credited", one.ledger), ("accuracy_change", change)):
        for normaliser in NORMALISERS:
            for suffix, credit in (("", nothing), ("_with_surrogates", ledger.surrogate_utility)):
                read = replace(ledger, surrogate_utility=credit)
                values = read.normalised_utility(normaliser, with_surrogates=True)
                where = f"{suffix}@{utility}/{normaliser}"
                found[f"utility_cv{where}"] = brief(cv(values))
                found[f"jain_utility{where}"] = brief(jain(values))
                found[f"fairness_variance{where}"] = brief(float(values.var()) if len(values) else float("nan"))
    return found


def never_cleared(one: MethodRun) -> FloatArray:
    """The authors' sum: an entry is overwritten while its client is missing and stays when it returns."""
    entries, sums = np.zeros(one.ledger.num_clients), []
    for record in one.records:
        entries[record.surrogate.clients] = record.surrogate.utility
        sums.append(float(entries.sum()))
    return np.array(sums)
