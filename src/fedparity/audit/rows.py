"""Rows of a log as arrays: which column is what, every cell read or refused with its row, clients numbered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedparity.audit import fields
from fedparity.audit.fields import BAD, FLAGS, LONGEST_NAME, NUMBERS, RUN_KEYS
from fedparity.audit.files import Source
from fedparity.audit.shapes import (
    as_metrics,
    by_client,
    is_matrix,
    is_metrics,
    is_turned,
    metric_columns,
    turned,
    unpivoted,
)
from fedparity.core.errors import InputError
from fedparity.core.types import FloatArray

if TYPE_CHECKING:
    import polars as pl

CROSS = "+"
"""Between the columns whose combinations are the groups."""
FEW, LONG = 6, 40
"""Columns that are named, and characters of each."""
MATRIX = "a matrix: one column per client, 1 asked, 0 not asked, empty not there"


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """One entry per row of the log; a field that is not in it is not in `columns`."""

    names: tuple[str, ...]
    """Clients in the order of their names; `client` holds places in it."""
    round: NDArray[np.int64]
    client: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]]
    """Flags as int8 (-1: not said), numbers and times as float64 (NaN: not said)."""
    groups: Mapping[str, str]
    """The group of each client that has one: of several, the last in order."""
    notes: tuple[str, ...] = ()
    """What was assumed to read it."""
    matrix: bool = False
    """It was a matrix of clients, in which nobody is left out."""
    name: str = "the log"
    """Of its first file."""


def read_rows(sources: Sequence[Source], mapped: Mapping[str, str], where: Mapping[str, str]) -> Rows:
    """All rows of all files, as one log."""
    import polars as pl

    parts, told, matrix = [], list[str](), False
    for source in sources:
        frame, said, wide = _typed(source, mapped, where)
        parts.append(frame)
        told += said
        matrix = matrix or wide
    whole = pl.concat(parts, how="diagonal") if len(parts) > 1 else parts[0]
    if not len(whole):
        filters = " with " + ", ".join(f"{k}={v}" for k, v in where.items()) if where else ""
        raise InputError(f"{sources[0].name}: has no row{filters}; give a log with one row per round and client")
    names = whole["client"].unique().sort()
    client = whole["client"].cast(pl.Enum(names)).to_physical().cast(pl.Int64).to_numpy()
    columns = {name: _array(whole[name]) for name in whole.columns if name not in {"round", "client", "group"}}
    groups = dict[str, str]()
    if "group" in whole.columns:
        pairs = whole.select("client", "group").drop_nulls().unique()
        groups = dict(sorted(pairs.iter_rows()))
        if len(pairs) > len(groups):
            told.append(f"{_several(pairs)} in more than one group: of its groups the last by name is taken")
    notes = tuple(dict.fromkeys(told))
    return Rows(
        tuple(names.to_list()), whole["round"].to_numpy(), client, columns, groups, notes, matrix, sources[0].name
    )


def _array(column: pl.Series) -> NDArray[Any]:
    if column.name in FLAGS:
        return column.fill_null(-1).to_numpy()
    return column.fill_null(float("nan")).to_numpy()


def _typed(source: Source, mapped: Mapping[str, str], where: Mapping[str, str]) -> tuple[pl.DataFrame, list[str], bool]:
    """The fields of one file, what was assumed, and whether it is a matrix."""
    import polars as pl

    table, dtypes = crossed(*_chosen(source, where), mapped)
    columns = {} if is_metrics(list(dtypes)) else fields.columns_of(dtypes, mapped, source.name)
    if "client" not in columns and "round" in columns and (named := metric_columns(list(dtypes))):
        table = as_metrics(source.name, table, named, columns["round"])
        dtypes = dict(table.collect_schema())
    if is_metrics(list(dtypes)):
        table = by_client(source, table, list(dtypes))
        dtypes = dict(table.collect_schema())
        columns = fields.columns_of(dtypes, mapped, source.name)
    wide = is_matrix(list(dtypes), columns)
    if wide:
        table = unpivoted(table, list(dtypes), columns)
        dtypes = {columns["round"]: dtypes[columns["round"]], "client": pl.String(), "cell": pl.String()}
        columns = {"round": columns["round"], "client": "client", "selected": "cell"}
    elif is_turned(list(dtypes), columns):
        wide, table = True, turned(table, list(dtypes), columns)
        dtypes = dict(table.collect_schema())
        columns = {**{field: field for field in columns}, "round": "round", "selected": "cell"}
    for field in ("round", "client"):
        if field not in columns:
            raise source.fault(f"no column is the {field}; its columns: {_some(dtypes)}; say which: --map {field}=NAME")
    dated = "time" in columns and dtypes[columns["time"]] == pl.String and _dated(source, table, columns["time"])
    cells = [fields.reading(field, column, dtypes[column], dated=dated) for field, column in columns.items()]
    frame = source.collect(table.select(cells))
    for field, column in columns.items():
        if frame.select(_wrong(field).any()).item():
            raise _bad_cell(source, table, field, columns, dtypes[column])
    if wide:
        return _matrix(frame), [MATRIX], True
    return frame, _renamed(columns) + _unused(columns, [key for key in dtypes if key not in where], mapped), False


def _chosen(source: Source, where: Mapping[str, str]) -> tuple[pl.LazyFrame, dict[str, pl.DataType]]:
    """The rows that are wanted, of one run alone."""
    import polars as pl

    table, dtypes = source.table, source.columns()
    for column, value in where.items():
        if column not in dtypes:
            raise source.fault(f"has no column {column!r} for --where; its columns: {_some(dtypes)}")
        table = table.filter(pl.col(column).cast(pl.String) == value)
    _one_run(source, table, [key for key in dtypes if key in RUN_KEYS and key not in where])
    return table, dtypes


def _matrix(frame: pl.DataFrame) -> pl.DataFrame:
    """An empty cell is a client that was not there; a matrix without any says nothing of who was."""
    import polars as pl

    there = frame["selected"].is_not_null()
    return frame if there.all() else frame.with_columns(there.cast(pl.Int8).alias("available"))


def _renamed(columns: Mapping[str, str]) -> list[str]:
    other = [f"{field} from {column!r}" for field, column in columns.items() if column.strip().lower() != field]
    return [f"columns of other names: {', '.join(other)}"] if other else []


def crossed(
    table: pl.LazyFrame, dtypes: dict[str, pl.DataType], mapped: Mapping[str, str]
) -> tuple[pl.LazyFrame, dict[str, pl.DataType]]:
    """With a column of groups that are combinations, if the map asks for one (`group=region+model`)."""
    import polars as pl

    name = mapped.get("group", "")
    parts = name.split(CROSS)
    if len(parts) == 1 or name in dtypes or not set(parts) <= set(dtypes):
        return table, dtypes
    cells = [fields.reading("group", part, dtypes[part]) for part in parts]
    joined = pl.concat_str(cells, separator=f" {CROSS} ")  # of unknown parts the combination is unknown
    return table.with_columns(joined.alias(name)), {**dtypes, name: pl.String()}


def _unused(columns: Mapping[str, str], there: Sequence[str], mapped: Mapping[str, str]) -> list[str]:
    """Columns that nothing is known of: one of them may be what is said to be missing."""
    used = {*columns.values(), *mapped.get("group", "").split(CROSS), *RUN_KEYS}
    other = [name for name in there if name not in used]
    shown = ", ".join(repr(name[:LONG]) for name in other[:FEW])
    shown += f" and {len(other) - FEW} more" if len(other) > FEW else ""
    return [f"columns not used: {shown} (--map FIELD=COLUMN, if one of them is a field)"] if other else []


def _several(pairs: pl.DataFrame) -> str:
    count = int(pairs["client"].value_counts()["count"].gt(1).sum())
    return f"{count:,} {'client is' if count == 1 else 'clients are'}"


def _dated(source: Source, table: pl.LazyFrame, column: str) -> bool:
    """Whether times are written as dates, by the first rows: looking for dates in ten million numbers takes long."""
    import polars as pl

    first = source.collect(table.select(pl.col(column).drop_nulls().head(100)))[column]
    return bool(first.cast(pl.Float64, strict=False).null_count())


def _wrong(field: str) -> pl.Expr:
    """Whether a typed cell carries the mark of a bad one."""
    import polars as pl

    cell = pl.col(field)
    if field == "client":
        return cell.is_null() | (cell.str.len_chars() > LONGEST_NAME)
    if field == "group":
        return cell.str.len_chars().fill_null(0) > LONGEST_NAME
    if field == "round" or field in FLAGS:
        return (cell == BAD).fill_null(value=False)
    return cell.is_infinite().fill_null(value=False)


def _bad_cell(
    source: Source, table: pl.LazyFrame, field: str, columns: Mapping[str, str], dtype: pl.DataType
) -> InputError:
    """The first row that cannot be read: looked for only once there is one."""
    import polars as pl

    column = columns[field]
    raw = pl.col(column).cast(pl.String).alias("__raw")
    where = [pl.col(columns[key]).cast(pl.String).alias(f"__{key}") for key in ("round", "client")]
    numbered = table.select(fields.reading(field, column, dtype), raw, *where).with_row_index("__row")
    found = source.collect(numbered.filter(_wrong(field)).sort("__row").head(1))
    text = found["__raw"][0]
    shown = "empty" if text is None else repr(text if len(text) <= 40 else f"{text[:39]}…")
    rule = fields.RULES.get(field, f"must have at most {LONGEST_NAME} characters; shorten it")
    if column == "cell":  # a matrix, whose rows are rounds or clients
        client, round = found["__client"][0] or "", found["__round"][0]
        return source.fault(
            f"round {round}, client {client[:40]!r}: {shown} {rule}; no matrix? say which column holds the clients: "
            "--map client=NAME"
        )
    return source.fault(f"{column}={shown} {rule}", int(found["__row"][0]) + 1)


def _one_run(source: Source, table: pl.LazyFrame, keys: Sequence[str]) -> None:
    """Refuse a log of several runs of which none is chosen."""
    import polars as pl

    if not keys:
        return
    found = source.collect(table.select(pl.col(key).cast(pl.String).unique().sort().implode() for key in keys))
    for key in keys:
        values = found[key][0].drop_nulls().to_list()
        if len(values) > 1:
            raise source.fault(
                f"holds {len(values)} runs by {key!r} ({_some(values)}); choose: --where {key}={values[0]}"
            )


def _some(names: Any, most: int = 8) -> str:
    shown = list(names)
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")


def numbers_of(rows: Rows, field: str) -> FloatArray | None:
    """A column of numbers, if the log has one that says anything."""
    values = rows.columns.get(field)
    if values is None or field not in (*NUMBERS, "time"):
        return None
    return values if np.isfinite(values).any() else None
