"""The tables' section of docs/paper.md, from paper.json and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedparity.core.errors import InputError
from fedparity.metrics.table import printed
from fedparity.paper.tables.rows import OURS_WITH, ROWS, TABLE_2, TABLE_2_COLUMNS
from fedparity.report.words import plural

GOAL = dict(zip(TABLE_2_COLUMNS, TABLE_2[OURS_WITH], strict=True))
"""The paper's best row."""
NEAR = {"selection_gap": 1.02, "gini": 1.06}
"""How near the limit a row has to be, as a factor."""
LEAST_DIFFERENCE = -0.01
STILL = 0.001
"""The relative change below which a column is called constant."""
COLUMNS = ("avg_client_accuracy", "own_accuracy", "worst_accuracy", "jain_accuracy", "selection_gap", "gini")
HEADS = ("client accuracy", "own model", "worst tenth", "Jain (accuracy)", "gap (limit)", "Gini (limit)")
READINGS = (("availability", "u/π"), ("participation", "u/S"), ("imputed", "u"))
Entry = Mapping[str, Any]


def tables_section(folder: Path) -> str:
    """Tables 1 and 2 and Figures 1 to 3 as far as they are stored; empty if nothing is."""
    path = folder / "paper.json"
    if not path.exists():
        return ""
    try:
        return "\n".join(_section(json.loads(path.read_text(encoding="utf-8"))))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not what `fedparity paper` writes ({error}); make it again") from error


def _section(found: Entry) -> Iterator[str]:
    command = f"fedparity paper all --scale {found['scale']}"
    yield "## Tables and figures\n"
    yield (
        "Accuracies are on test data, means over the last tenth of the rounds and over seeds; the rates of all rows"
        " were tuned alike on held-back training samples and other seeds. All numbers: `docs/paper/table2.csv`, utility"
        " in every reading: `docs/paper/table2_utility.csv`, pictures beside them. The command, with `--trace` for the"
        " replay:\n"
    )
    yield f"```sh\n{command} --trace flash_000_099_events.json.gz --page docs/paper.md  # not run here\n```\n"
    yield from _missing(found["missing"])
    yield _table(("the paper", "here", "verdict", "shown by"), list(_verdicts(found)))
    yield from _blocks(found["blocks"])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"


def _missing(missing: Sequence[Entry]) -> Iterator[str]:
    if missing:
        told = "; ".join(
            f"{one['name']} ({one['says']}): all rows for {one['seeds']} of {one['seeds_wanted']} seeds"
            for one in missing
        )
        yield f"**Not complete**: {told}. The same command goes on where it was.\n"


# -- verdicts ---------------------------------------------------------------------------------------------------------


def _verdicts(found: Entry) -> Iterator[tuple[str, str, str, str]]:
    scale = found["scale"]
    table_2 = f"`fedparity paper table2 --scale {scale}`"
    main = _first(found["blocks"], "A-paper_like")
    if main is not None:
        yield from ((*line, table_2) for line in _table_2(main, found))
    short = _first(found["blocks"], "A-paper_like-50")
    if short is not None and _ours(short):
        yield (*_fifty(short), table_2)
    for block in found["blocks"]:
        if block["name"] == "participation-flash":
            yield (*_replay(block), table_2)
    if "table1" in found:
        yield (*_table_1(found["table1"]), f"`fedparity paper table1 --scale {scale}`")
    if "figure1" in found:
        yield (*_figure_1(found["figure1"]), f"`fedparity paper figure1 --scale {scale}`")


def _first(blocks: Iterable[Entry], name: str) -> Entry | None:
    return next((block for block in blocks if block["name"] == name), None)


def _ours(block: Entry) -> list[Entry]:
    return [row for row in block["rows"] if ROWS[row["method"]].ours and row["seeds"]]


