"""Vectors that a memory keeps: stored when they change, never copied, erased with their client, and resumed."""

import shutil

import numpy as np
import pytest

from fedparity import MEMORIES, SCHEDULERS, WEIGHTINGS, Coordinator, InProcess, Intermittent, Journal, Trace, run
from fedparity.core.errors import InputError
from fedparity.core.journal import to_json
from fedparity.core.rows import mapping_of
from fedparity.core.tree import classes_in
from fedparity.local import LOCALS
from fedparity.memory.stale import NOBODY
from fedparity.store import Store, checkpoints, verify
from fedparity.store.erase import without
from fedparity.tasks import Quadratic
from stored_runs import same

CLIENTS, ROUNDS = 6, 14
COMBOS = [
    ("last_updates:own=replace", "memory_mean", "plain"),
    ("last_updates:own=replace,ram=100", "memory_mean:over=seen", "plain"),
    ("last_updates:wait=true,own=replace", "memory_mean", "plain"),
    ("last_updates", "fedvarp", "plain"),
    ("last_updates:ram=0", "fedstale", "plain"),
    ("last_updates:max_age=3", "fair_vector:tau=3", "plain"),
    ("decayed", "decayed_mean", "plain"),
    ("running_sum", "fedlaavg", "difference"),
    ("echo", "fedawe:clip=1", "received"),
    ("echo:ram=0", "fedawe", "received"),
    ("none", "cafed", "plain"),
    ("none", "f3ast", "plain"),
]


def method_of(memory, weighting, local):
    return Coordinator(
        3, seed=1, scheduler=SCHEDULERS.build("uniform"), memory=MEMORIES.build(memory),
        weighting=WEIGHTINGS.build(weighting),
        local=LOCALS.build(local), min_reports=0,
    )  # fmt: skip


def engine_of():
    matrix = np.random.default_rng(5).random((ROUNDS, CLIENTS)) < np.linspace(0.3, 0.8, CLIENTS)
    return Intermittent(InProcess(Quadratic.random(CLIENTS, seed=1)), Trace.from_matrix(matrix))


class Keeper:
    """Commits every round, as the runner does."""

    def __init__(self, store):
        self.store = store

    def go_on(self, method, state, rounds):
        for t in range(state.round, rounds):
            lines = []
            observer = type("Line", (), {"on_round": lambda _, _name, record, *__: lines.append(to_json(record))})()  # noqa: B023
            state = run(method, engine_of(), t + 1, state=state, observers=[observer])
            self.store.commit(0, "m", state, lines[0], [t], 0.0)
        return state


@pytest.mark.parametrize(("memory", "weighting", "local"), COMBOS)
@pytest.mark.parametrize("stop", [1, 7])
def test_resuming_equals_never_having_stopped(tmp_path, files_for_all, memory, weighting, local, stop):  # noqa: ARG001
    method = method_of(memory, weighting, local)
    journal = Journal()
    whole = run(method, engine_of(), ROUNDS, params=np.zeros(4), num_clients=CLIENTS, observers=[journal])
    classes = classes_in(method.init(CLIENTS, np.zeros(4)))
    with Store.open(tmp_path) as store:
        Keeper(store).go_on(method, method.init(CLIENTS, np.zeros(4)), stop)
    with Store.open(tmp_path) as store:
        fresh = method_of(memory, weighting, local)  # another process has another spill
        state = Keeper(store).go_on(fresh, store.load(0, "m", classes), ROUNDS)
        assert same(state, whole)
        lines = [c.line for c in store.rounds(0, "m")]
    assert lines == journal.lines()
    with Store.read(tmp_path) as reader:
        assert same(reader.load(0, "m", classes), whole)


def test_vectors_of_clients_are_compared_without_a_copy(tmp_path, monkeypatch):
    for name, value in (("LARGE", 16), ("SMALL_STATE", 0), ("SNAPSHOT_EVERY", 100)):
        monkeypatch.setattr(checkpoints, name, value)
    method = method_of("decayed:ram=40", "decayed_mean", "plain")
    with Store.open(tmp_path) as store:
        state = Keeper(store).go_on(method, method.init(CLIENTS, np.zeros(4)), 9)
        held = {p: a for p, a in store.checkpoints.last[0, "m"].arrays.items() if "/kept/" in p}
        assert len(held) == len(state.memory.last.kept) > 3
        for client, vector in state.memory.last.kept.items():
            assert held[f"/memory/last/kept/{client}"] is vector
        assert any(mapping_of(vector) is not None for vector in held.values())
        assert not np.shares_memory(store.checkpoints.last[0, "m"].arrays["/ledger/online"], state.ledger.online)


