"""Erasing a client: what the run knows about it goes, and the chain can still be verified.

Its updates, models, surrogates and ledger row leave the last state; its number, gains and losses leave every journal
line; it is never there in the stored trace, has no name in it and no facts. What stands for everybody would give it
back less the others' numbers, so that goes too: logged measures are computed anew over those who are left, weights of
a step are shared out among them, and chances and bounds, which say how many there were, leave every line. The chain is
made anew, since an old digest confirms whatever somebody guesses; erasures have a chain of their own. States before the
last and files with results are removed. docs/security.md says what is left.

An erasure is all or nothing: the intent is durable before anything else happens, and whoever opens the run for writing
next finishes what was interrupted (`finish_erasure`); until then `verify` says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fedparity.core.errors import ConfigError
from fedparity.core.imports import NotImported
from fedparity.core.journal import from_json, to_json
from fedparity.core.ledger import Ledger
from fedparity.core.marks import ENTRIES, MARK, NUMBERS
from fedparity.core.tree import Foreign, classes_in
from fedparity.core.types import NO_FLOATS, NO_IDS, RoundRecord, SurrogateCredit
from fedparity.store.database import DamagedError
from fedparity.store.disk import Disk
from fedparity.store.erasures import Erasing, add_erasure
from fedparity.store.facts import Facts
from fedparity.store.manifest import DERIVED, RESULTS, differences
from fedparity.store.origin import trace_bytes
from fedparity.store.rounds import chained_anew, ends
from fedparity.store.store import Store

Fresh: TypeAlias = Callable[[Store, str], Any]
"""The first state of a stored method."""
Lines: TypeAlias = list[RoundRecord]
Log: TypeAlias = Callable[[Store, str, Lines, list[list[Any]], Facts | None], list[list[Any]]]
"""The rows of a method's log anew, from its rounds without the client, the rows as they were, and its facts without."""


def no_log(
    _store: Store, _method: str, records: Lines, _rows: list[list[Any]], _facts: Facts | None
) -> list[list[Any]]:
    """Nothing logged stays."""
    return [[] for _ in records]


def erase(folder: str | Path, client: int, fresh_of: Fresh, log_of: Log = no_log, *, totals: bool = False) -> int:
    """Erase one client; how many rounds spoke of it. Files with results go: they have to be written anew.

    Where all slots of a round are filled, one name fewer is the erased one's: with `totals` rounds go too, but for what
    each of the others had in all.
    """
    changed = [name for name in differences(Disk(Path(folder))) or () if name not in DERIVED]
    if changed:
        raise DamagedError(f"{Path(folder) / changed[0]}: differs from what was written; restore it from a copy")
    with Store.read(folder) as store:
        most = store.trace().num_clients - 1
    if not 0 <= client <= most:
        raise ConfigError(f"client={client} must be between 0 and {most}")
    with Store.open(folder, create=False) as store:
        finish_erasure(store, fresh_of, log_of)
        for _, method in store.contenders():
            fresh_of(store, method)  # what cannot be built is refused before anything is begun
        store.intend_erasure(Erasing(client, totals))
        return finish_erasure(store, fresh_of, log_of)


def finish_erasure(store: Store, fresh_of: Fresh, log_of: Log = no_log) -> int:
    """Finish an erasure that has begun, if there is one; how many rounds spoke of the client."""
    begun = store.erasing()
    if begun is None:
        return 0
    done = begun.client in store.erased() and not (begun.totals and _told(store))
    spoke = 0 if done else _rewrite(store, begun, fresh_of, log_of)
    store.heads.replace(ends(store.db))
    store.db.run("VACUUM")  # deleted rows leave the file, too,
    store.db.settle()  # and the log
    store.sweep()
    for name in RESULTS:
        store.disk.remove(name)
    store.intend_erasure(None)
    return spoke


def _told(store: Store) -> bool:
    """Whether any round says who took part."""
    lines = (one.line for key in store.contenders() for one in store.rounds(*key))
    return any(from_json(line).told for line in lines)


