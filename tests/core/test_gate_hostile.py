"""Reports made to hurt: each costs its client the round, and nobody else anything."""

from dataclasses import replace

import numpy as np
import pytest

from fedparity import WEIGHTINGS, ClientReport, Coordinator, run
from fedparity.core.gate import Gate
from fedparity.core.intake import AT_ODDS
from fedparity.core.journal import from_json, to_json
from fedparity.core.types import Prototypes
from fedparity.engines import InProcess
from fedparity.tasks import Quadratic
from fedparity.weightings import Mean
from fitting import partners

CLIENTS, SIZE = 4, 6
GOOD_MEANS = Prototypes(np.ones((2, 2)), np.array([3, 4]))


class Strange:
    """Whatever is done with it goes wrong."""

    def __getattr__(self, name):
        raise OSError(name)


def honest(plan):
    rng = np.random.default_rng(plan.round)
    return [
        ClientReport(k, rng.normal(size=len(plan.params)), 5 + k, 1.0, 0.5, prototypes=GOOD_MEANS)
        for k in plan.cohort.clients.tolist()
    ]


def rounds(coordinator, change, count=3):
    """Rounds in which client 1 sends what `change` makes of its report."""
    state, records = coordinator.init(CLIENTS, np.zeros(SIZE)), []
    for _ in range(count):
        plan, state = coordinator.plan(state, np.arange(CLIENTS))
        reports = [change(report) if report.client == 1 else report for report in honest(plan)]
        record, state = coordinator.absorb(state, plan, reports)
        assert from_json(to_json(record)).round == record.round
        assert np.isfinite(state.params).all()
        records.append(record)
    return records, state


