"""A run as it grows: each look reads the rounds that were committed since the last one, from a snapshot, and lets go.

Of a round only what the page shows is kept; who was online stands in the trace. So 10^5 clients over 10^3 rounds take a
few megabytes per method, however long the journal is. A look that takes too long is cut into several, since a snapshot
that is held for long keeps SQLite from shortening the log of a run that is being written.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedparity.core.errors import InputError
from fedparity.core.imports import without_imports
from fedparity.core.journal import GENESIS
from fedparity.core.ledger import Ledger
from fedparity.core.trace import Trace
from fedparity.core.types import FloatArray, Ids, RoundRecord
from fedparity.engines.flower.begun import settings_of
from fedparity.experiment.metrics_log import COLUMNS, measured
from fedparity.experiment.run import deployment_spec, record_of
from fedparity.experiment.spec import Spec
from fedparity.experiment.spec_file import parse
from fedparity.metrics import Frontier, Outcome, frontier
from fedparity.store import Store
from fedparity.store.database import DATABASE, LOG
from fedparity.store.heads import HEADS, Head

LARGEST = 2 * 10**8
"""Clients times rounds up to which the limit is computed."""
PAUSE, SHARE = 3.0, 50.0
"""The limit is computed again after that many seconds, and that many times what it took: 2 % of one core at most."""
SLICE = 0.2
"""Seconds that one snapshot is read for."""
State = Literal["running", "finished", "stopped"]


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What is kept of a round."""

    online: int
    selected: Ids
    completed: Ids
    failed: tuple[tuple[int, str], ...]
    abandoned: bool
    row: list[Any]
    seconds: float

    def value(self, column: str) -> float:
        """One number of the log's row."""
        found = self.row[COLUMNS.index(column)]
        return float("nan") if found is None else float(found)


@dataclass(slots=True, eq=False)
class Followed:
    """One method with one seed, as far as it was read."""

    method: str
    ledger: Ledger
    rounds: list[Round] = field(default_factory=list)
    head: Head = (0, GENESIS)

    def column(self, name: str) -> FloatArray:
        """One column of the log."""
        return np.array([one.value(name) for one in self.rounds], dtype=np.float64)

    def counts_after(self, rounds: int) -> NDArray[np.int64]:
        """How often each client had been asked when so many rounds were done."""
        counts = self.ledger.selected.astype(np.int64)
        for one in self.rounds[rounds:]:
            counts[one.selected] -= 1
        return counts


