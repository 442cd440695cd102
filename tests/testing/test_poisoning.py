"""What poisoned updates cost the deployment method, and what without its bounds."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedparity import Coordinator, InProcess, Intermittent, Trace, run
from fedparity.core.gate import Gate
from fedparity.experiment.methods import METHODS
from fedparity.tasks import Logistic
from fedparity.testing.attacks.arena import Arena
from fedparity.testing.attacks.poison import POISONS, poisoned

ARENA = Arena(rounds=120)
HARMS = [name for name in POISONS if name != "none" and "backdoor" not in name]
BEFORE = {"scheduler": "with_quota:inner=parity:ratio=1.1,spare=fill", "weighting": "clipped", "gate": Gate()}


def accuracy(name, seed, cohort=10, *, attendance="synchronised", **choices):
    return 100 * poisoned(name, replace(ARENA, cohort=cohort), seed, attendance=attendance, **choices).accuracy


def deployed():
    method = METHODS["deployment"]
    return {"scheduler": method.scheduler, "weighting": method.weighting, "gate": method.gate}


@pytest.mark.parametrize("name", HARMS)
def test_poisoned_updates_cost_at_most_a_point(name):
    for attendance in (None, "synchronised"):
        honest, harmed = (accuracy(kind, 0, attendance=attendance, **deployed()) for kind in ("none", name))
        assert honest > 90
        assert honest - harmed <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", HARMS)
@pytest.mark.parametrize("cohort", [10, 20])
def test_poisoned_updates_of_synchronised_attackers_cost_at_most_a_point(cohort, name):
    cost = [
        accuracy("none", seed, cohort, **deployed()) - accuracy(name, seed, cohort, **deployed()) for seed in range(5)
    ]
    assert np.mean(cost) <= 1.0
    assert max(cost) <= 2.0


def test_who_holds_thin_rounds_does_not_say_how_long_updates_are():
    arena = replace(ARENA, availability="phones")
    costs = {
        weighting: poisoned("far_flip", arena, 2, attendance="always_on", **{**deployed(), "weighting": weighting})
        for weighting in ("clipped", METHODS["deployment"].weighting)
    }
    clipped, ours = (found.accuracy for found in costs.values())
    assert clipped < 0.5
    assert ours > 0.9


def test_without_the_bounds_they_cost_more():
    assert accuracy("none", 0, **BEFORE) - accuracy("far_flip", 0, **BEFORE) > 5.0


def test_labels_flipped_by_attackers_cost_more_where_nothing_holds_them():
    plain = {"scheduler": "uniform", "attendance": None}
    assert accuracy("none", 100, **plain) - accuracy("label_flip", 100, **plain) > 2.0


def test_a_backdoor_opens_where_nothing_holds_it_and_less_under_the_bounds():
    opened = {
        name: poisoned("boosted_backdoor", ARENA, 0, **choices).backdoor
        for name, choices in (("plain", {"scheduler": "uniform"}), ("deployed", deployed()))
    }
    assert poisoned("none", ARENA, 0, **deployed()).backdoor < 0.05
    assert opened["plain"] > 0.9
    assert opened["deployed"] < 0.7


class Rows:
    """The ages of a client's updates in each round's step, and what it was credited."""

    def __init__(self, client):
        self.client, self.ages, self.utility = client, [], 0.0

    def on_round(self, method, record, ledger, params):
        mine = (record.row_clients == self.client) & (record.row_weights != 0)
        self.ages.append(record.row_ages[mine].tolist())
        self.utility = float(ledger.utility[self.client])


@pytest.mark.parametrize("memory", ["last_updates:max_age=5", "last_updates:own=replace,max_age=5"])
def test_a_poisoned_memory_counts_for_nothing_after_its_age_limit(memory):
    task = Logistic.synthetic(6)
    there = np.ones((12, 6), dtype=bool)
    there[1:, 0] = False
    coordinator = Coordinator(6, scheduler="uniform", weighting="memory_mean:over=seen", memory=memory)
    rows = Rows(0)
    engine = Intermittent(InProcess(task), Trace.from_matrix(there))
    run(coordinator, engine, 12, params=task.init(np.random.default_rng(0)), observers=[rows])
    assert rows.ages == [[0], [1], [2], [3], [4], [5], *[[]] * 6]


@dataclass(frozen=True, slots=True)
class FreeRider:
    """A task whose client 0 returns the model as it was, and says that it gained much."""

    task: Logistic
    num_clients: int
    validate = None

    def train(self, job):
        report = self.task.train(job)
        return replace(report, delta=np.zeros_like(report.delta), loss_before=9.0) if job.client == 0 else report

    def evaluate(self, *args):
        return self.task.evaluate(*args)


def test_a_free_rider_is_credited_nothing():
    task = Logistic.synthetic(6)
    rider, other = Rows(0), Rows(1)
    engine = InProcess(FreeRider(task, 6))
    run(Coordinator(6, scheduler="uniform"), engine, 5, params=task.init(None), observers=[rider, other])
    assert rider.utility == 0
    assert other.utility > 0
