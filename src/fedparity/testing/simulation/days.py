"""Days of a whole system by seed, in the manner of TigerBeetle's VOPR: everything fails, and nothing may break.

A day is 12 rounds, one every two hours. From the seed follow the population, the method, how wild the network is,
when the coordinator dies and how (killed, power cut, disk full or failing, closed and opened), which clients lie,
join, leave and are erased, and how the clock jumps. The coordinator, its gate and its store are the real ones; the
disk is a `FaultyDisk`, the clients are quadratics. After every step the invariants are held (`invariants`); a broken
one raises, and the same seed breaks it again.
"""

from __future__ import annotations

import errno
import hashlib
import random
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedparity.core import checks
from fedparity.core.coordinator import Coordinator
from fedparity.core.errors import FedparityError, OutputError
from fedparity.core.gate import Gate
from fedparity.core.journal import GENESIS, from_json, to_json
from fedparity.core.ledger import Ledger
from fedparity.core.state import State
from fedparity.core.trace import Trace
from fedparity.core.tree import classes_in, flatten
from fedparity.core.types import NO_IDS, ClientReport, RoundPlan, RoundRecord, Vector
from fedparity.store import Store, erase, finish_erasure, verify
from fedparity.testing.disks import FaultyDisk
from fedparity.testing.simulation.invariants import Books, BrokenInvariantError, check_round, hold
from fedparity.testing.simulation.world import World

ROUNDS_PER_DAY = 12
METHOD = "simulated"
SCHEDULERS = (
    "parity",
    "parity_deployment",
    "uniform",
    "least_served",
    "oldest_first",
    "round_robin",
    "inverse",
    "oort",
)
WINDOW, QUOTA = 24, 1.5
WITH_QUOTA = f"with_quota:inner=uniform,quota={QUOTA},window={WINDOW}"
MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory, where there is one
MAX_FILES = 24
"""Array files that a run of one method may have at a time."""
MAX_BYTES = 4 << 20
BYTES_PER_ROUND = 24 << 10
"""What a run's folder may take, and what it may grow by in a round."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened in a simulated system."""

    seed: int
    days: int
    rounds: int
    clients: int
    """Registered at the end."""
    scheduler: str
    deaths: dict[str, int]
    """How often the coordinator went, by how."""
    world: dict[str, int]
    """What clients and network did: letters, those that were late, lost or repeated, lies; who joined, left."""
    erased: int
    chain: str
    """The digest of the journal."""


def simulate(seed: int, days: int = 10) -> Outcome:
    """Live through so many days of the system that a seed stands for; BrokenInvariantError if something gives way."""
    checks.at_least("seed", seed, 0)
    checks.at_least("days", days, 1)
    memory = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="fedparity-", dir=memory, ignore_cleanup_errors=True) as folder:
        system = _System(seed, days, Path(folder))
        try:
            return system.live()
        except BrokenInvariantError as error:
            raise BrokenInvariantError(f"seed {seed}, round {system.books.rounds}: {error}") from error
        except FedparityError as error:
            told = f"seed {seed}, round {system.books.rounds}: {type(error).__name__}: {error}"
            raise BrokenInvariantError(told) from error


