"""How a plan is carried out."""

import numpy as np
import pytest

from fedparity import (
    SCHEDULERS,
    ClientReport,
    Cohort,
    ConfigError,
    Coordinator,
    InProcess,
    Intermittent,
    NoTraining,
    RoundPlan,
    Trace,
)
from fedparity import run as run_loop
from fedparity.core.loop import Stopped
from fedparity.engines.intermittent import LEFT
from fedparity.local import Received
from fedparity.tasks import Logistic, Quadratic


def a_plan(clients, params=None, round=0, seed=0, **more):
    ids = np.array(clients, dtype=np.int64)
    cohort = Cohort(ids, np.linspace(0.1, 1, len(ids)), "exact")
    return RoundPlan(round, seed, ids, cohort, np.zeros(2) if params is None else params, **more)


def by_client(reports):
    return {r.client: r for r in reports}


class TestIntermittent:
    trace = Trace.from_rounds(
        4, [np.array([0, 1, 3]), np.array([2])], [np.array([True, False, True]), np.array([False])], None
    )

    def engine(self):
        return Intermittent(NoTraining(4), self.trace)

    def test_only_who_is_online_is_available(self):
        assert self.engine().available(0).tolist() == [0, 1, 3]
        assert self.engine().available(1).tolist() == [2]

    def test_the_engine_below_has_a_say(self):
        class Half(NoTraining):
            def available(self, round):
                return np.arange(2)

        assert Intermittent(Half(4), self.trace).available(0).tolist() == [0, 1]

    def test_who_leaves_sends_a_failure_signal(self):
        found = by_client(self.engine().train(a_plan([0, 1, 3])))
        assert {k: r.failure for k, r in found.items()} == {0: None, 1: LEFT, 3: None}
        assert found[1].delta is None
        assert found[0].delta.tolist() == [0, 0]

    def test_the_engine_below_is_asked_only_for_those_who_stay(self):
        asked = []

        class Spy(NoTraining):
            def train(self, plan):
                asked.append(plan.cohort)
                return NoTraining.train(self, plan)

        list(Intermittent(Spy(4), self.trace).train(a_plan([0, 1, 3])))
        assert asked[0].clients.tolist() == [0, 3]
        assert asked[0].probs == pytest.approx([0.1, 1])

    def test_failures_reach_the_ledger(self):
        state = run_loop(Coordinator(3, min_reports=0), self.engine(), 2, num_clients=4)
        assert state.ledger.failed.tolist() == [0, 1, 1, 0]
        assert state.ledger.completed.tolist() == [1, 0, 0, 1]

    def test_beyond_its_end_a_trace_names_the_fix(self):
        with pytest.raises(ConfigError, match="round 2 is beyond this trace of 2 rounds; lower rounds"):
            self.engine().available(2)
        with pytest.raises(ConfigError, match="lower rounds"):
            run_loop(Coordinator(1), self.engine(), 3, num_clients=4)

    def test_evaluation_passes_through(self):
        task = Quadratic.random(4, dim=2)
        inner = InProcess(task)
        found = Intermittent(inner, self.trace).evaluate(np.ones(2), np.array([1, 2]))
        assert found.loss.tolist() == inner.evaluate(np.ones(2), np.array([1, 2])).loss.tolist()

    def test_a_trace_laid_over_a_trace_is_both(self):
        other = Trace.from_rounds(4, [np.array([1, 2, 3]), np.array([2])], [np.array([True, True, False]), np.ones(1)])
        both = Intermittent(self.engine(), other)
        assert both.available(0).tolist() == [1, 3]
        assert {r.client: r.failure for r in both.train(a_plan([1, 3]))} == {1: LEFT, 3: LEFT}


