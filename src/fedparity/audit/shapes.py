"""Logs that are no plain tables: rounds that list their clients, histories, journals, matrices, metrics by name.

    one object per round     {"round": 3, "available": [...], "selected": [...], "completed": [...]}
    our journal.jsonl        {"method": ..., "seed": ..., "record": {"round": ..., ...}}
    rounds by number         {"1": {"selected": [...]}, "2": ...}
    a Flower history         {"metrics_distributed_fit": {"selected": [[1, [...]], [2, [...]]], ...}}
    metrics by name          key, step, value, with keys such as client/17/selected (MLflow)
    the same as columns      _step, client/17/selected, ... (Weights & Biases), perhaps with the run's name before
    a matrix                 round, then one column per client: 1 asked, 0 not asked, empty not there; or turned:
                             client, then one column per round

Each becomes one row per round and client.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedparity.audit.fields import ALIASES, FIELDS, FLAGS, RUN_KEYS, WIDE_ROUND
from fedparity.core.checks import is_encodable
from fedparity.core.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from fedparity.audit.files import Source

Row = dict[str, Any]
WHOLE = 2**62
HISTORY = ("metrics_distributed_fit", "metrics_distributed", "metrics_centralized", "train_metrics_clientapp")
"""Parts of a Flower result in which a strategy may have logged who was asked."""
WHO = {alias: flag for flag in FLAGS for alias in (flag, *ALIASES[flag])} | {"clients": "selected"}
"""Lists of clients by the names they go by."""
TOLD = tuple(field for field in FIELDS if field not in {"round", "client"})
METRIC = r"^(?:(.*) - )?(?:client|cid|device|node)[ _/.:-]*(.+)[/._:](" + "|".join(TOLD) + ")$"
"""A metric called after a client and what it tells of it; exports of charts put the run's name before it."""
ROUND_NAME = re.compile(r"(?i:round|rnd|step|r|t)?[ _-]*(\d{1,15})")


def rows_of_json(name: str, value: Any) -> pl.LazyFrame:
    """A table of what some JSON lists."""
    import polars as pl

    rows = list(_rows(name, value))
    if not rows:
        raise InputError(
            f"{name}: names no client; log who was asked, as in"
            ' {"round": 1, "selected": ["a", "b"]}, one object per line'
        )
    columns: dict[str, list[Any]] = {
        key: [row.get(key) for row in rows] for key in dict.fromkeys(k for r in rows for k in r)
    }
    return pl.LazyFrame({key: _column(name, key, cells) for key, cells in columns.items()})


def _column(name: str, key: str, cells: Sequence[Any]) -> pl.Series:
    """Cells as texts, or as numbers where all of them are."""
    import polars as pl

    if all(cell is None or (type(cell) is int and abs(cell) < WHOLE) for cell in cells):
        return pl.Series(cells, dtype=pl.Int64)
    if all(cell is None or isinstance(cell, (int, float)) for cell in cells):
        try:
            return pl.Series([None if cell is None else float(cell) for cell in cells], dtype=pl.Float64)
        except OverflowError:
            pass
    texts = [None if cell is None else str(cell) for cell in cells]
    wrong = next((i for i, text in enumerate(texts) if text is not None and not is_encodable(text)), None)
    if wrong is not None or not is_encodable(key):
        at = "" if wrong is None else f"row {wrong + 1}: "
        raise InputError(f"{name}: {at}{key!r} holds half a character that UTF-8 cannot write; rename it")
    return pl.Series(texts, dtype=pl.String)