def test_only_what_changed_is_written(tmp_path, monkeypatch):
    for name, value in (("LARGE", 16), ("SMALL_STATE", 0), ("SNAPSHOT_EVERY", 100)):
        monkeypatch.setattr(checkpoints, name, value)
    method, written = method_of("last_updates", "fedvarp", "plain"), []
    with Store.open(tmp_path) as store:
        state = Keeper(store).go_on(method, method.init(CLIENTS, np.zeros(4)), 9)
        write = store.arrays.write
        monkeypatch.setattr(store.arrays, "write", lambda array: (written.append(id(array)), write(array))[1])
        before = dict(state.memory.kept)
        state = Keeper(store).go_on(method, state, 10)
    new = {id(v) for k, v in state.memory.kept.items() if v is not before.get(k)}
    old = {id(v) for v in before.values()} & {id(v) for v in state.memory.kept.values()}
    assert new <= set(written)
    assert not old & set(written)
    assert 0 < len(new) <= 3
    assert old


@pytest.mark.parametrize(("memory", "weighting", "local"), COMBOS)
def test_a_client_is_erased_from_memory(memory, weighting, local):
    method = method_of(memory, weighting, local)
    state = run(method, engine_of(), ROUNDS, params=np.zeros(4), num_clients=CLIENTS)
    client = CLIENTS - 1
    state = without(state, method.init(CLIENTS, np.zeros(4)), client)
    assert client not in state.kept
    for part in (state.memory, getattr(state.memory, "last", None), getattr(state.memory, "received", None)):
        if hasattr(part, "kept"):
            assert client not in part.kept
            others = len(part.kept.keys() - {NOBODY})
            assert others == (0 if memory == "running_sum" else CLIENTS - 1)
        if hasattr(part, "sizes"):
            assert part.sizes[client] == 0
    waiting = getattr(state.memory, "waiting", None)
    assert waiting is None or client not in waiting
    more = np.ones((ROUNDS + 5, CLIENTS), bool)
    engine = Intermittent(InProcess(Quadratic.random(CLIENTS, seed=1)), Trace.from_matrix(more))
    assert np.isfinite(run(method, engine, ROUNDS + 5, state=state).params).all()


@pytest.mark.parametrize("harm", ["flip", "delete"])
@pytest.mark.parametrize("copies", [False, True])
def test_no_array_file_is_a_single_point_of_failure_where_copies_are_kept(tmp_path, files_for_all, harm, copies):  # noqa: ARG001
    method = method_of("last_updates", "fedvarp", "plain")
    classes = classes_in(method.init(CLIENTS, np.zeros(4)))
    with Store.open(tmp_path / "run", copies=copies) as store:
        store.begin("# m\n", Trace.from_rounds(CLIENTS, [np.arange(CLIENTS)]), {})
        last = Keeper(store).go_on(method, method.init(CLIENTS, np.zeros(4)), ROUNDS)
    names = sorted(path.name for path in (tmp_path / "run" / "arrays").iterdir())
    assert any(".copy." in name for name in names) == copies
    lost, whole = 0, 0
    for name in names:
        folder = shutil.copytree(tmp_path / "run", tmp_path / name)
        path = folder / "arrays" / name
        if harm == "flip":
            path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1]))
        else:
            path.unlink()
        assert not verify(folder, lambda *_: classes).ok
        try:
            with Store.open(folder, copies=copies) as store:
                state = store.load(0, "m", classes)
                store.sweep()
                said = list(store.notices)
        except InputError:
            lost += 1
            continue
        assert state.round >= ROUNDS - 1
        if state.round == ROUNDS:
            whole += 1
            assert same(state, last)
        assert said or harm == "delete"
        assert verify(folder, lambda *_: classes).ok
    assert (lost == 0) == copies
    assert whole > 3 or not copies
