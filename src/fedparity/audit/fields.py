"""What the columns of a participation log are called, and how their cells are read.

Every cell that cannot be read becomes a mark (`BAD`) that no good cell can have, so that a log of ten million rows is
read once; only a log that has one is read again, to say which row it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from fedparity.core.errors import ConfigError, unknown

if TYPE_CHECKING:
    import polars as pl

FLAGS: Final = ("available", "selected", "completed", "failed")
NUMBERS: Final = ("utility", "loss", "accuracy", "samples", "weight")
FIELDS: Final = ("round", "client", *FLAGS, *NUMBERS, "group", "time")
"""What a log can say."""
RUN_KEYS: Final = ("method", "seed", "run", "run_id", "run_uuid", "experiment")
"""Columns that tell several runs of one log apart."""
ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "round": ("server_round", "round_num", "round_id", "rnd", "step", "_step", "iteration"),
    "client": ("client_id", "clientid", "cid", "device", "device_id", "node_id", "partition_id", "user", "user_id"),
    "available": ("online", "is_available", "eligible"),
    "selected": ("asked", "sampled", "chosen", "is_selected"),
    "completed": ("returned", "succeeded", "success", "aggregated"),
    "failed": ("failure", "dropped", "dropout", "error"),
    "loss": ("train_loss",),
    "samples": ("num_examples", "num_samples", "examples"),
    "time": ("timestamp", "_timestamp", "datetime"),
    "weight": ("aggregation_weight",),
}
"""Names that other systems use."""
TRUE, FALSE = ("1", "true", "yes", "t", "y", "1.0"), ("0", "false", "no", "f", "n", "0.0", "none", "null", "nan", "NaN")
BAD: Final = -1
INF: Final = float("inf")
_WORDS: Final = dict.fromkeys(
    (form for word in TRUE for form in (word, word.title(), word.upper())), 1
) | dict.fromkeys((form for word in FALSE for form in (word, word.title(), word.upper())), 0)
MOST_ROUND = 2**53
LONGEST_NAME = 500
ZONE: Final = r"([+-])(\d\d):?(\d\d)"
"""How a date ends that says how far east its clock is."""
WIDE_ROUND = ("round", *ALIASES["round"])
RULES: Final[Mapping[str, str]] = {
    "round": "must be a whole number of at least 0; correct the row, or name the right column with --map round=NAME",
    "client": f"must be a name of 1 to {LONGEST_NAME} characters; fill it in, or use --map client=NAME",
    "time": "must be seconds or a date such as 2026-01-31T12:00:00; correct the row, or leave the column out",
    **dict.fromkeys(FLAGS, "must be 1 or 0, true or false; correct the row"),
    **dict.fromkeys(NUMBERS, "must be a finite number or empty; correct the row"),
}
"""What a cell must be, and what to do about one that is not."""


def parse_map(given: Iterable[str], option: str, known: Iterable[str] | None = None) -> dict[str, str]:
    """The pairs of `--map field=column` and the like, each once."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise ConfigError(f"{option} {text!r} must be written NAME=VALUE")
        if known is not None and name not in known:
            raise unknown(f"field in {option}", name, known)
        if name in found:
            raise ConfigError(f"{option} gives {name!r} twice; keep one")
        found[name] = value
    return found


def columns_of(names: Iterable[str], mapped: Mapping[str, str], source: str) -> dict[str, str]:
    """Which column holds which field: what is mapped, else the field's own name, else a name that others use."""
    there = list(names)
    found: dict[str, str] = {}
    for field in FIELDS:
        if field in mapped:
            if mapped[field] not in there:
                raise ConfigError(f"{source}: {unknown(f'column in --map {field}=', mapped[field], there)}")
            found[field] = mapped[field]
            continue
        near = [name for name in there if name.strip().lower() == field]
        near = near or [name for name in there if name.strip().lower() in ALIASES.get(field, ())]
        near = [name for name in near if name not in mapped.values()]
        if len(near) > 1:
            shown = " and ".join(map(repr, near[:2]))
            raise ConfigError(f"{source}: columns {shown} could both be the {field}; say which: --map {field}=NAME")
        if near:
            found[field] = near[0]
    return found