HOSTILE = {
    "a loss of 1e17": {"loss_before": 1e17},
    "a loss of 1.7e308": {"loss_before": 1.7e308},
    "a loss of 1e300 in float64": {"loss_before": np.float64(1e300)},
    "kept in words": {"kept": "mine"},
    "kept too long": {"kept": np.zeros(99)},
    "kept not finite": {"kept": np.full(SIZE, np.nan)},
    "a failure that is a number": {"failure": 5},
    "a failure that is a list": {"failure": ["a"]},
    "a duration below 0": {"duration": -1.0},
    "samples of one and a half": {"num_samples": 1.5},
    "prototypes that are none": {"prototypes": "x"},
    "prototypes not finite": {"prototypes": Prototypes(np.full((2, 2), np.inf), np.array([1, 1]))},
    "prototypes of 1e200": {"prototypes": Prototypes(np.full((2, 2), 1e200), np.array([1, 1]))},
    "prototypes too many": {"prototypes": Prototypes(np.ones((9, 9)), np.ones(9, np.int64))},
    "prototypes at odds": {"prototypes": Prototypes(np.ones((2, 2)), np.ones(3, np.int64))},
    "prototypes beyond the model": {"prototypes": Prototypes(np.ones((2, 2)), np.array([1, 1]), head=3)},
    "counts below 0": {"prototypes": Prototypes(np.ones((2, 2)), np.array([-1, 1]))},
    "counts that are not whole": {"prototypes": Prototypes(np.ones((2, 2)), np.array([0.5, 1]))},
}
METHODS = {
    "afl": {"weighting": "agnostic"},
    "qffl": {"weighting": "qfair"},
    "ditto": {"local": "ditto"},
    "prototype": {"weighting": "decayed_mean:by=size", "memory": "prototype"},
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_report_is_its_clients_failure(kind, method):
    records, _ = rounds(Coordinator(CLIENTS, **METHODS[method]), lambda r: replace(r, **HOSTILE[kind]))
    for record in records:
        assert [client for client, _ in record.failed] == [1]
        assert record.completed.tolist() == [0, 2, 3]


def test_what_is_no_report_is_not_heard():
    for strange in (None, "report", Strange(), ClientReport([1]), ClientReport(1, origin="x"), ClientReport(10**400)):
        records, _ = rounds(Coordinator(CLIENTS), lambda _, strange=strange: strange)
        assert records[-1].failed == ((1, "no reply"),)


def test_ids_of_numpy_are_ids():
    records, state = rounds(Coordinator(CLIENTS), lambda r: replace(r, client=np.int64(1), num_samples=np.int32(7)))
    assert not records[-1].failed
    assert all(type(k) is int for k in state.offers)


@pytest.mark.parametrize("name", [name for name in WEIGHTINGS if name not in {"fedlaavg", "f3ast", "fedawe"}])
def test_the_largest_loss_that_is_believed_leaves_a_model(name):
    rounds(Coordinator(CLIENTS, **partners("weighting", name)), lambda r: replace(r, loss_before=1e12))


class Nowhere(Mean):
    def weigh(self, state, rows, ledger):
        return np.full(len(rows.clients), np.nan), state


class Far(Mean):
    def weigh(self, state, rows, ledger):
        return np.full(len(rows.clients), 1e308), state


@pytest.mark.parametrize(("weighting", "why"), [(Nowhere(), "weights that are not finite"), (Far(), "not finite")])
def test_a_step_to_nowhere_is_an_abandoned_round(weighting, why):
    records, state = rounds(Coordinator(CLIENTS, weighting=weighting), lambda r: replace(r, delta=r.delta * 1e3))
    assert all(record.abandoned and not len(record.completed) for record in records)
    assert why in records[0].notes[0]
    assert from_json(to_json(records[0])).notes == records[0].notes
    assert not state.params.any()
    assert not state.ledger.utility.any()


def test_copies_that_differ_anywhere_do_not_count():
    coordinator = Coordinator(CLIENTS, gate=Gate())
    state = coordinator.init(CLIENTS, np.zeros(SIZE))
    plan, state = coordinator.plan(state, np.arange(CLIENTS))
    good = honest(plan)
    for other in (
        replace(good[1], loss_rms=3.0),
        replace(good[1], duration=3.0),
        replace(good[1], kept=np.ones(SIZE)),
        replace(good[1], prototypes=replace(GOOD_MEANS, counts=np.array([4, 4]))),
    ):
        for reports in ([*good, other], [other, *good]):
            assert coordinator.absorb(state.copy(), plan, reports)[0].failed == ((1, AT_ODDS),)
    timed = replace(good[1], seconds=3.0)
    assert not coordinator.absorb(state.copy(), plan, [*good, timed])[0].failed


def test_who_sends_the_model_back_is_credited_nothing():
    records, state = rounds(Coordinator(CLIENTS), lambda r: replace(r, delta=r.delta * 0, loss_after=0.0))
    assert records[-1].completed.tolist() == [0, 1, 2, 3]
    assert state.ledger.utility[1] == 0 < state.ledger.utility[[0, 2, 3]].min()


def test_where_the_last_layer_lies_is_not_for_one_client_to_say():
    odd = Prototypes(np.ones((1, 1)), np.array([3]))
    coordinator = Coordinator(CLIENTS, **METHODS["prototype"])
    _, state = rounds(coordinator, lambda r: replace(r, client=r.client, prototypes=odd))
    assert sorted(state.memory.kept) == [0, 2, 3]


def test_rows_of_earlier_rounds_are_looked_at_each_time():
    coordinator = Coordinator(CLIENTS, weighting="memory_mean:over=seen", memory="last_updates:own=replace")
    _, state = rounds(coordinator, lambda r: r)
    state.memory.kept[1] = np.full(SIZE, np.nan, np.float32)
    plan, state = coordinator.plan(state, np.array([0, 2, 3]))
    record, state = coordinator.absorb(state, plan, honest(plan))
    assert record.row_clients.tolist() == [0, 2, 3]
    assert np.isfinite(state.params).all()


def test_no_weight_is_above_the_cap_and_the_journal_says_so():
    gate = Gate(max_weight=2, most_samples=1e9)
    records, _ = rounds(Coordinator(CLIENTS, weighting="by_size", gate=gate), lambda r: replace(r, num_samples=10**6))
    assert records[0].row_weights.max() == 0.5
    assert records[0].notes == ("1 of 4 weights capped at 2/4",)
    free, _ = rounds(Coordinator(CLIENTS, weighting="by_size"), lambda r: replace(r, num_samples=10**6))
    assert free[0].row_weights.max() > 0.99
    assert not free[0].notes
    modest = Gate(most_samples=2)
    held, _ = rounds(Coordinator(CLIENTS, weighting="by_size", gate=modest), lambda r: replace(r, num_samples=10**6))
    assert held[0].row_weights.max() < 0.5


class Broken:
    """A task in which the training of some clients goes wrong."""

    def __init__(self, bad, error):
        self.task, self.bad, self.error = Quadratic.random(CLIENTS), bad, error

    def __getattr__(self, name):
        return getattr(self.task, name)

    def train(self, job):
        if job.client in self.bad:
            raise self.error
        return self.task.train(job)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_exception_in_one_client_is_that_clients_failure(workers):
    engine = InProcess(Broken({1}, ValueError("no samples")), workers)
    state = run(Coordinator(CLIENTS), engine, 3, params=np.zeros(4))
    assert state.ledger.failed.tolist() == [0, 3, 0, 0]
    assert state.ledger.completed.tolist() == [3, 0, 3, 3]


@pytest.mark.parametrize(
    ("bad", "error"),
    [({1}, TypeError("ours")), ({1}, OSError(28, "full")), (set(range(CLIENTS)), ValueError("all"))],
)
def test_a_mistake_in_a_program_ends_the_run(bad, error):
    with pytest.raises(type(error)):
        run(Coordinator(CLIENTS), InProcess(Broken(bad, error)), 3, params=np.zeros(4))
