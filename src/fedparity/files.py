"""Writing results: whole or not at all, and with an error that names the path."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from fedparity.errors import OutputError


def write_text(path: str | Path, text: str) -> None:
    """Write a file so that readers see the old one or the whole new one."""
    write_bytes(path, text.encode())


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write a file so that readers see the old one or the whole new one."""
    target = Path(path)
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, target)  # noqa: PTH105 - the pair of mkstemp
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise OutputError(f"{path}: cannot be written ({error.strerror}); choose a folder you may write to") from error


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A CSV file as text; floats read back exactly, nothing is written for None, and no cell can start a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: object) -> str:
    if value is None or value != value:  # noqa: PLR0124 - NaN is an empty cell
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
    return repr(float(value)) if isinstance(value, float) else str(value)
