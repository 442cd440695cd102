"""Plans carried out over a Flower grid, with clients that are late, lost, gone, hostile, new or back again."""

import itertools
import time

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedparity[flower]')")

from flwr.app import Array, Message
from flwr.clientapp import ClientApp
from flwr.proto.node_pb2 import NodeInfo

from fedparity import AVAILABILITY, SCHEDULERS, Coordinator, InProcess, Intermittent, Ledger, run, stream
from fedparity.core.errors import ConfigError
from fedparity.core.gate import Gate
from fedparity.core.journal import Journal, to_json
from fedparity.engines.flower import GridEngine, LocalGrid, Roster, TraceGate, client_app, codec, serve
from fedparity.local import Ditto, Prox
from fedparity.tasks import Logistic, Quadratic
from flower_grids import HOSTILE, TASK, FakeGrid, N, served

# --- the same bits


@pytest.mark.parametrize("scheduler", ["parity:target=utility", "uniform", "oort", "with_quota:inner=parity"])
@pytest.mark.parametrize("held", ["everybody's data", "own data"])
def test_an_engine_in_this_process_and_a_grid_give_the_same_bits(scheduler, held, tmp_path):
    task = Logistic.synthetic(12)
    trace = AVAILABILITY.build("bernoulli:low=.3").draw(12, 8, 0).with_dropout(0.1, stream(0, "dropout"))

    def made(context):
        k = context.node_config["partition-id"]
        return task if held == "everybody's data" else Logistic(task.x[k : k + 1], task.y[k : k + 1], task.classes)

    def a_coordinator():
        return Coordinator(4, seed=3, scheduler=SCHEDULERS.build(scheduler), local=Prox(0.1), min_reports=0)

    first = task.init(stream(0, "init"))
    here, there = Journal(), Journal()
    one = run(a_coordinator(), Intermittent(InProcess(task), trace), 8, params=first, observers=[here], method="parity")
    grid = LocalGrid(client_app(made), 12, trace=trace)
    two = serve(grid, a_coordinator(), first, 8, identity="node", observers=[there], store=tmp_path / "run")
    assert there.lines("parity") == here.lines("parity")
    assert two.ledger == one.ledger
    assert two.params.tobytes() == one.params.tobytes()


@pytest.mark.parametrize(
    "rules",
    [
        {"scheduler": "power_of_choice"},
        {"weighting": "qfair"},
        {"weighting": "tilted"},
        {"utility": "global_loss_drop"},
        {"weighting": "memory_mean", "memory": "last_updates:own=replace"},
        {"weighting": "decayed_mean", "memory": "decayed"},
    ],
    ids=str,
)
def test_what_the_documentation_says_works_gives_the_bits_of_this_process(rules):
    here = run(Coordinator(3, **rules), InProcess(TASK), 5, params=np.zeros(3))
    there, *_ = served(FakeGrid(), rounds=5, coordinator=Coordinator(3, **rules))
    assert there.params.tobytes() == here.params.tobytes()
    assert there.ledger == here.ledger


def test_scores_come_from_those_who_answer():
    grid = FakeGrid()
    grid.away = {2: {0}}
    from fedparity.engines.flower import GridEngine

    engine = GridEngine(grid, identity="node", min_clients=N)
    assert engine.num_clients == N
    assert engine.available(0).tolist() == [0, 1, 3, 4, 5]
    found = engine.evaluate(np.ones(3), np.arange(N))
    wanted = TASK.evaluate(np.ones(3), np.arange(N)).loss
    wanted[2] = np.nan
    assert found.loss.tobytes() == wanted.tobytes()


def test_every_k_rounds_the_model_is_scored_by_those_who_are_there_and_answer():
    grid, same = FakeGrid({(1, 4): 9}), FakeGrid({(1, 4): 9})  # it is at work when the scores of round 1 are asked for
    grid.away = same.away = {2: {1}, 3: {3}}
    state, _, events = served(grid, rounds=4, evaluate_every=2)
    quiet, *_ = served(same, rounds=4)
    assert state.params.tobytes() == quiet.params.tobytes()
    assert state.ledger == quiet.ledger
    names = [[int(name) - 1000 for name, *_ in told.scores] for told in events]
    assert names == [[], [0, 1, 3, 5], [], [0, 1, 2, 4, 5]]
    assert [loss for _, loss, _ in events[3].scores] == TASK.evaluate(
        state.params, np.array([0, 1, 2, 4, 5])
    ).loss.tolist()
    with pytest.raises(ConfigError, match="evaluate_every=-1"):
        served(FakeGrid(), rounds=1, evaluate_every=-1)