def reading(field: str, column: str, dtype: pl.DataType, *, dated: bool = True) -> pl.Expr:
    """How a column becomes a field: its typed cells, with the mark of a bad one; `dated`: times may be dates."""
    import polars as pl

    raw = pl.col(column)
    if field == "round":
        text = raw if dtype != pl.String else raw.str.strip_chars()
        number = text.cast(pl.Float64, strict=False)
        whole = pl.when(number == number.floor()).then(number.cast(pl.Int64, strict=False))  # 3.0 is 3
        found = pl.coalesce(text.cast(pl.Int64, strict=False), whole) if dtype == pl.String else whole
        return pl.when(found.is_between(0, MOST_ROUND)).then(found).otherwise(BAD).fill_null(BAD).alias(field)
    if field in {"client", "group"}:
        if dtype.is_float():
            raw = (
                pl.when(raw == raw.floor())
                .then(raw.cast(pl.Int64, strict=False).cast(pl.String))
                .otherwise(raw.cast(pl.String))
            )
        return _text(raw.cast(pl.String)).alias(field)
    if field in FLAGS:
        return _flag(field, raw, dtype).alias(field)
    if field == "time":
        return _time(raw, dtype, dated).alias(field)
    number = (_text(raw) if dtype == pl.String else raw).cast(pl.Float64, strict=False)
    wrong = number.is_infinite() | (number.is_null() & raw.is_not_null() & _says(raw, dtype))
    return pl.when(wrong).then(INF).otherwise(number.fill_nan(None)).alias(field)


def _text(raw: pl.Expr) -> pl.Expr:
    import polars as pl

    stripped = raw.str.strip_chars()
    return pl.when(stripped.str.len_bytes() > 0).then(stripped)


def _says(raw: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Whether a cell is more than empty, or a word for nothing."""
    import polars as pl

    if dtype != pl.String:
        return pl.lit(value=True)
    return ~raw.str.strip_chars().str.to_lowercase().is_in(["", "nan", "none", "null"])


def _flag(field: str, raw: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """1, 0, null or BAD; a failure may be any word: its reason."""
    import polars as pl

    if dtype == pl.Boolean:
        return raw.cast(pl.Int8)
    word = raw.cast(pl.String, strict=False).str.strip_chars()
    other = 1 if field == "failed" else BAD
    return pl.when(word != "").then(word.replace_strict(_WORDS, default=other, return_dtype=pl.Int8))


def _time(raw: pl.Expr, dtype: pl.DataType, dated: bool) -> pl.Expr:  # noqa: FBT001
    """Seconds; infinity where a cell says something else."""
    import polars as pl

    if dtype.is_temporal():
        return raw.cast(pl.Datetime("us"), strict=False).dt.epoch("us") / 1e6
    if dtype != pl.String:
        number = raw.cast(pl.Float64, strict=False)
        return pl.when(number.is_infinite()).then(INF).otherwise(number.fill_nan(None))
    text = _text(raw)
    number = text.cast(pl.Float64, strict=False)
    if not dated:
        return pl.when((number.is_null() & _says(raw, dtype)) | number.is_infinite()).then(INF).otherwise(number)
    plain = text.str.replace(rf"(Z|{ZONE})$", "").str.replace("T", " ")
    date = plain.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False, time_unit="us").dt.epoch("us") / 1e6
    found = pl.coalesce(number, date - _east(text))
    return pl.when((found.is_null() & _says(raw, dtype)) | found.is_infinite()).then(INF).otherwise(found)


def _east(text: pl.Expr) -> pl.Expr:
    """Seconds by which a date's clock is ahead of UTC; 0 where it does not say: devices of one log may be anywhere."""
    import polars as pl

    sign, hours, minutes = (text.str.extract(f"{ZONE}$", part) for part in (1, 2, 3))
    seconds = 3600 * hours.cast(pl.Int64) + 60 * minutes.cast(pl.Int64)
    return pl.when(sign == "-").then(-seconds).otherwise(seconds).fill_null(0)
