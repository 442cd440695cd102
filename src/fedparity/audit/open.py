"""From files to an audit: tables of any supported shape, or the folder of a run."""

from __future__ import annotations

import contextlib
import gzip
import io
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedparity.audit import fields
from fedparity.audit.audit import Audit
from fedparity.audit.files import STDIN, Source, digest_of, head_of, open_source
from fedparity.audit.groups import MIN_GROUP
from fedparity.audit.log import Log, Origin, build_log
from fedparity.audit.rows import Rows, crossed, read_rows
from fedparity.core import checks
from fedparity.core.errors import ConfigError, InputError
from fedparity.core.trace import Trace
from fedparity.experiment.run import MethodRun, Run
from fedparity.metrics import influence
from fedparity.traces import load_trace
from fedparity.traces.plain import MAGIC
from fedparity.traces.tables import is_table

DATABASE = "run.db"
HEAD = 65536
"""Bytes of a file by which a trace is told."""
EVENTS = re.compile(rb'"messages"\s*:\s*"\d{4}-\d\d-\d\d')
"""How FLASH writes what a device did."""
OPTIONS = {name: name for name in ("where", "cohort", "rounds", "seed", "min_group")} | {"map": "columns"}
"""Options as a result keeps them, and the arguments they are."""


def open_audit(
    logs: Sequence[str | Path],
    *,
    columns: Sequence[str] = (),
    where: Sequence[str] = (),
    clients: str | Path | None = None,
    online: str | Path | None = None,
    cohort: int | None = None,
    rounds: str | None = None,
    seed: int = 0,
    min_group: int = MIN_GROUP,
) -> Audit:
    """The audit of a log in one or more files, or of a stored run.

    columns: `field=column`, where the log calls a field otherwise. where: `column=value`, rows to keep. clients: a
    table of everybody registered. online: a table of who was there. rounds: `first-last`, what the log covers.
    """
    mapped = fields.parse_map(columns, "--map", fields.FIELDS)
    kept = fields.parse_map(where, "--where")
    if cohort is not None:
        checks.at_least("cohort", cohort, 1)
    checks.at_least("min_group", min_group, 1)
    given: dict[str, Any] = {"map": sorted(columns), "where": sorted(where), "cohort": cohort, "rounds": rounds}
    given |= {"seed": seed, "min_group": min_group}
    given |= {"clients": clients and Path(clients).name, "online": online and Path(online).name}
    options = {key: value for key, value in given.items() if value not in (None, [], "")}
    if not logs:
        raise ConfigError("no log was given; give a file, a run's folder, or - for stdin")
    folder = next((Path(path) for path in logs if (Path(path) / DATABASE).is_file()), None)
    if folder is not None:
        odd = next((name for name in ("map", "cohort", "rounds", "clients", "online") if name in options), None)
        if odd is not None:
            raise ConfigError(f"--{odd} is for tables, but {folder} is a run, which says all that itself; leave it out")
        if len(logs) > 1:
            raise ConfigError(f"{folder} is a run; audit it alone")
        log, outcome, erased = _of_run(folder, kept)
        return Audit(log, outcome, seed, min_group, options, erased)
    for path in logs:
        if _is_trace(path):
            raise InputError(
                f"{path}: a trace says who was online, not who was asked; give a log of requests, and this by --online"
            )
    sources = [open_source(str(path)) for path in logs]
    rows = read_rows(sources, mapped, kept)
    origins = [Origin(source.name, source.sha256) for source in sources]
    beside: dict[str, Rows] = {}
    if online is not None:
        beside["there"], origin = _presence(online, mapped, rows if rounds is None else None, rounds)
        origins.append(origin)
    if clients is not None:
        source = _beside(clients)
        beside["register"] = _register(source, mapped)
        origins.append(Origin(source.name, source.sha256, "clients"))
    span = None if rounds is None else _span(rounds)
    log = build_log(rows, sources=origins, cohort=cohort, span=span, **beside)
    return Audit(log, None, seed, min_group, options)


