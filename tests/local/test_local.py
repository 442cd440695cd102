"""Local rules by hand, and the law that a task knows none of them: a rule of one's own runs on every task."""

from dataclasses import dataclass

import numpy as np
import pytest

from fedparity import Coordinator, InProcess, run
from fedparity.core.errors import ConfigError
from fedparity.core.protocols import Local
from fedparity.core.types import ClientReport, Descent, Job
from fedparity.local import LOCALS, Difference, Ditto, Mixed, PhpFl, Plain, Received
from fedparity.schedulers import Fixed, Uniform
from fedparity.tasks import Logistic, Quadratic

RECEIVED, KEPT = np.array([1.0, 3.0]), np.array([5.0, -1.0])


@pytest.mark.parametrize(
    ("rule", "starts"),
    [
        (Plain(), [[1, 3]]),
        (Mixed(0.25), [[4, 0]]),
        (Mixed(1.0), [[1, 3]]),
        (Received(), [[5, -1]]),
        (Ditto(), [[1, 3], [5, -1]]),
        (Difference(), [[1, 3]]),
    ],
    ids=str,
)
def test_where_descents_start(rule, starts):
    assert [d.start.tolist() for d in rule.descents(KEPT, RECEIVED)] == starts
    at_first = rule.descents(None, RECEIVED)
    assert [d.start.tolist() for d in at_first] == [[1, 3]] * len(starts)
    assert at_first[0].start is RECEIVED  # one model for all is stacked once


@pytest.mark.parametrize("name", LOCALS)
def test_what_is_kept_is_what_the_rule_says(name):
    rule, delta = LOCALS.build(name), np.array([1.0, 1.0])
    report = Job(0, 0, 3, RECEIVED, rule, None).report(delta, [(RECEIVED, KEPT)], num_samples=7)
    assert (report.client, report.num_samples, report.delta.tolist()) == (3, 7, [1, 1])
    found = rule.keep(RECEIVED, report, np.array([9.0, 9.0]))
    expected = {
        "plain": None, "prox": None, "ditto": [5, -1], "mixed": [2, 4], "received": [9, 9], "difference": [1, 1],
        "php_fl": [5, -1, 0.4, 0.4, 1],
    }[name]  # fmt: skip
    assert (None if found is None else pytest.approx(found.tolist())) == expected
    if found is not None:
        personal = rule.personal(found, 2)
        assert (None if personal is None else personal.tolist()) == (None if name == "difference" else expected[:2])


def test_a_difference_is_to_what_was_used():
    report = Job(0, 0, 3, RECEIVED, Difference(), KEPT).report(np.array([6.0, 0.0]), [])
    assert report.delta.tolist() == [1, 1]
    assert report.kept.tolist() == [6, 0]


@pytest.mark.parametrize("task", [Quadratic.random(3), Logistic.synthetic(3)], ids=lambda t: type(t).__name__)
def test_a_task_without_a_joint_loss_says_so(task):
    job = Job(0, 0, 1, task.init(np.random.default_rng(0)), PhpFl())
    with pytest.raises(ConfigError, match=r"PhpFl trains several models by one loss, .* use another task or rule"):
        task.train(job)


@dataclass(frozen=True)
class Halfway(Local):
    """Two descents, the second pulled to where the client was: no task has heard of it."""

    def descents(self, kept, params):
        return Descent(params), Descent(params, 1e3, params if kept is None else kept)

    def outcome(self, kept, delta, beside):
        return delta / 2, beside[0][1]

    def keep(self, params, report, result):
        return report.kept


def test_a_rule_of_one_s_own_needs_no_change_in_any_task():
    task = Quadratic(np.array([[4.0], [4.0]]), np.ones((2, 1)), rate=0.001, steps=1)
    coordinator = Coordinator(2, scheduler=Uniform(), local=Halfway())
    state = run(coordinator, InProcess(task), 1, params=np.zeros(1), num_clients=2)
    assert state.params.tolist() == pytest.approx([0.002])
    assert state.kept[0].tolist() == pytest.approx([0.004])
    state = run(coordinator, InProcess(task), 2, state=state)
    assert state.kept[1].tolist() == pytest.approx([0.002 + 0.001 * (3.998 + 1e3 * 0.002)])


@pytest.mark.parametrize(("rule", "start"), [("ditto", [7]), ("ditto:start=received", [2]), ("received", [7])])
def test_who_comes_late_starts_from_the_first_model_or_from_the_one_received(rule, start):
    """Client 1 is first asked in round 1, when the model has moved from 7 to 2."""
    begun = []

    class Told(InProcess):
        def train(self, plan):
            (client,) = plan.cohort.clients.tolist()
            begun.append((plan.round, client, plan.job(client).descents()[-1].start.tolist()))
            return [ClientReport(client, np.array([-5.0]), kept=np.array([100.0]))]

    weighting, memory = ("fedawe", "echo") if rule == "received" else ("mean", "none")
    coordinator = Coordinator(
        1, scheduler=Fixed([np.array([0]), np.array([1])]), weighting=weighting, memory=memory, local=rule
    )
    run(coordinator, Told(Quadratic.random(2, dim=1)), 2, params=np.array([7.0]), num_clients=2)
    assert begun == [(0, 0, [7]), (1, 1, start)]


def test_a_plain_rule_ignores_what_a_client_wants_kept():
    assert Plain().keep(RECEIVED, ClientReport(0, KEPT, kept=KEPT), KEPT) is None
