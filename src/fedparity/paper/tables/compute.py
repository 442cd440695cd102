"""From blocks to cells: what is missing is run, row by row, the rates of all rows tuned alike before."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from fedparity.core.errors import ConfigError
from fedparity.core.files import make_folder
from fedparity.data.cache import cache_folder
from fedparity.paper.tables.blocks import Block, Recipe, Tuning, What
from fedparity.paper.tables.cells import Cells, brief, digest_of
from fedparity.paper.tables.rows import Row, runs_of
from fedparity.paper.tables.runs import StoppedError, Tasks, Told, cell_of, run_folder, tuned_of

FEATURES_SECONDS = 800.0
"""Of one idle core, once: features of CIFAR-10's 60,000 images at 96 pixels, 75 per second."""


@dataclass(slots=True)
class Kitchen:
    """Carries out a recipe in a folder."""

    recipe: Recipe
    folder: Path
    told: Told = field(default_factory=Told)
    began: bool = False
    """Whether anything was computed and kept."""
    workers: int = 1
    """Processes; the results are the same with any number."""
    _tasks: Tasks = field(default_factory=Tasks)
    _pool: ProcessPoolExecutor | None = None

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

    def chosen(self, block: Block) -> dict[str, float | None]:
        """The best rate of each run, a tie to the smaller; None: the block's own, or not tuned yet."""
        found = self.rates(block)
        tried = 0 if block.tuning is None else len(block.tuning.rates)
        return {run: _best(found[run]) if len(found.get(run, ())) == tried > 0 else None for run in runs_of(block.rows)}

    def _wanted(self, what: What, only: tuple[str, ...]) -> list[Block]:
        return [block for block in self.recipe.needed(what) if not only or block.name in only]

    def todo(self, what: What, only: tuple[str, ...] = ()) -> Iterator[tuple[Block, Row, int]]:
        """Every cell that is missing, in the order in which it is done: block by block, seed by seed."""
        for block in self._wanted(what, only):
            cells, rates = self.cells(block), self.chosen(block)
            for seed in range(block.seeds):
                for run, row in runs_of(block.rows).items():
                    if cells.get(run, seed, rates[run], digest_of(row.spec())) is None:
                        yield block, row, seed

    def estimate(self, what: What, only: tuple[str, ...] = ()) -> tuple[int, float]:
        """How many runs are missing, and how many seconds of one idle core they take, about."""
        missing = list(self.todo(what, only))
        seconds = sum(block.seconds for block, _, _ in missing)
        blocks = {block.name: block for block, _, _ in missing}.values()
        if any("features" in block.spec.get("data", {}) for block in blocks) and not _features_are_there():
            seconds += FEATURES_SECONDS
        for block in blocks:
            if block.tuning is not None and self.tuned_by(block) is block:
                untuned = len(runs_of(block.rows)) * len(block.tuning.rates) - sum(map(len, self.rates(block).values()))
                seconds += untuned * block.tuning.seeds * block.tuning.rounds / block.rounds * block.seconds
        return len(missing), seconds

    def cook(self, what: What, only: tuple[str, ...] = ()) -> Iterator[Block]:
        """Do what is missing; each block is yielded when it is complete."""
        make_folder(self.folder)
        if self.workers == 1:
            yield from self._cook(what, only)
            return
        # Not forked: threads of PyTorch do not survive that.
        with ProcessPoolExecutor(self.workers, get_context("spawn"), _leave_signals) as pool:
            self._pool = pool
            try:
                yield from self._cook(what, only)
            finally:
                self._pool = None

    def _cook(self, what: What, only: tuple[str, ...]) -> Iterator[Block]:
        blocks = self._wanted(what, only)
        total = sum(len(runs_of(block.rows)) * block.seeds for block in blocks)
        done = total - len(list(self.todo(what, only)))
        for block in blocks:
            self._tune(block)
            cells = self.cells(block)
            missing = [(row, seed) for _, row, seed in self.todo(what, (block.name,))]
            rates = self.chosen(block)
            jobs = [(self.folder, block, row, seed, rates[row.run]) for row, seed in missing]
            with closing(self._each(cell_of, jobs, alone=block.kept)) as made:
                for (_, _, row, seed, rate), found in made:
                    cells.put(row.run, seed, rate, digest_of(row.spec()), **found)
                    if block.kept:  # its rounds were there to go on from; models of a block are gigabytes
                        shutil.rmtree(run_folder(self.folder, block, row, seed))
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
        rates = {run: [r for r in how.rates if r not in known.get(run, {})] for run in runs_of(block.rows)}
        jobs = [(by, how, row, rates[run]) for run, row in runs_of(block.rows).items() if rates[run]]
        with closing(self._each(tuned_of, jobs, alone=block.kept)) as made:
            for number, ((_, _, row, chosen), found) in enumerate(made, start=1):
                for rate, accuracies in zip(chosen, found, strict=True):
                    for seed, accuracy in enumerate(accuracies.tolist()):
                        value = {"accuracy": brief(accuracy)}
                        cells.put(row.run, seed, rate, digest_of(row.spec()), numbers=value)
                self.began = True
                self.told.cell(f"rates {how.name}: {row.run}", number, len(jobs))
                if self.told.stop():
                    raise StoppedError

    def _each(
        self, work: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], *, alone: bool
    ) -> Generator[tuple[tuple[Any, ...], Any], None, None]:
        """Jobs with what came of them, in their order; `alone`: each uses all processors by itself."""
        if alone or self._pool is None:
            yield from ((job, work(*job, self._tasks, self.told)) for job in jobs)
            return
        waiting = [self._pool.submit(_in_worker, work, job) for job in jobs]
        try:
            yield from ((job, future.result()) for job, future in zip(jobs, waiting, strict=True))
        except BrokenProcessPool as error:
            raise ConfigError("a worker process was ended, maybe for lack of memory; use --workers 1") from error
        finally:
            for future in waiting:
                future.cancel()


def _features_are_there() -> bool:
    """Whether images were made features of before: which ones, only the data would tell, which may not be there."""
    return any((cache_folder() / "features").glob("*/marks.u32"))


def _best(accuracies: Mapping[float, Sequence[float]]) -> float:
    return max(sorted(accuracies), key=lambda rate: float(np.mean(accuracies[rate])))


_TASKS = Tasks()
"""The last task of a worker process."""


def _in_worker(work: Callable[..., Any], job: tuple[Any, ...]) -> Any:
    return work(*job, _TASKS, Told())


def _leave_signals() -> None:
    """Ctrl-C reaches every process of a terminal: only the first one answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
