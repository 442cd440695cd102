"""A run is a folder that survives anything: what is committed stays, whole, and resuming equals never having stopped.

    run.db             SQLite (WAL, synchronous=FULL, STRICT): one transaction a round
      rounds           the journal line, its digest and the chain; the log row; a check over all of it   (kept for good)
      states           what changed in the state since the round before, and a whole one now and then    (pruned)
      telemetry        times; not part of any digest
      erasures         clients that were erased: what their lines are now, chained too
    arrays/*.safetensors   large arrays, named by the SHA-256 of their bytes
    manifest.json      SHA-256 of every file, written on a clean close and removed on opening

A large array is durable before the transaction that names it commits, so a committed round never lacks a file. The
state is stored by difference: arrays that changed in few places store those places.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from safetensors.numpy import save as save_arrays

from fedparity.core.errors import ConfigError, FedparityError, InputError, OutputError
from fedparity.core.journal import GENESIS, link
from fedparity.core.rows import let_go
from fedparity.core.tree import Arrays, flatten, rebuild
from fedparity.store.database import (
    DATABASE,
    SCHEMA,
    DamagedError,
    connect,
    copy_if_left_open,
    decoding,
    digest,
    names_of,
    round_digest,
    state_digest,
    storage_errors,
    transaction,
)
from fedparity.store.disk import PARTIAL, Disk
from fedparity.store.manifest import LOCK, MANIFEST, write_manifest
from fedparity.store.pieces import (
    as_file,
    changed_places,
    file_of,
    is_replaced,
    paths_in,
    same_kind,
    unpacked,
    unpacked_one,
)

FORMAT = 1
LARGE = 1 << 16
"""Arrays of at least this many bytes get a file of their own."""
SNAPSHOT_EVERY = 50
"""A whole state is stored after this many rounds of differences; the one before it is kept until then."""
SMALL_STATE = 1 << 18
"""States of up to this many bytes are always stored whole."""
HIDDEN = re.compile(r"\.[^/]+\.[0-9a-f]{16}")
"""Result files that were being written when a process died."""


@dataclass(slots=True)
class _Last:
    """What was committed last for one method and seed, to store only the difference next time."""

    round: int = 0
    chain: str = GENESIS
    arrays: Arrays = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """The file of each large array in the last state."""
    older: dict[str, str] = field(default_factory=dict)
    """The same for the state before it: kept, so that one torn file costs one round."""
    whole: int = 0
    """The last round stored whole."""


@dataclass(frozen=True, slots=True)
class Committed:
    """One round as it stands in the store."""

    round: int
    line: str
    chain: str
    row: list[Any]
    seconds: float
    """Telemetry: how long it took."""


class Store:
    """One open run; `with Store.open(folder) as store:` holds its lock."""

    def __init__(self, disk: Disk, connection: sqlite3.Connection, lock: int | None) -> None:
        self.disk = disk
        self._db = connection
        self._lock = lock
        """None: opened for reading only."""
        self._last: dict[tuple[int, str], _Last] = {}
        self._sound: set[str] = set()
        """Array files that this process wrote or read whole: those it need not write again."""
        self._suspect: set[str] = set()
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self.notices: list[str] = []
        """What was found damaged and left behind."""

    @classmethod
    def open(cls, folder: str | Path, disk: Disk | None = None, *, create: bool = True) -> Self:
        """Open a run for writing, or refuse: another process has it, or its format is not ours."""
        disk = disk or Disk(Path(folder))
        if not create and not (disk.root / DATABASE).exists():
            raise InputError(f"{folder}: no run here ({DATABASE} is missing); check the folder")
        try:
            disk.root.mkdir(parents=True, exist_ok=True)
            lock = os.open(disk.root / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise OutputError(f"{folder}: cannot be made ready ({error.strerror}); choose another folder") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise ConfigError(
                f"{folder}: another process is running this run; wait for it or choose another --out"
            ) from None
        try:
            store = cls(disk, connect(disk.root / DATABASE), lock)
        except BaseException:
            os.close(lock)
            raise
        try:
            store._prepare()
        except BaseException:
            store.abandon()
            raise
        return store

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """Open a run for reading: nothing in its folder changes."""
        disk = Disk(Path(folder))
        path = disk.root / DATABASE
        if not path.exists():
            raise InputError(f"{folder}: no run here ({DATABASE} is missing); check the folder")
        copied = copy_if_left_open(disk)
        source = path if copied is None else Path(copied.name) / DATABASE
        still = "" if source.with_name(f"{DATABASE}-wal").exists() else "&immutable=1"
        with storage_errors(path):
            connection = sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro{still}", uri=True, timeout=1.0)
        store = cls(disk, connection, None)
        store._copy = copied
        try:
            store._check_format()
        except BaseException:
            store.abandon()
            raise
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def _prepare(self) -> None:
        with storage_errors(self.disk.root / DATABASE):
            known = self._db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'meta'").fetchone()
            if known and self.meta("format") is not None:
                self._check_format()
            self._db.executescript(SCHEMA)
            if self.meta("format") is None:
                self.set_meta("format", str(FORMAT))
        self.disk.remove(MANIFEST)

    def _check_format(self) -> None:
        found = self.meta("format")
        if found != str(FORMAT):
            raise InputError(
                f"{self.disk.root}: run format {found} but this fedparity reads {FORMAT}; use the version that wrote it"
            )

    def abandon(self) -> None:
        """Let go of the run as a crash would: what is committed stays, and no manifest is written."""
        self._db.close()
        if self._copy is not None:
            self._copy.cleanup()
        if self._lock is not None:
            os.close(self._lock)

    def close(self) -> None:
        """Leave nothing behind but whole files, each with its digest in the manifest."""
        if self._lock is None:
            self.abandon()
            return
        try:
            with storage_errors(self.disk.root / DATABASE):
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._db.close()
            write_manifest(self.disk)
        finally:
            self.abandon()

    # -- facts about the run ------------------------------------------------------------------------------------------

    def meta(self, key: str) -> str | None:
        """A fact stored under `key`."""
        row = next(self._rows("SELECT value FROM meta WHERE key = ?", (key,)), None)
        return None if row is None else str(row[0])

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        with storage_errors(self.disk.root / DATABASE):
            for row in self._db.execute(query, values):  # noqa: UP028 - which would close a cursor of a closed database
                yield row

    def set_meta(self, key: str, value: str) -> None:
        """Store a fact."""
        with storage_errors(self.disk.root / DATABASE):
            self._db.execute(
                "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value)
            )

    # -- committing ---------------------------------------------------------------------------------------------------

    def commit(  # noqa: PLR0917 - one round has that many parts
        self, seed: int, method: str, state: Any, line: str, row: list[Any], seconds: float
    ) -> None:
        """Make one more round durable: afterwards it is there for good, before that it never was."""
        last = self._last.setdefault((seed, method), _Last())
        number = last.round
        skeleton, arrays = flatten(state)
        whole = number % SNAPSHOT_EVERY == 0 or sum(array.nbytes for array in arrays.values()) <= SMALL_STATE
        small, files = self._differences(last, arrays, whole=whole)
        packed = save_arrays(small) if small else b""
        tree, names = json.dumps(skeleton, allow_nan=False), json.dumps(files, sort_keys=True)
        line_sha256 = hashlib.sha256(line.encode()).hexdigest()
        chain = link(last.chain, line_sha256)
        shown = json.dumps(row)
        key = (seed, method, number)
        with storage_errors(self.disk.root / DATABASE), transaction(self._db):
            checks = round_digest(key, line_sha256, chain, shown), state_digest(key, whole, tree, packed, names)
            self._db.execute(
                "INSERT INTO rounds VALUES (?,?,?,?,?,?,?,?)", (*key, line, line_sha256, chain, shown, checks[0])
            )
            self._db.execute(
                "INSERT INTO states VALUES (?,?,?,?,?,?,?,?)", (*key, int(whole), tree, packed, names, checks[1])
            )
            self._db.execute("INSERT INTO telemetry VALUES (?,?,?,?)", (*key, repr(seconds)))
            if whole:
                self._db.execute(
                    "DELETE FROM states WHERE seed = ? AND method = ? AND round < ?", (seed, method, last.whole)
                )
                last.whole = number
        self._remember(last, chain, arrays, files)

    def _differences(self, last: _Last, arrays: Arrays, *, whole: bool) -> tuple[Arrays, dict[str, str]]:
        """What has to be written: small arrays and differences in one piece, large arrays as files of their own."""
        small: Arrays = {}
        files: dict[str, str] = {}
        for path, array in arrays.items():
            before = last.arrays.get(path)
            if not whole and before is not None and (array is before or same_kind(array, before)):
                where = np.empty(0, np.int64) if array is before else changed_places(array, before)
                if len(where) * (8 + array.itemsize) < array.nbytes // 2 or not len(where):
                    if path in last.files:
                        files[path] = last.files[path]
                    if len(where):
                        small[f"{path}#at"] = where.astype(np.uint32 if array.size < 2**32 else np.int64)
                        small[f"{path}#to"] = array.reshape(-1)[where]
                    continue
            if array.nbytes < LARGE:
                small[path] = np.asarray(array, order="C")
                continue
            files[path] = self._write_array(array)
            if files[path] == last.files.get(path):
                small[f"{path}#anew"] = np.empty(0)  # back at what the file holds: forget the changes since
        return small, files

    def _write_array(self, array: Any) -> str:
        """A large array as a safetensors file, hashed and written without a copy."""
        whole = np.asarray(array, order="C")
        sha256, start, body = as_file(whole)
        if sha256 not in self._sound or not self.disk.path(file_of(sha256)).exists():
            self.disk.write(file_of(sha256), start, body)  # one that was there already may be damaged
            self._sound.add(sha256)
        let_go([whole])
        return sha256

    def _remember(self, last: _Last, chain: str, arrays: Arrays, files: dict[str, str]) -> None:
        for path, array in arrays.items():
            held = last.arrays.get(path)
            if is_replaced(path) or array is held:
                last.arrays[path] = array
            elif held is not None and same_kind(array, held):
                np.copyto(held, array)
            else:
                last.arrays[path] = array.copy()
        for path in last.arrays.keys() - arrays.keys():
            del last.arrays[path]
        gone = set(last.older.values()) - set(last.files.values()) - set(files.values())
        last.round, last.chain, last.older, last.files = last.round + 1, chain, last.files, files
        for name in gone - (self._needed() if gone else gone):
            self.disk.remove(file_of(name))

    def _needed(self) -> set[str]:
        """The files of the last two states of every method, loaded by this process or not."""
        found: set[str] = set()
        for seed, method in self._rows("SELECT DISTINCT seed, method FROM states"):
            last = self._last.get((seed, method))
            if last is not None:
                found |= {*last.files.values(), *last.older.values()}
                continue
            query = "SELECT files FROM states WHERE seed = ? AND method = ? ORDER BY round DESC LIMIT 2"
            for (names,) in self._rows(query, (seed, method)):
                found |= set(names_of(names, f"{self.disk.root}: {method}, seed {seed}").values())
        return found

    # -- reading ------------------------------------------------------------------------------------------------------

    def contenders(self) -> list[tuple[int, str]]:
        """Every (seed, method) with a committed round."""
        query = "SELECT DISTINCT seed, method FROM rounds UNION SELECT DISTINCT seed, method FROM states ORDER BY 1, 2"
        with decoding(str(self.disk.root)):
            return [(int(s), str(m)) for s, m in self._rows(query)]

    def rounds(self, seed: int, method: str) -> Iterator[Committed]:
        """Committed rounds, oldest first, each checked against its digest and the chain."""
        query = (
            "SELECT round, line, line_sha256, chain, row, digest, value FROM rounds LEFT JOIN telemetry USING"
            " (seed, method, round) WHERE seed = ? AND method = ? ORDER BY round"
        )
        chain, redacted = GENESIS, self._redacted()
        found_rows = self._rows(query, (seed, method))
        for expected, (number, line, line_sha256, linked, row, check, seconds) in enumerate(found_rows):
            where = f"{self.disk.root}: {method}, seed {seed}, round {number}"
            with decoding(where):
                found = hashlib.sha256(line.encode()).hexdigest()
                chain = link(chain, line_sha256)
                sealed = round_digest((seed, method, number), line_sha256, linked, row)
            if number != expected or linked != chain or check != sealed:
                raise DamagedError(f"{where}: the chain is broken; restore run.db from a copy")
            if found != redacted.get(f"{seed}/{method}/{number}", line_sha256):
                raise DamagedError(f"{where}: the journal line was changed; restore run.db from a copy")
            with decoding(where):
                committed = Committed(number, line, linked, list(json.loads(row)), float(seconds or "nan"))
            yield committed

    def _redacted(self) -> dict[str, str]:
        """The digests of lines that an erasure rewrote, if the erasures themselves are intact."""
        found: dict[str, str] = {}
        chain = GENESIS
        for client, lines, linked in self._rows("SELECT client, lines, chain FROM erasures ORDER BY number"):
            with decoding(f"{self.disk.root}: erasures"):
                chain = link(chain, digest(str(client), lines))
            if chain != linked:
                raise DamagedError(f"{self.disk.root}: the list of erasures was changed; restore run.db from a copy")
            found |= names_of(lines, f"{self.disk.root}: erasures")
        return found

    def erased(self) -> frozenset[int]:
        """Clients that were erased."""
        with decoding(f"{self.disk.root}: erasures"):
            return frozenset(int(client) for (client,) in self._rows("SELECT client FROM erasures"))

    def load(self, seed: int, method: str, classes: dict[str, type]) -> Any | None:
        """The last state of a method, or None before its first round.

        A damaged last round is dropped and the one before it is returned; for reading only, it is an error.
        """
        query = "SELECT round FROM states WHERE seed = ? AND method = ? ORDER BY round DESC LIMIT 2"
        numbers = [number for (number,) in self._rows(query, (seed, method))]
        query = "SELECT max(round) FROM rounds WHERE seed = ? AND method = ?"
        (end,) = next(self._rows(query, (seed, method)))
        if end != (numbers[0] if numbers else None):
            raise DamagedError(f"{self.disk.root}: {method}, seed {seed}: journal and checkpoints end at other rounds")
        trouble: FedparityError | None = None
        for number in numbers:
            try:
                state, last = self._state_at(seed, method, number, classes)
            except FedparityError as error:
                trouble = error
                continue
            if trouble is not None:
                if self._lock is None:
                    break
                self._drop_after(seed, method, number)
                self.notices.append(f"{trouble}; going on from round {number}")
            self._last[seed, method] = last
            return state
        if trouble is not None:
            raise trouble
        return None

    def _state_at(self, seed: int, method: str, number: int, classes: dict[str, type]) -> tuple[Any, _Last]:
        where = f"{self.disk.root}: {method}, seed {seed}, round {number}"
        with decoding(where):
            tree, pieces, files, based_on = self._pieces(seed, method, number, where)
            skeleton = json.loads(tree)
            arrays = {path: self._assemble(path, pieces.get(path, []), files) for path in paths_in(skeleton)}
            state = rebuild(skeleton, arrays, classes)
        query = "SELECT chain FROM rounds WHERE seed = ? AND method = ? AND round = ?"
        row = next(self._rows(query, (seed, method, number)), None)
        if row is None:
            raise DamagedError(f"{where}: it is missing from the journal")
        query = "SELECT files FROM states WHERE seed = ? AND method = ? AND round = ?"
        before = next(self._rows(query, (seed, method, number - 1)), ("{}",))
        held = {path: a if is_replaced(path) else a.copy() for path, a in arrays.items()}
        return state, _Last(number + 1, str(row[0]), held, files, names_of(before[0], where), based_on)

    def _pieces(
        self, seed: int, method: str, number: int, where: str
    ) -> tuple[str, dict[str, list[Any]], dict[str, str], int]:
        """What a state is put together from: its skeleton, small arrays and changes by path, files, the whole one."""
        query = (
            "SELECT round, whole, tree, small, files, digest FROM states"
            " WHERE seed = ?1 AND method = ?2 AND round <= ?3 AND round >="
            " (SELECT max(round) FROM states WHERE seed = ?1 AND method = ?2 AND round <= ?3 AND whole = 1)"
            " ORDER BY round"
        )
        pieces: dict[str, list[Any]] = {}
        files: dict[str, str] = {}
        tree, based_on = "", 0
        for at, whole, tree, small, names, check in self._rows(query, (seed, method, number)):
            based_on = at if whole else based_on
            if check != state_digest((seed, method, at), whole, tree, small, names):
                raise DamagedError(f"{where}: its checkpoint was changed")
            older, files = files, names_of(names, where)
            pieces |= {path: [] for path, sha256 in files.items() if older.get(path) != sha256}
            changed = unpacked(small, where)
            for path, array in sorted(changed.items()):
                base, _, kind = path.partition("#")
                if kind == "at":
                    pieces.setdefault(base, []).append((array, changed[f"{base}#to"]))
                elif kind != "to":
                    pieces[base] = [] if kind else [array]
        if not tree:
            raise DamagedError(f"{where}: its checkpoint is missing")
        return tree, pieces, files, based_on

    def _assemble(self, path: str, pieces: list[Any], files: dict[str, str]) -> Any:
        changes = list(pieces)
        if path in files:
            base = self.read_array(files[path])
        elif changes and not isinstance(changes[0], tuple):
            base = changes.pop(0)
        else:
            raise DamagedError(f"{self.disk.root}: a checkpoint lacks {path}")
        for at, to in changes:
            base.reshape(-1)[at] = to
        return base

    def read_array(self, sha256: str) -> Any:
        """A large array, checked against its name."""
        data = self.disk.read(file_of(sha256))
        if hashlib.sha256(data).hexdigest() != sha256:
            raise DamagedError(f"{self.disk.path(file_of(sha256))}: differs from what was written")
        self._sound.add(sha256)
        return unpacked_one(data, "array", file_of(sha256))

    def broken_states(self) -> Iterator[str]:
        """What is wrong with stored states, also with those that the last one does not need."""
        query = "SELECT seed, method, round, whole, tree, small, files, digest FROM states ORDER BY 1, 2, 3"
        before: tuple[Any, ...] = ()
        for seed, method, number, whole, tree, small, names, check in self._rows(query):
            where = f"{self.disk.root}: {method}, seed {seed}, round {number}"
            with decoding(where):
                intact = check == state_digest((seed, method, number), whole, tree, small, names)
                follows = before == (seed, method, number - 1)
            if not intact:
                yield f"{where}: its checkpoint was changed"
            if not follows and (before[:2] == (seed, method) or not whole):
                yield f"{where}: the checkpoint before it is missing"
            before = (seed, method, number)

    def _drop_after(self, seed: int, method: str, number: int) -> None:
        with storage_errors(self.disk.root / DATABASE), transaction(self._db):
            for table in ("rounds", "states", "telemetry"):
                self._db.execute(
                    f"DELETE FROM {table} WHERE seed = ? AND method = ? AND round > ?",  # noqa: S608 - names are ours
                    (seed, method, number),
                )

    def rewrite(self, client: int, lines: dict[str, str], states: dict[tuple[int, str], Any]) -> None:
        """Replace journal lines (by "seed/method/round") and last states after an erasure, in one transaction."""
        listed = json.dumps(
            {key: hashlib.sha256(line.encode()).hexdigest() for key, line in lines.items()}, sort_keys=True
        )
        with storage_errors(self.disk.root / DATABASE), transaction(self._db):
            found = self._db.execute("SELECT chain FROM erasures ORDER BY number DESC LIMIT 1").fetchone()
            chain = link(GENESIS if found is None else str(found[0]), digest(str(client), listed))
            self._db.execute("INSERT INTO erasures (client, lines, chain) VALUES (?, ?, ?)", (client, listed, chain))
            for key, line in lines.items():
                seed, method, number = key.split("/")
                where = (line, int(seed), method, int(number))
                self._db.execute("UPDATE rounds SET line = ? WHERE seed = ? AND method = ? AND round = ?", where)
            for (seed_, method_), state in states.items():
                skeleton, arrays = flatten(state)
                small, files = self._differences(_Last(), arrays, whole=True)
                packed, tree, names = (
                    save_arrays(small),
                    json.dumps(skeleton, allow_nan=False),
                    json.dumps(files, sort_keys=True),
                )
                self._db.execute("DELETE FROM states WHERE seed = ? AND method = ?", (seed_, method_))
                key_ = (seed_, method_, state.round - 1)
                check = state_digest(key_, 1, tree, packed, names)
                self._db.execute("INSERT INTO states VALUES (?,?,?,?,?,?,?,?)", (*key_, 1, tree, packed, names, check))
                last = self._last[seed_, method_]
                last.arrays, last.files, last.older = {p: x.copy() for p, x in arrays.items()}, files, {}
        with storage_errors(self.disk.root / DATABASE):
            self._db.execute("VACUUM")  # deleted rows leave the file, too
        self.sweep()

    def clear(self) -> None:
        """Forget everything: the folder is as good as new."""
        with storage_errors(self.disk.root / DATABASE):
            with transaction(self._db):
                for table in ("rounds", "states", "telemetry", "erasures", "meta"):
                    self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - names are ours
            self._db.execute("VACUUM")
            self.set_meta("format", str(FORMAT))
        self._last.clear()
        self.sweep()

    def distrust(self, names: Iterable[str]) -> None:
        """Array files that differ from the manifest: said aloud, and swept unless they are written or read whole."""
        self._suspect |= set(names)
        self.notices += [f"{self.disk.path(name)}: differs from what was written" for name in names]

    def sweep(self) -> None:
        """Remove files that nothing refers to: leftovers of a round that never committed."""
        if self._lock is None:
            return
        needed = {file_of(name) for name in self._needed()}
        for name in self.disk.names():
            left = name.endswith(PARTIAL) or HIDDEN.fullmatch(name)
            if left or (name.startswith("arrays/") and name not in needed):
                self.disk.remove(name)
        for name in self._suspect - {file_of(sha256) for sha256 in self._sound}:
            self.disk.remove(name)
        self._suspect.clear()
