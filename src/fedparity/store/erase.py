"""Erasing a client: what the run knows about it goes, and the chain can still be verified.

Its updates, models, surrogates and ledger row leave the last state; its number, gains and losses leave every journal
line. A rewritten line keeps its old digest in the chain, and the new digest is listed in a chain of erasures of its
own, so that a verifier knows which lines were rewritten by an erasure and that nothing else was. The files of states
before the last are removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from fedparity.errors import ConfigError
from fedparity.ledger import NEVER, Ledger
from fedparity.store.store import Store


def erase(folder: str | Path, client: int, classes_of: Callable[[Store, str], dict[str, type]]) -> int:
    """Erase one client; how many journal lines were rewritten."""
    with Store.open(folder, create=False) as store:
        states: dict[tuple[int, str], Any] = {}
        for seed, method in store.contenders():
            state: Any = store.load(seed, method, classes_of(store, method))
            if not 0 <= client < state.ledger.num_clients:
                raise ConfigError(f"client={client} must be between 0 and {state.ledger.num_clients - 1}")
            _forget(state, client)
            states[seed, method] = state
        lines: dict[str, str] = {}
        for seed, method in states:
            for done in store.rounds(seed, method):
                new = redact(done.line, client)
                if new != done.line:
                    lines[f"{seed}/{method}/{done.round}"] = new
        store.rewrite(client, lines, states)
        return len(lines)


def _forget(state: Any, client: int) -> None:
    """Reset the client's entry in every per-client array, and its models, as if it had never been seen."""
    fresh = Ledger.empty(1)
    for f in fields(fresh):
        if f.name != "rounds":
            getattr(state.ledger, f.name)[client] = getattr(fresh, f.name)[0]
    state.client_models.pop(client, None)
    for part in (state.estimator, state.utility, state.surrogate, state.weighting, state.scheduler):
        for array in _per_client(part, state.ledger.num_clients):
            array[client] = NEVER if array.dtype == np.int32 and array[client] < 0 else 0


def _per_client(part: Any, num_clients: int) -> list[Any]:
    if isinstance(part, np.ndarray):
        return [part] if part.ndim and len(part) == num_clients else []
    if hasattr(part, "__dataclass_fields__"):
        return [a for f in fields(part) for a in _per_client(getattr(part, f.name), num_clients)]
    return []


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
