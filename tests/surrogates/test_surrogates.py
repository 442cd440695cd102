"""Who stands in for those that are not there: the paper's decayed utility, by hand and by Lemma 3."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedparity import (
    SURROGATES,
    ClientReport,
    ConfigError,
    Coordinator,
    Evals,
    InProcess,
    Intermittent,
    Ledger,
    Spec,
    Trace,
    execute,
    run,
    stream,
)
from fedparity.core.journal import from_json, to_json
from fedparity.schedulers import Uniform
from fedparity.surrogates import NoSurrogate, UtilitySurrogate
from fedparity.tasks import Logistic, Quadratic
from fedparity.utility import UTILITIES, GlobalLossDrop
from fedparity.weightings import WEIGHTINGS


def a_ledger(last_completed, loss):
    ledger = Ledger.empty(len(last_completed))
    ledger.last_completed[:] = last_completed
    ledger.loss[:] = loss
    return ledger


def losses(*values, ledger=None):
    """The losses now, and the drop that would be credited for them, as a coordinator asks for both."""
    table = np.array(values, dtype=float)

    def score(clients):
        evals = Evals(clients, table[clients], np.full(len(clients), np.nan))
        return dataclasses.replace(evals, credit=GlobalLossDrop().would_credit(None, clients, ledger or LEDGER, evals))

    return score


LEDGER = a_ledger([3, 1, -1, 4], [2.0, 5.0, np.nan, 1.0])
"""Before round 5: client 0 completed round 3, 1 round 1, 2 none, 3 round 4."""
ONLINE = np.array([3])


def remembered(surrogate):
    reports = [ClientReport(0, loss_after=2.0), ClientReport(1, loss_after=5.0), ClientReport(3, loss_after=1.0)]
    return surrogate.remember(surrogate.init(4), reports, np.array([0.5, 0.25, 8.0]))


@pytest.mark.parametrize(("g", "g0", "g1"), [("gain", 0.5, 0.25), ("level", 2.0, 5.0)])
def test_by_hand(g, g0, g1):
    rule = UtilitySurrogate(g=g, eta0=2.0, lam=0.5, epsilon=0.125)
    found, _ = rule.stand_in(remembered(rule), 5, ONLINE, LEDGER, None)
    eta = [2 * math.exp(-0.5 * 2), 2 * math.exp(-0.5 * 4)]
    assert found.clients.tolist() == [0, 1]  # 2 never took part, 3 is there
    assert found.utility == pytest.approx([eta[0] * g0, eta[1] * g1], rel=1e-15)
    assert found.eta_sum == pytest.approx(sum(eta), rel=1e-15)
    assert found.bias_bound == pytest.approx(0.125 * sum(eta), rel=1e-15)


def test_defaults_are_those_of_the_paper():
    assert UtilitySurrogate() == UtilitySurrogate(g="gain", eta0=1.0, lam=0.5, epsilon=None)


def test_epsilon_is_measured_where_the_truth_can_be_had():
    now = losses(1.75, 1.0, 0.0, 0.0)
    gain, level = UtilitySurrogate(), UtilitySurrogate(g="level")
    eta_sum = math.exp(-1) + math.exp(-2)
    found, _ = gain.stand_in(remembered(gain), 5, ONLINE, LEDGER, now)
    assert found.bias_bound == pytest.approx(max(abs(0.5 - 0.25), abs(0.25 - 4.0)) * eta_sum)
    found, _ = level.stand_in(remembered(level), 5, ONLINE, LEDGER, now)
    assert found.bias_bound == pytest.approx(max(abs(2.0 - 1.75), abs(5.0 - 1.0)) * eta_sum)


def test_epsilon_is_unknown_where_it_cannot_be_measured():
    rule = UtilitySurrogate()
    assert math.isnan(rule.stand_in(remembered(rule), 5, ONLINE, LEDGER, None)[0].bias_bound)
    level = UtilitySurrogate(g="level")
    for reading, unknown in ((rule, np.nan), (level, np.nan), (level, np.inf)):
        found, _ = reading.stand_in(remembered(reading), 5, ONLINE, LEDGER, losses(*[unknown] * 4))
        assert math.isnan(found.bias_bound)
        assert found.eta_sum > 0


# --- the bound is the utility rule's: a gain is compared with what that rule would credit


def run_bounds(utility, surrogate="utility", weighting="mean", memory="none"):
    """Each round's record and state in a run whose clients come and go."""
    task = Logistic.synthetic(8, seed=1)
    engine = Intermittent(InProcess(task), Trace.from_matrix(stream(7, "bound").random((25, 8)) < 0.6))
    coordinator = Coordinator(
        3,
        scheduler=Uniform(),
        utility=UTILITIES.build(utility),
        surrogate=SURROGATES.build(surrogate),
        weighting=WEIGHTINGS.build(weighting),
        memory=memory,
    )
    state, found = coordinator.init(8, task.init(stream(0, "init"))), []
    for _ in range(25):
        plan, state = coordinator.plan(state, engine.available(state.round))
        record, state = coordinator.absorb(state, plan, engine.train(plan), engine.evaluate)
        found.append((record, state.copy()))
    return found


