"""Files of logs as lazy tables: CSV, Parquet, JSON lines, JSON and stdin, told apart by content, bounded everywhere.

Every byte passes once through SHA-256, which also finds what is no UTF-8 text and where; nothing is unpickled, and what
is packed may not unpack to more than its size allows (`traces.plain`).
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fedparity.audit.consoles import is_console, rows_of_console
from fedparity.audit.shapes import rows_of_json
from fedparity.core.errors import ConfigError, InputError
from fedparity.traces.plain import MOST_BYTES, read_data

if TYPE_CHECKING:
    import polars as pl

STDIN = "-"
MOST_COLUMNS = 20_000
MOST_ROWS = 100_000_000
MOST_JSON = 1 << 28
"""Bytes of JSON that is held in memory as a whole."""
CHUNK = 1 << 22
SEPARATORS = ",;\t|"
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One file of a log: its name without the folders, its digest, and its rows."""

    name: str
    sha256: str
    table: pl.LazyFrame
    text: bytes | Path | None = None
    """A CSV file, kept to find a row that breaks it."""

    def fault(self, message: str, row: int | None = None) -> InputError:
        """One line, whatever columns are called, with the file and, counted from 1 after the heading, the row."""
        message = " ".join(message.split())
        return InputError(f"{self.name}: {message}" if row is None else f"{self.name}: row {row}: {message}")

    def columns(self) -> dict[str, pl.DataType]:
        """Names and types of the columns."""
        import polars as pl

        try:
            return dict(self.table.collect_schema())
        except (pl.exceptions.PolarsError, OSError) as error:
            raise self.broken(error) from error

    def collect(self, expressions: Sequence[pl.Expr] | pl.LazyFrame) -> pl.DataFrame:
        """Some columns of all rows, read in pieces."""
        import polars as pl

        lazy = expressions if isinstance(expressions, pl.LazyFrame) else self.table.select(expressions)
        try:
            return lazy.collect(engine="streaming")
        except (pl.exceptions.PolarsError, OSError) as error:
            raise self.broken(error) from error

    def broken(self, error: Exception) -> InputError:
        """What a table that cannot be read is refused with: its first bad row, if that can be found."""
        if self.text is not None:
            for row, cells, wanted in _wrong_rows(self.text):
                return self.fault(f"{cells} cells for {wanted} columns; correct the row, or its quotes", row)
        reason = " ".join(str(error).split())[:160]
        return self.fault(f"cannot be read as a table ({reason}); write it again as CSV in UTF-8")


def _wrong_rows(text: bytes | Path) -> Iterator[tuple[int, int, int]]:
    """Rows with more cells than there are columns."""
    opened = io.StringIO(text.decode(), newline="") if isinstance(text, bytes) else text.open(encoding="utf-8-sig")
    with opened as lines:
        first = lines.readline()
        lines.seek(0)
        rows = csv.reader(lines, delimiter=separator(first))
        try:
            wanted = len(next(rows))
            for number, cells in enumerate(rows, start=1):
                if len(cells) > wanted:
                    yield number, len(cells), wanted
        except (csv.Error, StopIteration):
            return


def separator(heading: str) -> str:
    """What stands most often between the names of a heading."""
    return max(SEPARATORS, key=heading.count)


def open_source(path: str) -> Source:
    """A file, or stdin for `-`."""
    try:
        import polars as pl
    except ImportError as error:
        raise ConfigError("logs are read by polars; pip install 'fedparity[report]'") from error
    if path == STDIN:
        data = sys.stdin.buffer.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise InputError(f"stdin: more than {MOST_BYTES >> 30} GiB; write it to a file")
        return _in_memory("stdin", data)
    where = Path(path)
    head = head_of(where)
    if where.suffix == ".gz":
        data = read_data(where)
        inner = _in_memory(where.name, data)
        return Source(inner.name, digest_of(where), inner.table, inner.text)
    if head.startswith(b"PAR1"):
        return _parquet(where.name, digest_of(where), pl.scan_parquet(where))
    kind = _kind(where.name, head)
    if kind == "json":
        data = where.read_bytes() if where.stat().st_size <= MOST_JSON else b""
        return _json(where.name, data, where.stat().st_size)
    with where.open("rb") as file:
        digest = _text_digest(where.name, file)
    return _of_text(kind, where.name, digest, where, head)


def head_of(where: Path) -> bytes:
    """The beginning of a file."""
    try:
        if where.is_dir():
            raise InputError(f"{where}: is a folder but not a run; give a file, or a folder that fedparity run made")
        with where.open("rb") as file:
            return file.read(1 << 24)
    except FileNotFoundError:
        raise InputError(f"{where}: no such file; check the path") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{where}: cannot be read ({getattr(error, 'strerror', None) or error})") from error


def _in_memory(name: str, data: bytes) -> Source:
    import polars as pl

    if data.startswith(b"\x1f\x8b"):
        raise InputError(f"{name}: is packed; unpack it first (zcat FILE | fedparity audit -), or name it .gz")
    if data.startswith(b"PAR1"):
        return _parquet(name, hashlib.sha256(data).hexdigest(), pl.scan_parquet(io.BytesIO(data)))
    kind = _kind(name, data[: 1 << 24])
    if kind == "json":
        return _json(name, data, len(data))
    digest = _text_digest(name, io.BytesIO(data))
    return _of_text(kind, name, digest, data, data[: 1 << 24])


def _of_text(kind: str, name: str, digest: str, data: bytes | Path, head: bytes) -> Source:
    if kind == "jsonl":
        return _jsonl(name, digest, data)
    if kind == "csv":
        return _csv(name, digest, data, head)
    opened: Any = io.BytesIO(data) if isinstance(data, bytes) else data.open("rb")
    with opened as file:
        return Source(name, digest, rows_of_console(name, (line.decode("utf-8-sig") for line in file)))


