"""One round: plan and absorb."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedparity import ClientReport, Coordinator, Evals, RoundError, stream
from fedparity.core.errors import ConfigError
from fedparity.core.intake import AT_ODDS, NO_REPLY
from fedparity.core.journal import to_json
from fedparity.core.rows import mapping_of
from fedparity.core.spill import SpillFile
from fedparity.local import Mixed
from fedparity.schedulers import Fixed, Uniform
from fedparity.servers import Sgd
from fedparity.surrogates import UtilitySurrogate
from fedparity.utility import GlobalLossDrop
from fedparity.weightings import BySize

N, D, M = 6, 3, 4
EVERYBODY = np.arange(N)
NOBODY = np.empty(0, np.int64)


def evaluate(params, clients):
    return Evals(clients, np.abs(params).sum() + clients.astype(float), np.full(len(clients), 0.5))


def a_report(client, **changes):
    rng = stream(7, "report", client=client)
    made = ClientReport(client, rng.normal(size=D), int(rng.integers(1, 99)), 2 + rng.random(), rng.random())
    return replace(made, **changes)


def a_coordinator(**changes):
    return Coordinator(**{"cohort": M, "weighting": BySize(), "surrogate": UtilitySurrogate()} | changes)


def after(make_reports, coordinator=None, warm=2):
    """The journal line and state of a round whose reports `make_reports` gives, after `warm` ordinary ones."""
    coordinator = coordinator or a_coordinator()
    state = coordinator.init(N, np.ones(D))
    for t in range(warm):
        plan, state = coordinator.plan(state, EVERYBODY[t:])
        _, state = coordinator.absorb(state, plan, [a_report(int(k)) for k in plan.cohort.clients], evaluate)
    plan, state = coordinator.plan(state, EVERYBODY[:-1])
    record, state = coordinator.absorb(state, plan, make_reports(plan.cohort.clients.tolist()), evaluate)
    return to_json(record), record, state


def assert_same(one, other):
    assert one[0] == other[0]
    assert one[2].params.tobytes() == other[2].params.tobytes()
    assert one[2].ledger == other[2].ledger


@given(st.data())
def test_order_repeats_and_strangers_never_matter(data):
    missing = data.draw(st.sets(st.integers(0, M - 1)))
    failing = data.draw(st.sets(st.integers(0, M - 1)))

    def reports(ids):
        return [
            a_report(k, failure="gone", delta=None) if i in failing else a_report(k)
            for i, k in enumerate(ids)
            if i not in missing
        ]

    def disturbed(ids):
        sent = reports(ids)
        again = [replace(r, seconds=9.0) for r in data.draw(st.lists(st.sampled_from(sent)))] if sent else []
        strangers = [a_report(k) for k in range(N + 3) if k not in ids]
        return data.draw(st.permutations(sent + again + strangers))

    assert_same(after(reports), after(disturbed))


def test_an_update_outdoes_a_failure_signal_in_any_order():
    clean = after(lambda ids: [a_report(k) for k in ids])
    for turn in (1, -1):
        assert_same(clean, after(lambda ids, s=turn: [r for k in ids for r in pair(k)[::s]]))


def pair(client):
    return [a_report(client, failure="slow", delta=None), a_report(client)]


def test_of_two_updates_that_differ_neither_is_used():
    def one_way(ids):
        return [a_report(k) for k in ids] + [a_report(ids[1], loss_after=0.0)]

    there, back = after(one_way), after(lambda ids: one_way(ids)[::-1])
    assert_same(there, back)
    assert there[1].failed == ((int(there[1].selected[1]), AT_ODDS),)
    without = after(lambda ids: [a_report(k) for k in ids if k != ids[1]])
    assert there[2].params.tobytes() == without[2].params.tobytes()


def test_several_reasons_are_journalled_the_same_in_any_order():
    two = [{"failure": "b", "delta": None}, {"failure": "a", "delta": None}]
    for turn in (1, -1):
        _, record, _ = after(lambda ids, s=turn: [a_report(ids[0], **c) for c in two[::s]])
        assert record.failed[0][1] == "a"


BAD = {
    "NaN": ({"delta": np.array([0, np.nan, 0])}, "update is not finite"),
    "Inf": ({"delta": np.array([0, -np.inf, 0])}, "update is not finite"),
    "short": ({"delta": np.zeros(D - 1)}, "update has shape (2,), not (3,)"),
    "flat": ({"delta": np.array(1.0)}, "update has shape (), not (3,)"),
    "square": ({"delta": np.zeros((1, D))}, "update has shape (1, 3), not (3,)"),
    "float32": ({"delta": np.zeros(D, np.float32)}, "update is float32, not float64"),
    "ints": ({"delta": np.zeros(D, np.int64)}, "update is int64, not float64"),
    "objects": ({"delta": np.array([None] * D)}, "update is object, not float64"),
    "none": ({"delta": None}, "no update"),
    "no samples": ({"num_samples": 0}, "num_samples must be between 1 and 1000000000"),
    "negative samples": ({"num_samples": -5}, "num_samples must be between 1 and 1000000000"),
    "a trillion samples": ({"num_samples": 10**12}, "num_samples must be between 1 and 1000000000"),
    "infinite loss before": (
        {"loss_before": np.inf},
        "a loss, accuracy or time is no number within 1e+12",
    ),
    "infinite loss after": (
        {"loss_after": -np.inf},
        "a loss, accuracy or time is no number within 1e+12",
    ),
    "infinite accuracy": (
        {"accuracy_before": np.inf},
        "a loss, accuracy or time is no number within 1e+12",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_refused_report_is_a_client_that_failed(name):
    changes, reason = BAD[name]
    bad = after(lambda ids: [a_report(k, **(changes if k == ids[2] else {})) for k in ids])
    failed = after(lambda ids: [a_report(k) for k in ids if k != ids[2]])
    victim = int(bad[1].selected[2])
    assert bad[1].failed == ((victim, reason),)
    assert failed[1].failed == ((victim, NO_REPLY),)
    assert bad[2].params.tobytes() == failed[2].params.tobytes()
    assert bad[2].ledger == failed[2].ledger
    assert bad[0].replace(reason, NO_REPLY) == failed[0]


def test_reports_without_losses_count_in_the_model_and_earn_nothing():
    _, record, state = after(lambda ids: [a_report(k, loss_before=np.nan) for k in ids])
    assert record.utility.tolist() == [0] * M
    assert not np.isnan(state.params).any()


def test_a_model_whose_loss_overflows_is_journalled_as_unknown():
    coordinator = a_coordinator(utility=GlobalLossDrop())
    state = coordinator.init(N, np.ones(D))
    for available in (EVERYBODY, NOBODY):
        plan, state = coordinator.plan(state, available)
        record, state = coordinator.absorb(
            state,
            plan,
            [a_report(int(k)) for k in plan.cohort.clients],
            lambda _, clients: Evals(clients, np.full(len(clients), np.inf), np.zeros(len(clients))),
        )
        assert to_json(record)
    assert np.isnan(state.ledger.loss[plan.cohort.clients]).all()
    assert np.isnan(record.surrogate.bias_bound)


@pytest.mark.parametrize("why", ["nobody online", "nobody selected", "all fail", "no reply"])
def test_an_empty_round_leaves_the_model_and_moves_everything_else_on(why):
    scheduler = Fixed([np.arange(M)] * 2 + [NOBODY]) if why == "nobody selected" else Fixed([np.arange(M)] * 9)
    coordinator = a_coordinator(scheduler=scheduler, local=Mixed(0.5))
    state = coordinator.init(N, np.ones(D))
    for _ in range(2):
        plan, state = coordinator.plan(state, EVERYBODY)
        _, state = coordinator.absorb(state, plan, [a_report(int(k)) for k in plan.cohort.clients], evaluate)
    before = state.copy()
    available = NOBODY if why == "nobody online" else EVERYBODY[1:]
    plan, state = coordinator.plan(state, available)
    gone = [a_report(int(k), failure="gone", delta=None) for k in plan.cohort.clients] if why == "all fail" else []
    record, state = coordinator.absorb(state, plan, gone, evaluate)
    assert state.params.tobytes() == before.params.tobytes()
    assert {k: v.tobytes() for k, v in state.kept.items()} == {k: v.tobytes() for k, v in before.kept.items()}
    assert (state.round, state.ledger.rounds, state.estimator.rounds) == (3, 3, 3)
    assert state.ledger.online.tolist() == [2 + (k in available) for k in range(N)]
    assert state.estimator.online.tolist() == state.ledger.online.tolist()
    assert state.ledger.utility.tobytes() == before.ledger.utility.tobytes()
    assert len(record.completed) == len(record.row_weights) == 0
    assert record.abandoned == (why in ("all fail", "no reply"))
    assert {reason for _, reason in record.failed} == {"all fail": {"gone"}, "no reply": {NO_REPLY}}.get(why, set())
    assert (record.surrogate.utility.sum() > 0) == (len(available) < N)


def test_too_few_reports_abandon_the_round():
    def reports(ids):
        return [a_report(k) for k in ids[:2]]

    _, kept, state = after(reports, a_coordinator(min_reports=2), warm=0)
    assert (len(kept.completed), kept.abandoned) == (2, False)
    assert (state.params != 1).all()
    _, dropped, state = after(reports, a_coordinator(min_reports=3), warm=0)
    assert (len(dropped.completed), dropped.abandoned) == (0, True)
    assert state.params.tolist() == [1] * D
    assert state.ledger.utility.sum() == 0
    assert state.ledger.selected.sum() == M
    assert len(dropped.failed) == 2, "a client whose good report was thrown away did not fail"


@pytest.mark.parametrize(("cohort", "share", "asked"), [(4, 0, 4), (4, 0.25, 5), (4, 0.3, 6), (1, 0.01, 2), (6, 1, 6)])
def test_over_selection_asks_more(cohort, share, asked):
    coordinator = Coordinator(cohort, over_select=share)
    plan, _ = coordinator.plan(coordinator.init(N, np.zeros(D)), EVERYBODY)
    assert len(plan.cohort.clients) == asked


def test_mixing_by_hand():
    """Algorithm 2 with a = 1/2: client 0 starts its second round halfway between its own model and the global one."""
    coordinator = Coordinator(2, scheduler=Fixed([np.array([0, 1])] * 2), local=Mixed(0.5))
    state = coordinator.init(2, np.zeros(1))
    plan, state = coordinator.plan(state, np.arange(2))
    assert plan.kept == {}
    _, state = coordinator.absorb(state, plan, [ClientReport(0, np.array([4.0])), ClientReport(1, np.array([2.0]))])
    assert state.params.tolist() == [3]
    assert {k: v.tolist() for k, v in state.kept.items()} == {0: [4], 1: [2]}
    plan, state = coordinator.plan(state, np.arange(2))
    assert {k: plan.job(k).descents()[0].start.tolist() for k in (0, 1)} == {0: [3.5], 1: [2.5]}
    _, state = coordinator.absorb(state, plan, [ClientReport(0, np.array([1.0]))])  # its model is now 3 + 1
    assert {k: v.tolist() for k, v in state.kept.items()} == {0: [4], 1: [2]}
    assert state.params.tolist() == [4]


def test_mixing_of_one_is_no_mixing():
    assert_same(
        after(lambda ids: [a_report(k) for k in ids], a_coordinator(local=Mixed(1.0))),
        after(lambda ids: [a_report(k) for k in ids], a_coordinator()),
    )
    assert after(lambda ids: [a_report(k) for k in ids], a_coordinator(local=Mixed(1.0)))[2].kept == {}


@pytest.mark.parametrize(("a", "start"), [(0.0, 4.0), (0.25, 3.5), (0.75, 2.5)])
def test_mixing_weighs_the_global_model_by_a(a, start):
    """The client's own model is 4, the global one, after half a step, 2."""
    coordinator = Coordinator(1, local=Mixed(a), server=Sgd(rate=0.5))
    plan, state = coordinator.plan(coordinator.init(1, np.zeros(1)), np.arange(1))
    _, state = coordinator.absorb(state, plan, [ClientReport(0, np.array([4.0]))])
    plan, _ = coordinator.plan(state, np.arange(1))
    assert plan.job(0).descents()[0].start.tolist() == [start]


