"""Rounds that attackers hold: what flipped updates cost the deployment method, and what without its bounds."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedparity import AVAILABILITY, Coordinator, Trace, run
from fedparity.core.gate import Gate
from fedparity.engines import InProcess, Intermittent
from fedparity.experiment.methods import METHODS
from fedparity.tasks import Logistic

CLIENTS, ROUNDS, ATTACKERS = 100, 120, 10


@dataclass(frozen=True, slots=True)
class Flipped:
    """Attackers send their update, turned round and made longer."""

    engine: InProcess
    times: float

    @property
    def num_clients(self):
        return self.engine.num_clients

    def available(self, round):
        return self.engine.available(round)

    def busy(self, round):
        return self.engine.busy(round)

    def train(self, plan):
        for report in self.engine.train(plan):
            mine = report.client < ATTACKERS
            yield replace(report, delta=self.times * report.delta) if mine else report

    def evaluate(self, *args, **kwargs):
        return self.engine.evaluate(*args, **kwargs)

    validate = None


class Late:
    """Accuracy of honest clients over the last rounds: a round that was held shows at once."""

    def __init__(self, task):
        self.task, self.seen = task, []

    def on_round(self, method, record, ledger, params):
        if record.round >= ROUNDS - 30:
            everybody = np.arange(ATTACKERS, CLIENTS)
            self.seen.append(self.task.evaluate(params, everybody, "accuracy").accuracy.mean())


def accuracy(seed, cohort, times, scheduler, weighting, gate):
    task = Logistic.synthetic(CLIENTS, seed=seed)
    there = AVAILABILITY.build("bernoulli").draw(CLIENTS, ROUNDS, seed).matrix().astype(bool)
    there[:, :ATTACKERS] = (np.arange(ROUNDS) % 10 == 9)[:, None]
    late = Late(task)
    coordinator = Coordinator(cohort, seed=seed, scheduler=scheduler, weighting=weighting, gate=gate)
    engine = Intermittent(Flipped(InProcess(task), times), Trace.from_matrix(there))
    run(coordinator, engine, ROUNDS, params=task.init(np.random.default_rng(0)), observers=[late])
    return 100 * np.mean(late.seen)


def deployed(seed, cohort, times):
    method = METHODS["deployment"]
    return accuracy(seed, cohort, times, method.scheduler, method.weighting, method.gate)


@pytest.mark.slow
@pytest.mark.parametrize("times", [-10.0, -1e4])
@pytest.mark.parametrize("cohort", [10, 20])
def test_flipped_updates_of_synchronised_attackers_cost_at_most_a_point(cohort, times):
    cost = [deployed(seed, cohort, 1.0) - deployed(seed, cohort, times) for seed in range(3)]
    assert np.mean(cost) <= 1.0


@pytest.mark.slow
def test_without_the_bounds_they_cost_more():
    before = "with_quota:inner=parity:ratio=1.1,spare=fill"
    cost = [
        accuracy(seed, 10, 1.0, before, "clipped", Gate()) - accuracy(seed, 10, -1e4, before, "clipped", Gate())
        for seed in range(3)
    ]
    assert np.mean(cost) > 5.0
