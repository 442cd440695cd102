"""What a run leaves in its folder beside the store, and how the folder is opened for it.

spec.toml  spec.resolved.toml    what was asked for, and with every default filled in
metrics_log.csv                  one row per round, method and seed
clients.csv                      one row per client, method and seed, at the end
journal.jsonl                    every round as it was decided, chained (docs/formats.md)
summary.json                     the table of the report
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedparity.core.errors import ConfigError, InputError
from fedparity.core.files import csv_text, remove, write_text
from fedparity.experiment.inputs import input_digests
from fedparity.experiment.metrics_log import COLUMNS
from fedparity.experiment.run import Run
from fedparity.experiment.spec import Spec
from fedparity.experiment.spec_file import to_toml
from fedparity.experiment.spec_parts import OWN
from fedparity.store import DamagedError, Disk, Store
from fedparity.store.lock import LOCK
from fedparity.store.manifest import DERIVED, MANIFEST, differences

FILES = ("spec.toml", "spec.resolved.toml", "metrics_log.csv", "clients.csv", "journal.jsonl", "summary.json")
REPORT = "report.html"


def open_store(folder: str | Path, spec: Spec, *, resume: bool = False, overwrite: bool = False) -> Store:
    """The folder of a run, locked: new, or the same run to go on with; nothing is ever mixed with another run."""
    target = Path(folder)
    there = (target / "run.db").exists()
    if target.exists() and not there and (not target.is_dir() or any(p.name != LOCK for p in target.iterdir())):
        raise ConfigError(f"{folder} is there but is not a run; give another --out")
    if there and not resume and not overwrite:
        raise ConfigError(
            f"{folder} already holds a run; go on with --resume, replace it with --overwrite, or give --out "
            "(in Python: resume=True, overwrite=True, out=)"
        )
    text = to_toml(spec.resolved())
    damaged: list[str] = []
    if there and resume:
        damaged = _refuse_damage(target)
        with contextlib.suppress(InputError), Store.read(target) as kept:  # one just begun cannot be read, but opened
            kept.origin.same_spec(text)  # before the manifest goes
    store = Store.open(target)
    try:
        store.distrust(damaged)
        if there and overwrite and not resume:
            store.clear()
            for name in DERIVED:
                store.disk.remove(name)
        for name in set(damaged) & set(DERIVED):
            store.disk.remove(name)  # it is written anew
    except BaseException:
        store.abandon()
        raise
    return store


def refuse_change(folder: str | Path, spec: Spec) -> None:
    """Refuse a spec or files that are not those of the run to go on with, before anything is read from them."""
    if spec.data.set != OWN and (Path(folder) / "run.db").exists():
        with contextlib.suppress(InputError), Store.read(folder) as kept:  # what cannot be read is refused when opened
            kept.origin.same_spec(to_toml(spec.resolved()))
            kept.origin.same_inputs(input_digests(spec))


def _refuse_damage(folder: Path) -> list[str]:
    """Refuse a damaged database; damaged arrays are left to the store, which goes back one round, results made anew."""
    found = differences(Disk(folder)) or []
    lost = [name for name in found if name not in {*DERIVED, MANIFEST} and not name.startswith("arrays/")]
    if lost:
        raise DamagedError(f"{folder / lost[0]}: differs from what was written; restore it from a copy")
    return found


CLIENT_COLUMNS = (
    "method", "seed", "client", "online", "selected", "selected_limit", "completed", "failed", "utility",
    "surrogate_utility", "normalised_utility", "last_online", "last_selected", "last_completed", "loss", "accuracy",
    "own_accuracy", "seconds",
)  # fmt: skip


def write_files(run: Run, folder: str | Path, spec_text: str | None = None) -> None:
    """Write every file into a folder made ready; what an earlier run left goes first, each appears whole."""
    target = Path(folder)
    for name in DERIVED:
        remove(target / name)
    write_text(target / "spec.toml", to_toml(run.spec) if spec_text is None else spec_text)
    write_text(target / "spec.resolved.toml", to_toml(run.resolved))
    rows = [(*row, one.seed) for one in run.runs for row in one.log]
    write_text(target / "metrics_log.csv", csv_text([*COLUMNS, "seed"], rows))
    write_text(target / "clients.csv", csv_text(CLIENT_COLUMNS, client_rows(run)))
    lines = ((json.dumps(one.method), one.seed, line) for one in run.runs for line in one.journal)
    journal = (f'{{"method":{method},"seed":{seed},"record":{line}}}\n' for method, seed, line in lines)
    write_text(target / "journal.jsonl", "".join(journal))
    write_text(target / "summary.json", json.dumps(run.summary(), indent=2, allow_nan=False) + "\n")


def client_rows(run: Run) -> Iterator[list[object]]:
    """Rows of clients.csv."""
    names = run.trace.names or tuple(map(str, range(run.trace.num_clients)))
    for one in run.runs:
        led = one.ledger
        columns: list[NDArray[Any]] = [
            led.online, led.selected, run.limit.counts, led.completed, led.failed, led.utility,
            led.surrogate_utility, led.utility * led.rounds / np.where(led.online > 0, led.online, np.nan),
            led.last_online, led.last_selected, led.last_completed, led.loss, one.accuracy,
            one.own_accuracy, led.seconds,
        ]  # fmt: skip
        for client, (name, *values) in enumerate(zip(names, *(c.tolist() for c in columns), strict=True)):
            if client not in run.erased:
                yield [one.method, one.seed, name, *values]
