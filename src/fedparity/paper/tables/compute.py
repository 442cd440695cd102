"""From blocks to cells: what is missing is run, row by row, the rates of all rows tuned alike before.

All rows of a block and seed share one task, hence one partition and one first model, and the trace that the seed draws.
Accuracies are means over the last tenth of the rounds: a single round swings by points. Utility is read from one run
as the block's rule credited it, and as section 4.2 sums it (`accuracy_change`: the last model's accuracy minus the
first's, for every client), each under three normalisers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedparity.core.ledger import Ledger
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
from fedparity.paper.tables.blocks import Block, Recipe, Tuning, What
from fedparity.paper.tables.cells import Cells, brief, digest_of
from fedparity.paper.tables.rows import Row, runs_of

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
NORMALISERS = ("availability", "participation", "imputed")
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
class _Tasks:
    """The last task that was built: rows of a block follow each other seed by seed."""

    key: Any = None
    task: Task | None = None
    first: FloatArray = field(default_factory=lambda: np.empty(0))
    """Every client's accuracy under the first model."""

    def of(self, spec: Spec, seed: int, told: Told) -> Task:
        key = (spec.data, spec.model, spec.training, spec.population.clients, seed)
        if self.task is None or key != self.key:
            self.task = None  # two of them would not fit a small machine
            self.task = build_task(spec, seed, 1, told.data)
            self.key = key
            everybody = np.arange(self.task.num_clients)
            self.first = self.task.evaluate(self.task.init(stream(seed, "init")), everybody, "accuracy").accuracy
        return self.task


@dataclass(slots=True)
class Kitchen:
    """Carries out a recipe in a folder."""

    recipe: Recipe
    folder: Path
    told: Told = field(default_factory=Told)
    began: bool = False
    """Whether anything was computed and kept."""
    _tasks: _Tasks = field(default_factory=_Tasks)

    def cells(self, block: Block) -> Cells:
        """What is there of a block."""
        return Cells(self.folder / "cells" / f"{block.name}.jsonl", block.setting)

    def _rates(self, block: Block, tuning: Tuning) -> Cells:
        setting = {**block.setting, "name": f"rates-{tuning.name}", "rounds": tuning.rounds}
        return Cells(self.folder / "cells" / f"rates-{tuning.name}.jsonl", setting)

    def tuned_by(self, block: Block) -> Block:
        """The block whose set-up the rates of this one were tuned in."""
        return next(b for b in self.recipe.blocks if b.tuning is not None and b.tuning == block.tuning)

    def rates(self, block: Block) -> dict[str, dict[float, list[float]]]:
        """Of each run the accuracies on held-back samples at each rate, one per seed, as far as they are there."""
        if block.tuning is None:
            return {}
        cells = self._rates(self.tuned_by(block), block.tuning)
        found: dict[str, dict[float, list[float]]] = {}
        for run, row in runs_of(block.rows).items():
            for rate in block.tuning.rates:
                for seed in range(block.tuning.seeds):
                    cell = cells.get(run, seed, rate, digest_of(row.spec()))
                    if cell is not None:
                        found.setdefault(run, {}).setdefault(rate, []).append(cell["numbers"]["accuracy"])
        return found

    def rate(self, block: Block, run: str) -> float | None:
        """The best rate of a run, a tie to the smaller; None: the block's own, or not tuned yet."""
        found = self.rates(block).get(run)
        return max(sorted(found), key=lambda rate: float(np.mean(found[rate]))) if found else None

    def todo(self, what: What, only: tuple[str, ...] = ()) -> Iterator[tuple[Block, Row, int]]:
        """Every cell that is missing, in the order in which it is done: block by block, seed by seed."""
        for block in self.recipe.needed(what):
            if only and block.name not in only:
                continue
            cells, rates = self.cells(block), {run: self.rate(block, run) for run in runs_of(block.rows)}
            for seed in range(block.seeds):
                for run, row in runs_of(block.rows).items():
                    if cells.get(run, seed, rates[run], digest_of(row.spec())) is None:
                        yield block, row, seed

    def estimate(self, what: What, only: tuple[str, ...] = ()) -> tuple[int, float]:
        """How many runs are missing, and how many seconds of one idle core they take, about."""
        missing = list(self.todo(what, only))
        seconds = sum(block.seconds for block, _, _ in missing)
        for block in {block.name: block for block, _, _ in missing}.values():
            if block.tuning is not None and self.tuned_by(block) is block:
                untuned = len(runs_of(block.rows)) - len(self.rates(block))
                share = block.tuning.rounds / block.rounds
                seconds += untuned * len(block.tuning.rates) * block.tuning.seeds * share * block.seconds
        return len(missing), seconds

    def cook(self, what: What, only: tuple[str, ...] = ()) -> Iterator[Block]:
        """Do what is missing; each block is yielded when it is complete."""
        total = sum(len(runs_of(b.rows)) * b.seeds for b in self.recipe.needed(what) if not only or b.name in only)
        done = total - len(list(self.todo(what, only)))
        for block in self.recipe.needed(what):
            if only and block.name not in only:
                continue
            self._tune(block)
            cells = self.cells(block)
            for _, row, seed in [one for one in self.todo(what, (block.name,)) if one[0] is block]:
                rate = self.rate(block, row.run)
                cells.put(row.run, seed, rate, digest_of(row.spec()), **self._cell(block, row, seed, rate))
                done, self.began = done + 1, True
                self.told.cell(f"{block.name}, seed {seed}: {row.run}", done, total)
                if self.told.stop():
                    raise StoppedError
            yield block

    def _tune(self, block: Block) -> None:
        if block.tuning is None:
            return
        how, by = block.tuning, self.tuned_by(block)
        known, cells = self.rates(block), self._rates(by, how)
        missing = {run: row for run, row in runs_of(block.rows).items() if run not in known}
        for number, (run, row) in enumerate(missing.items()):
            self.told.cell(f"rates {how.name}: {run}", number, len(missing))
            rare = by.spec_of(0, row.spec()).execution.model_copy(update={"score_every": how.rounds})
            spec = by.spec_of(0, row.spec()).model_copy(update={"rounds": how.rounds, "execution": rare})
            wide = grid(spec, how.rates, how.seeds)
            told = Callbacks(stop=self.told.stop, hurry=self.told.hurry)
            done = execute(wide, task=lambda seed, wide=wide: self._tasks.of(wide, seed, self.told), callbacks=told)
            if not done.complete:
                raise StoppedError
            found = tuned(spec, how.rates, done)
            for place, rate in enumerate(found.rates):
                for seed in range(how.seeds):
                    value = {"accuracy": brief(found.accuracy[0, place, seed])}
                    cells.put(run, seed, rate, digest_of(row.spec()), numbers=value)

    def _cell(self, block: Block, row: Row, seed: int, rate: float | None) -> dict[str, Any]:
        spec = block.spec_of(seed, row.spec(rate))
        if not block.trained:
            return {"numbers": _kept(_scheduled(spec, row))}
        task = self._tasks.of(spec, seed, self.told)
        told = Callbacks(stop=self.told.stop, hurry=self.told.hurry)
        if block.kept:
            out = self.folder / "runs" / f"{block.name}-{row.run}-{seed}"
            done = execute(spec, out=out, resume=(out / "run.db").exists(), callbacks=told)
        else:
            done = execute(spec, task=task, callbacks=told)
        if not done.complete:
            raise StoppedError
        (one,) = done.runs
        found: dict[str, Any] = {"numbers": _kept(_trained(done, one)) | _readings(one, self._tasks.first)}
        if block.curves:
            found["rounds"] = {name: [brief(v) for v in one.column(name)] for name in LOGGED}
            found["rounds"]["never_cleared"] = [brief(v) for v in _never_cleared(one)]
        return found


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


