"""What real clients do to a round: answer late, be busy, prove which round they answer, hold only their own data."""

from dataclasses import replace

import numpy as np
import pytest

from fedparity import ClientReport, Coordinator, InProcess, Ledger, State, run
from fedparity.core.errors import ConfigError
from fedparity.core.gate import Gate, nonce
from fedparity.core.intake import NO_REPLY
from fedparity.core.journal import from_json, to_json
from fedparity.core.types import Job
from fedparity.store.erase import redact
from fedparity.tasks import Logistic, Quadratic

N, KEY = 4, bytes(range(32))
EVERYBODY = np.arange(N)


def a_coordinator(**gate):
    return Coordinator(N, scheduler="uniform", gate=Gate(**gate))


def report(client, value=1.0, **more):
    return ClientReport(client, np.full(2, value), loss_before=2.0, loss_after=1.5, **more)


def two_rounds(second, coordinator=None, between=lambda state: state):
    """Round 0 in which client 3 does not answer; round 1 in which it is not there, and `second` comes in."""
    coordinator = coordinator or a_coordinator(max_age=2)
    state = coordinator.init(N, np.zeros(2))
    plan, state = coordinator.plan(state, EVERYBODY)
    first, state = coordinator.absorb(state, plan, [report(k) for k in range(3)])
    state = between(state)
    plan, state = coordinator.plan(state, np.array([0, 1]))
    record, state = coordinator.absorb(state, plan, second)
    return first, record, state


class TestLate:
    def test_a_late_report_is_a_stale_row_credited_to_its_client(self):
        first, record, state = two_rounds([report(0), report(1), report(3, 4.0, origin=0)])
        assert first.failed == ((3, NO_REPLY),)
        assert record.completed.tolist() == [0, 1]
        assert record.late.clients.tolist() == [3]
        assert record.late.origins.tolist() == [0]
        assert record.row_clients.tolist() == [0, 1, 3]
        assert record.row_ages.tolist() == [0, 0, 1]
        assert state.params.tolist() == [1 + 2, 1 + 2]  # the mean of 1, 1 and 4
        assert state.ledger.late.tolist() == [0, 0, 0, 1]
        assert state.ledger.utility.tolist() == [1, 1, 0.5, 0.5]
        assert state.ledger.completed.tolist() == [2, 2, 1, 0]
        assert state.offers == {}

    def test_it_is_in_the_journal_and_the_ledger_follows_from_it(self):
        *records, state = two_rounds([report(0), report(1), report(3, origin=0)])
        again = [from_json(to_json(record)) for record in records]
        assert [to_json(record) for record in again] == [to_json(record) for record in records]
        assert Ledger.replay(N, again) == state.ledger
        assert '"late"' not in to_json(records[0])
        assert '"late":{"client":[],' in redact(to_json(records[1]), 3)

    def test_a_pending_offer_survives_a_checkpoint(self, tmp_path):
        coordinator = a_coordinator(max_age=2)

        def saved(state):
            state.save(tmp_path / "state")
            return State.load(tmp_path / "state", coordinator)

        came = [report(0), report(3, origin=0)]
        plain, kept = (two_rounds(came, coordinator, between) for between in (lambda state: state, saved))
        assert to_json(plain[1]) == to_json(kept[1])
        assert kept[1].late.clients.tolist() == [3]

    @pytest.mark.parametrize(
        "stranger",
        [report(2, origin=0), report(3, origin=1), report(3), report(3, origin=-1), report(3, np.nan, origin=0)],
        ids=["answered", "asked in no such round", "not asked now", "before the run", "not finite"],
    )
    def test_what_nobody_waits_for_is_not_used(self, stranger):
        _, record, _ = two_rounds([report(0), report(1), stranger])
        assert record.row_clients.tolist() == [0, 1]
        assert len(record.late.clients) == 0

    def test_an_offer_ends_when_it_is_too_old_or_a_new_one_is_made(self):
        coordinator = a_coordinator(max_age=1)
        _, _, state = two_rounds([report(0), report(1)], coordinator)
        assert state.offers == {}
        _, _, state = two_rounds([report(0)], a_coordinator(max_age=3))
        assert state.offers == {1: (1, 1.0), 3: (0, 1.0)}
        plan, state = coordinator.plan(state, np.array([1]))
        _, state = coordinator.absorb(state, plan, [])
        assert state.offers == {1: (2, 1.0)}  # the newer one

    def test_a_client_may_answer_late_and_in_time_in_one_round(self):
        coordinator = a_coordinator(max_age=1)
        state = coordinator.init(N, np.zeros(2))
        plan, state = coordinator.plan(state, EVERYBODY)
        _, state = coordinator.absorb(state, plan, [report(0)])
        plan, state = coordinator.plan(state, EVERYBODY)
        record, state = coordinator.absorb(state, plan, [report(3, 5.0, origin=0), report(3)])
        assert record.row_clients.tolist() == [3, 3]
        assert record.row_ages.tolist() == [0, 1]
        assert state.ledger.utility[3] == 1
        assert state.params.tolist() == [4, 4]

    def test_without_max_age_nothing_is_remembered(self):
        _, record, state = two_rounds([report(0), report(1), report(3, origin=0)], a_coordinator())
        assert record.row_clients.tolist() == [0, 1]
        assert state.offers == {}
        assert state.ledger.late is None


