"""Coordinator, store, erasures and late joiners in any order that hypothesis thinks of, shrunk to the fewest steps."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from crash_lab import size
from fedparity import Coordinator, Ledger, Trace
from fedparity.core.gate import Gate
from fedparity.core.journal import GENESIS, from_json, to_json
from fedparity.core.tree import classes_in
from fedparity.core.types import NO_IDS
from fedparity.store import Store, erase, verify
from fedparity.tasks.quadratic import Quadratic
from fedparity.testing import FaultyDisk
from stored_runs import same

FIRST, MOST, DIM = 3, 7, 3
TASK = Quadratic.random(MOST, dim=DIM, seed=1)
MEMORY = Path("/dev/shm")


class Run(RuleBasedStateMachine):
    """One run and what is known of it: lines that are safe, the state after the last, who was erased."""

    @initialize(
        scheduler=st.sampled_from(["parity", "uniform", "with_quota:inner=least_served", "parity_deployment"]),
        surrogate=st.sampled_from(["none", "utility"]),
        late=st.integers(0, 2),
    )
    def begin(self, scheduler, surrogate, late):
        self.folder = Path(tempfile.mkdtemp(prefix="fedparity-crash-", dir=MEMORY if MEMORY.is_dir() else None))
        self.method = Coordinator(2, scheduler=scheduler, surrogate=surrogate, gate=Gate(max_age=late))
        self.clients, self.number = FIRST, 0
        self.state = self.method.init(self.clients, np.zeros(DIM))
        self.lines, self.chain, self.erased, self.letters = 0, GENESIS, set(), []
        self.enter()
        self.store.begin("# a machine\n", Trace.from_rounds(MOST, [NO_IDS]), {})

    def teardown(self):
        if hasattr(self, "folder"):
            self.leave(self.store.abandon)
            shutil.rmtree(self.folder)

    @property
    def run(self):
        return self.folder / str(self.number) / "run"

    def classes(self):
        return classes_in(self.method.init(MOST, np.zeros(DIM)))

    def enter(self):
        self.run.parent.mkdir(exist_ok=True)
        self.disk = FaultyDisk(self.run.parent)
        self.disk.__enter__()
        self.store = Store.open(self.run)

    def leave(self, how):
        how()
        self.disk.__exit__()

    @rule(
        online=st.sets(st.integers(0, MOST - 1)),
        answers=st.lists(st.sampled_from(["now", "twice", "later", "never", "broken"]), min_size=2, max_size=2),
    )
    def a_round(self, online, answers):
        available = np.array(sorted({k for k in online if k < self.clients} - self.erased), np.int64)
        plan, state = self.method.plan(self.state, available)
        reports, self.letters = self.letters, []
        for client, how in zip(plan.cohort.clients.tolist(), answers, strict=False):
            report = TASK.train(plan.job(client))
            if how == "later":
                self.letters.append(replace(report, origin=plan.round))
            elif how != "never":
                broken = replace(report, delta=np.full(DIM, np.nan))
                reports += [broken] if how == "broken" else [report] * (1 + (how == "twice"))
        record, self.state = self.method.absorb(state, plan, reports, TASK.evaluate)
        self.store.commit(0, "m", self.state, to_json(record), [], 0.0)
        self.lines += 1
        self.chain = self.store.heads.known[0, "m"][1]

    @precondition(lambda self: self.clients < MOST)
    @rule()
    def somebody_registers(self):
        self.clients += 1
        self.state = self.method.grow(self.state, self.clients)

    @rule(power=st.none() | st.integers(0, 99))
    def a_crash(self, power):
        calls = len(self.disk.calls)  # closing a connection writes, which a process that dies does not
        self.leave(self.store.abandon)
        self.number += 1
        self.disk.power_cut(self.run.parent, after=calls, seed=power)
        self.enter()
        self.reload()

    @rule()
    def closed_and_opened(self):
        self.leave(self.store.close)
        self.enter()
        self.reload()

    @precondition(lambda self: self.lines > 0)
    @rule(client=st.integers(0, MOST - 1), totals=st.booleans())
    def an_erasure(self, client, totals):
        if client >= self.state.ledger.num_clients or client >= self.stored_clients():
            return
        self.leave(self.store.close)
        erase(self.run, client, lambda *_: self.method.init(MOST, np.zeros(DIM)), totals=totals)
        self.erased.add(client)
        self.letters = [letter for letter in self.letters if letter.client != client]
        self.enter()
        self.chain = self.store.heads.known[0, "m"][1]  # rounds are chained anew
        self.state = self.method.grow(self.store.load(0, "m", self.classes()), self.clients)

    def stored_clients(self):
        return self.store.load(0, "m", self.classes()).ledger.num_clients

    def reload(self):
        """What comes back is what was safe; clients that registered since do so again."""
        found = self.store.load(0, "m", self.classes())
        if found is None:
            assert self.lines == 0
            found = self.method.init(FIRST, np.zeros(DIM))
        found = self.method.grow(found, self.clients)
        assert same(found.params, self.state.params)
        assert found.ledger == self.state.ledger
        self.state = found

    @invariant()
    def the_journal_is_whole(self):
        if not hasattr(self, "store"):
            return
        rounds = [*self.store.rounds(0, "m")]
        assert len(rounds) == self.lines
        assert (rounds[-1].chain if rounds else GENESIS) == self.chain
        records = [from_json(done.line) for done in rounds]
        ledger = Ledger.replay(FIRST, records)
        assert ledger.grown(self.clients).completed.tolist() == self.state.ledger.completed.tolist()
        assert ledger.grown(self.clients).selected.tolist() == self.state.ledger.selected.tolist()
        for record in records:
            assert self.erased.isdisjoint({*record.available.tolist(), *record.row_clients.tolist()})
        assert np.isfinite(self.state.params).all()


Run.TestCase.settings = settings(
    max_examples=size(15, 500),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
TestRun = Run.TestCase


def test_erasing_the_only_client_that_registered_late_leaves_a_run_that_verifies():
    machine = Run()
    machine.begin("uniform", "none", 2)
    machine.a_round({0, 1}, ["now", "now"])
    machine.somebody_registers()
    machine.a_round({2, 3}, ["never", "later"])
    machine.a_round({0, 1}, ["now", "now"])
    machine.an_erasure(3, totals=False)
    machine.leave(machine.store.close)
    verdict = verify(machine.run, lambda *_: machine.classes())
    assert verdict.problems == ()
    machine.enter()
    machine.teardown()


def test_a_machine_that_is_closed_verifies(tmp_path):
    """What the machine's steps leave is a run like any other."""
    machine = Run()
    machine.begin("uniform", "none", 2)
    for step in (("now", "later"), ("twice", "never"), ("now", "broken")):
        machine.a_round({0, 1, 2}, list(step))
    machine.somebody_registers()
    machine.a_round({0, 3}, ["now", "now"])
    machine.an_erasure(0, totals=True)
    machine.a_crash(3)
    machine.leave(machine.store.close)
    verdict = verify(machine.run, lambda *_: machine.classes())
    assert (verdict.problems, verdict.rounds) == ((), 4)
    machine.enter()
    machine.teardown()
    assert not [*tmp_path.iterdir()]
