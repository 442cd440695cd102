"""States by difference: a checkpoint costs what a round changed, and any of the last two comes back to the bit.

A state is a tree of dataclasses around arrays (`tree`). A run has millions of numbers in it, of which a round changes
the model (all of it), a few entries of the per-client columns, and the vectors of those who took part. So a round
stores, for each array by its path in the tree,

    nothing                 if it is what it was: the reader takes what the rows before it lead to
    path#at, path#to        the places that changed and what is there now, if they are few
    path                    the array itself, if it is small
    a file                  if it is large (`arrays`); listed under its path in `files`, in every row from then on
    path#anew               nothing but a sign that the file holds all: see `Checkpoints._differences`

A *whole* row stores every array, changed or not. A reader starts at the last whole row at or before the round it wants
and lays the rows after it over that one (`_pieces`, `_assemble`). Whole rows come every SNAPSHOT_EVERY rounds, and rows
before the whole one before the last are deleted, so that the database stays small and the last two rounds can always
be put together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from fedparity.core.journal import GENESIS
from fedparity.core.rows import let_go
from fedparity.core.tree import Arrays, flatten, rebuild
from fedparity.store.arrays import ArrayFiles, packed, unpacked
from fedparity.store.database import DamagedError, Database, decoding, digest, names_of

LARGE = 1 << 16
"""Arrays of at least this many bytes get a file of their own."""
SNAPSHOT_EVERY = 50
"""A whole state is stored after this many rounds of differences; the one before it is kept until then."""
SMALL_STATE = 1 << 18
"""States of up to this many bytes are always stored whole."""
SAMPLED = 1 << 16
"""Bytes from which on an array is first compared in a few places."""

Contender: TypeAlias = tuple[int, str]
"""A seed and a method."""


@dataclass(slots=True)
class Last:
    """What was committed last for one method and seed, to store only the difference next time."""

    round: int = 0
    """How many rounds are committed."""
    chain: str = GENESIS
    arrays: Arrays = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """The file of each large array in the last state."""
    older: dict[str, str] = field(default_factory=dict)
    """The same for the state before it: kept, so that one torn file costs one round."""
    whole: int = 0
    """The last round stored whole."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A state ready to be stored: its skeleton, small arrays and differences in one piece, files of large arrays."""

    arrays: Arrays
    files: dict[str, str]
    tree: str
    small: bytes
    whole: bool

    def row(self, key: tuple[int, str, int]) -> tuple[Any, ...]:
        """The row of `states`, sealed."""
        cells = (int(self.whole), self.tree, self.small, json.dumps(self.files, sort_keys=True))
        return (*key, *cells, state_digest(key, *cells))


def state_digest(key: tuple[int, str, int], whole: int, tree: str, small: bytes, names: str) -> str:
    """What a row of `states` is sealed with."""
    return digest(*map(str, (*key, int(whole))), tree, small, names)


