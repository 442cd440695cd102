"""Vectors that a surrogate keeps: stored when they change, never copied, erased with their client, and resumed."""

import numpy as np
import pytest

from fedparity import SCHEDULERS, SURROGATES, WEIGHTINGS, Coordinator, InProcess, Intermittent, Journal, Trace, run
from fedparity.core.journal import to_json
from fedparity.core.rows import mapping_of
from fedparity.local.rules import LOCALS
from fedparity.store import Store, checkpoints
from fedparity.store.erase import without
from fedparity.store.tree import classes_in
from fedparity.tasks import Quadratic
from stored_runs import same

CLIENTS, ROUNDS = 6, 14
COMBOS = [
    ("memory:own=replace", "memory_mean", "plain"),
    ("memory:own=replace,ram=100", "memory_mean:over=seen", "plain"),
    ("memory:wait=true,own=replace", "memory_mean", "plain"),
    ("memory", "fedvarp", "plain"),
    ("memory:ram=0", "fedstale", "plain"),
    ("memory:max_age=3", "fair_vector:tau=3", "plain"),
    ("decayed", "decayed_mean", "plain"),
    ("running_sum", "fedlaavg", "difference"),
    ("echo", "fedawe:clip=1", "received"),
    ("echo:ram=0", "fedawe", "received"),
    ("none", "cafed", "plain"),
    ("none", "f3ast", "plain"),
]


def method_of(surrogate, weighting, local):
    return Coordinator(
        3, seed=1, scheduler=SCHEDULERS.build("uniform"), surrogate=SURROGATES.build(surrogate),
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


@pytest.mark.parametrize(("surrogate", "weighting", "local"), COMBOS)
@pytest.mark.parametrize("stop", [1, 7])
def test_resuming_equals_never_having_stopped(tmp_path, files_for_all, surrogate, weighting, local, stop):  # noqa: ARG001
    method = method_of(surrogate, weighting, local)
    journal = Journal()
    whole = run(method, engine_of(), ROUNDS, params=np.zeros(4), num_clients=CLIENTS, observers=[journal])
    classes = classes_in(method.init(CLIENTS, np.zeros(4)))
    with Store.open(tmp_path) as store:
        Keeper(store).go_on(method, method.init(CLIENTS, np.zeros(4)), stop)
    with Store.open(tmp_path) as store:
        fresh = method_of(surrogate, weighting, local)  # another process has another spill
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
        assert len(held) == len(state.surrogate.memory.kept) > 3
        for client, vector in state.surrogate.memory.kept.items():
            assert held[f"/surrogate/memory/kept/{client}"] is vector
        assert any(mapping_of(vector) is not None for vector in held.values())
        assert not np.shares_memory(store.checkpoints.last[0, "m"].arrays["/ledger/online"], state.ledger.online)


def test_only_what_changed_is_written(tmp_path, monkeypatch):
    for name, value in (("LARGE", 16), ("SMALL_STATE", 0), ("SNAPSHOT_EVERY", 100)):
        monkeypatch.setattr(checkpoints, name, value)
    method, written = method_of("memory", "fedvarp", "plain"), []
    with Store.open(tmp_path) as store:
        state = Keeper(store).go_on(method, method.init(CLIENTS, np.zeros(4)), 9)
        write = store.arrays.write
        monkeypatch.setattr(store.arrays, "write", lambda array: (written.append(id(array)), write(array))[1])
        before = dict(state.surrogate.kept)
        state = Keeper(store).go_on(method, state, 10)
    new = {id(v) for k, v in state.surrogate.kept.items() if v is not before.get(k)}
    old = {id(v) for v in before.values()} & {id(v) for v in state.surrogate.kept.values()}
    assert new <= set(written)
    assert not old & set(written)
    assert 0 < len(new) <= 3
    assert old


@pytest.mark.parametrize(("surrogate", "weighting", "local"), COMBOS)
def test_a_client_is_erased_from_memory(surrogate, weighting, local):
    method = method_of(surrogate, weighting, local)
    state = run(method, engine_of(), ROUNDS, params=np.zeros(4), num_clients=CLIENTS)
    client = CLIENTS - 1
    state = without(state, method.init(CLIENTS, np.zeros(4)), client)
    assert client not in state.client_models
    for memory in (
        state.surrogate,
        getattr(state.surrogate, "memory", None),
        getattr(state.surrogate, "received", None),
    ):
        if hasattr(memory, "kept"):
            assert client not in memory.kept
            assert len(memory.kept) == (1 if surrogate == "running_sum" else CLIENTS - 1)
        if hasattr(memory, "sizes"):
            assert memory.sizes[client] == 0
    waiting = getattr(state.surrogate, "waiting", None)
    assert waiting is None or client not in waiting
    more = np.ones((ROUNDS + 5, CLIENTS), bool)
    engine = Intermittent(InProcess(Quadratic.random(CLIENTS, seed=1)), Trace.from_matrix(more))
    assert np.isfinite(run(method, engine, ROUNDS + 5, state=state).params).all()