def _readings(one: MethodRun, first: FloatArray) -> dict[str, float | None]:
    """Spread of utility in each of its readings, `MEASURE@UTILITY/NORMALISER`."""
    ledger = one.ledger
    change = replace(ledger, utility=one.accuracy - first, surrogate_utility=np.zeros_like(first))
    found: dict[str, float | None] = {}
    for utility, read in (("credited", ledger), ("accuracy_change", change)):
        for normaliser in NORMALISERS:
            for suffix, aided in (("", False), ("_with_surrogates", True)):
                values = _normalised(read, normaliser, aided=aided)
                where = f"{suffix}@{utility}/{normaliser}"
                found[f"utility_cv{where}"] = brief(cv(values))
                found[f"jain_utility{where}"] = brief(jain(values))
                found[f"fairness_variance{where}"] = brief(float(values.var()) if len(values) else float("nan"))
    return found


def _normalised(ledger: Ledger, normaliser: str, *, aided: bool) -> FloatArray:
    if normaliser == "imputed":  # with surrogates everybody has T opportunities: nothing to divide by
        seen = ledger.seen()
        return np.asarray((ledger.utility + (ledger.surrogate_utility if aided else 0.0))[seen])
    return ledger.normalised_utility(normaliser, with_surrogates=aided)  # type: ignore[arg-type]


def _never_cleared(one: MethodRun) -> FloatArray:
    """The authors' sum: an entry is overwritten while its client is missing and stays when it returns."""
    entries, sums = np.zeros(one.ledger.num_clients), []
    for record in one.records:
        entries[record.surrogate.clients] = record.surrogate.utility
        sums.append(float(entries.sum()))
    return np.array(sums)