class Checkpoints:
    """The states of a run."""

    def __init__(self, db: Database, files: ArrayFiles) -> None:
        self.db = db
        self.files = files
        self.last: dict[Contender, Last] = {}
        self.begun: set[Contender] = set()
        """Methods of which this process committed a round."""

    # -- writing ------------------------------------------------------------------------------------------------------

    def pack(self, contender: Contender, state: Any) -> Packed:
        """What to store of a method's next state; its large arrays are durable when this returns."""
        last = self.last.setdefault(contender, Last())
        skeleton, arrays = flatten(state)
        whole = last.round % SNAPSHOT_EVERY == 0 or sum(array.nbytes for array in arrays.values()) <= SMALL_STATE
        return self._packed(last, skeleton, arrays, whole=whole)

    def _packed(self, last: Last, skeleton: Any, arrays: Arrays, *, whole: bool) -> Packed:
        small, files = self._differences(last, arrays, whole=whole)
        return Packed(arrays, files, json.dumps(skeleton, allow_nan=False), packed(small), whole)

    def _differences(self, last: Last, arrays: Arrays, *, whole: bool) -> tuple[Arrays, dict[str, str]]:
        small: Arrays = {}
        files: dict[str, str] = {}
        for path, array in arrays.items():
            before = last.arrays.get(path)
            if not whole and before is not None and (array is before or _same_kind(array, before)):
                where = np.empty(0, np.int64) if array is before else _changed_places(array, before)
                # A place costs 8 bytes or less beside the number itself; from half the array on, all of it is shorter.
                if len(where) * (8 + array.itemsize) < array.nbytes // 2 or not len(where):
                    if path in last.files:  # the reader lays the changes over that file
                        files[path] = last.files[path]
                    if len(where):
                        small[f"{path}#at"] = where.astype(np.uint32 if array.size < 2**32 else np.int64)
                        small[f"{path}#to"] = array.reshape(-1)[where]
                    continue
            if array.nbytes < LARGE:
                small[path] = np.asarray(array, order="C")
                continue
            files[path] = self.files.write(array)
            if files[path] == last.files.get(path):
                # The array is again what its file held all along, so its name did not change, and from the name alone
                # the reader would go on laying the changes of the rounds between over it.
                small[f"{path}#anew"] = np.empty(0)
        return small, files

    def insert(self, contender: Contender, state: Packed) -> None:
        """Store a state as that of the next round; part of the transaction that commits it."""
        last = self.last[contender]
        self.db.run("INSERT INTO states VALUES (?,?,?,?,?,?,?,?)", state.row((*contender, last.round)))
        if state.whole:
            self.db.run("DELETE FROM states WHERE seed = ? AND method = ? AND round < ?", (*contender, last.whole))

    def committed(self, contender: Contender, state: Packed, chain: str) -> None:
        """The transaction is through: the next difference is one to this state, and files of the third last go.

        Arrays are copied, since rounds change them in place, but for those that are only ever replaced.
        """
        self.begun.add(contender)
        last = self.last[contender]
        for path, array in state.arrays.items():
            held = last.arrays.get(path)
            if _is_replaced(path) or array is held:
                last.arrays[path] = array
            elif held is not None and _same_kind(array, held):
                np.copyto(held, array)
            else:
                last.arrays[path] = array.copy()
        for path in last.arrays.keys() - state.arrays.keys():
            del last.arrays[path]
        gone = set(last.older.values()) - set(last.files.values()) - set(state.files.values())
        last.whole = last.round if state.whole else last.whole
        last.round, last.chain, last.older, last.files = last.round + 1, chain, last.files, state.files
        self.files.remove(gone - (self.needed() if gone else gone))
        self.files.copy({*last.older.values()} & {*last.files.values()})

    def replace(self, contender: Contender, state: Any) -> None:
        """Store a state instead of all there are of a method: after an erasure, in its transaction."""
        skeleton, arrays = flatten(state)
        new = self._packed(Last(), skeleton, arrays, whole=True)
        last = self.last[contender]
        self.db.run("DELETE FROM states WHERE seed = ? AND method = ?", contender)
        self.db.run("INSERT INTO states VALUES (?,?,?,?,?,?,?,?)", new.row((*contender, last.round - 1)))
        last.arrays, last.files, last.older = {p: x.copy() for p, x in arrays.items()}, new.files, {}
        last.whole = last.round - 1

    def needed(self) -> set[str]:
        """The files of the last two states of every method, loaded by this process or not."""
        found: set[str] = set()
        for seed, method in self.db.rows("SELECT DISTINCT seed, method FROM states"):
            last = self.last.get((seed, method))
            if last is not None:
                found |= {*last.files.values(), *last.older.values()}
                continue
            query = "SELECT files FROM states WHERE seed = ? AND method = ? ORDER BY round DESC LIMIT 2"
            for (names,) in self.db.rows(query, (seed, method)):
                found |= set(names_of(names, f"{self.files.disk.root}: {method}, seed {seed}").values())
        return found

    # -- reading ------------------------------------------------------------------------------------------------------

    def numbers(self, contender: Contender) -> list[int]:
        """The rounds of the last two states, newest first."""
        query = "SELECT round FROM states WHERE seed = ? AND method = ? ORDER BY round DESC LIMIT 2"
        return [number for (number,) in self.db.rows(query, contender)]

    def names(self, contender: Contender) -> dict[int, str]:
        """What real clients are called, as the last state has it: read without any of its arrays."""
        query = "SELECT tree FROM states WHERE seed = ? AND method = ? ORDER BY round DESC LIMIT 1"
        (tree,) = self.db.one(query, contender) or ("{}",)
        with decoding(self._where(*contender, -1)):
            told = json.loads(tree).get("fields", {}).get("names", {}).get("dict", [])
            return {int(client): str(name) for client, name in told}

    def load(self, contender: Contender, number: int, classes: dict[str, type]) -> tuple[Any, Last]:
        """The state after a round, and what the next difference is one to."""
        where = self._where(*contender, number)
        with decoding(where):
            tree, pieces, files, based_on = self._pieces(contender, number, where)
            skeleton = json.loads(tree)
            arrays = {path: self._assemble(path, pieces.get(path, []), files) for path in _paths_in(skeleton)}
            state = rebuild(skeleton, arrays, classes)
        row = self.db.one("SELECT chain FROM rounds WHERE seed = ? AND method = ? AND round = ?", (*contender, number))
        if row is None:
            raise DamagedError(f"{where}: it is missing from the journal")
        query = "SELECT files FROM states WHERE seed = ? AND method = ? AND round = ?"
        (before,) = self.db.one(query, (*contender, number - 1)) or ("{}",)
        held = {path: a if _is_replaced(path) else a.copy() for path, a in arrays.items()}
        return state, Last(number + 1, str(row[0]), held, files, names_of(before, where), based_on)

    def _where(self, seed: int, method: str, number: int) -> str:
        return f"{self.files.disk.root}: {method}, seed {seed}, round {number}"

    def _pieces(
        self, contender: Contender, number: int, where: str
    ) -> tuple[str, dict[str, list[Any]], dict[str, str], int]:
        """The skeleton, what lies over each array's file by path, the files, and the whole row it starts from.

        A file that is new in a row, or marked anew, makes all changes before it void.
        """
        query = (
            "SELECT round, whole, tree, small, files, digest FROM states"
            " WHERE seed = ? AND method = ? AND round <= ? AND round >="
            " (SELECT max(round) FROM states WHERE seed = ? AND method = ? AND round <= ? AND whole = 1)"
            " ORDER BY round"
        )
        pieces: dict[str, list[Any]] = {}
        files: dict[str, str] = {}
        tree, based_on = "", 0
        for at, whole, tree, small, names, check in self.db.rows(query, (*contender, number) * 2):
            based_on = at if whole else based_on
            if check != state_digest((*contender, at), whole, tree, small, names):
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
            base = self.files.read(files[path])
        elif changes and not isinstance(changes[0], tuple):
            base = changes.pop(0)
        else:
            raise DamagedError(f"{self.files.disk.root}: a checkpoint lacks {path}")
        for at, to in changes:
            base.reshape(-1)[at] = to
        return base

    def broken(self) -> Iterator[str]:
        """What is wrong with stored states, also with those that the last one does not need."""
        query = "SELECT seed, method, round, whole, tree, small, files, digest FROM states ORDER BY 1, 2, 3"
        before: tuple[Any, ...] = ()
        for seed, method, number, whole, tree, small, names, check in self.db.rows(query):
            where = self._where(seed, method, number)
            with decoding(where):
                intact = check == state_digest((seed, method, number), whole, tree, small, names)
                follows = before == (seed, method, number - 1)
            if not intact:
                yield f"{where}: its checkpoint was changed"
            if not follows and (before[:2] == (seed, method) or not whole):
                yield f"{where}: the checkpoint before it is missing"
            before = (seed, method, number)