def _table_2(block: Entry, found: Entry) -> Iterator[tuple[str, str, str]]:
    reached = [row for row in _ours(block) if _reaches(row)]
    goal = "Table 2, ours: accuracy 80.43 %, Jain .975, gap .31 in one row (Gini: the limit's)"
    best = max(reached or _ours(block), key=lambda row: row["avg_client_accuracy"])
    said = f"{_told(best)} ({block['says']}, {best['seeds']} seeds)"
    yield goal, said, "reproduced, on test data" if reached else "**not reproduced**"
    for one in found.get("differences", ()):
        if one["block"] == block["name"] and one["method"] == best["method"] and one["low"] is not None:
            apart = f"{one['method']} − {one['best_baseline']}: {100 * one['difference']:+.2f} points"
            interval = f" (95 % {100 * one['low']:+.2f} to {100 * one['high']:+.2f}, {one['pairs']} seeds)"
            held = one["low"] >= LEAST_DIFFERENCE
            yield (
                "Fairness costs no accuracy",
                apart + interval,
                "reproduced, within a point of the best baseline" if held else "**not reproduced**",
            )
    limit = best["gini_limit"]
    yield "Gini .04", f"the limit of this availability is {limit:.3f}", "impossible while all slots are filled"
    yield _utility(block["name"], best["method"], found["blocks"])
    yield (
        "Utility CV .64/.42/.28/.19 with Jain .42/.78/.88/.94",
        "J = 1/(1 + CV²) gives .709/.850/.927/.965",
        "impossible together",
    )


def _fifty(block: Entry) -> tuple[str, str, str]:
    """What T=50, the paper's own number of rounds, can give."""
    best = max(_ours(block), key=lambda row: row["avg_client_accuracy"])
    reached = best["avg_client_accuracy"] >= GOAL["avg_client_accuracy"]
    said = f"best of ours: {_told(best)} ({block['says']}, {plural(best['seeds'], 'seed')})"
    return (
        "80.43 % after 50 rounds",
        said,
        "reproduced" if reached else "**not reproduced**: 250 updates are too few here",
    )


def _utility(name: str, method: str, blocks: Sequence[Entry]) -> tuple[str, str, str]:
    """The best row's utility CV in every reading, and the readings in which the paper's is possible."""
    spreads = {
        f"{entry['utility']}/{entry['normaliser']}": row["utility_cv"]
        for entry in blocks
        if entry["name"] == name and entry["utility"] is not None
        for row in entry["rows"]
        if row["method"] == method and row["utility_cv"] is not None
    }
    told = ", ".join(f"{reading} {value:.2f}" for reading, value in spreads.items())
    held = [reading for reading, value in spreads.items() if value <= GOAL["utility_cv"]]
    verdict = f"possible as {', '.join(held)} only" if held else "**not reproduced** in any reading"
    return "Utility CV .19", f"`{method}` by rule/normaliser: {told}", verdict


def _reaches(row: Entry) -> bool:
    good = all(row[key] is not None and row[key] >= GOAL[key] for key in ("avg_client_accuracy", "jain_accuracy"))
    near = row["gini"] <= NEAR["selection_gap"] * row["gini_limit"] + 0.005
    return bool(good and row["selection_gap"] <= GOAL["selection_gap"] and near)


def _told(row: Entry) -> str:
    shown = " / ".join(_shown(row, key) for key in ("avg_client_accuracy", "jain_accuracy", "selection_gap", "gini"))
    return f"`{row['method']}` {shown}"


def _shown(row: Entry, key: str) -> str:
    limit = row.get(f"{key}_limit")
    return printed(key, row.get(key)) + ("" if limit is None else f" ({printed(key, limit)})")


def _replay(block: Entry) -> tuple[str, str, str]:
    there = [row for row in block["rows"] if row["seeds"] and row["method"] != "oracle"]
    full = [row for row in there if row["fill"] >= row["fill_limit"] - 1e-6]
    best = min(full, key=lambda row: row["gini"])
    ratio = {key: best[key] / best[f"{key}_limit"] for key in NEAR}
    least = all(best[key] <= min(row[key] for row in full) + 5e-4 for key in NEAR)
    held = ROWS[best["method"]].ours and least and all(ratio[key] <= most for key, most in NEAR.items())
    said = (
        f"least of all rows at full fill: `{best['method']}` {_shown(best, 'selection_gap')} / {_shown(best, 'gini')}"
    )
    said += f", {ratio['selection_gap']:.3f} × and {ratio['gini']:.3f} × the limit"
    said += f" ({block['says']}, {block['seeds']} draws)"
    told = "Gap .31 and Gini .04 on the phones' trace"
    return told, said, "impossible; as near as 1.02 × / 1.06 × the limit" if held else "impossible; **not that near**"