class Follower:
    """Everything that is known of a run; `lock` is held by whoever reads or changes it."""

    def __init__(self, folder: Path, seed: int | None = None) -> None:
        self.folder = folder
        self.lock = Lock()
        self.version = 0
        """Grows whenever there is something new to show."""
        self.methods: dict[str, Followed] = {}
        self.events: list[tuple[str, str]] = []
        """What happened to the run: resumes as stored, the rest as seen while it was followed; when, and what."""
        self.limit: tuple[int, Frontier] | None = None
        """The least unequal counts after so many rounds."""
        self.trouble = ""
        """Why the last look failed."""
        self.running = False
        self._wanted = seed
        self._seen: object = None
        self._origin: tuple[str, frozenset[int]] | None = None
        self._limit_due = 0.0
        self._met: list[Ids] | None = None
        """Of a deployment, who was online in each round read: its store gets a trace only when it ends."""
        self.seed = 0
        self.spec: Spec
        self.trace: Trace
        self.refresh()

    @property
    def erased(self) -> frozenset[int]:
        """Clients that were erased: they have no row."""
        return frozenset() if self._origin is None else self._origin[1]

    @property
    def rounds(self) -> int:
        """Rounds that were read of every method."""
        return min((one.head[0] for one in self.methods.values()), default=0)

    @property
    def rounds_in_all(self) -> int | None:
        """Rounds that there will be; None: a deployment goes on for as long as whoever started it wants."""
        return None if self._met is not None else self.spec.rounds

    @property
    def state(self) -> State:
        """Whether it is going on, came to its end, or was stopped before."""
        if self.running:
            return "running"
        if self.rounds_in_all is None:
            return "stopped"
        last = self._wanted is not None or self.seed == self.spec.seed + self.spec.seeds - 1
        return "finished" if last and self.rounds == self.spec.rounds else "stopped"

    def changed(self) -> bool:
        """Whether the folder is not as it was when it was last read to the end."""
        return self._seen is None or self._seen != self._stamp()

    def _stamp(self) -> list[tuple[int, int, int]]:
        found = []
        for name in (DATABASE, LOG, HEADS):
            try:
                about = (self.folder / name).stat()
            except FileNotFoundError:
                continue
            found.append((about.st_ino, about.st_size, about.st_mtime_ns))
        return found

    def refresh(self) -> bool:
        """Read on for a moment; whether everything that was committed is read."""
        stamp = self._stamp()
        with Store.read(self.folder) as store, self.lock:
            self._begin(store)
            end = time.monotonic() + SLICE
            whole = all(self._read(store, one, end) for one in self.methods.values())
            if self._met:
                self.trace = self._observed(store, self._met)
            if self._seen is not None and store.running != self.running:
                self.say("the run goes on" if store.running else "nobody writes the run any more")
            self.running = store.running
            self._seen = stamp if whole else None
            self.version += 1
        return whole

    def say(self, what: str, when: str | None = None) -> None:
        """Add an event, of now unless told."""
        self.events.append((when or time.strftime("%H:%M:%S"), what))

    def _begin(self, store: Store) -> None:
        """Make ready for the run that the folder holds: another one, or another seed of it, is read from its start."""
        text, erased = store.spec(), store.erased()
        settings = settings_of(text)
        if settings is not None:
            contender = next(iter(store.contenders()), (int(settings["seed"]), "parity"))
            spec = deployment_spec(store, settings, contender, 1, 1)
        else:
            with without_imports():  # a folder that came from elsewhere makes nobody run code
                spec = parse(text, f"{self.folder}: its spec")
        there = {seed for seed, _ in store.heads.known or store.contenders()}
        if self._wanted is not None and self._wanted not in there:
            known = ", ".join(map(str, sorted(there))) or "none yet"
            raise InputError(f"seed={self._wanted} is not in {self.folder}; it has {known}")
        seed = max(there, default=spec.seed) if self._wanted is None else self._wanted
        same = (text, erased) == self._origin and seed == self.seed
        if same and all(self._goes_on(store, one) for one in self.methods.values()):
            return
        if self._origin is not None:
            self.say(f"read from the start: {f'seed {seed}' if seed != self.seed else 'it was changed'}")
        self.spec, self.trace, self.seed, self._origin = spec, store.trace(), seed, (text, erased)
        self._met = None if settings is None else []
        clients = self.trace.num_clients if settings is None else 1
        self.methods = {m.name: Followed(m.name, Ledger.empty(clients)) for m in spec.methods}
        self.limit, self._limit_due = None, 0.0

    def _goes_on(self, store: Store, one: Followed) -> bool:
        """Whether what was read of a method is still what stands there."""
        done, chain = one.head
        query = "SELECT chain FROM rounds WHERE seed = ? AND method = ? AND round = ?"
        return not done or store.db.one(query, (self.seed, one.method, done - 1)) == (chain,)

    def _read(self, store: Store, one: Followed, end: float) -> bool:
        for committed in store.rounds(self.seed, one.method, one.head):
            record = record_of(one.method, committed)
            if committed.resumed:
                self.say(f"{one.method} was resumed with round {committed.round + 1}", f"{committed.resumed} UTC")
            if self._met is not None:
                self._meet(one, record, self._met)
            one.ledger = one.ledger.then(record)
            row = committed.row or [record.round, one.method, *measured(record, self._outcome(one)), None]
            online = len(record.available) + len(record.busy)
            became = record.selected, record.completed, record.failed, record.abandoned
            one.rounds.append(Round(online, *became, row, committed.seconds))
            one.head = committed.round + 1, committed.chain
            if time.monotonic() > end:
                return False
        return True

    def _outcome(self, one: Followed) -> Outcome:
        return Outcome.of(one.ledger, self.spec.cohort)

    # -- deployments --------------------------------------------------------------------------------------------------

    @staticmethod
    def _meet(one: Followed, record: RoundRecord, met: list[Ids]) -> None:
        """Keep who was online; whoever was registered before the first round has a place in the ledger from then on."""
        met.append(np.union1d(record.available, record.busy))
        known = {int(k) for k in record.joined}
        before = [int(k) for k in met[-1] if int(k) not in known]
        if before and before[-1] >= one.ledger.num_clients:
            one.ledger = Ledger.empty(before[-1] + 1) if not one.rounds else one.ledger.grown(before[-1] + 1)

    def _observed(self, store: Store, met: list[Ids]) -> Trace:
        """Who was there in the rounds read so far, by the names that they go by."""
        (one,) = self.methods.values()
        names = store.checkpoints.names((self.seed, one.method))
        clients = one.ledger.num_clients
        called = tuple(names.get(k, str(k)) for k in range(clients)) if names else None
        return Trace.from_rounds(clients, met, names=called)

    # -- the limit ----------------------------------------------------------------------------------------------------

    @property
    def too_large(self) -> bool:
        """Whether there are too many clients and rounds for a limit while it runs."""
        return self.trace.num_clients * max(1, self.rounds) > LARGEST

    def limit_due(self) -> bool:
        """Whether the limit is not that of the last round, and enough time passed since it was computed."""
        fresh = self.limit is not None and self.limit[0] == self.rounds
        waits = self.running and time.monotonic() < self._limit_due
        return bool(self.rounds) and not fresh and not waits and not self.too_large

    def compute_limit(self) -> None:
        """The limit of the rounds done by all methods; the lock is held only to look and to hand it over."""
        with self.lock:
            rounds, trace, slots, methods = self.rounds, self.trace, self.spec.asked, self.methods
        began = time.monotonic()
        found = frontier(trace.head(min(rounds, trace.num_rounds)), slots)
        with self.lock:
            now = time.monotonic()
            self._limit_due = now + max(PAUSE, SHARE * (now - began))
            if methods is self.methods:  # else it was read from the start meanwhile
                self.limit = rounds, found
                self.version += 1