# --- what goes wrong on a network


@pytest.mark.parametrize("what", HOSTILE)
def test_what_cannot_be_used_drops_its_client_and_never_the_round(what):
    state, records, events = served(FakeGrid({(0, 2): HOSTILE[what]}), rounds=2)
    assert [client for client, _ in records[0].failed] == [2]
    assert records[0].completed.tolist() == [0, 1, 3, 4, 5]
    assert records[1].completed.tolist() == list(range(N))  # it is asked again, and nobody else suffers
    assert np.isfinite(state.params).all()
    reason = records[0].failed[0][1]
    assert reason.isprintable()
    assert len(reason) <= 200
    shown = [name for name, _ in events[0].failed] + events[0].replied
    assert sorted(shown) == sorted(events[0].asked)


def test_a_reply_of_another_client_is_refused():
    grid = FakeGrid()

    def stolen(message, _):
        other = next(r for r in grid._replies.values() if r.metadata.src_node_id == 1000)
        return Message(other.content, reply_to=message)

    grid.script = {(0, 3): stolen}
    _, records, _ = served(grid, rounds=1)
    assert records[0].failed == ((3, "the nonce is not of this run, round and client"),)


def test_a_node_that_is_gone_is_told_by_the_message_and_not_by_the_sender():
    _, records, events = served(FakeGrid({(1, 4): "gone"}), rounds=2)
    assert records[1].failed == ((4, "Node Unavailable"),)
    assert events[1].failed == [(f"{1004:020d}", "Node Unavailable")]


def test_a_late_reply_is_a_stale_row_of_its_client():
    state, records, events = served(FakeGrid({(0, 1): 2}), rounds=4)
    assert records[0].failed == ((1, "no reply"),)
    assert events[0].timed_out == [f"{1001:020d}"]
    assert [record.busy.tolist() for record in records] == [[], [1], [], []]
    assert records[2].late.clients.tolist() == [1]
    assert records[2].late.origins.tolist() == [0]
    assert 2 in records[2].row_ages.tolist()
    assert events[2].late == [(f"{1001:020d}", 0)]
    assert state.ledger.late.tolist() == [0, 1, 0, 0, 0, 0]
    assert Ledger.replay(N, records) == state.ledger


def test_a_late_reply_of_a_client_that_is_there_is_used_beside_the_others():
    _, records, _ = served(FakeGrid({(0, 1): 1}), rounds=2)
    assert records[1].late.clients.tolist() == [1]
    assert records[1].available.tolist() == list(range(N))  # it answered before the round began
    assert records[1].completed.tolist() == list(range(N))


def test_two_offers_without_an_answer_and_a_client_counts_as_not_online():
    lost = {(t, 5): "lost" for t in range(12)}
    grid = FakeGrid(lost)
    state, records, _ = served(grid, rounds=12, max_age=1)
    asked = [t for t, client in grid.asked if client == 5]
    assert asked == [0, 2, 5, 10]  # busy for a round, then away for 2, 4, ... rounds
    assert [t for t, r in enumerate(records) if 5 in r.busy] == [1]
    assert [t for t, r in enumerate(records) if 5 in r.available] == asked
    assert state.ledger.failed.tolist() == [0, 0, 0, 0, 0, 4]


def test_a_node_that_restarts_in_the_middle_of_its_work_is_not_waited_for():
    """It has lost the offer, answers nothing and sends no error; there is no deadline in this run."""
    grid = FakeGrid({(0, 2): "lost"})
    pulled = []

    def get_nodes():
        when = "later" if len(pulled) > 1 else "before"
        return [NodeInfo(node_id=node, last_activated_at=when if node == 1002 else "") for node in grid.get_node_ids()]

    pull = grid.pull_messages
    grid.get_nodes = get_nodes
    grid.pull_messages = lambda ids: pulled.append(ids) or pull(ids)
    coordinator = Coordinator(N, scheduler="uniform", min_reports=0)
    _, records, events = served(grid, rounds=2, coordinator=coordinator)
    assert records[0].failed == ((2, "no reply"),)
    assert events[0].failed == [(f"{1002:020d}", "its node was restarted")]
    assert records[1].completed.tolist() == list(range(N))  # it is asked again at once