def _rows(name: str, value: Any) -> Iterator[Row]:
    if isinstance(value, list):
        for number, one in enumerate(value, start=1):
            if not isinstance(one, dict):
                raise InputError(f"{name}: row {number}: must be an object such as {{'round': 1, 'client': 'a'}}")
            yield from _of_round(name, number, one)
        return
    if not isinstance(value, dict):
        raise InputError(f"{name}: holds {type(value).__name__}, not rows; write one object per round and client")
    if value and all(key.isdecimal() for key in value):
        for key, one in value.items():
            inner = one if isinstance(one, dict) else {"selected": one}
            yield from _of_round(name, int(key), {"round": int(key), **inner})
        return
    if any(part in value for part in HISTORY):
        yield from _of_history(name, value)
        return
    lists = {key: cells for key, cells in value.items() if isinstance(cells, list)}
    if lists and len(lists) == len(value) and len({len(cells) for cells in lists.values()}) == 1:
        yield from (dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True))
        return
    yield from _of_round(name, 1, value)


def _of_round(name: str, number: int, given: Mapping[str, Any]) -> Iterator[Row]:
    """Rows of an object that is a row itself, or a round with lists of clients."""
    record = given.get("record")
    if isinstance(record, dict):
        yield from _of_round(name, number, {**{k: given[k] for k in RUN_KEYS if k in given}, **record})
        return
    listed = {key: WHO[key.lower()] for key in given if key.lower() in WHO and isinstance(given[key], (list, dict))}
    if not listed:
        yield {key: one for key, one in given.items() if not isinstance(one, (list, dict))}
        return
    same = {k: v for k, v in given.items() if k.lower() in (*WIDE_ROUND, *RUN_KEYS, "time") and not isinstance(v, list)}
    flags = dict.fromkeys(listed.values(), 0)
    found: dict[str, Row] = {}
    for key, flag in listed.items():
        for entry in given[key]:
            # A failure is a client, or a client with its reason.
            client = entry[0] if isinstance(entry, list) and entry else entry
            if isinstance(client, (list, dict)) or client is None:
                raise InputError(f"{name}: row {number}: {key!r} must list clients by name or number")
            found.setdefault(str(client), {**same, "client": str(client), **flags})[flag] = 1
    _add_numbers(found, given, next((given[key] for key, flag in listed.items() if flag == "completed"), []))
    yield from found.values()


def _add_numbers(found: dict[str, Row], given: Mapping[str, Any], completed: Sequence[Any]) -> None:
    """What our journal says of those whose update was used, and how much each row counted."""
    for key in ("utility", "loss"):
        values = given.get(key)
        for client, number in zip(completed, values if isinstance(values, list) else (), strict=False):
            found[str(client)][key] = number
    rows = given.get("rows")
    if isinstance(rows, dict) and isinstance(rows.get("client"), list) and isinstance(rows.get("weight"), list):
        for client, weight in zip(rows["client"], rows["weight"], strict=False):
            if str(client) in found and isinstance(weight, (int, float)):
                found[str(client)]["weight"] = found[str(client)].get("weight", 0.0) + weight


def _of_history(name: str, value: Mapping[str, Any]) -> Iterator[Row]:
    """Rows of a Flower result, in which who was asked stands among the metrics, if it was logged."""
    rounds: dict[int, dict[str, Any]] = {}
    for part in HISTORY:
        inner = value.get(part)
        if not isinstance(inner, dict):
            continue
        for key, entries in inner.items():
            if key.isdecimal() and isinstance(entries, dict):  # by round, then by metric
                pairs = [(int(key), metric, one) for metric, one in entries.items()]
            elif isinstance(entries, list):  # by metric, then pairs of round and value
                pairs = [(one[0], key, one[1]) for one in entries if _is_pair(one)]
            else:
                continue
            for round, metric, one in pairs:
                if metric.lower() in WHO and isinstance(one, (list, dict)):
                    rounds.setdefault(round, {"round": round})[metric] = one
    if not rounds:
        raise InputError(
            f"{name}: a history that names no client; let the strategy log who was asked as the metric 'selected',"
            " a list of client ids per round"
        )
    for round in sorted(rounds):
        yield from _of_round(name, round, rounds[round])