def _is_replaced(path: str) -> bool:
    """Whether an array is replaced when it changes and never written into, so that it can be compared without a copy.

    These are the vectors of clients: what they keep, and what a memory keeps of them, in dicts called `kept`.
    """
    return "/kept/" in path


def _same_kind(a: Any, b: Any) -> bool:
    """Whether two arrays can be told apart by their numbers alone."""
    return bool(a.shape == b.shape and a.dtype == b.dtype)


def _changed_places(array: Any, before: Any) -> Any:
    """Where two arrays of one kind differ in any bit; compared as whole numbers, since NaN differs from itself."""
    words = f"u{array.itemsize}" if array.itemsize in (1, 2, 4, 8) else array.dtype
    flat = [np.ascontiguousarray(a).reshape(-1).view(words) for a in (array, before)]
    step = max(1, array.size // 64)
    if array.nbytes >= SAMPLED and np.count_nonzero(flat[0][::step] != flat[1][::step]) > 60:
        return range(array.size)  # a model after a step: all of it changed, no need to look closer
    found = np.flatnonzero(flat[0] != flat[1])
    let_go((array, before))
    return found


def _paths_in(node: Any) -> Iterator[str]:
    """Every array that a skeleton names."""
    if isinstance(node, dict):
        if isinstance(node.get("array"), str):
            yield node["array"]
        for value in node.values():
            yield from _paths_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from _paths_in(value)
