"""The loop: several methods over one availability, resumed or not, and tasks whose optimum is known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from fedparity import (
    SCHEDULERS,
    ClientReport,
    ConfigError,
    Coordinator,
    Evals,
    InProcess,
    Intermittent,
    Journal,
    Trace,
    run,
    run_side_by_side,
    stream,
)
from fedparity.core.protocols import Engine
from fedparity.local import Mixed
from fedparity.surrogates import UtilitySurrogate
from fedparity.tasks import Logistic, Quadratic
from fedparity.utility import AccuracyGain, GlobalLossDrop

N, T = 10, 15


class Double(Engine):
    """An engine in ten lines: client k always answers k."""

    def available(self, round):
        return np.arange(4) if round % 2 == 0 else np.arange(2)

    def train(self, plan):
        return [
            ClientReport(int(k), np.full(1, float(k)), loss_before=1.0, loss_after=0.0) for k in plan.cohort.clients
        ]

    def evaluate(self, params, clients):
        return Evals(clients, np.zeros(len(clients)), np.zeros(len(clients)))


class Seen:
    """An observer that keeps what it is told."""

    def __init__(self):
        self.calls = []

    def on_round(self, method, record, ledger, params):
        self.calls.append((method, record, ledger.rounds, params.copy()))


def a_trace(dropout=0.2):
    matrix = stream(1, "loop").random((T, N)) < np.linspace(0.2, 0.9, N)
    matrix[4] = False
    return Trace.from_matrix(matrix).with_dropout(dropout, stream(1, "dropout"))


def an_engine(**changes):
    return Intermittent(InProcess(Quadratic.random(N, dim=3), **changes), a_trace())


FAIR = Coordinator(3, seed=5, scheduler=SCHEDULERS.build("reactive:draw=sample"), surrogate=UtilitySurrogate())
VANILLA = Coordinator(3, seed=5, scheduler=SCHEDULERS.build("uniform"), utility=GlobalLossDrop())
MIXED = Coordinator(3, seed=8, local=Mixed(0.5), over_select=0.4, min_reports=2)
METHODS = {"fair": FAIR, "vanilla": VANILLA, "mixed": MIXED}
START = {"num_clients": N, "params": np.zeros(3)}


def test_a_double_of_an_engine_is_enough():
    state = run(Coordinator(4, scheduler=SCHEDULERS.build("uniform")), Double(), 2, num_clients=4, params=np.zeros(1))
    assert state.params.tolist() == [1.5 + 0.5]
    assert state.ledger.online.tolist() == [2, 2, 1, 1]
    assert state.ledger.utility.tolist() == [0, 2, 1, 1]  # client 0 changes nothing, which earns nothing


def test_both_branches_meet_one_availability_and_keep_apart():
    seen = Seen()
    done = run_side_by_side({"fair": FAIR, "vanilla": VANILLA}, an_engine(), T, observers=[seen], **START)
    fair = [call for call in seen.calls if call[0] == "fair"]
    vanilla = [call for call in seen.calls if call[0] == "vanilla"]
    for one, other, online in zip(fair, vanilla, a_trace(), strict=True):
        assert np.array_equal(one[1].available, online)
        assert np.array_equal(other[1].available, online)
    assert np.array_equal(done["fair"].ledger.online, done["vanilla"].ledger.online)
    assert not np.array_equal(done["fair"].ledger.selected, done["vanilla"].ledger.selected)
    assert not np.array_equal(done["fair"].params, done["vanilla"].params)
    assert done["fair"].ledger.surrogate_utility.sum() > 0 == done["vanilla"].ledger.surrogate_utility.sum()


def test_side_by_side_equals_each_alone():
    together = Journal()
    done = run_side_by_side(METHODS, an_engine(), T, observers=[together], **START)
    for name, coordinator in METHODS.items():
        alone = Journal()
        state = run(coordinator, an_engine(), T, observers=[alone], method=name, **START)
        assert state.params.tobytes() == done[name].params.tobytes()
        assert state.ledger == done[name].ledger
        assert alone.lines(name) == together.lines(name)
        assert alone.head(name) == together.head(name)
    assert len({together.head(name) for name in METHODS}) == len(METHODS)


def test_observers_are_called_once_a_round_and_method_in_order():
    first, second = Seen(), Seen()
    done = run_side_by_side(METHODS, an_engine(), T, observers=[first, second], **START)
    expected = [(name, t) for t in range(T) for name in METHODS]
    for seen in (first, second):
        assert [(name, record.round) for name, record, _, _ in seen.calls] == expected
        assert [rounds for _, _, rounds, _ in seen.calls] == [t + 1 for _, t in expected]
    assert first.calls[-1][3].tobytes() == done["mixed"].params.tobytes()


@pytest.mark.parametrize("stop", [1, 5, T - 1, T])
@pytest.mark.parametrize("name", METHODS)
def test_resuming_equals_never_having_stopped(name, stop):
    """The run's length is part of the plan (schedulers may look ahead), so the first part knows it too."""
    coordinator, engine, whole = METHODS[name], an_engine(), Journal()
    full = run(coordinator, engine, T, observers=[whole], **START)
    kept = []

    class Snapshot:
        def on_round(self, method, record, ledger, params):
            if record.round == stop - 1:
                kept.append(None)
                raise InterruptedError

    part, state = Journal(), coordinator.init(N, np.zeros(3))
    with pytest.raises(InterruptedError):
        run(coordinator, engine, T, state=state, observers=[part, Snapshot()])
    assert state.round == stop
    resumed = run(coordinator, an_engine(), T, state=state.copy(), observers=[part])
    assert part.lines() == whole.lines()
    assert resumed.params.tobytes() == full.params.tobytes()
    assert resumed.ledger == full.ledger
    assert len(kept) == 1