def test_a_gain_of_accuracy_is_compared_with_a_gain_of_accuracy():
    task = Logistic.synthetic(8, seed=1)
    credited = np.full(8, np.nan)
    seen = 0
    for record, state in run_bounds("accuracy_gain"):
        now = task.evaluate(state.params, np.arange(8)).accuracy
        added = record.surrogate
        if len(added.clients):
            truth = np.clip(now - credited, 0, 1)[added.clients]
            epsilon = np.abs(state.surrogate[added.clients] - truth).max()
            assert added.bias_bound == pytest.approx(epsilon * added.eta_sum)
            eta = np.exp(-0.5 * (record.round - state.ledger.last_completed[added.clients]))
            assert abs(added.utility.sum() - (eta * truth).sum()) <= added.bias_bound + 1e-12  # Lemma 3
            assert added.bias_bound <= added.eta_sum  # two gains between 0 and 1 are at most 1 apart
            seen += 1
        credited[record.completed] = now[record.completed]
    assert seen > 10


def test_what_only_training_could_tell_has_no_bound():
    """A loss drop is of local training, which clients that are not here did not do."""
    found = [record.surrogate for record, _ in run_bounds("loss_drop")]
    assert any(len(s.clients) for s in found)
    assert all(math.isnan(s.bias_bound) == bool(len(s.clients)) for s in found)
    level = [record.surrogate for record, _ in run_bounds("loss_drop", "utility:g=level")]
    assert not any(math.isnan(s.bias_bound) for s in level)  # a level is of the model alone, whatever the rule


@pytest.mark.parametrize(
    ("memory", "weighting"),
    [("last_updates:own=replace", "memory_mean"), ("last_updates", "fedvarp"), ("last_updates", "fedstale")],
)
def test_old_updates_are_not_logged_as_free_of_bias(memory, weighting):
    found = [record for record, _ in run_bounds("global_loss_drop", "none", weighting, memory)]
    stale = [bool(record.row_weights[record.row_ages > 0].any()) for record in found]
    assert any(stale)
    assert [math.isnan(record.surrogate.bias_bound) for record in found] == stale
    again = [from_json(to_json(record)).surrogate.bias_bound for record in found]
    assert [math.isnan(bound) for bound in again] == stale


def test_a_surrogate_s_bound_does_not_stand_for_a_memory_that_has_none():
    found = [r for r, _ in run_bounds("global_loss_drop", "utility", "memory_mean", "last_updates:own=replace")]
    stale = [bool(record.row_weights[record.row_ages > 0].any()) for record in found]
    assert any(record.surrogate.eta_sum for record in found)
    assert [math.isnan(record.surrogate.bias_bound) for record in found] == stale


def test_decayed_updates_keep_their_own_bound():
    found = [record.surrogate for record, _ in run_bounds("none", "none", "decayed_mean", "decayed:epsilon=2")]
    assert any(s.eta_sum for s in found)
    assert [s.bias_bound for s in found] == pytest.approx([2 * s.eta_sum for s in found])


@pytest.mark.parametrize("epsilon", [None, 0.5])
def test_nobody_missing_adds_nothing(epsilon):
    rule = UtilitySurrogate(epsilon=epsilon)
    found, _ = rule.stand_in(remembered(rule), 5, np.arange(4), LEDGER, None)
    assert (len(found.clients), found.eta_sum, found.bias_bound) == (0, 0, 0)


