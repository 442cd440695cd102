"""Every array of a state that has one entry per client is marked where it is declared, and nothing else is.

States for N and for N + 1 clients tell which arrays grow with the clients; taking a client out must touch those alone.
"""

import numpy as np
import pytest

from fedparity import ESTIMATORS, MEMORIES, SCHEDULERS, SURROGATES, UTILITIES, WEIGHTINGS, Coordinator, Trace
from fedparity.core.state import State
from fedparity.core.tree import flatten
from fedparity.estimators import Oracle
from fedparity.experiment.methods import METHODS
from fedparity.experiment.runner import build_coordinator
from fedparity.experiment.spec import MethodSpec
from fedparity.experiment.spec_file import parse
from fedparity.store.erase import without
from fitting import partners

N, CLIENT = 8, 3
"""As many clients as a forecast has bins: length alone does not tell."""
PARTS = {
    "estimator": (ESTIMATORS, ["window:window=4"]),
    "scheduler": (SCHEDULERS, ["with_quota:inner=parity", "with_quota:inner=deficit", "with_floor:inner=oort"]),
    "weighting": (WEIGHTINGS, []),
    "utility": (UTILITIES, []),
    "surrogate": (SURROGATES, []),
    "memory": (MEMORIES, []),
}


def of_method(name, clients):
    spec = parse('version = 2\n[[methods]]\nname = "uniform"\n', "test", [f"population.clients={clients}", "cohort=3"])
    return build_coordinator(spec, MethodSpec(name=name), 0)


def coordinators():
    for name in METHODS:
        yield f"method {name}", lambda n, name=name: of_method(name, n)
    for kind, (registry, more) in PARTS.items():
        for text in [*registry, *more]:
            if text not in {"fixed", "fedgs"}:  # one is given its cohorts, one is made for a number of clients
                yield f"{kind} {text}", lambda _, k=kind, t=text: Coordinator(3, **partners(k, t))


def grown(make):
    """Paths of arrays that are longer with one client more."""
    small, large = (flatten(make(n).init(n, np.zeros(5)))[1] for n in (N, N + 1))
    assert small.keys() == large.keys()
    return {path for path in small if small[path].shape != large[path].shape}


def touched(coordinator):
    """Paths of arrays in which taking a client out changed its entry, and it alone."""
    state, fresh = (coordinator.init(N, np.zeros(5)) for _ in range(2))
    before = flatten(state)[1]
    for array in before.values():
        array[...] = 1 if array.dtype == np.bool_ else 77
    after = flatten(without(state, fresh, CLIENT))[1]
    found = set()
    for path, array in after.items():
        changed = np.flatnonzero((array != (1 if array.dtype == np.bool_ else 77)).reshape(len(array), -1).any(axis=1))
        assert changed.tolist() in ([], [CLIENT]), path
        if len(changed):
            found.add(path)
    return found


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in coordinators()])
def test_what_grows_with_the_clients_is_marked(make):
    paths = grown(make)
    assert "/ledger/online" in paths
    assert touched(make(N)) == paths


def test_an_oracle_is_marked():
    trace = Trace.from_matrix(np.ones((4, N)))
    state, fresh = (Coordinator(3, estimator=Oracle(trace)).init(N) for _ in range(2))
    state.estimator.left[:] = 0
    assert without(state, fresh, CLIENT).estimator.left.tolist() == [0, 0, 0, 4, 0, 0, 0, 0]


def test_lists_of_clients_and_dicts_lose_the_client():
    lists = (np.array([1, 3]), np.array([], np.int64), np.array([3]))
    coordinator = Coordinator(3, scheduler="with_quota", **partners("memory", "echo"))
    state: State = coordinator.init(N)
    state.scheduler.recent = lists
    state.memory.waiting = np.array([2, 3])
    state.memory.received.kept = {2: np.zeros(2), 3: np.ones(2)}
    state.kept = {3: np.zeros(2)}
    state = without(state, coordinator.init(N), CLIENT)
    assert [ids.tolist() for ids in state.scheduler.recent] == [[1], [], []]
    assert state.memory.waiting.tolist() == [2]
    assert list(state.memory.received.kept) == [2]
    assert state.kept == {}