def test_a_method_that_is_ahead_waits_for_the_others():
    engine = an_engine()
    ahead = run(FAIR, engine, T, **START)
    done = run_side_by_side({"fair": FAIR, "vanilla": VANILLA}, engine, T, states={"fair": ahead.copy()}, **START)
    assert done["fair"].ledger == ahead.ledger
    assert done["vanilla"].ledger == run(VANILLA, engine, T, **START).ledger


@pytest.mark.parametrize("rounds", [0, -1, 2.5])
def test_no_rounds_are_refused(rounds):
    with pytest.raises(ConfigError, match=f"rounds={rounds} must be a whole number of at least 1"):
        run(FAIR, an_engine(), rounds, **START)


def test_nothing_to_run_is_refused():
    with pytest.raises(ConfigError, match="at least one entry"):
        run_side_by_side({}, an_engine(), T, **START)
    with pytest.raises(ConfigError, match="give its first one"):
        run(FAIR, an_engine(), T)


@pytest.mark.parametrize("name", METHODS)
def test_workers_do_not_change_a_bit(name):
    heads = []
    for workers in (1, 4):
        journal = Journal(keep=False)
        run(METHODS[name], an_engine(workers=workers), T, observers=[journal], **START)
        heads.append(journal.head())
    assert heads[0] == heads[1]
    assert journal.lines() == []


def test_quadratics_reach_their_optimum():
    task = Quadratic.random(N, dim=4, rate=0.5, steps=1)
    state = run(Coordinator(N), InProcess(task), 120, num_clients=N, params=np.zeros(4))
    assert state.params == pytest.approx(task.optimum(), abs=1e-10)


def test_quadratics_have_that_optimum():
    task = Quadratic.random(N, dim=4)
    everybody = np.arange(N)
    found = minimize(lambda w: task.evaluate(w, everybody).loss.mean(), np.zeros(4), tol=1e-12)
    assert task.optimum() == pytest.approx(found.x, abs=1e-5)


def test_logistic_regression_reaches_the_optimum_of_a_solver():
    task = replace(Logistic.synthetic(6, samples=20, features=3), l2=0.3, rate=0.2, batch=20)
    everybody, start = np.arange(6), task.init(stream(0, "init"))

    def mean_loss(w):
        return task.evaluate(w, everybody).loss.mean()

    def mean_gradient(w):
        return np.mean([task.gradient(w, x, y) for x, y in zip(task.x, task.y, strict=True)], axis=0)

    best = minimize(mean_loss, start, jac=mean_gradient, method="BFGS", options={"gtol": 1e-10})
    state = run(Coordinator(6, utility=AccuracyGain()), InProcess(task), 300, num_clients=6, params=start)
    assert state.params == pytest.approx(best.x, abs=1e-7)
    assert mean_loss(state.params) == pytest.approx(best.fun, abs=1e-12)
    assert mean_loss(start) > best.fun + 0.1


def test_a_rule_that_needs_the_loss_alone_has_no_accuracy_computed():
    asked = []

    class Asking(InProcess):
        def evaluate(self, params, clients, measure="both"):
            asked.append(measure)
            return super().evaluate(params, clients, measure)

    engine = Intermittent(Asking(Quadratic.random(N)), a_trace())
    run(Coordinator(cohort=2, utility="global_loss_drop"), engine, 3, params=np.zeros(4))
    assert set(asked) == {"loss"}
