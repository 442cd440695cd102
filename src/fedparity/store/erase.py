"""Erasing a client: what the run knows about it goes, and the chain can still be verified.

Its updates, models, surrogates and ledger row leave the last state; its number, gains and losses leave every journal
line; it is never there in the stored trace, has no name in it and no facts. A rewritten line keeps its old digest in
the chain, and the new digest is listed in a chain of erasures of its own, so that a verifier knows which lines were
rewritten by an erasure and that nothing else was. States before the last and files with results are removed.

An erasure is all or nothing: the intent is durable before anything else happens, and whoever opens the run for writing
next finishes what was interrupted (`finish_erasure`); until then `verify` says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fedparity.core.errors import ConfigError
from fedparity.core.journal import GENESIS, from_json, link
from fedparity.core.ledger import Ledger
from fedparity.core.marks import ENTRIES, MARK, NUMBERS
from fedparity.core.tree import classes_in
from fedparity.store.database import DamagedError, digest
from fedparity.store.disk import Disk
from fedparity.store.manifest import DERIVED, RESULTS, differences
from fedparity.store.origin import trace_bytes
from fedparity.store.store import Store

Fresh: TypeAlias = Callable[[Store, str], Any]
"""The first state of a stored method."""


def erase(folder: str | Path, client: int, fresh_of: Fresh) -> int:
    """Erase one client; how many journal lines were rewritten. Files with results go: they have to be written anew."""
    changed = [name for name in differences(Disk(Path(folder))) or () if name not in DERIVED]
    if changed:
        raise DamagedError(f"{Path(folder) / changed[0]}: differs from what was written; restore it from a copy")
    with Store.read(folder) as store:
        most = store.trace().num_clients - 1
    if not 0 <= client <= most:
        raise ConfigError(f"client={client} must be between 0 and {most}")
    with Store.open(folder, create=False) as store:
        finish_erasure(store, fresh_of)
        store.intend_erasure(client)
        return finish_erasure(store, fresh_of)


def finish_erasure(store: Store, fresh_of: Fresh) -> int:
    """Finish an erasure that has begun, if there is one; how many journal lines were rewritten."""
    client = store.erasing()
    if client is None:
        return 0
    lines = {} if client in store.erased() else _rewrite(store, client, fresh_of)
    store.db.run("VACUUM")  # deleted rows leave the file, too,
    store.db.settle()  # and the log
    store.sweep()
    for name in RESULTS:
        store.disk.remove(name)
    store.intend_erasure(None)
    return len(lines)


def _rewrite(store: Store, client: int, fresh_of: Fresh) -> dict[str, str]:
    """Everything in the database at once: the journal lines that spoke of the client, states, facts and trace."""
    states: dict[tuple[int, str], Any] = {}
    lines: dict[str, str] = {}
    for seed, method in store.contenders():
        fresh = fresh_of(store, method)
        state = without(store.load(seed, method, classes_in(fresh)), fresh, client)
        left = []
        for done in store.rounds(seed, method):
            new = redact(done.line, client)
            left.append(from_json(new))
            if new != done.line:
                lines[f"{seed}/{method}/{done.round}"] = new
        # A ledger has some columns only if a round needs them, and that may have been this client's.
        state.ledger = Ledger.replay(state.ledger.num_clients, left)
        states[seed, method] = state
    digests = {key: hashlib.sha256(line.encode()).hexdigest() for key, line in lines.items()}
    listed = json.dumps(digests, sort_keys=True)
    known = {key: facts for key in states if (facts := store.facts(*key)) is not None}
    trace = store.trace().without({client})
    (chain,) = store.db.one("SELECT chain FROM erasures ORDER BY number DESC LIMIT 1") or (GENESIS,)
    row = (client, listed, link(str(chain), digest(str(client), listed)))
    with store.db.transaction():
        store.db.run("INSERT INTO erasures (client, lines, chain) VALUES (?, ?, ?)", row)
        for key, line in lines.items():
            seed_, method, number = key.split("/")
            where = (line, int(seed_), method, int(number))
            store.db.run("UPDATE rounds SET line = ? WHERE seed = ? AND method = ? AND round = ?", where)
        for contender, state in states.items():
            store.checkpoints.replace(contender, state)
        for contender, facts in known.items():
            store.put_facts(*contender, facts)  # which leaves out whoever is erased
        store.origin.replace_trace(trace_bytes(trace))
    return lines


def without(part: Any, fresh: Any, client: int, mark: str | None = None) -> Any:
    """A part of a state with the client's entries as they are in a fresh one; its fields say which those are."""
    if isinstance(part, np.ndarray):
        if mark == NUMBERS:
            return part[part != client]
        if mark == ENTRIES:
            part[client] = 0 if fresh is None else fresh[client]  # a column that a run has only once it needs it
        return part
    if is_dataclass(part) and not isinstance(part, type):
        return replace(
            part,
            **{
                f.name: without(getattr(part, f.name), getattr(fresh, f.name, None), client, f.metadata.get(MARK))
                for f in fields(part)
            },
        )
    if isinstance(part, tuple) and mark is not None:
        return tuple(without(one, None, client, NUMBERS) for one in part)
    if isinstance(part, dict) and mark is not None:
        return {key: value for key, value in part.items() if key != client}
    return part


def redact(line: str, client: int) -> str:
    """A journal line without one client."""
    record = json.loads(line)
    before = json.dumps(record, sort_keys=True)
    done = ("completed", "utility", "loss", *(("duration",) if "duration" in record else ()))
    for ids, *aligned in (("available",), ("selected", "probs"), done):
        _drop(record, ids, aligned, client)
    _drop(record["rows"], "client", ["age", "weight"], client)
    _drop(record["surrogate"], "client", ["utility"], client)
    if "others" in record:
        _drop(record["others"], "client", ["utility"], client)
    for key in ("joined", "busy"):
        if key in record:
            _drop(record, key, [], client)
    if "late" in record:
        _drop(record["late"], "client", ["round", "utility", "loss"], client)
    record["failed"] = [pair for pair in record["failed"] if pair[0] != client]
    if json.dumps(record, sort_keys=True) == before:
        return line
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _drop(record: dict[str, Any], ids: str, aligned: list[str], client: int) -> None:
    keep = [i for i, value in enumerate(record[ids]) if value != client]
    for key in (ids, *aligned):
        record[key] = [record[key][i] for i in keep]
