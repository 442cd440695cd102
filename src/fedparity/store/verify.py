"""Whether a run is what was written: every chain, digest and file, and the ledger that follows from the journal."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedparity.core.errors import FedparityError
from fedparity.core.journal import from_json
from fedparity.core.ledger import Ledger
from fedparity.store.disk import Disk
from fedparity.store.manifest import differences
from fedparity.store.store import Store


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found."""

    rounds: int
    """Rounds whose line, digest and chain are right."""
    problems: tuple[str, ...]
    closed: bool
    """False: the run was not closed cleanly, so files other than its database were not compared with a manifest."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(folder: str | Path, classes_of: Callable[[Store, str], dict[str, type]]) -> Verdict:
    """Check a run; `classes_of` says which dataclasses the state of a method may hold."""
    disk = Disk(Path(folder))
    changed = differences(disk)
    problems = [f"{name}: differs from what was written, or is not in the manifest" for name in changed or []]
    if "run.db" in (changed or []):
        return Verdict(0, tuple(problems), closed=True)
    problems += [name for name in _misnamed(disk) if name not in (changed or [])]
    rounds = 0
    with Store.read(folder) as store:
        try:
            problems += store.broken_states()
            contenders = store.contenders()
        except FedparityError as error:
            return Verdict(0, (*problems, str(error)), closed=changed is not None)
        for seed, method in contenders:
            try:
                lines = [c.line for c in store.rounds(seed, method)]
                rounds += len(lines)
                problems += _state_problems(store, seed, method, lines, classes_of(store, method))
            except FedparityError as error:
                problems.append(str(error))
            except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
                problems.append(f"{folder}: {method}, seed {seed}: makes no sense ({type(error).__name__}: {error})")
    return Verdict(rounds, tuple(dict.fromkeys(problems)), closed=changed is not None)


def _misnamed(disk: Disk) -> Iterator[str]:
    """Array files that are not what their names say, with or without a manifest."""
    for name in disk.names():
        if name.startswith("arrays/") and name.endswith(".safetensors"):
            sha256 = name.removeprefix("arrays/").removesuffix(".safetensors")
            if hashlib.sha256(disk.read(name)).hexdigest() != sha256:
                yield f"{name}: differs from what was written"


def _state_problems(store: Store, seed: int, method: str, lines: list[str], classes: dict[str, type]) -> Iterator[str]:
    where = f"{method}, seed {seed}"
    state: Any = store.load(seed, method, classes)
    if state is None or state.round != len(lines):
        yield f"{where}: {len(lines)} rounds in the journal, but its state is at {getattr(state, 'round', 0)}"
        return
    records = [from_json(line) for line in lines]
    if hashlib.sha256(state.params.tobytes()).hexdigest() != records[-1].model_sha256:
        yield f"{where}: the model is not the one the journal names"
    if Ledger.replay(state.ledger.num_clients, records) != state.ledger:
        yield f"{where}: the ledger does not follow from the journal"