def test_only_the_last_participation_counts():
    rule = UtilitySurrogate()
    state = rule.remember(remembered(rule), [ClientReport(0)], np.array([7.0]))
    assert state.tolist() == [7, 0.25, 0, 8]
    level = UtilitySurrogate(g="level")
    assert level.remember(level.init(2), [ClientReport(1)], np.array([7.0])).tolist() == [0, 0]  # no loss reported


@given(
    kept=st.lists(st.floats(0, 10), min_size=6, max_size=6),
    last=st.lists(st.integers(-1, 9), min_size=6, max_size=6),
    credited=st.lists(st.floats(0, 10), min_size=6, max_size=6),
    now=st.lists(st.floats(0, 10), min_size=6, max_size=6),
    online=st.sets(st.integers(0, 5)),
    g=st.sampled_from(["gain", "level"]),
    eta0=st.floats(0.01, 5),
    lam=st.floats(0.01, 3),
)
def test_lemma_3(*, kept, last, credited, now, online, g, eta0, lam):
    """|sum eta (g - truth)| <= eps * sum eta, with eps measured."""
    rule, ledger, available = (
        UtilitySurrogate(g, eta0, lam),
        a_ledger(last, credited),
        np.array(sorted(online), dtype=int),
    )
    found, _ = rule.stand_in(np.array(kept), 10, available, ledger, losses(*now, ledger=ledger))
    missing = found.clients
    assert set(missing.tolist()) == {k for k in range(6) if last[k] >= 0 and k not in online}
    eta = eta0 * np.exp(-lam * (10 - ledger.last_completed[missing]))
    score = np.array(now)[missing]
    truth = score if g == "level" else np.maximum(np.array(credited)[missing] - score, 0)
    assert abs(found.utility.sum() - (eta * truth).sum()) <= found.bias_bound * (1 + 1e-12) + 1e-12
    assert (found.utility >= 0).all()
    assert found.eta_sum <= eta0 * math.exp(-lam) * len(missing) * (1 + 1e-12)


@pytest.mark.parametrize("text", ["utility", "utility:g=level", "utility:lam=.01,eta0=5,epsilon=1"])
def test_surrogates_never_touch_the_model(text):
    matrix = stream(3, "surrogate").random((20, 8)) < np.linspace(0.2, 0.9, 8)
    engine = Intermittent(InProcess(Quadratic.random(8)), Trace.from_matrix(matrix))
    start = {"num_clients": 8, "params": np.zeros(4)}
    plain, stood = (
        run(Coordinator(3, utility=GlobalLossDrop(), surrogate=SURROGATES.build(name)), engine, 20, **start)
        for name in ("none", text)
    )
    assert stood.params.tobytes() == plain.params.tobytes()
    assert stood.ledger.utility.tobytes() == plain.ledger.utility.tobytes()
    assert stood.ledger.selected.tobytes() == plain.ledger.selected.tobytes()
    assert stood.ledger.surrogate_utility.sum() > 0 == plain.ledger.surrogate_utility.sum()


def test_none_adds_nothing():
    found, state = NoSurrogate().stand_in(None, 5, ONLINE, LEDGER, losses(1, 1, 1, 1))
    assert (len(found.clients), len(found.utility), found.eta_sum, found.bias_bound) == (0, 0, 0, 0)
    assert state is None


@pytest.mark.parametrize("text", ["eta0=0", "eta0=-1", "lam=0", "epsilon=-1"])
def test_values_that_make_no_sense_are_refused(text):
    with pytest.raises(ConfigError, match=text):
        SURROGATES.build(f"utility:{text}")
    assert SURROGATES.build("utility:epsilon=none").epsilon is None


def test_nobody_is_absent_where_the_rule_credits_everybody():
    # What the rule gave the absent would be given to them again.
    spec = Spec(
        methods=["cup_paper"],
        utility="accuracy_change",
        rounds=12,
        cohort=3,
        data={"set": "logistic"},
        population={"clients": 12, "availability": "bernoulli:low=.1,high=.4"},
    )
    (one,) = execute(spec).runs
    assert one.ledger.utility.any()
    assert not one.ledger.surrogate_utility.any()
    (usual,) = execute(spec.model_copy(update={"utility": "loss_drop"})).runs
    assert usual.ledger.surrogate_utility.any()
