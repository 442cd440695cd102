"""The files of a table or figure, written from what is stored: CSV, JSON, SVG and one HTML page.

    table1.csv   figure1.csv .svg   figure2.csv .svg   figure3.csv .svg
    table2.csv            one line per block and row: means over seeds, spreads, limits
    table2_utility.csv    the same for utility in each reading: rule and normaliser
    table2_seeds.csv      one line per block, row and seed
    paper.json            everything above, and what is missing
    paper.html            the tables and pictures on one page

No clock goes in: the same cells give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedparity.core.files import csv_text, make_folder, write_text
from fedparity.metrics import PairedDifference
from fedparity.paper.tables.blocks import Block, What
from fedparity.paper.tables.cells import brief
from fedparity.paper.tables.compute import Kitchen
from fedparity.paper.tables.figures import (
    CURVE_COLUMNS,
    FIGURES,
    PRINTED_1,
    TABLE_1_COLUMNS,
    curve_ends,
    curve_rows,
    draw_curves,
    figure_1,
    populations,
    table_1,
)
from fedparity.paper.tables.html import page
from fedparity.paper.tables.results import UTILITY, Result, as_json, result
from fedparity.paper.tables.rows import ROWS
from fedparity.paper.tables.runs import KEPT

PER_SEED = ("accuracy", "avg_client_accuracy", "worst_accuracy", "jain_accuracy", "selection_gap", "gini")
STATED = ("devices", "below_5pct", "below_40pct", "below_half", "never", "mean")


def produce(kitchen: Kitchen, what: What, trace: Path | None) -> dict[str, Any]:
    """Write every file of `what` as far as its cells are there; the same as JSON has it."""
    blocks = kitchen.recipe.needed(what)
    found = [result(kitchen, block) for block in blocks]
    known = [one for one in found if one.table.seeds]
    out = kitchen.folder
    make_folder(out)
    summary: dict[str, Any] = {"what": what, "scale": kitchen.recipe.scale, "blocks": []}
    if what in {"table2", "all"}:
        main = [one for one in known if not one.block.curves]
        _write_table_2(out, main)
        summary["blocks"] = [entry for one in main for entry in as_json(one)]
        summary["differences"] = [entry for one in main if one.block.trained for entry in _differences(one)]
    pictures: dict[str, str] = {}
    for one in known:
        if one.block.curves and one.seeds:
            pictures |= _write_curves(out, one, what, summary)
    if what in {"figure1", "all"}:
        pictures["figure1"], rows, stats = figure_1(populations(trace, kitchen.recipe.devices))
        write_text(out / "figure1.csv", csv_text(("population", "from", "to", "share_of_devices"), rows))
        figures = {name: {key: getattr(one, key) for key in STATED} for name, one in stats.items()}
        summary["figure1"] = {"populations": figures, "paper": PRINTED_1}
    for name, drawn in pictures.items():
        write_text(out / f"{name}.svg", drawn + "\n")
    summary["missing"] = [_missing(one) for one in found if not one.complete]
    write_text(out / "paper.json", json.dumps(summary, indent=1, allow_nan=False) + "\n")
    write_text(out / "paper.html", page(summary, known, pictures))
    return summary


def _write_table_2(out: Path, found: Sequence[Result]) -> None:
    keys = [key for name in KEPT for key in ((name,) if name.endswith("_limit") else (name, f"{name}_sd"))]
    rows, utility, seeds = [], [], []
    for one in found:
        for row in one.block.rows:
            head = (one.block.name, row, len(one.done[row]), one.rates[ROWS[row].run])
            numbers = one.table.row(row)
            rows.append((*head, *(_short(numbers.get(key)) for key in keys)))
            for (rule, normaliser), table in one.readings.items():
                credited = one.credited if rule == "credited" else rule
                spread = table.row(row)
                cells = [_short(spread[key]) for name in UTILITY for key in (name, f"{name}_sd")]
                utility.append((one.block.name, row, credited, normaliser, *cells))
            for at, seed in [(at, seed) for at, seed in enumerate(one.table.seeds) if seed in one.done[row]]:
                values = (one.table.values[key][row][at] for key in PER_SEED)
                seeds.append((one.block.name, row, seed, *(_short(float(value)) for value in values)))
    write_text(out / "table2.csv", csv_text(("block", "method", "seeds", "rate", *keys), rows))
    spreads = [key for name in UTILITY for key in (name, f"{name}_sd")]
    named = ("block", "method", "utility", "normaliser", *spreads)
    write_text(out / "table2_utility.csv", csv_text(named, utility))
    write_text(out / "table2_seeds.csv", csv_text(("block", "method", "seed", *PER_SEED), seeds))


def _write_curves(out: Path, found: Result, what: What, summary: dict[str, Any]) -> dict[str, str]:
    if what in {"table1", "all"}:
        rows = table_1(found)
        write_text(out / "table1.csv", csv_text(TABLE_1_COLUMNS, rows))
        summary["table1"] = [dict(zip(TABLE_1_COLUMNS, row, strict=True)) for row in rows]
    pictures = {}
    for figure in FIGURES:
        if what in {figure, "all"}:
            write_text(out / f"{figure}.csv", csv_text(CURVE_COLUMNS, curve_rows(found, figure)))
            pictures[figure] = draw_curves(found, figure)
            summary[figure] = {run: curve_ends(found, run) for run in FIGURES[figure]}
    return pictures


def _differences(found: Result) -> list[dict[str, Any]]:
    """Our rows against the best baseline in mean client accuracy, paired by seeds."""
    apart = [found.behind(row) for row in found.block.rows if ROWS[row].ours]
    return [{"block": found.block.name, **_difference(one)} for one in apart if one is not None]


def _difference(one: PairedDifference) -> dict[str, Any]:
    numbers = {"difference": one.mean, "low": one.low, "high": one.high}
    named = {"method": one.method, "best_baseline": one.reference, "pairs": one.pairs}
    return named | {key: brief(value) for key, value in numbers.items()}


def _missing(found: Result) -> dict[str, Any]:
    block: Block = found.block
    return {"name": block.name, "says": block.says, "seeds": found.seeds, "seeds_wanted": block.seeds}


def _short(value: float | None) -> float | None:
    return None if value is None else brief(value)