def test_enough_answers_end_a_round():
    lost = {(0, k): "lost" for k in range(2)}
    coordinator = Coordinator(4, scheduler="uniform", over_select=0.5)
    _, records, _ = served(FakeGrid(lost), rounds=1, coordinator=coordinator)  # there is no deadline
    assert len(records[0].selected) == 6
    assert records[0].completed.tolist() == [2, 3, 4, 5]


def test_over_selection_follows_those_who_dropped_out():
    lost = {(t, k): HOSTILE["NaN"] for t in range(9) for k in range(3)}
    coordinator = Coordinator(3, scheduler="uniform", over_select="observed", min_reports=0)
    _, records, _ = served(FakeGrid(lost), rounds=8, coordinator=coordinator)
    asked = [len(record.selected) for record in records]
    assert asked[0] == 3
    assert asked[-1] > 4


def test_a_client_that_was_away_returns_to_its_row():
    grid = FakeGrid()
    grid.away = {3: {1, 2}}
    state, records, _ = served(grid, rounds=4)
    assert [3 in record.available for record in records] == [True, False, False, True]
    assert state.ledger.online.tolist() == [4, 4, 4, 2, 4, 4]


def test_a_client_that_joins_late_gets_the_next_number():
    grid = FakeGrid()
    grid.away = {0: {-1, 0, 1}}
    coordinator = Coordinator(5, scheduler="uniform", min_reports=0)
    state, records, _ = served(grid, rounds=4, min_clients=5, coordinator=coordinator)
    assert [record.joined.tolist() for record in records] == [[], [], [5], []]
    assert state.names[5] == f"{1000:020d}"
    assert state.ledger.since.tolist() == [0, 0, 0, 0, 0, 2]
    assert Ledger.replay(5, records) == state.ledger


def test_a_population_that_arrives_registers_as_it_comes():
    trace = AVAILABILITY.build("arrivals:inner=always,founders=.34,arrive=.3").draw(N, 8, 0)
    grid = FakeGrid(trace=trace, registered=False)
    coordinator = Coordinator(2, scheduler="parity", min_reports=0)
    state, records, _ = served(grid, rounds=8, coordinator=coordinator, min_clients=1)
    first = [next(t for t in range(8) if k in trace.online(t)) for k in range(N)]
    assert state.ledger.since.tolist() == first
    assert state.ledger.online.tolist() == trace.counts().tolist()
    assert sorted({0, *(t for t, record in enumerate(records) if len(record.joined))}) == sorted(set(first))


def test_nobody_online_is_a_round_like_any_other():
    grid = FakeGrid()
    grid.away = {k: {1} for k in range(N)}
    _, records, _ = served(grid, rounds=3)
    assert [len(record.completed) for record in records] == [6, 0, 6]


# --- who is who


def test_clients_are_asked_for_their_name_and_numbered_by_it():
    names = ["delta", "alpha", "charlie", "bravo", "foxtrot", "echo"]
    grid = FakeGrid(nodes=[{"client-id": name} for name in names])
    state, *_ = served(grid, rounds=1, identity="query")
    assert list(state.names.values()) == sorted(names)


def test_a_node_without_a_stable_id_is_never_asked_and_not_waited_for_in_vain():
    grid = FakeGrid(nodes=[{"client-id": "a"}, {}, {"client-id": "b"}])
    with pytest.raises(
        ConfigError, match=r"min_clients=6 but only 2 registered within .* and 1 without a stable id; start these with"
    ):
        served(grid, rounds=1, identity="query", patience=0.01)
    coordinator = Coordinator(2, scheduler="uniform")
    state, _, events = served(grid, rounds=1, identity="query", min_clients=2, coordinator=coordinator)
    assert list(state.names.values()) == ["a", "b"]
    assert events[0].unnamed == 1


