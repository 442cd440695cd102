"""Erasing a client: what the run knows about it goes, and the chain can still be verified.

Its updates, models, surrogates and ledger row leave the last state; its number, gains and losses leave every journal
line. A rewritten line keeps its old digest in the chain, and the new digest is listed in a chain of erasures of its
own, so that a verifier knows which lines were rewritten by an erasure and that nothing else was. The files of states
before the last are removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fedparity.core.errors import ConfigError
from fedparity.core.tree import classes_in
from fedparity.store.database import DamagedError
from fedparity.store.disk import Disk
from fedparity.store.manifest import differences
from fedparity.store.store import Store

Fresh: TypeAlias = Callable[[Store, str, int], Any]
"""The first state of a stored method, for any number of clients (0: as many as it has)."""


def erase(folder: str | Path, client: int, fresh_of: Fresh) -> int:
    """Erase one client; how many journal lines were rewritten."""
    changed = differences(Disk(Path(folder)))
    if changed:
        raise DamagedError(f"{Path(folder) / changed[0]}: differs from what was written; restore it from a copy")
    with Store.read(folder) as store:
        for _, method in store.contenders():
            most = fresh_of(store, method, 0).ledger.num_clients - 1
            if not 0 <= client <= most:
                raise ConfigError(f"client={client} must be between 0 and {most}")
    with Store.open(folder, create=False) as store:
        states: dict[tuple[int, str], Any] = {}
        for seed, method in store.contenders():
            fresh = fresh_of(store, method, 0)
            state: Any = store.load(seed, method, classes_in(fresh))
            wider = fresh_of(store, method, fresh.ledger.num_clients + 1)
            states[seed, method] = _without(state, fresh, wider, client)
        lines: dict[str, str] = {}
        for seed, method in states:
            for done in store.rounds(seed, method):
                new = redact(done.line, client)
                if new != done.line:
                    lines[f"{seed}/{method}/{done.round}"] = new
        store.rewrite(client, lines, states)
        return len(lines)


def _without(part: Any, fresh: Any, wider: Any, client: int) -> Any:
    """A part of a state with the client's entries as they were at first.

    An array has an entry for each client if it is longer for one client more; one that was not there at first is a list
    of clients. A dict is one by client.
    """
    if isinstance(part, np.ndarray):
        if not isinstance(fresh, np.ndarray):
            return part[part != client]
        if isinstance(wider, np.ndarray) and wider.shape[:1] != fresh.shape[:1]:
            part[client] = fresh[client]
        return part
    if is_dataclass(part) and not isinstance(part, type):
        new = {
            f.name: _without(getattr(part, f.name), getattr(fresh, f.name, None), getattr(wider, f.name, None), client)
            for f in fields(part)
        }
        return replace(part, **new)
    if isinstance(part, (tuple, list)):
        first, more = (
            p if isinstance(p, (tuple, list)) and len(p) == len(part) else [None] * len(part) for p in (fresh, wider)
        )
        return type(part)(_without(*each, client=client) for each in zip(part, first, more, strict=True))
    if isinstance(part, dict):
        return {key: value for key, value in part.items() if key != client}
    return part


def redact(line: str, client: int) -> str:
    """A journal line without one client."""
    record = json.loads(line)
    before = json.dumps(record, sort_keys=True)
    for ids, *aligned in (("available",), ("selected", "probs"), ("completed", "utility", "loss")):
        _drop(record, ids, aligned, client)
    _drop(record["rows"], "client", ["age", "weight"], client)
    _drop(record["surrogate"], "client", ["utility"], client)
    record["failed"] = [pair for pair in record["failed"] if pair[0] != client]
    if json.dumps(record, sort_keys=True) == before:
        return line
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _drop(record: dict[str, Any], ids: str, aligned: list[str], client: int) -> None:
    keep = [i for i, value in enumerate(record[ids]) if value != client]
    for key in (ids, *aligned):
        record[key] = [record[key][i] for i in keep]
