"""What taking part was worth, by hand."""

import numpy as np
import pytest

from fedparity import ClientReport, ConfigError, Evals, Ledger, RoundError, Spec, execute, stream
from fedparity.experiment.tasks import build_task
from fedparity.utility import UTILITIES, AccuracyGain, AuthorsLossDrop, GlobalLossDrop, LossDrop

CLIENTS = [0, 2, 3]


def reports(before, after=None, accuracy=None):
    nan = [np.nan] * len(CLIENTS)
    columns = zip(CLIENTS, before, after or nan, accuracy or nan, strict=True)
    return [ClientReport(k, None, 1, b, a, acc) for k, b, a, acc in columns]


def evals(loss=(0.0, 0.0, 0.0), accuracy=(0.0, 0.0, 0.0)):
    return Evals(np.array(CLIENTS), np.array(loss), np.array(accuracy))


def a_ledger(loss):
    ledger = Ledger.empty(4)
    ledger.loss[CLIENTS] = loss
    return ledger


def test_loss_drop_by_hand():
    utility, loss, _ = LossDrop(bound=2).credit(None, reports([3, 1, 9], [2.5, 4, 1]), Ledger.empty(4), None)
    assert utility.tolist() == [0.5, 0, 2]  # a drop, a rise, more than M
    assert loss.tolist() == [2.5, 4, 1]


def test_loss_drop_credits_nothing_for_a_loss_that_is_unknown():
    utility, loss, _ = LossDrop().credit(None, reports([np.nan, 1, np.nan], [0, np.nan, np.nan]), Ledger.empty(4), None)
    assert utility.tolist() == [0, 0, 0]
    assert np.isnan(loss[1:]).all()


def test_global_loss_drop_is_since_the_last_credit():
    ledger = a_ledger([5, np.nan, 1])  # client 2 was never credited: compared with what it received
    utility, loss, _ = GlobalLossDrop().credit(None, reports([9, 4, 9]), ledger, evals([3, 3, 3]))
    assert utility.tolist() == [2, 1, 0]
    assert loss.tolist() == [3, 3, 3]


def test_global_loss_drop_telescopes():
    """Credited every time and falling throughout, the sum of drops is the whole drop."""
    rule, ledger, total = GlobalLossDrop(), Ledger.empty(4), np.zeros(3)
    for now in ([4, 5, 6], [3, 2, 6], [0.5, 1, 2]):
        utility, loss, _ = rule.credit(None, reports([7, 7, 7]), ledger, evals(now))
        ledger.loss[CLIENTS] = loss
        total += utility
    assert total.tolist() == [6.5, 6, 5]


def test_accuracy_gain_by_hand():
    rule = AccuracyGain()
    state = rule.init(4)
    utility, loss, state = rule.credit(state, reports([9] * 3, None, [0.25, 0.5, np.nan]), Ledger.empty(4), evals(
        loss=(1, 2, 3), accuracy=(0.75, 0.25, 0.5)))  # fmt: skip
    assert utility.tolist() == [0.5, 0, 0]  # a gain, a fall, no accuracy received
    assert loss.tolist() == [1, 2, 3]
    utility, _, state = rule.credit(
        state, reports([9] * 3, None, [0, 0, 0]), Ledger.empty(4), evals(accuracy=(1, 1, 1))
    )
    assert utility.tolist() == [0.25, 0.75, 0.5]
    assert state[CLIENTS].tolist() == [1, 1, 1]
    assert np.isnan(state[1])


def test_a_bound_of_accuracy_gain_holds():
    rule = AccuracyGain(bound=0.1)
    utility, _, _ = rule.credit(
        rule.init(4), reports([0] * 3, None, [0, 0, 0]), Ledger.empty(4), evals(accuracy=(1, 0.05, 0))
    )
    assert utility == pytest.approx([0.1, 0.05, 0])


@pytest.mark.parametrize("name", ["global_loss_drop", "accuracy_gain"])
def test_rules_on_the_shared_model_need_it_evaluated(name):
    rule = UTILITIES.build(name)
    assert rule.needs_evaluation
    with pytest.raises(RoundError, match=f"{name}.*pass evaluate= to absorb"):
        rule.credit(rule.init(4), reports([1] * 3), Ledger.empty(4), None)


@pytest.mark.parametrize("name", UTILITIES)
@pytest.mark.parametrize("bound", ["0", "-1"])
def test_a_bound_of_nothing_is_refused(name, bound):
    with pytest.raises(ConfigError, match=f"bound={bound}"):
        UTILITIES.build(f"{name}:bound={bound}")


def test_the_authors_rule_credits_what_was_gained_between_two_selections():
    ledger = a_ledger([5, np.nan, 1])  # client 2 is selected for the first time
    utility, loss, _ = AuthorsLossDrop(bound=3).credit(None, reports([1, 4, 2]), ledger, None)
    assert utility.tolist() == [3, 0, 0]  # more than M, nothing at first, a rise
    assert loss.tolist() == [1, 4, 2]


def a_spec(utility, **more):
    people = {"clients": 12, "availability": "bernoulli:low=.05,high=.4"}
    keys = {"methods": ["uniform", "mifa"], "rounds": 9, "cohort": 3, "data": {"set": "logistic"}} | more
    return Spec(**keys, utility=utility, population=people)


def test_accuracy_changes_of_all_clients_telescope():
    """Section 4.2: summed over rounds, everybody's credit is its final minus its initial accuracy."""
    spec = a_spec("accuracy_change")
    task = build_task(spec, 0)
    first = task.evaluate(task.init(stream(0, "init")), np.arange(12)).accuracy
    run = execute(spec)
    for one in run.runs:
        assert one.ledger.utility == pytest.approx(one.accuracy - first, abs=1e-12)
        assert (one.ledger.utility[one.ledger.online == 0] != 0).any() or (one.ledger.online > 0).all()
        assert Ledger.replay(12, one.records) == one.ledger
        credited = np.concatenate([[*r.utility, *r.others.utility] for r in one.records])
        assert credited.min() < 0 < credited.max()
    apart = [set(r.others.clients.tolist()) & set(r.completed.tolist()) for one in run.runs for r in one.records]
    assert not any(apart)


def test_accuracy_gain_is_another_rule():
    changed, gained = (execute(a_spec(rule)).runs[0].ledger for rule in ("accuracy_change", "accuracy_gain"))
    assert (gained.utility >= 0).all()
    assert not gained.utility[gained.completed == 0].any()
    assert changed.utility[changed.completed == 0].any()


@pytest.mark.parametrize("rule", ["accuracy_change", "accuracy_gain"])
def test_a_rule_that_a_task_cannot_supply_is_refused_before_anything_is_trained(rule, tmp_path):
    spec = a_spec(rule, data={"set": "quadratic"})
    for where in (None, tmp_path / "run"):
        with pytest.raises(ConfigError, match=f"utility '{rule}' needs accuracies, which data.set='quadratic' has not"):
            execute(spec, out=where)
    assert not (tmp_path / "run").exists()


def test_crediting_everybody_needs_models_evaluated():
    rule = UTILITIES.build("accuracy_change")
    with pytest.raises(RoundError, match="pass evaluate= to absorb"):
        rule.credit(rule.init(4), reports([1] * 3), Ledger.empty(4), None)