class _System:
    def __init__(self, seed: int, days: int, folder: Path) -> None:
        self.rng = rng = random.Random(f"fedparity {seed}")
        self.seed, self.days, self.folder = seed, days, folder
        clients = rng.randint(4, 16)
        dim = rng.choice((*[3] * 14, 8_200, 33_000))  # large ones have files, the largest differences
        self.world = World(rng, seed, clients, clients + rng.randint(0, 6), dim)
        quota = rng.random() < 0.3
        self.coordinator = self._method(clients, quota=quota)
        most = max(1, int(QUOTA * self.coordinator.cohort * WINDOW / clients))
        self.books = Books(self.world.most, (most, WINDOW) if quota else None)
        self.deaths: Counter[str] = Counter()
        self.erased: set[int] = set()
        self.disk = 0
        self.digest = ""
        """Of the state after the last round that is safe."""
        self.pending: tuple[RoundRecord, str] | None = None
        """A round that may be safe or not: the coordinator died before it could say so."""

    def _method(self, clients: int, *, quota: bool) -> Coordinator:
        rng = self.rng
        cohort = rng.randint(1, max(1, clients // 2))
        gate = Gate(
            max_norm=1e4,
            run=f"simulation {self.seed}",
            remote=True,
            key=hashlib.sha256(f"{self.seed}".encode()).digest(),
            max_age=rng.choice((0, 0, 1, 3)),
            max_weight=rng.choice((None, 1.0, 3.0)),
        )
        return Coordinator(
            cohort,
            seed=self.seed,
            scheduler=WITH_QUOTA if quota else rng.choice(SCHEDULERS),
            weighting=rng.choice(("mean", "mean", "by_size", "ipw")),
            gate=gate,
            over_select=0.0 if quota else rng.choice((0.0, 0.5, "observed")),
            min_reports=rng.choice((1, 1, min(2, cohort))),
        )

    @property
    def run(self) -> Path:
        return self.folder / str(self.disk) / "run"

    # -- lives of the coordinator -------------------------------------------------------------------------------------

    def live(self) -> Outcome:
        """Lives of the coordinator until all days are over."""
        self.run.parent.mkdir()
        while self.books.rounds < self.days * ROUNDS_PER_DAY or self.pending is not None:
            self._one_life()
        verdict = verify(self.run, lambda *_: classes_in(self._fresh()))
        hold(f"verify: {verdict.problems}", holds=verdict.ok)
        hold("verify found other rounds", holds=verdict.rounds == self.books.rounds)
        return Outcome(
            self.seed,
            self.days,
            self.books.rounds,
            self.world.registered,
            repr(self.coordinator.scheduler),
            dict(sorted(self.deaths.items())),
            dict(sorted(self.world.counts.items())),
            len(self.erased),
            self.books.chain,
        )

    def _fresh(self) -> State:
        return self.coordinator.init(self.world.most, np.zeros(self.world.task.centres.shape[1]))

    def _one_life(self) -> None:
        rng = self.rng
        how = rng.choice(("killed", "power cut", "power cut", "disk", "disk stays full", "closed"))
        fault: dict[str, Any] = {}
        if how.startswith("disk"):
            code = rng.choice((errno.ENOSPC, errno.EIO))
            fault = {"fail_at": rng.randint(0, 600), "code": code, "for_good": how != "disk"}
        elif rng.random() < 0.3:
            self._erase_one()
        end = min(self.days * ROUNDS_PER_DAY, self.books.rounds + rng.randint(1, 2 * ROUNDS_PER_DAY))
        cut: int | None = None
        disk = FaultyDisk(self.run.parent, **fault)
        try:
            with disk, Store.open(self.run) as store:
                state = self._recovered(store)
                while self.books.rounds < end:
                    began = len(disk.calls)
                    state, record = self._round(store, state)
                    if self.books.rounds + 1 == end and how in {"killed", "power cut"}:
                        cut = rng.randint(began, len(disk.calls))
                        if cut < len(disk.calls):
                            break
                    self._safe(store, state, record)
        except OutputError:
            hold("the disk was fine, but the store says it is not", holds=bool(fault))
            self.deaths[how] += 1
            return
        if cut is None:
            self.deaths["closed"] += 1
            return
        self.deaths[how] += 1
        self.disk += 1
        disk.power_cut(self.run.parent, after=cut, seed=rng.getrandbits(32) if how == "power cut" else None)
        shutil.rmtree(self.folder / str(self.disk - 1))

    def _recovered(self, store: Store) -> State:
        """The state that the store has, which is the one that was safe, or the one that was about to be."""
        finish_erasure(store, lambda *_: self._fresh())
        if not store.origin.begun:
            store.begin(f"# seed {self.seed}\n", Trace.from_rounds(self.world.most, [NO_IDS]), {})
        rounds = [*store.rounds(0, METHOD)]
        if self.pending is not None and len(rounds) == self.books.rounds + 1:
            record, self.digest = self.pending
            self.books.enter(record)
        self.pending = None
        hold(f"{len(rounds)} rounds are there, {self.books.rounds} were safe", holds=len(rounds) == self.books.rounds)
        hold("the chain is another one", holds=(rounds[-1].chain if rounds else GENESIS) == self.books.chain)
        state: State | None = store.load(0, METHOD, classes_in(self._fresh()))
        if state is None:
            return self.coordinator.init(self.world.registered, np.zeros(self.world.task.centres.shape[1]))
        hold("the state is not the one that was safe", holds=_digest_of(state) == self.digest)
        replayed = Ledger.replay(state.ledger.num_clients, (from_json(done.line) for done in rounds))
        hold("the ledger does not follow from the journal", holds=replayed == state.ledger)
        hold("something was given up", holds=not store.notices)
        return state

    # -- one round ----------------------------------------------------------------------------------------------------

    def _round(self, store: Store, state: State) -> tuple[State, RoundRecord]:
        """Plan, wait, take in, store; whether it is safe is not known before it is acknowledged."""
        world, coordinator = self.world, self.coordinator
        world.move_on()
        available = world.available()
        state = coordinator.grow(state, world.registered)
        plan, state = coordinator.plan(state, available, self.rng.choice((None, 100)) if state.round % 2 else None)
        world.answer(plan)
        letters = world.arrivals(plan.round)
        before: Vector = state.params.copy()
        twin = state.copy() if self.rng.random() < 0.1 else None
        record, state = coordinator.absorb(state, plan, letters)
        if twin is not None:
            self._order_does_not_matter(twin, plan, letters, record)
        check_round(coordinator, before, state, record, available, world.sent)
        self.pending = record, _digest_of(state)
        seconds = self.rng.choice((1.0, 1.0, -86400.0, 86400.0))  # a clock that jumps is telemetry, and nothing else
        try:
            store.commit(0, METHOD, state, to_json(record), [], seconds)
        except OutputError:
            world.undo(plan.round, letters)
            raise
        return state, record

    def _order_does_not_matter(
        self, twin: State, plan: RoundPlan, letters: list[ClientReport], record: RoundRecord
    ) -> None:
        again = [*letters, *letters]
        self.rng.shuffle(again)
        # A late letter that came twice may differ from its double: the first one counts, so those keep their order.
        late = [letter for letter in letters if letter.origin is not None]
        other, _ = self.coordinator.absorb(twin, plan, [*late, *(one for one in again if one.origin is None)])
        hold("order and repeats of replies matter", holds=to_json(other) == to_json(record))

    def _safe(self, store: Store, state: State, record: RoundRecord) -> None:
        """The round was acknowledged."""
        self.books.enter(record)
        self.books.check_ledger(state.ledger)
        head = store.heads.known.get((0, METHOD))
        hold("the store's chain is another one", holds=head == (self.books.rounds, self.books.chain))
        if self.pending is not None:
            self.digest, self.pending = self.pending[1], None
        if self.books.rounds % ROUNDS_PER_DAY == 0:
            self._check_bytes(state)
        done = record.round
        for key in [key for key in self.world.sent if key[1] < done - 8]:
            del self.world.sent[key]

    def _check_bytes(self, state: State) -> None:
        files = [path for path in self.run.rglob("*") if path.is_file()]
        arrays = [path for path in files if path.suffix == ".safetensors"]
        hold(f"{len(arrays)} array files", holds=len(arrays) <= MAX_FILES)
        size, large = sum(path.stat().st_size for path in files), 4 * state.params.nbytes
        budget = MAX_BYTES + BYTES_PER_ROUND * self.books.rounds + large
        hold(f"the run takes {size} bytes, more than {budget}", holds=size <= budget)

    def _erase_one(self) -> None:
        """Somebody who left wants to be forgotten."""
        gone = sorted(self.world.gone - self.erased)
        if not gone or self.pending is not None or not (self.run / "run.db").exists():
            return
        client = self.rng.choice(gone)
        erase(self.run, client, lambda *_: self._fresh(), totals=client % 3 == 0)
        self.erased.add(client)
        self.books.forget(client)
        with Store.read(self.run) as store:
            state = store.load(0, METHOD, classes_in(self._fresh()))
            for done in store.rounds(0, METHOD):
                self.books.chain = done.chain  # rounds are chained anew
        if state is not None:
            self.digest = _digest_of(state)
            self.books.check_ledger(state.ledger)


def _digest_of(state: State) -> str:
    """Of everything that the next round depends on."""
    skeleton, arrays = flatten(state)
    h = hashlib.sha256(repr(skeleton).encode())
    for path in sorted(arrays):
        h.update(path.encode())
        h.update(np.ascontiguousarray(arrays[path]).tobytes())
    return h.hexdigest()
