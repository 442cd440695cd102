"""Writing results: whole or not at all, and with an error that names the path."""

from __future__ import annotations

import gzip
import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedparity.core import checks
from fedparity.core.errors import OutputError
from fedparity.core.system import NEW, system


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8, packed if the name ends in .gz, so that readers see the old file or the whole new one."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise OutputError(f"{path}: cannot be written ({error}); remove what is not text") from error
    write_bytes(path, gzip.compress(data, mtime=0) if Path(path).suffix == ".gz" else data)


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that readers see the old one or the whole new one."""
    checks.path("path", path)
    target = Path(path)
    temporary: Path | None = None
    try:
        hidden = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
        handle = system().open(hidden, NEW)  # not mkstemp, whose files only their owner may read
        temporary = hidden
        try:
            write_all(handle, data)
        finally:
            system().close(handle)
        system().replace(hidden, target)
        temporary = None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"{path}: cannot be written ({reason}); choose a folder you may write to") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_all(handle: int, data: Any) -> None:
    """Write bytes, or an array laid out in one piece, to the last."""
    view = memoryview(data).cast("B")
    while view:
        view = view[system().write(handle, view) :]


def make_folder(path: str | os.PathLike[str]) -> None:
    """Make a folder and those above it; one that is there is fine."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: cannot be made ({error.strerror}); choose a folder you may write to") from error


def remove(path: str | os.PathLike[str]) -> None:
    """Remove a file; one that is not there is fine."""
    try:
        with suppress(FileNotFoundError):
            system().unlink(Path(path))
    except OSError as error:
        raise OutputError(f"{path}: cannot be removed ({error.strerror}); remove it yourself") from error


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A CSV file as text; floats read back exactly, nothing is written for None, and no cell can start a formula."""
    return "".join(_line(row) for row in (columns, *rows))


def _line(row: Sequence[object]) -> str:
    # Not csv.writer, which leaves a carriage return unquoted and so breaks the row.
    return (",".join(map(_quoted, map(_cell, row))) or '""') + "\n"


def _quoted(cell: str) -> str:
    return f'"{cell.replace(chr(34), chr(34) * 2)}"' if any(c in cell for c in ',"\r\n') else cell


def _cell(value: object) -> str:
    if value is None or value != value:  # noqa: PLR0124 - NaN is an empty cell
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
    return repr(float(value)) if isinstance(value, float) else str(value)
