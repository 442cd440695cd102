"""A run as tables that any tool reads: CSV, JSON lines or Parquet; client names can be replaced by pseudonyms.

    rounds          one row per round, method and seed: the log
    clients         one row per client, method and seed: the ledger, with its limit and accuracy
    participation   a row for each client online in each round: selected, completed, failed, chance, ...

A pseudonym is the start of HMAC-SHA256(key, name): the same key gives the same ones; without it nobody can go back.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from fedparity.core.errors import ConfigError
from fedparity.core.files import csv_text, make_folder, write_bytes, write_text
from fedparity.experiment.metrics_log import COLUMNS
from fedparity.experiment.results import CLIENT_COLUMNS, client_rows
from fedparity.experiment.run import Run
from fedparity.store.manifest import outside

Format: TypeAlias = Literal["csv", "jsonl", "parquet"]
PARTICIPATION = (
    "method",
    "seed",
    "round",
    "client",
    "selected",
    "completed",
    "failed",
    "probability",
    "utility",
    "weight",
)
SHORTEST_KEY = 16


class Names:
    """What clients are called in an export."""

    def __init__(self, run: Run, key: bytes | None) -> None:
        if key is not None and len(key) < SHORTEST_KEY:
            raise ConfigError(f"the key has {len(key)} bytes but must have at least {SHORTEST_KEY}; make a longer one")
        names = run.trace.names or tuple(map(str, range(run.trace.num_clients)))
        self._names = names if key is None else tuple(_pseudonym(key, name) for name in names)
        self._back = dict(zip(names, self._names, strict=True))
        self.secret = key is not None
        """Whether names are pseudonyms: rows then stand in their order, since the clients' order would undo them."""

    def of(self, client: int) -> str:
        """The name of a client by number."""
        return self._names[client]

    def replaced(self, name: str) -> str:
        """The name that stands for a name."""
        return self._back[name]


def _pseudonym(key: bytes, name: str) -> str:
    return hmac.new(key, name.encode(), hashlib.sha256).hexdigest()[:20]


def export_folder(run: Path) -> Path:
    """Where the tables of a run go if nobody says where."""
    return run.with_name(f"{run.name}-export")


def export(run: Run, folder: str | Path, form: Format = "csv", key: bytes | None = None) -> list[Path]:
    """Write the three tables; the files written."""
    target = outside(Path(folder))
    make_folder(target)
    names = Names(run, key)
    at = CLIENT_COLUMNS.index("client")
    tables = {
        "rounds": ((*COLUMNS, "seed"), [[*row, one.seed] for one in run.runs for row in one.log]),
        "clients": (
            CLIENT_COLUMNS,
            _ordered([[*row[:at], names.replaced(str(row[at])), *row[at + 1 :]] for row in client_rows(run)], names),
        ),
        "participation": (PARTICIPATION, list(_participation(run, names))),
    }
    return [_write(target / f"{name}.{form}", form, columns, rows) for name, (columns, rows) in tables.items()]


def _ordered(rows: Iterable[list[object]], names: Names) -> list[list[object]]:
    """Rows of clients.csv, those of one method and seed by pseudonym where there are any."""
    return sorted(rows, key=lambda row: tuple(map(str, row[:3]))) if names.secret else list(rows)


def _participation(run: Run, names: Names) -> Iterator[list[object]]:
    for one in run.runs:
        for record in one.records:
            chance = dict(zip(record.selected.tolist(), record.probs.tolist(), strict=True))
            utility = dict(zip(record.completed.tolist(), record.utility.tolist(), strict=True))
            failed = dict(record.failed)
            weight: dict[int, float] = {}
            for client, value in zip(record.row_clients.tolist(), record.row_weights.tolist(), strict=True):
                weight[client] = weight.get(client, 0.0) + value
            online = record.available.tolist()
            for client in sorted(online, key=names.of) if names.secret else online:
                yield [
                    one.method, one.seed, record.round, names.of(client), client in chance, client in utility,
                    failed.get(client, ""), chance.get(client), utility.get(client), weight.get(client),
                ]  # fmt: skip


def _write(path: Path, form: Format, columns: Sequence[str], rows: list[list[object]]) -> Path:
    clean = [[None if v != v else v for v in row] for row in rows]  # noqa: PLR0124 - NaN is not known
    if form == "csv":
        write_text(path, csv_text(columns, clean))
    elif form == "jsonl":
        records = (dict(zip(columns, row, strict=True)) for row in clean)
        write_text(path, "".join(json.dumps(record, allow_nan=False) + "\n" for record in records))
    else:
        write_bytes(path, _parquet(columns, clean))
    return path


def _parquet(columns: Sequence[str], rows: list[list[object]]) -> bytes:
    import io

    try:
        import polars as pl
    except ImportError:
        raise ConfigError("parquet needs polars: pip install 'fedparity[report]', or choose csv or jsonl") from None
    out = io.BytesIO()
    pl.DataFrame(rows, schema=list(columns), orient="row", infer_schema_length=None).write_parquet(out)
    return out.getvalue()