def test_an_app_that_fails_is_not_taken_for_a_node_without_a_name():
    def nameless(_):
        raise RuntimeError("no data here")

    grid = FakeGrid(app=client_app(lambda _: TASK, name=nameless))
    why = r"only 0 registered within .*, and the app of 6 failed \(RuntimeError: no data here\); mend it: the logs"
    with pytest.raises(ConfigError, match=why):
        served(grid, rounds=1, identity="query", patience=0.01)


def test_of_two_nodes_with_one_name_the_known_one_stays():
    roster = Roster()
    roster.register({7: "a", 5: "b"})
    assert roster.register({7: "a", 3: "a", 5: "b"}) == []
    assert roster.node == {0: 7, 1: 5}
    roster.register({3: "a"})  # the other is gone: the client is back with a new node
    assert roster.node[0] == 3
    assert Roster(roster.names).names == {0: "a", 1: "b"}
    assert Roster({0: "a", 2: "c"}).register({9: "d"}) == [3]  # an erased client's number is not given again


def test_a_node_is_one_client_whatever_it_calls_itself_later():
    """Who may connect once, with its key, is not five clients in turns, nor a new one each time it comes back."""
    said = itertools.count()
    grid = FakeGrid(app=client_app(lambda _: TASK, name=lambda _: f"name {next(said)}"))
    grid.away = {k: range(k % 2, 1000, 2) for k in range(N)}  # each is gone every other round
    grid.begin_round(-1)
    engine = GridEngine(grid, min_clients=N, patience=1.0, poll=0.01)
    assert engine.num_clients == N
    for t in range(1000):
        engine.available(t)
    assert engine.num_clients == N == next(said)


def test_a_node_id_of_64_bits_is_kept_as_text():
    roster = Roster()
    from fedparity.engines.flower.roster import node_name

    roster.register({2**64 - 1: node_name(2**64 - 1), 5: node_name(5)})
    assert roster.names == {0: f"{5:020d}", 1: str(2**64 - 1)}


# --- going on


class KilledError(Exception):
    pass


@pytest.mark.parametrize("at", ["before it is asked", "before it is committed"])
def test_a_coordinator_that_was_killed_goes_on_as_if_it_had_not_been(tmp_path, at):
    class Dying(FakeGrid):
        def push_messages(self, messages):
            if self._round == 3 and at == "before it is asked":
                raise KilledError
            return super().push_messages(messages)

        def pull_messages(self, ids):
            if self._round == 3 and at != "before it is asked":
                raise KilledError
            return super().pull_messages(ids)

    whole, _, _ = served(FakeGrid(), rounds=5, store=tmp_path / "whole")
    with pytest.raises(KilledError):
        served(Dying(), rounds=5, store=tmp_path / "run")
    state, more, _ = served(FakeGrid(), rounds=5, store=tmp_path / "run")
    assert [record.round for record in more] == [3, 4]
    assert state.ledger == whole.ledger
    assert state.params.tobytes() == whole.params.tobytes()
    again, none, _ = served(FakeGrid(), rounds=5, store=tmp_path / "run")
    assert none == []
    assert again.ledger == whole.ledger


def test_the_secret_and_the_roster_are_those_of_the_run(tmp_path):
    from fedparity.store import Store

    served(FakeGrid(), rounds=2, store=tmp_path / "run")
    with Store.open(tmp_path / "run") as store:
        secret = store.secret()
        assert store.trace().names == tuple(f"{1000 + k:020d}" for k in range(N))
        assert store.trace().num_rounds == 2
    grid = FakeGrid(nodes=N + 1)
    state, *_ = served(grid, rounds=3, store=tmp_path / "run")
    assert state.names[6] == f"{1006:020d}"
    with Store.read(tmp_path / "run") as store:
        assert store.secret() == secret
        assert len(secret) == 32


def test_another_model_than_the_store_s_is_refused(tmp_path):
    served(FakeGrid(), rounds=1, store=tmp_path / "run")
    same = Coordinator(N, scheduler="uniform", min_reports=0, gate=Gate(deadline=0.01, max_age=2))
    with pytest.raises(ConfigError, match=r"its model has 3 numbers of float64, the app's 5 of float64; start the app"):
        serve(FakeGrid(), same, np.zeros(5), 2, identity="node", store=tmp_path / "run")
    with pytest.raises(
        ConfigError, match=r"was begun with gate=Gate\(deadline=0.01, max_age=2\), now it is its default"
    ):
        serve(FakeGrid(), Coordinator(N), np.zeros(3), 2, identity="node", store=tmp_path / "run")


