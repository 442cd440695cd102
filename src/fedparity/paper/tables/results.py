"""What the stored cells of a block say: a `Table` of rows by measures, and utility in each of its readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedparity.core.types import FloatArray
from fedparity.experiment.spec_parts import component_text
from fedparity.metrics import MEASURES, PairedDifference, Table, compare_methods
from fedparity.paper.tables.blocks import SMALLEST, Block
from fedparity.paper.tables.cells import brief, digest_of
from fedparity.paper.tables.compute import Kitchen
from fedparity.paper.tables.rows import ROWS, TABLE_2, TABLE_2_COLUMNS, runs_of
from fedparity.paper.tables.runs import KEPT, NORMALISERS

UTILITY = ("utility_cv", "jain_utility", "fairness_variance")
ACCURACY = "avg_client_accuracy"
TOO_SMALL = "too small to compare accuracy"


@dataclass(frozen=True, eq=False)
class Result:
    """A block as far as it is computed."""

    block: Block
    table: Table
    """Rows by measures, over the seeds that each row has."""
    readings: Mapping[tuple[str, str], Table]
    """The same of utility, by rule and normaliser."""
    rates: Mapping[str, float | None]
    done: Mapping[str, tuple[int, ...]]
    """The seeds that each row has."""
    curves: Mapping[str, Mapping[str, FloatArray]]
    """Of each run what was stored of its rounds: seeds x rounds."""

    @property
    def seeds(self) -> int:
        """Seeds that every row has."""
        return min(map(len, self.done.values()))

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return self.seeds == self.block.seeds

    @property
    def credited(self) -> str:
        """The utility rule of the block's runs."""
        return component_text(self.block.spec.get("utility", "global_loss_drop"))

    @property
    def too_small(self) -> bool:
        """Whether FedAvg learnt too little for accuracies to say anything."""
        learnt = self.table.mean("accuracy", "fedavg") if "fedavg" in self.table.methods else None
        return learnt is not None and learnt < SMALLEST

    def best_baseline(self) -> str | None:
        """The row that is neither ours nor an oracle with the highest mean client accuracy."""
        rivals = [row for row in self.table.contenders if not ROWS[row].ours and self.table.mean(ACCURACY, row)]
        return max(rivals, key=lambda row: self.table.mean(ACCURACY, row) or 0.0, default=None)

    def behind(self, row: str) -> PairedDifference | None:
        """A row's mean client accuracy less that of the best baseline, over all seeds that both have."""
        best = self.best_baseline()
        if best is None or row == best:
            return None
        columns = {name: self.table.values[ACCURACY][name] for name in (row, best)}
        return compare_methods(columns, best)[row]


def results(kitchen: Kitchen, blocks: Sequence[Block]) -> list[Result]:
    """Every block of which something is there."""
    return [found for block in blocks if (found := result(kitchen, block)).table.seeds]


def result(kitchen: Kitchen, block: Block) -> Result:
    """One block from its cells."""
    cells = kitchen.cells(block)
    rates = kitchen.chosen(block)
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for run, row in runs_of(block.rows).items():
        kept = {s: cells.get(run, s, rates[run], digest_of(row.spec())) for s in range(block.seeds)}
        found[run] = {seed: cell for seed, cell in kept.items() if cell is not None}
    seeds = tuple(sorted({seed for by_seed in found.values() for seed in by_seed}))
    nothing: dict[str, Any] = {"numbers": {}}
    numbers = {row: [found[ROWS[row].run].get(seed, nothing)["numbers"] for seed in seeds] for row in block.rows}
    main = {key: _column(numbers, dict.fromkeys(block.rows, key)) for key in KEPT}
    utility: dict[tuple[str, str], Table] = {}
    rules = ("credited", "accuracy_change") if block.trained else ()
    for rule in rules:
        for normaliser in NORMALISERS:
            columns = {}
            for measure in UTILITY:
                aided = {row: "_with_surrogates" if ROWS[row].aided else "" for row in block.rows}
                at = {row: f"{measure}{aided[row]}@{rule}/{normaliser}" for row in block.rows}
                columns[measure] = _column(numbers, at)
            utility[rule, normaliser] = _table(block, seeds, columns)
    curves = {}
    for run, by_seed in found.items():
        if block.curves and by_seed:
            rounds = [cell["rounds"] for cell in by_seed.values()]
            curves[run] = {name: np.array([one[name] for one in rounds], np.float64) for name in rounds[0]}
    done = {row: tuple(found[ROWS[row].run]) for row in block.rows}
    return Result(block, _table(block, seeds, main), utility, rates, done, curves)


def _table(block: Block, seeds: tuple[int, ...], columns: Mapping[str, Mapping[str, FloatArray]]) -> Table:
    hindsight = [row for row in block.rows if ROWS[row].spec().hindsight]
    return Table(block.rows, seeds, columns, frozenset(hindsight))


def _column(numbers: Mapping[str, list[dict[str, float | None]]], at: Mapping[str, str]) -> dict[str, FloatArray]:
    return {row: np.array([cell.get(at[row]) for cell in cells], np.float64) for row, cells in numbers.items()}


def as_json(found: Result) -> list[dict[str, Any]]:
    """The block as JSON has it: one entry per reading of utility, the first with every other measure, too."""
    shared = {
        "says": found.block.says,
        "availability": found.block.setting["population"]["availability"],
        "seeds": found.seeds,
        "seeds_wanted": found.block.seeds,
        "note": TOO_SMALL if found.too_small else "",
    }
    if not found.readings:
        rows = [
            {"method": row, "seeds": len(found.done[row]), **_row(found.table, row), "paper": _paper(row, counts=True)}
            for row in found.block.rows
        ]
        return [{"name": found.block.name, "utility": None, "normaliser": None, **shared, "rows": rows}]
    entries = []
    for number, ((rule, normaliser), table) in enumerate(found.readings.items()):
        rows = [
            {
                "method": row,
                "seeds": len(found.done[row]),
                "rate": found.rates[ROWS[row].run],
                **(_row(found.table, row) if not number else {}),
                **_row(table, row),
                "paper": _paper(row),
            }
            for row in found.block.rows
        ]
        rule_name = found.credited if rule == "credited" else rule
        where = {"name": found.block.name, "utility": rule_name, "normaliser": normaliser}
        entries.append({**where, **shared, "rows": rows})
    return entries


def _row(table: Table, row: str) -> dict[str, float | None]:
    """Means with their spread; a limit has none of its own."""
    found = table.row(row)
    kept = [part for key in table.known(table.values) for part in (key, f"{key}_sd") if not part.endswith("_limit_sd")]
    return {key: None if (value := found[key]) is None else brief(value) for key in kept}


def _paper(row: str, *, counts: bool = False) -> dict[str, float] | None:
    printed = ROWS[row].printed
    if printed is None:
        return None
    found = dict(zip(TABLE_2_COLUMNS, TABLE_2[printed], strict=True))
    return {key: value for key, value in found.items() if not counts or MEASURES[key].scope == "counts"}