@given(st.floats(0.01, 10))
def test_server_rate_scales_the_step(rate):
    def reports(ids):
        return [a_report(k) for k in ids]

    full = after(reports, a_coordinator(), warm=0)[2].params - 1
    scaled = after(reports, a_coordinator(server=Sgd(rate=rate)), warm=0)[2].params - 1
    assert scaled == pytest.approx(rate * full, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Coordinator(7).init(6), "cohort=7 but there are only 6 clients; lower it to 6"),
        (lambda: Coordinator(0), "cohort=0 must be a whole number of at least 1"),
        (lambda: Coordinator(2.5), "cohort=2.5 must be a whole number"),
        (lambda: Coordinator(2).init(0), "clients=0 must be a whole number of at least 1"),
        (lambda: Coordinator(2, min_reports=3), "min_reports=3 but only 2 are asked; lower it or raise cohort"),
        (lambda: Coordinator(2, min_reports=-1), "min_reports=-1 must be"),
        (lambda: Mixed(1.1), "a=1.1 must be between 0 and 1"),
        (lambda: Mixed(float("nan")), "a=nan must be between 0 and 1"),
        (lambda: Coordinator(2, server=Sgd(rate=0)), "rate=0 must be a finite number above 0"),
        (lambda: Coordinator(2, server=Sgd(rate=float("inf"))), "rate=inf"),
        (lambda: Coordinator(2, over_select=-0.1), "over_select=-0.1 must be between 0 and 10"),
    ],
)
def test_choices_that_make_no_sense_are_refused(make, says):
    with pytest.raises(ConfigError, match=says):
        make()


