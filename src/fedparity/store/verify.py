"""Whether a run is what was written: every chain, digest and file, and the ledger that follows from the journal.

A run that is being written is read as it was at one moment. Its writer goes on removing arrays that it no longer
needs, so that an array that is gone says nothing there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from fedparity.core.errors import FedparityError, InputError
from fedparity.core.journal import from_json
from fedparity.core.ledger import Ledger
from fedparity.store.arrays import FOLDER, copy_of, file_of
from fedparity.store.database import DATABASE, DamagedError
from fedparity.store.disk import Disk
from fedparity.store.heads import HEADS
from fedparity.store.lock import reading
from fedparity.store.manifest import MANIFEST, differences
from fedparity.store.store import Store

Classes: TypeAlias = Callable[[Store, str], dict[str, type]]
"""Which dataclasses the state of a stored method may hold."""
TRIES = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found."""

    rounds: int
    """Rounds whose line, digest and chain are right."""
    problems: tuple[str, ...]
    closed: bool
    """False: the run was not closed cleanly, so files other than its database were not compared with a manifest."""
    running: bool = False
    """Whether another process is writing the run: it was checked as far as it had come."""
    digest: str | None = None
    """The digest of the whole run (`Store.digest`); None if it is too damaged to have one, or never began."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(folder: str | Path, classes_of: Classes) -> Verdict:
    """Check a run; `classes_of` says which dataclasses the state of a method may hold."""
    for _ in range(TRIES):
        before = _is_running(folder)
        verdict = _verify(folder, classes_of)
        if verdict.ok or before == verdict.running == _is_running(folder):
            break  # else somebody opened or closed it meanwhile: what was compared belongs to no moment
    return verdict


def _is_running(folder: str | Path) -> bool:
    with reading(Path(folder)) as running:
        return running


def _verify(folder: str | Path, classes_of: Classes) -> Verdict:
    disk = Disk(Path(folder))
    changed = differences(disk)
    there = [name for name in changed or [] if disk.path(name).exists()]
    problems = [f"{name}: is missing" for name in changed or [] if name not in there]
    problems += [f"{name}: differs from what was written, or is not in the manifest" for name in there]
    if DATABASE in (changed or []):
        return Verdict(0, tuple(problems), closed=True)
    rounds, digest = 0, None
    with Store.read(folder) as store:
        problems += _witness_problems(store, closed=changed is not None)
        problems += [name for name in _misnamed(disk, running=store.running) if name not in (changed or [])]
        contenders: list[tuple[int, str]] = []
        try:
            problems += store.checkpoints.broken()
            contenders = sorted({*store.contenders(), *store.heads.known})
            digest = store.digest() if store.origin.begun or contenders else None
        except FedparityError as error:
            problems.append(str(error))
        for seed, method in contenders:
            try:
                lines = [c.line for c in store.rounds(seed, method)]
                rounds += len(lines)
                store.facts(seed, method)
                problems += _state_problems(store, seed, method, lines, classes_of(store, method))
            except FedparityError as error:
                problems.append(str(error))
            except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
                problems.append(f"{folder}: {method}, seed {seed}: makes no sense ({type(error).__name__}: {error})")
        return Verdict(rounds, tuple(dict.fromkeys(problems)), changed is not None, store.running, digest)


def _witness_problems(store: Store, *, closed: bool) -> Iterator[str]:
    """What the files beside the database say of it, and whether an erasure was left half done."""
    if store.heads_differ(closed=closed):
        yield f"{HEADS}: differs from what was written"
    if store.heads.closed and not closed:
        yield f"{MANIFEST}: is missing, although the run was closed"
    begun = store.erasing()
    if begun is not None and not store.running:
        fix = f"fedparity erase {store.disk.root} {begun}"
        yield f"the erasure of client {begun.client} is unfinished; finish it with: {fix}"


def _misnamed(disk: Disk, *, running: bool) -> Iterator[str]:
    """Array files that are not what their names say, with or without a manifest."""
    for name in disk.names():
        if name.startswith(FOLDER) and name.endswith(".safetensors"):
            try:
                found = hashlib.sha256(disk.read(name)).hexdigest()
            except InputError:
                if running:
                    continue
                raise
            if name not in {file_of(found), copy_of(found)}:
                yield f"{name}: differs from what was written"


def _state_problems(store: Store, seed: int, method: str, lines: list[str], classes: dict[str, type]) -> Iterator[str]:
    where = f"{method}, seed {seed}"
    try:
        state: Any = store.load(seed, method, classes)
    except InputError as error:
        if store.running and not isinstance(error, DamagedError):
            return  # its arrays are gone, since the writer is rounds ahead
        raise
    if state is None or state.round != len(lines):
        yield f"{where}: {len(lines)} rounds in the journal, but its state is at {getattr(state, 'round', 0)}"
        return
    records = [from_json(line) for line in lines]
    if hashlib.sha256(state.params.tobytes()).hexdigest() != records[-1].model_sha256:
        yield f"{where}: the model is not the one the journal names"
    if Ledger.replay(state.ledger.num_clients, records) != state.ledger:
        yield f"{where}: the ledger does not follow from the journal"