def _is_pair(entry: Any) -> bool:
    """Whether it is a round with its value."""
    return isinstance(entry, list) and len(entry) == 2 and type(entry[0]) is int


def is_matrix(names: Sequence[str], columns: Mapping[str, str]) -> bool:
    """Whether a table has a round, no client, and nothing else that is known: its other columns are clients."""
    return "round" in columns and len(columns) == 1 and len(names) > 1


def unpivoted(table: pl.LazyFrame, names: Sequence[str], columns: Mapping[str, str]) -> pl.LazyFrame:
    """A matrix as rows: what a cell says stands in `cell`."""
    import polars as pl

    clients = [n for n in names if n != columns["round"] and not n.endswith(("__MIN", "__MAX")) and n not in RUN_KEYS]
    texts = table.with_columns(pl.col(name).cast(pl.String) for name in clients)
    return texts.unpivot(clients, index=columns["round"], variable_name="client", value_name="cell")


def is_turned(names: Sequence[str], columns: Mapping[str, str]) -> bool:
    """Whether a table has a client, no round, and columns that are called after rounds."""
    rest = [name for name in names if name not in columns.values()]
    known = "client" in columns and columns.keys() <= {"client", "group"}
    return known and bool(rest) and all(ROUND_NAME.fullmatch(name.strip()) for name in rest)


def turned(table: pl.LazyFrame, names: Sequence[str], columns: Mapping[str, str]) -> pl.LazyFrame:
    """Such a matrix as rows: what a cell says stands in `cell`."""
    import polars as pl

    rounds = [name for name in names if name not in columns.values()]
    texts = table.with_columns(pl.col(name).cast(pl.String) for name in rounds)
    index = {column: pl.col(column).alias(field) for field, column in columns.items()}
    rows = texts.unpivot(rounds, index=list(index), variable_name="__round", value_name="__cell")
    return rows.select(
        *index.values(), pl.col("__round").str.extract(r"(\d+)\s*$").alias("round"), pl.col("__cell").alias("cell")
    )


def metric_columns(names: Sequence[str]) -> list[str]:
    """Columns that are called after a client and a field."""
    return [name for name in names if re.match(METRIC, name)]


def as_metrics(name: str, table: pl.LazyFrame, named: Sequence[str], round: str) -> pl.LazyFrame:
    """Such columns as a table of metrics by name; an empty cell says nothing."""
    import polars as pl

    runs = sorted({found[1] or "" for found in (re.match(METRIC, one) for one in named) if found is not None})
    if len(runs) > 1:
        shown = ", ".join(map(repr, runs[:3]))
        raise InputError(f"{name}: its columns are of {len(runs)} runs ({shown}); keep those of one")
    texts = table.select(pl.col(round), *(pl.col(one).cast(pl.String) for one in named))
    rows = texts.unpivot(named, index=round, variable_name="key", value_name="value").rename({round: "step"})
    return rows.filter(pl.col("value").str.strip_chars() != "")


def is_metrics(names: Sequence[str]) -> bool:
    """Whether a table lists metrics by name (MLflow): key or metric, step, value."""
    low = {name.lower() for name in names}
    return {"step", "value"} <= low and bool({"key", "metric"} & low) and "client" not in low


def by_client(source: Source, table: pl.LazyFrame, names: Sequence[str]) -> pl.LazyFrame:
    """Metrics that are called after a client and a field, as one row per round and client."""
    import polars as pl

    by_name = {name.lower(): name for name in names}
    key = pl.col(by_name.get("key", by_name.get("metric", "")))
    found = table.select(
        pl.col(by_name["step"]).alias("round"),
        key.str.extract(METRIC, 2).alias("client"),
        key.str.extract(METRIC, 3).alias("field"),
        pl.col(by_name["value"]).cast(pl.String).alias("value"),
    ).filter(pl.col("client").is_not_null())
    wide = source.collect(found).pivot("field", index=["round", "client"], values="value", aggregate_function="first")
    return wide.lazy()