def _table_1(rows: Sequence[Entry]) -> tuple[str, str, str]:
    last, late = rows[-1], rows[9:]
    decays, stays = "surrogate_decaying", "surrogate_never_cleared"
    said = (
        f"round {last['round']}: accuracy {last['accuracy']:.1%}, Var(u/(Tπ)) {last['fairness_variance']:.4f}; from"
        f" round {late[0]['round'] if late else 1} on surrogates lie between {_range(late or rows, decays)} decaying,"
        f" between {_range(late or rows, stays)} never cleared"
    )
    constant = _spread(late, decays) < STILL
    return (
        "Table 1: accuracy 74.38 % after 20 rounds; surrogates 22.99 in each of rounds 10 to 20",
        said,
        "reproduced" if constant else "impossible with e^(−λδ): what decays is never the same in eleven rounds",
    )


def _range(rows: Sequence[Entry], key: str) -> str:
    return f"{min(row[key] for row in rows):.3g} and {max(row[key] for row in rows):.3g}"


def _spread(rows: Sequence[Entry], key: str) -> float:
    values = [row[key] for row in rows] or [0.0, 1.0]
    return float((max(values) - min(values)) / (max(values) or 1.0))


def _figure_1(found: Entry) -> tuple[str, str, str]:
    told = "; ".join(
        f"{name}: {one['below_5pct']} of {one['devices']} below 5 %, {one['below_half']} below half"
        for name, one in found["populations"].items()
    )
    verdict = "213/1000 fits Wi-Fi never cleared; over 60 % below half is far too few either way"
    return (
        "Figure 1: 213 of 1,000 devices below 5 %, over 60 % below half",
        told,
        verdict if len(found["populations"]) > 1 else "needs the trace",
    )


# -- blocks -----------------------------------------------------------------------------------------------------------


def _blocks(blocks: Sequence[Entry]) -> Iterator[str]:
    yield _table(
        ("as printed", *HEADS[:1], *HEADS[3:], "utility CV"),
        [
            (
                name,
                *(printed(k, v) for k, v in zip(TABLE_2_COLUMNS, values, strict=True) if k in COLUMNS),
                str(values[2]),
            )
            for name, values in TABLE_2.items()
        ],
    )
    for name in dict.fromkeys(block["name"] for block in blocks):
        entries = [block for block in blocks if block["name"] == name]
        yield from _block(entries)


def _named(row: Entry, block: Entry) -> str:
    """A row that has another number of seeds than the block says so."""
    return str(row["method"]) if row["seeds"] == block["seeds"] else f"{row['method']} ({plural(row['seeds'], 'seed')})"


def _block(entries: Sequence[Entry]) -> Iterator[str]:
    first = entries[0]
    note = f" **{first['note']}.**" if first["note"] else ""
    seeds = f"all rows for {first['seeds']} of {first['seeds_wanted']} seeds"
    yield f"### {first['name']}\n\n{first['says']}; {seeds}.{note}\n"
    keys = COLUMNS if first["utility"] is not None else COLUMNS[4:]
    heads = list(HEADS if first["utility"] is not None else HEADS[4:])
    spreads: dict[str, list[str]] = {row["method"]: [] for row in first["rows"]}
    for entry in entries:
        if entry["utility"] is not None:
            heads.append(
                f"CV {entry['utility'].replace('global_loss_drop', 'loss')}, {dict(READINGS)[entry['normaliser']]}"
            )
            for row in entry["rows"]:
                spreads[row["method"]].append(printed("utility_cv", row["utility_cv"]))
    rows = [
        (_named(row, first), *(_shown(row, k) for k in keys), *spreads[row["method"]])
        for row in first["rows"]
        if row["seeds"]
    ]
    yield _table(("method", *heads), rows)
