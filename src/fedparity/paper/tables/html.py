"""The tables and figures on one page, in the report's frame: nothing is loaded from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedparity.metrics.measures import heading
from fedparity.paper.tables.results import TOO_SMALL, Result
from fedparity.paper.tables.rows import ROWS, TABLE_2, TABLE_2_COLUMNS
from fedparity.report import svg, words
from fedparity.report.frame import document

MAIN = ("accuracy", "avg_client_accuracy", "own_accuracy", "worst_accuracy", "jain_accuracy")
COUNTS = ("selection_gap", "gini", "never_served", "fill")


def page(summary: Mapping[str, Any], found: Sequence[Result], pictures: Mapping[str, str]) -> str:
    """The page."""
    parts = [_printed()] if summary["blocks"] else []
    parts += [_block(one) for one in found if not one.block.curves and summary["blocks"]]
    if "table1" in summary:
        parts.append(_table_1(summary["table1"]))
    for name, drawn in sorted(pictures.items()):
        parts.append(f"<section><h2>Figure {svg.escape(name[-1])}</h2>{drawn}</section>")
    missing = "".join(
        f"<li>{svg.escape(one['name'])}: all rows for {one['seeds']} of {one['seeds_wanted']} seeds</li>"
        for one in summary["missing"]
    )
    notice = f'<div class="notice">Not complete:<ul>{missing}</ul></div>' if missing else ""
    body = (
        '<header><p class="eyebrow">fedparity paper</p><h1>The paper\'s tables and figures</h1>'
        f"<p>Scale: {svg.escape(summary['scale'])}. Accuracies are on test data, means over the last tenth of the"
        f" rounds; ± is one standard deviation over seeds.</p>{notice}</header>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>"
    )
    return document("The paper's tables and figures", body)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    top = "".join(f'<th scope="col">{svg.escape(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{svg.escape(first)}</th>{"".join(f"<td>{svg.escape(c)}</td>" for c in rest)}</tr>'
        for first, *rest in rows
    )
    told = svg.escape(caption)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{told}"><table class="sorts">'
        f"<caption>{told}</caption>"
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _heading(key: str) -> str:
    """Accuracies of this page are of more than the last round, which its first lines say."""
    return heading(key).removesuffix(", last round")


def _printed() -> str:
    rows = [
        (name, *(words.of(k, v) for k, v in zip(TABLE_2_COLUMNS, values, strict=True)))
        for name, values in TABLE_2.items()
    ]
    head = ("Method", *(_heading(key) for key in TABLE_2_COLUMNS))
    return f"<section><h2>Table 2 as printed</h2>{_table(head, rows, 'The numbers of the paper')}</section>"


def cell(found: Result, key: str, row: str) -> str:
    """Mean, spread and limit of a measure."""
    table = found.table
    value, sd, limit = table.mean(key, row), table.sd(key, row), table.mean(f"{key}_limit", row)
    shown = words.of(key, value)
    if value is not None and sd is not None and len(found.done[row]) > 1:
        shown += f" ± {words.of(key, sd)}"
    return shown if limit is None else f"{shown} (limit {words.of(key, limit)})"


def _named(found: Result, row: str) -> str:
    """A row that has another number of seeds than the block says so."""
    return row if len(found.done[row]) == found.seeds else f"{row} ({words.plural(len(found.done[row]), 'seed')})"


def _block(found: Result) -> str:
    trained = found.block.trained
    # Accuracies and participation side by side would be wider than a page.
    parts = ({"Accuracy": MAIN} if trained else {}) | {"Participation, beside its limit": COUNTS}
    tables = [
        _table(
            ["Method", *(_heading(key) for key in keys)],
            [(_named(found, row), *(cell(found, key, row) for key in keys)) for row in found.block.rows],
            caption,
        )
        for caption, keys in parts.items()
    ]
    if trained:
        read = {found.credited if rule == "credited" else rule: None for rule, _ in found.readings}
        names = [f"{rule}, {n}" for rule in read for n in dict.fromkeys(n for _, n in found.readings)]
        rows = [
            (row, *(words.of("utility_cv", table.mean("utility_cv", row)) for table in found.readings.values()))
            for row in found.block.rows
        ]
        tables.append(_table(["Method", *names], rows, "Utility CV by rule and normaliser"))
    note = f'<p class="notice">{TOO_SMALL}</p>' if found.too_small else ""
    labels = "".join(f"<li>{svg.escape(row)}: {svg.escape(ROWS[row].label)}</li>" for row in found.block.rows)
    return (
        f"<section><h2>{svg.escape(found.block.says[0].upper() + found.block.says[1:])}</h2>"
        f"<p>All rows for {found.seeds} of {found.block.seeds} seeds.</p>{note}"
        + "".join(tables)
        + f"<details><summary>Rows</summary><ul>{labels}</ul></details></section>"
    )


def _table_1(rows: Sequence[Mapping[str, Any]]) -> str:
    head = list(rows[0])
    cells = [[words.brief(row[key]) if key != "round" else str(row[key]) for key in head] for row in rows]
    said = "Rounds 1 to 20 of the paper's rule; fairness variance as the authors log it, Var(u/(Tπ))"
    return f"<section><h2>Table 1</h2>{_table([h.replace('_', ' ') for h in head], cells, said)}</section>"