# --- the client's side


def test_a_device_that_is_not_ready_says_so():
    trace = AVAILABILITY.build("bernoulli:low=.5,high=.5").draw(1, 6, 0)
    app = client_app(lambda _: TASK, ready=TraceGate(trace, 0))
    _, records, _ = served(FakeGrid(app=app), rounds=6)
    for t, record in enumerate(records):
        there = 0 in trace.online(t)
        assert record.completed.tolist() == (list(range(N)) if there else [])
        assert {why for _, why in record.failed} == (set() if there else {"not ready: away"})


def test_a_client_that_raises_is_named_with_the_last_line_of_its_error():
    class Broken(Quadratic):
        def train(self, job):
            if job.client == 2:
                raise RuntimeError("no memory left")
            return super().train(job)

    app = client_app(lambda _: Broken(TASK.centres, TASK.curvature))
    _, records, _ = served(FakeGrid(app=app), rounds=1)
    assert records[0].failed == ((2, "RuntimeError: no memory left"),)


def test_the_task_of_a_node_is_made_once():
    made = []
    app = client_app(lambda context: made.append(context.node_id) or TASK)
    served(FakeGrid(app=app), rounds=3)
    assert sorted(made) == [1000 + k for k in range(N)]


# --- what cannot be done is refused before anything is sent


def test_a_rule_that_keeps_something_cannot_travel():
    with pytest.raises(ConfigError, match="Ditto keeps something from round to round, which cannot travel"):
        serve(FakeGrid(), Coordinator(2, local=Ditto()), np.zeros(3), 1)
    assert codec.rule_text(Prox(0.25)) == "prox:mu=0.25"


def test_data_of_the_server_s_own_is_not_there():
    with pytest.raises(ConfigError, match="data of the server's own"):
        serve(FakeGrid(), Coordinator(2, scheduler="fairfedcs"), np.zeros(3), 1)


def test_a_client_app_is_flower_s():
    assert isinstance(client_app(lambda _: TASK), ClientApp)


# --- a clock that jumps


@pytest.mark.parametrize("jump", [-1e6, 1e6])
def test_a_clock_that_jumps_changes_nothing(monkeypatch, jump):
    """Deadlines are on the monotonic clock: an hour forward ends no round, an hour back prolongs none."""
    still, calm, _ = served(FakeGrid({(1, 2): 1, (2, 4): "lost"}), rounds=5)
    now = time.time
    calls = itertools.count()
    monkeypatch.setattr("time.time", lambda: now() + jump * (next(calls) // 7 % 2))
    moved, records, _ = served(FakeGrid({(1, 2): 1, (2, 4): "lost"}), rounds=5)
    assert [to_json(one) for one in records] == [to_json(one) for one in calm]
    assert moved.params.tobytes() == still.params.tobytes()


# --- at once


class Together(Quadratic):
    """A task that trains everybody asked at once, and says how many that were."""

    def train_many(self, jobs):
        COUNTS.append(len(jobs))
        if any(job.client == self.refused for job in jobs):
            raise ValueError("one of them cannot")
        return [self.train(job) for job in jobs]


COUNTS = []


@pytest.mark.parametrize("refused", [None, 3])
def test_clients_that_share_a_task_are_trained_at_once_with_the_same_bits(refused):
    task = Together(TASK.centres, TASK.curvature)
    object.__setattr__(task, "refused", refused)
    COUNTS.clear()
    here = run(Coordinator(4), InProcess(TASK), 5, params=np.zeros(3))
    there, *_ = served(FakeGrid(app=client_app(lambda _: task)), rounds=5, coordinator=Coordinator(4))
    assert COUNTS == [4] * 5
    assert there.params.tobytes() == here.params.tobytes()
    assert there.ledger == here.ledger


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_vector_travels_as_flower_would_write_it(dtype):
    vector = np.arange(7, dtype=dtype)
    ours, theirs = codec.array_of(vector), Array(vector)
    assert (ours.data, ours.dtype, tuple(ours.shape), ours.stype) == (
        theirs.data, theirs.dtype, tuple(theirs.shape), theirs.stype,
    )  # fmt: skip
    assert ours.numpy().tolist() == vector.tolist()