class TestNonces:
    def plan(self, **gate):
        coordinator = a_coordinator(remote=True, key=KEY, **gate)
        return coordinator, *coordinator.plan(coordinator.init(N, np.zeros(2)), EVERYBODY)

    def test_a_remote_report_needs_the_nonce_of_its_round_and_client(self):
        coordinator, plan, state = self.plan()
        came = [
            report(0, nonce=nonce(plan, 0)),
            report(1),
            report(2, nonce=nonce(replace(plan, key=b""), 2)),
            report(3, nonce=nonce(plan, 0)),
        ]
        record, _ = coordinator.absorb(state, plan, came)
        assert record.completed.tolist() == [0]
        assert [client for client, _ in record.failed] == [1, 2, 3]

    def test_a_forged_copy_does_not_silence_its_victim(self):
        coordinator, plan, state = self.plan()
        forged = report(0, 9.0, nonce="00" * 16)
        record, _ = coordinator.absorb(state, plan, [forged, report(0, nonce=nonce(plan, 0)), forged])
        assert record.completed.tolist() == [0]

    def test_a_late_report_needs_the_nonce_of_the_round_it_was_asked_in(self):
        coordinator, plan, _ = self.plan(max_age=2)
        late = report(3, origin=0, nonce=nonce(plan, 3))
        now = [report(k, nonce=nonce(replace(plan, round=1), k)) for k in (0, 1)]

        def rounds(*more):
            state = coordinator.init(N, np.zeros(2))
            first, state = coordinator.plan(state, EVERYBODY)
            _, state = coordinator.absorb(state, first, [report(0, nonce=nonce(first, 0))])
            second, state = coordinator.plan(state, np.array([0, 1]))
            return coordinator.absorb(state, second, [*now, *more])[0].late.clients.tolist()

        assert rounds(late) == [3]
        assert rounds(replace(late, nonce=nonce(replace(plan, round=1), 3))) == []

    def test_a_key_is_required_and_never_shown(self):
        with pytest.raises(ConfigError, match="key has 0 bytes; a remote gate needs 16"):
            Gate(remote=True)
        assert "key" not in repr(Gate(remote=True, key=KEY))
        assert "key" not in repr(self.plan()[1])


class TestPlan:
    def test_it_says_how_long_to_wait_and_for_how_many(self):
        coordinator = Coordinator(2, over_select=0.5, min_reports=2, gate=Gate(deadline=7.5))
        plan, _ = coordinator.plan(coordinator.init(N), EVERYBODY)
        assert (plan.deadline, plan.enough, plan.min_reports) == (7.5, 2, 2)
        plan, _ = Coordinator(2).plan(Coordinator(2).init(N), EVERYBODY)
        assert (plan.deadline, plan.enough) == (None, None)

    def test_who_is_busy_is_online_and_not_asked(self):
        coordinator = a_coordinator()
        plan, state = coordinator.plan(coordinator.init(N, np.zeros(2)), np.array([0, 1]), busy=np.array([2]))
        record, state = coordinator.absorb(state, plan, [report(0), report(1)])
        assert plan.cohort.clients.tolist() == [0, 1]
        assert state.ledger.online.tolist() == [1, 1, 1, 0]
        assert Ledger.replay(N, [from_json(to_json(record))]) == state.ledger
        assert coordinator.estimator_in_use.estimate(state.estimator, EVERYBODY)[2] > 0.5


@pytest.mark.parametrize("task", [Quadratic.random(N), Logistic.synthetic(N)], ids=["quadratic", "logistic"])
def test_a_task_with_the_data_of_one_client_gives_the_same_bits(task):
    own = (
        Quadratic(task.centres[2:3], task.curvature[2:3])
        if isinstance(task, Quadratic)
        else Logistic(task.x[2:3], task.y[2:3], task.classes)
    )
    job = Job(5, 7, 2, task.init(np.random.default_rng(0)))
    one, all_ = own.train(replace(job, place=0)), task.train(job)
    assert one.delta.tobytes() == all_.delta.tobytes()
    assert one.client == all_.client == 2
    assert one.loss_after == all_.loss_after


def test_clients_that_say_nothing_of_their_loss_attract_nothing():
    """What a slot was worth to them is unknown, not 0: with target=utility everybody is asked alike."""

    class Silent(Quadratic):
        def train(self, job):
            return replace(super().train(job), loss_before=np.nan, loss_after=np.nan)

    task = Silent(np.ones((6, 2)), np.ones((6, 2)))
    state = run(Coordinator(2, scheduler="parity:target=utility"), InProcess(task), 30, params=np.zeros(2))
    assert state.ledger.selected.tolist() == [10] * 6
    assert np.isnan(state.ledger.loss).all()