class TestRollCall:
    def test_without_gains_nothing_is_worth_anything(self):
        found = by_client(NoTraining(3).train(a_plan([0, 2])))
        assert sorted(found) == [0, 2]
        assert np.isnan(found[0].loss_before)
        assert found[0].delta.tolist() == [0, 0]

    def test_gains_without_noise_are_the_means(self):
        found = by_client(NoTraining(3, np.array([1.0, 2.0, 4.0])).train(a_plan([0, 2])))
        assert {k: r.loss_before - r.loss_after for k, r in found.items()} == {0: 1, 2: 4}

    def test_a_gain_depends_on_round_and_client_and_not_on_who_else_is_asked(self):
        engine = NoTraining(5, np.ones(5), noise=0.3)
        alone = by_client(engine.train(a_plan([3])))[3].loss_before
        assert by_client(engine.train(a_plan([0, 3, 4])))[3].loss_before == alone
        assert by_client(engine.train(a_plan([3], round=1)))[3].loss_before != alone
        assert by_client(engine.train(a_plan([3], seed=1)))[3].loss_before != alone

    def test_noisy_gains_have_the_given_mean_and_never_fall_below_nothing(self):
        n = 20_000
        engine = NoTraining(n, np.full(n, 2.0), noise=0.3)
        gains = np.array([r.loss_before for r in engine.train(a_plan(range(n)))])
        assert gains.mean() == pytest.approx(2, abs=0.02)
        assert gains.std() == pytest.approx(0.6, abs=0.02)
        wild = np.array([r.loss_before for r in NoTraining(n, np.full(n, 2.0), noise=3).train(a_plan(range(n)))])
        assert wild.min() == 0

    def test_there_is_no_model_to_evaluate(self):
        assert np.isnan(NoTraining(3).evaluate(np.zeros(0), np.arange(3)).loss).all()


class TestInProcess:
    def test_a_client_trains_from_its_start_relative_to_the_model(self):
        task = Quadratic(np.array([[4.0], [4.0]]), np.ones((2, 1)), rate=0.5, steps=1)
        plan = a_plan([0, 1], params=np.array([0.0]), local=Received(), kept={1: np.array([2.0])})
        found = by_client(InProcess(task).train(plan))
        assert found[0].delta.tolist() == [2]  # 0 -> 2
        assert found[1].delta.tolist() == [3]  # 2 -> 3, against the model 0
        assert [found[k].loss_before for k in (0, 1)] == [8, 8]
        assert [found[k].loss_after for k in (0, 1)] == [2, 0.5]
        assert plan.params.tolist() == [0]
        assert plan.kept[1].tolist() == [2]

    @pytest.mark.parametrize("workers", [2, 4])
    def test_workers_give_the_same_bits(self, workers):
        task = Logistic.synthetic(9)
        plan = a_plan(range(9), params=task.init(np.random.default_rng(0)))
        one, many = (by_client(InProcess(task, w).train(plan)) for w in (1, workers))
        for k in range(9):
            assert one[k].delta.tobytes() == many[k].delta.tobytes()
            assert one[k].loss_after == many[k].loss_after

    def test_a_client_trains_the_same_whoever_else_is_asked(self):
        task = Logistic.synthetic(9)
        params = task.init(np.random.default_rng(0))
        alone = by_client(InProcess(task).train(a_plan([5], params=params)))[5]
        among = by_client(InProcess(task).train(a_plan(range(9), params=params)))[5]
        assert alone.delta.tobytes() == among.delta.tobytes()

    def test_an_error_in_a_client_is_not_swallowed(self):
        class Broken(Quadratic):
            def train(self, job):
                if job.client == 1:
                    raise RuntimeError("out of memory")
                return ClientReport(job.client, job.params)

        for workers in (1, 3):
            with pytest.raises(RuntimeError, match="out of memory"):
                InProcess(Broken(np.zeros((3, 2)), np.ones((3, 2))), workers).train(a_plan([0, 1, 2]))

    def test_everybody_is_there(self):
        assert InProcess(Quadratic.random(3)).available(7).tolist() == [0, 1, 2]

    def test_no_workers_are_refused(self):
        with pytest.raises(ConfigError, match="workers=0"):
            InProcess(Quadratic.random(3), 0)


def test_a_round_that_is_given_up_leaves_the_state_as_it_was():
    """An engine that is asked to stop raises before the next client trains; nothing of the round is absorbed."""
    asked = iter([False, False, True])
    engine = InProcess(Quadratic.random(6), stop=lambda: next(asked))
    coordinator = Coordinator(4, scheduler=SCHEDULERS.build("uniform"))
    state = coordinator.init(6, np.zeros(4))
    before = state.params.tobytes(), state.ledger.copy()
    plan, state = coordinator.plan(state, engine.available(0))
    with pytest.raises(Stopped):
        coordinator.absorb(state, plan, engine.train(plan), engine.evaluate)
    assert (state.params.tobytes(), state.ledger) == before