def test_over_selection_lets_min_reports_exceed_the_cohort():
    assert Coordinator(4, over_select=0.5, min_reports=6).asked == 6


def test_a_plan_of_another_round_is_refused():
    coordinator = a_coordinator()
    plan, state = coordinator.plan(coordinator.init(N, np.ones(D)), EVERYBODY)
    _, state = coordinator.absorb(state, plan, [], evaluate)
    with pytest.raises(RoundError, match="plan is of round 0 but the state is at 1; absorb plans in order"):
        coordinator.absorb(state, plan, [], evaluate)


def test_a_rule_that_needs_an_evaluation_says_so():
    coordinator = a_coordinator(utility=GlobalLossDrop())
    plan, state = coordinator.plan(coordinator.init(N, np.ones(D)), EVERYBODY)
    with pytest.raises(RoundError, match=r"'global_loss_drop' needs .* pass evaluate= to absorb"):
        coordinator.absorb(state, plan, [a_report(int(k)) for k in plan.cohort.clients])


def test_a_copy_of_a_state_is_independent():
    coordinator = a_coordinator(local=Mixed(0.5), scheduler=Uniform())
    _, _, state = after(lambda ids: [a_report(k) for k in ids], coordinator)
    kept, twin = state.copy(), state.copy()
    plan, state = coordinator.plan(state, EVERYBODY)
    first, state = coordinator.absorb(state, plan, [a_report(int(k)) for k in plan.cohort.clients], evaluate)
    assert kept.round == state.round - 1
    assert kept.ledger == twin.ledger
    assert kept.ledger != state.ledger
    assert kept.estimator.rounds == state.estimator.rounds - 1
    assert kept.surrogate.tobytes() == twin.surrogate.tobytes()
    plan, kept = coordinator.plan(kept, EVERYBODY)
    again, kept = coordinator.absorb(kept, plan, [a_report(int(k)) for k in plan.cohort.clients], evaluate)
    assert to_json(first) == to_json(again)
    assert kept.ledger == state.ledger


def test_the_first_model_is_copied():
    params = np.zeros(D)
    state = a_coordinator().init(N, params)
    params += 1
    assert state.params.tolist() == [0] * D


def test_clients_models_beyond_the_limit_lie_in_files_and_change_nothing():
    states = []
    for ram in (10**9, 2 * D * 8):
        coordinator = a_coordinator(local=Mixed(0.5), scheduler=Uniform(), spill=SpillFile(ram))
        states.append(after(lambda ids: [a_report(k) for k in ids], coordinator)[2])
    assert sum(mapping_of(v) is None for v in states[1].kept.values()) == 2
    assert len(states[0].kept) > 3
    assert states[0].params.tobytes() == states[1].params.tobytes()
    assert {k: v.tobytes() for k, v in states[0].kept.items()} == {k: v.tobytes() for k, v in states[1].kept.items()}