def _span(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not (dash and first.strip().isdecimal() and last.strip().isdecimal() and int(first) <= int(last)):
        raise ConfigError(f"rounds={text!r} must be written FIRST-LAST, as in 0-199")
    return int(first), int(last)


def _presence(
    path: str | Path, mapped: Mapping[str, str], rows: Rows | None, rounds: str | None
) -> tuple[Rows, Origin]:
    """Who was there: a table of rounds and clients, or a trace file of any kind, replayed for the log's rounds."""
    where = Path(path)
    if not _is_trace(path):
        source = _beside(path)
        return read_rows([source], _usable(source.columns(), mapped), {}), Origin(source.name, source.sha256, "online")
    first, last = (int(rows.round.min()), int(rows.round.max())) if rows is not None else _span(rounds or "")
    trace = load_trace(where, last + 1)
    when = np.repeat(np.arange(last + 1), trace.sizes())
    kept = when >= first
    names = trace.names or tuple(map(str, range(trace.num_clients)))
    replayed = Rows(names, when[kept], trace.clients[kept].astype(np.int64), {}, {})
    return replayed, Origin(where.name, digest_of(where), "online")


def _is_trace(path: str | Path) -> bool:
    """Whether a file says when devices were online, in one of the forms that `load_trace` reads."""
    if str(path) == STDIN:
        return False
    head = head_of(Path(path))
    if Path(path).suffix == ".gz":
        with contextlib.suppress(OSError, EOFError, zlib.error):  # what is broken is said by who reads it
            head = gzip.GzipFile(fileobj=io.BytesIO(head)).read(HEAD)
    if head.startswith((MAGIC.encode(), b"\x80")) or EVENTS.search(head, 0, HEAD):
        return True
    names = head[:4096].partition(b"\n")[0].decode(errors="replace").lower().split(",")
    return is_table(head[:4096]) and not {name.strip() for name in names} & set(fields.WIDE_ROUND)


def _beside(path: str | Path) -> Source:
    if str(path) == STDIN:
        raise ConfigError("only the log itself is read from stdin; give a file")
    return open_source(str(path))


def _usable(there: Mapping[str, Any], mapped: Mapping[str, str]) -> dict[str, str]:
    """What of a column map is about a table beside the log."""
    return {field: column for field, column in mapped.items() if column in there}


def _register(source: Source, mapped: Mapping[str, str]) -> Rows:
    """A table of clients, perhaps with their groups; it has no rounds."""
    import polars as pl

    table, there = crossed(source.table, source.columns(), mapped)
    columns = fields.columns_of(there, _usable(there, mapped), source.name)
    if "client" not in columns:
        raise source.fault(f"no column is the client; its columns: {', '.join(list(there)[:8])}")
    wanted = [pl.col(columns[name]).alias(name) for name in ("client", "group") if name in columns]
    return read_rows([replace(source, table=table.select(*wanted, pl.lit(0).alias("round")))], {}, {})


def _of_run(folder: Path, where: dict[str, str]) -> tuple[Log, Any, int]:
    """One method and seed of a stored run, and how many clients were erased from it."""
    run = Run.open(folder)
    for key in where:
        if key not in {"method", "seed"}:
            raise ConfigError(f"--where {key}=... is for tables; a run is chosen by method and seed")
    method = where.get("method", run.methods[0] if len(run.methods) == 1 else None)
    if method not in run.methods:
        raise ConfigError(f"{folder}: holds {', '.join(run.methods)}; choose one: --where method={run.methods[0]}")
    found = {one.seed: one for one in run.of(method) if one.records}
    seed = where.get("seed", str(run.spec.seed))
    if seed not in map(str, found):
        shown = ", ".join(map(str, found)) or "none"
        raise InputError(f"{folder}: {method} has no round with seed {seed}; its seeds: {shown}")
    one = found[int(seed)]
    if not all(record.told for record in one.records):
        raise InputError(
            f"{folder}: an erasure left only totals of its rounds; audit a copy from before it, if you may"
        )
    notes = [f"of the run, method {method} with seed {seed}"] if len(run.runs) > 1 else []
    gone = len(run.erased)
    if gone:
        notes.append(f"clients that were erased: {gone}; measures count them as never online, sentences leave them out")
    return _run_log(run, one, folder, notes), run.outcome(one), gone


def _run_log(run: Run, one: MethodRun, folder: Path, notes: list[str]) -> Log:
    n = run.trace.num_clients
    journal = Origin(f"{folder.name}: journal of {one.method}, seed {one.seed}", one.head)
    return Log(
        names=run.trace.names or tuple(map(str, range(n))),
        first=one.records[0].round,
        online=Trace.from_rounds(n, (record.available for record in one.records)),
        asked=Trace.from_rounds(n, (record.selected for record in one.records)),
        ledger=one.ledger,
        cohort=run.spec.cohort,
        slots=run.spec.asked,
        influence=influence(one.records, n),
        accuracy=one.accuracy,
        known=frozenset({"available", "selected", "completed", "failed", "utility", "weight"}),
        assumptions=tuple(notes),
        sources=(journal,),
        key=int(one.head[:15], 16),
    )