def _rewrite(store: Store, begun: Erasing, fresh_of: Fresh, log_of: Log) -> int:
    """Everything in the database at once: all journal lines and rows, chained anew, states, facts and trace."""
    client = begun.client
    states: dict[tuple[int, str], Any] = {}
    rounds: dict[tuple[int, str], list[tuple[str, list[Any]]]] = {}
    trace = store.trace().without({client})
    known = {key: found.without(np.array([client])) for key in store.contenders() if (found := store.facts(*key))}
    spoke = 0
    for seed, method in store.contenders():
        fresh = fresh_of(store, method)
        state = without(store.load(seed, method, classes_in(fresh)), fresh, client)
        done = list(store.rounds(seed, method))
        spoke += sum(speaks_of(one.line, client) for one in done)
        lines = [redact(one.line, client) for one in done]
        left = [from_json(line) for line in lines]
        # A ledger has some columns only if a round needs them, and that may have been this client's.
        state.ledger = Ledger.replay(state.ledger.num_clients, left)
        if begun.totals:
            lines = folded(left, state.ledger)
            left = [from_json(line) for line in lines]
        rows = log_of(store, method, left, [one.row for one in done], known.get((seed, method)))
        states[seed, method], rounds[seed, method] = state, list(zip(lines, rows, strict=True))
    store.heads.replace({})  # a crash from here on must not look as if other rounds had been committed
    with store.db.transaction():
        if client not in store.erased():
            add_erasure(store.db, client)
        for contender, state in states.items():
            store.checkpoints.last[contender].chain = chained_anew(store.db, contender, rounds[contender])
            store.checkpoints.replace(contender, state)
        for contender, facts in known.items():
            store.put_facts(*contender, facts)  # which leaves out whoever is erased
        store.origin.replace_trace(trace_bytes(trace))
    return spoke


def without(part: Any, fresh: Any, client: int, mark: str | None = None) -> Any:
    """A part of a state with the client's entries as they are in a fresh one; its fields say which those are."""
    if isinstance(part, np.ndarray):
        if mark == NUMBERS:
            return part[part != client]
        if mark == ENTRIES and part.shape[:1] > (client,):  # one of somebody else's may hold anything
            # A column that a run has only once it needs it, or a component whose code is not here, has no fresh entry.
            part[client] = fresh[client] if isinstance(fresh, np.ndarray) else 0
        return part
    if isinstance(part, (tuple, Foreign)) and isinstance(fresh, NotImported):
        return part  # what of it speaks of clients only its own code could say
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


def speaks_of(line: str, client: int) -> bool:
    """Whether a journal line says anything of a client."""
    return _spoken(json.loads(line), client)


def _spoken(record: dict[str, Any], client: int) -> bool:
    lists = [record[key] for key in ("available", "selected", "completed", "joined", "busy") if key in record]
    lists += [record[key]["client"] for key in ("rows", "surrogate", "others", "late") if key in record]
    return any(client in ids for ids in lists) or any(pair[0] == client for pair in record["failed"])


def redact(line: str, client: int) -> str:
    """A journal line without one client, and without what says how many there were.

    Chances and bounds go from every line, whether it spoke of the client or not: where they are missing says nothing.
    """
    record = json.loads(line)
    done = ("completed", "utility", "loss", *(("duration",) if "duration" in record else ()))
    for ids, *aligned in (("available",), ("selected", "probs"), done):
        _drop(record, ids, aligned, client)
    _share_out(record["rows"], client)
    _drop(record["surrogate"], "client", ["utility"], client)
    if "others" in record:
        _drop(record["others"], "client", ["utility"], client)
    for key in ("joined", "busy"):
        if key in record:
            _drop(record, key, [], client)
    if "late" in record:
        _drop(record["late"], "client", ["round", "utility", "loss"], client)
    record["failed"] = [pair for pair in record["failed"] if pair[0] != client]
    if record["design"] != "deterministic":
        record["probs"] = [None] * len(record["selected"])
    if record["surrogate"]["eta_sum"]:
        record["surrogate"] |= {"eta_sum": 0.0, "bias_bound": None}
    record.pop("notes", None)  # how many weights of how many were capped
    for name, column in (record.get("totals") or {}).items():
        nothing = Ledger.empty(1).totals() | {"since": [0], "late": [0]}
        if client < len(column):  # who registered since is not in them
            column[client] = nothing[name][0]
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


def folded(records: Lines, ledger: Ledger) -> list[str]:
    """Journal lines that keep of their rounds the models' digests, and at the end what each client had in all."""
    blank = RoundRecord(
        0, NO_IDS, NO_IDS, NO_FLOATS, "deterministic", 0, NO_IDS, NO_FLOATS, NO_FLOATS, (), abandoned=False,
        row_clients=NO_IDS, row_ages=NO_IDS, row_weights=NO_FLOATS, surrogate=SurrogateCredit(), model_sha256="",
    )  # fmt: skip
    new = [replace(blank, round=one.round, model_sha256=one.model_sha256, totals={}) for one in records]
    return [to_json(one) for one in [*new[:-1], replace(new[-1], totals=ledger.totals())]]


def _share_out(rows: dict[str, Any], client: int) -> None:
    """Rows without the client's; the others' weights grow to what all had, or what is missing would be its own."""
    before = math.fsum(rows["weight"])
    _drop(rows, "client", ["age", "weight"], client)
    left = math.fsum(rows["weight"])
    if left and left != before:
        rows["weight"] = [weight * (before / left) for weight in rows["weight"]]


def _drop(record: dict[str, Any], ids: str, aligned: list[str], client: int) -> None:
    keep = [i for i, value in enumerate(record[ids]) if value != client]
    for key in (ids, *aligned):
        record[key] = [record[key][i] for i in keep]