def _kind(name: str, head: bytes) -> str:
    """CSV unless its beginning says otherwise; an object that ends with its line is the first of many."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        raise InputError(f"{name}: is empty; give a log with one line of names and one row per client and round")
    if is_console(head):
        return "console"
    if start.startswith(b"["):
        return "json"
    if not start.startswith(b"{"):
        return "csv"
    try:
        json.loads(start.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return "json"
    return "jsonl" if b"\n" in start.strip() or not _nested(start) else "json"


def _nested(start: bytes) -> bool:
    """Whether a single object holds whole tables (a history) rather than one row."""
    return any(isinstance(value, (dict, list)) for value in json.loads(start.partition(b"\n")[0]).values())


def digest_of(where: Path) -> str:
    """SHA-256 of a file's bytes."""
    with where.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _text_digest(name: str, file: BinaryIO) -> str:
    """SHA-256 of a text, refused with its line where it is none."""
    digest, decoder, lines = hashlib.sha256(), codecs.getincrementaldecoder("utf-8")(), 1
    while part := file.read(CHUNK):
        digest.update(part)
        held = len(decoder.getstate()[0])
        try:
            decoder.decode(part)
        except UnicodeDecodeError as error:
            line = lines + part.count(b"\n", 0, max(0, error.start - held))
            raise InputError(f"{name}: line {line}: not UTF-8 text; save the file as UTF-8 (iconv -t utf-8)") from None
        if b"\0" in part:
            line = lines + part.count(b"\n", 0, part.index(b"\0"))
            raise InputError(f"{name}: line {line}: not text (a zero byte); give CSV, JSON lines or Parquet")
        lines += part.count(b"\n")
    if decoder.getstate()[0]:
        raise InputError(f"{name}: line {lines}: not UTF-8 text (it ends in half a character); save it as UTF-8")
    return digest.hexdigest()


def _parquet(name: str, digest: str, table: pl.LazyFrame) -> Source:
    import polars as pl

    source = Source(name, digest, table)
    columns = source.columns()
    rows = int(source.collect([pl.len()]).item())
    if rows > MOST_ROWS or len(columns) > MOST_COLUMNS:
        raise source.fault(f"{rows} rows x {len(columns)} columns, more than {MOST_ROWS} x {MOST_COLUMNS}; split it")
    return source


def _csv(name: str, digest: str, data: bytes | Path, head: bytes) -> Source:
    import polars as pl

    line, newline, _ = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
    heading = line.decode(errors="replace").rstrip("\r")
    mark = separator(heading)
    if not newline and len(head) == 1 << 24:
        raise InputError(f"{name}: line 1 is longer than 16 MiB; give one line of names, then one line per row")
    if (count := heading.count(mark) + 1) > MOST_COLUMNS:
        raise InputError(
            f"{name}: line 1: {count} columns, more than {MOST_COLUMNS}; write one row per round and client instead"
        )
    try:
        names = next(csv.reader([heading], delimiter=mark), [])
    except csv.Error as error:
        raise InputError(f"{name}: line 1 is not CSV ({error}); check it") from error
    twice = next((one for i, one in enumerate(names) if one in names[:i]), None) if count < 1000 else None
    if twice is not None or len(set(names)) < len(names):
        raise InputError(f"{name}: line 1: two columns are called {twice!r}; rename one")
    # Newlines inside quotes are rare; reading in parallel needs none of it switched off, since polars counts quotes.
    table = pl.scan_csv(
        data if isinstance(data, Path) else io.BytesIO(data),
        separator=mark,
        infer_schema=False,
        null_values=None,
        raise_if_empty=False,
    )
    if '""' in heading:  # polars leaves quotes in names doubled
        table = table.rename(lambda one: one.replace('""', '"'))
    return Source(name, digest, table, data)


def _jsonl(name: str, digest: str, data: bytes | Path) -> Source:
    import polars as pl

    opened: Any = io.BytesIO(data) if isinstance(data, bytes) else data.open("rb")
    with opened as file:
        first = json.loads(file.readline().removeprefix(b"\xef\xbb\xbf") or b"null")
        flat = isinstance(first, dict) and not any(isinstance(value, (dict, list)) for value in first.values())
        if flat and not _surrogates(file):
            try:  # fast, but it wants one type per column and does not say which line breaks that
                table = pl.scan_ndjson(data if isinstance(data, Path) else io.BytesIO(data), infer_schema_length=10_000)
                return Source(name, digest, table.collect(engine="streaming").lazy())
            except (pl.exceptions.PolarsError, OSError):
                pass
        file.seek(0)
        rows = [_line(name, number, line) for number, line in enumerate(file, start=1) if line.strip()]
    return Source(name, digest, rows_of_json(name, rows))


def _surrogates(file: BinaryIO) -> bool:
    """Whether a text escapes characters in two halves: polars takes one half alone for a character."""
    file.seek(0)
    before = b""
    while part := file.read(CHUNK):
        if SURROGATE.search(before + part):
            return True
        before = part[-8:]
    return False


def _line(name: str, number: int, line: bytes) -> Any:
    try:
        return json.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: row {number}: not JSON ({error}); write one object per line") from None


def _json(name: str, data: bytes, size: int) -> Source:
    if size > MOST_JSON:
        raise InputError(f"{name}: {size} bytes of JSON in one piece, more than {MOST_JSON}; write JSON lines or CSV")
    digest = _text_digest(name, io.BytesIO(data))
    try:
        value = json.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not JSON ({error}); write JSON lines: one object per row") from None
    return Source(name, digest, rows_of_json(name, value))
