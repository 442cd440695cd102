"""Defects seen in published code of aggregation rules (methods.md): each is shown, and shown not to be ours."""

import math

import numpy as np
import pytest

from fedparity import (
    MEMORIES,
    WEIGHTINGS,
    ClientReport,
    Coordinator,
    InProcess,
    Intermittent,
    Ledger,
    Rows,
    Trace,
    run,
)
from fedparity.experiment.methods import METHODS
from fedparity.local import LOCALS
from fedparity.schedulers import Fixed
from fedparity.tasks import Logistic, Quadratic
from fedparity.weightings.agnostic import project_to_simplex
from fitting import built, partners


def rows_of(deltas, losses=None, ages=None, clients=None, sizes=None):
    k = len(deltas)
    ids = np.arange(k) if clients is None else np.array(clients, dtype=np.int64)
    return Rows(
        ids.astype(np.int64),
        [np.atleast_1d(np.array(d, float)) for d in deltas],
        np.zeros(k, np.int64) if ages is None else np.array(ages),
        np.ones(k) if sizes is None else np.array(sizes, float),
        np.full(k, np.nan) if losses is None else np.array(losses, float),
        np.ones(k),
    )


def weigh(text, rows, clients=2, state=None, ledger=None):
    rule = WEIGHTINGS.build(text)
    return rule.weigh(rule.init(clients) if state is None else state, rows, ledger or Ledger.empty(clients))


def step(text, rows, clients=2, **more):
    weights, _ = weigh(text, rows, clients, **more)
    return sum((w * d for w, d in zip(weights, rows.deltas, strict=True)), np.zeros(len(rows.deltas[0])))


def absorbed(weighting, reports, **more):
    """The weights of one round of a coordinator."""
    everybody = np.arange(len(reports))
    method = Coordinator(
        len(reports), scheduler=Fixed([everybody]), weighting=WEIGHTINGS.build(weighting), min_reports=0, **more
    )
    plan, state = method.plan(method.init(len(reports), np.zeros(1)), everybody)
    record, state = method.absorb(state, plan, reports)
    return record.row_weights, state


WORKED = rows_of([-0.1, -0.4], [0.5, 2])
"""w = 1, w_k = (.9, .6), F = (.5, 2), L = 10 (methods.md, section 2)."""


@pytest.mark.parametrize("weighting", ["qfair", "tilted:t=1", "core", "agnostic", "fair_vector", "cafed"])
def test_losses_are_those_of_the_model_received(weighting):
    """FedLab's q-FedAvg takes losses of the last local epoch, FedFV's first baseline those after training."""

    def reports(after):
        return [ClientReport(k, np.array([-1.0 - k]), 1, b, a) for k, (b, a) in enumerate(zip((0.5, 2.0), after, strict=True))]  # fmt: skip # noqa: E501

    (one, _), (other, _) = absorbed(weighting, reports((0.1, 0.1))), absorbed(weighting, reports((9.0, 0.0)))
    assert one.tobytes() == other.tobytes()


def test_losses_are_means_whatever_the_number_of_batches():
    """FedLab's version sums the losses of batches: twice the data, twice the loss."""
    task = Logistic.synthetic(3, samples=16, seed=1)
    twice = Logistic(np.repeat(task.x, 2, axis=1), np.repeat(task.y, 2, axis=1), task.classes)
    found = []
    for each in (task, twice):
        method = Coordinator(3, weighting=WEIGHTINGS.build("qfair"))
        plan, _ = method.plan(method.init(3, each.init(np.random.default_rng(0))), np.arange(3))
        found.append([each.train(plan.job(k)).loss_before for k in range(3)])
    assert found[0] == pytest.approx(found[1], rel=1e-12)


@pytest.mark.parametrize(("q", "legacy"), [(0.2, 0.779930), (1, 0.851190), (5, 0.943182)])
def test_q_only_shrinks_the_step_if_all_have_one_loss(q, legacy):
    """Flower's legacy strategy gives every client the server's loss (1.25): FedAvg's direction, at any q."""
    same = rows_of([-0.1, -0.4], [1.25, 1.25])
    assert 1 + step(f"qfair:q={q}", same)[0] == pytest.approx(legacy, abs=1e-6)
    weights, _ = weigh(f"qfair:q={q}", same)
    assert weights[1] == pytest.approx(weights[0])
    ours, _ = weigh(f"qfair:q={q}", WORKED)
    assert ours[1] / ours[0] == pytest.approx(4**q)


def test_q_fedavg_has_the_l_inside_the_gradient():
    """A public repository drops it: delta = F^q (w - w_k), h with |w - w_k|^2, right only for L = 1."""
    loss, delta = np.array([0.5, 2.0]), np.array([-0.1, -0.4])
    dropped = (loss * delta).sum() / (delta**2 + loss).sum()
    assert step("qfair:q=1,lipschitz=1", WORKED)[0] == pytest.approx(dropped)
    assert 1 + step("qfair:q=1,lipschitz=10", WORKED)[0] == pytest.approx(0.797619, abs=1e-6)
    assert abs(step("qfair:q=1,lipschitz=10", WORKED)[0] - dropped) > 0.1


def test_a_loss_of_zero_may_be_raised_to_a_negative_power():
    assert np.isfinite(weigh("qfair:q=.1", rows_of([-0.1, -0.4], [0.0, 2]))[0]).all()


def test_afl_uses_its_lambda():
    """fair_flearn's command for AFL overwrites every weight by 1: plain averaging."""
    rows = rows_of([1.0, -1.0], [0.2, 1.0])
    _, state = weigh("agnostic:form=projected", rows)
    weights, _ = weigh("agnostic:form=projected", rows, state=state)
    assert weights == pytest.approx([0.46, 0.54])


def test_afls_projection_lands_on_the_simplex():
    """fair_flearn's leaves the current entry out of the sum: (1.5, .3) goes to (1.1, 0)."""

    def theirs(y):
        u = np.sort(y)[::-1]
        before = np.concatenate([[0.0], np.cumsum(u)[:-1]])
        rho = max(i for i in range(len(u)) if u[i] + (1 - before[i]) / (i + 1) > 0)
        return np.maximum(y + (1 - u[: rho + 1].sum()) / (rho + 1), 0)

    y = np.array([1.5, 0.3])
    assert theirs(y) == pytest.approx([1.1, 0])
    assert project_to_simplex(y) == pytest.approx([1, 0])


def test_term_weighs_its_first_round_as_any_other():
    """The authors' code divides by a moving average that starts at 0: the first weights are doubled."""
    losses, t = np.array([0.5, 2.0]), 1.0
    raw = np.exp(t * (losses - losses.max()))
    theirs = raw / (2 * (0.5 * 0 + 0.5 * raw.mean()))
    assert theirs.sum() == pytest.approx(2)
    for _ in range(2):
        weights, _ = weigh("tilted:t=1", rows_of([1, 1], losses))
        assert weights.sum() == pytest.approx(1)
        assert weights == pytest.approx(theirs / 2)


def test_mifa_steps_at_once_unless_it_is_told_to_wait():
    """MIFA's `fdu` waits for everybody, then trains all of them on the first model, there or not."""
    for text, first in (("last_updates:own=replace", 0.25), ("last_updates:own=replace,wait=true", 0.0)):
        method = Coordinator(
            2, scheduler=Fixed([np.array([0]), np.array([1, 2]), np.array([3])]),
            weighting=WEIGHTINGS.build("memory_mean"), memory=MEMORIES.build(text),
        )  # fmt: skip
        state, asked, models = method.init(4, np.zeros(1)), [], []
        for _ in range(3):
            plan, state = method.plan(state, np.arange(4))
            asked.append(plan.cohort.clients.tolist())
            reports = [ClientReport(int(k), np.ones(1)) for k in plan.cohort.clients]
            _, state = method.absorb(state, plan, reports)
            models.append(float(state.params[0]))
        assert asked == [[0], [1, 2], [3]]
        assert models[0] == first
        assert models[2] - models[1] == pytest.approx(1)  # everybody was seen: a whole step


def test_mifas_two_denominators_have_two_names():
    """flgo divides by the clients seen, the paper by all."""
    rows = rows_of([3.0, 1.0], ages=[0, 5], clients=[0, 2])
    assert step("memory_mean:over=all", rows, 8)[0] == pytest.approx(4 / 8)
    assert step("memory_mean:over=seen", rows, 8)[0] == pytest.approx(2)


def test_fedvarp_steps_along_its_memory_when_nobody_comes():
    """IBM/fedau's makes no step then; both are there by name."""
    rows = rows_of([3.0, 1.0], ages=[1, 5])
    assert step("fedvarp", rows)[0] == pytest.approx(2)
    assert step("fedvarp:empty=stay", rows)[0] == 0


def test_f3asts_sum_is_not_divided_by_the_cohort_once_more():
    """With learned rates r = M/N the unbiased weights sum to 1; the released code's to 1/M."""
    sums = {}
    for code in ("false", "true"):
        rule, ledger = WEIGHTINGS.build(f"f3ast:beta=.02,code={code}"), Ledger.empty(10)
        state = rule.init(10)
        for t in range(2000):
            weights, state = rule.weigh(
                state, rows_of(np.ones(5), clients=[(5 * t + i) % 10 for i in range(5)]), ledger
            )
        sums[code] = weights.sum()
    assert sums["false"] == pytest.approx(1, abs=0.02)
    assert sums["true"] == pytest.approx(1 / 5, abs=0.01)


def test_fedawe_s_clip_is_named_and_can_be_turned_off():
    """The authors' code clips the mean innovation to .5, for FedAWE alone: a method that does so must say it."""
    ledger = Ledger.empty(2)
    ledger.rounds = 9
    rows = rows_of([8.0, 4.0])
    assert step("fedawe:clip=none", rows, ledger=ledger)[0] == pytest.approx(10 * 6)
    assert step("fedawe", rows, ledger=ledger)[0] == pytest.approx(0.5)
    assert "clip=.5" in METHODS["fedawe"].weighting


def test_hajek_is_not_called_unbiased():
    """Two clients, updates (+1, -1), p = (.8, .2): its expectation is .504, and its page says biased."""
    p, delta, ledger = np.array([0.8, 0.2]), np.array([1.0, -1.0]), Ledger.empty(2)
    ledger.rounds = 10**6 - 1
    ledger.completed[:] = p * 10**6 - 1
    mean = 0.0
    for who in ([0], [1], [0, 1]):
        chance = math.prod(p[k] if k in who else 1 - p[k] for k in range(2))
        mean += chance * step("ipw:form=hajek,a=0,b=0", rows_of(delta[who], clients=who), ledger=ledger)[0]
    assert mean == pytest.approx(0.504, abs=1e-4)
    for name in ("ipw", "adjusted"):
        text = __import__(f"fedparity.weightings.{name}", fromlist=["x"]).__doc__
        assert "biased" in text.lower().partition("hajek")[2].partition("\n")[0]


def test_ipw_counts_participation_and_not_availability():
    """With a selector, p is availability times the chance of being asked."""
    ledger = Ledger.empty(2)
    ledger.rounds, ledger.online[:], ledger.completed[:] = 99, [99, 99], [99, 24]
    assert weigh("ipw:a=0,b=0", rows_of([1, 1]), ledger=ledger)[0] == pytest.approx([0.2, 0.8])


def test_fedfv_looks_at_earlier_rounds():
    """Since August 2021 flgo's window is t - tau + 1 .. t: with tau = 1 no earlier round at all."""
    ledger = Ledger.empty(2)
    ledger.rounds = 4
    rows = rows_of([[1.0, 0.2], [-1.0, 1.0]], [1, 1], ages=[0, 1])
    assert step("fair_vector:tau=1", rows, ledger=ledger) @ rows.deltas[1] == pytest.approx(0, abs=1e-12)
    assert step("fair_vector:tau=0", rows, ledger=ledger) @ rows.deltas[1] < 0


def test_fedfv_takes_a_client_that_is_here_once():
    """The update of this round replaces the remembered one before conflicts with earlier rounds are looked for."""
    ledger = Ledger.empty(2)
    ledger.rounds = 4
    doubled = rows_of([[1.0, 0.2], [-1.0, 1.0]], [1, 1], ages=[0, 1], clients=[0, 0])
    assert step("fair_vector:tau=1", doubled, ledger=ledger) == pytest.approx([1.0, 0.2])


def test_fedfv_of_updates_that_cancel_is_no_nan():
    assert np.isfinite(weigh("fair_vector:alpha=0,tau=0", rows_of([[1.0], [-1.0]], [1, 1]))[0]).all()


def test_fedau_counts_only_what_is_fresh_as_participation():
    rule, ledger = WEIGHTINGS.build("fedau"), Ledger.empty(2)
    state = rule.init(2)
    for _ in range(5):
        weights, state = rule.weigh(state, rows_of([1, 1], ages=[0, 3]), ledger)
    assert weights.tolist() == [0.5, 0]
    assert state.closed.tolist() == [5, 0]
    assert state.waiting.tolist() == [0, 5]


def test_a_lost_difference_does_not_tear_fedlaavgs_memories_apart():
    """A client replaces its last update only once its difference was used: reports that get lost change nothing."""
    rng = np.random.default_rng(3)
    trace = Trace.from_matrix(rng.random((40, 5)) < 0.7).with_dropout(0.4, rng)
    task = Quadratic.random(5, seed=1)
    found = []
    for memory, weighting, local in (
        ("last_updates:own=replace", "memory_mean", "plain"),
        ("running_sum", "fedlaavg", "difference"),
    ):
        method = Coordinator(
            3, memory=MEMORIES.build(memory), weighting=WEIGHTINGS.build(weighting), local=LOCALS.build(local)
        )
        state = run(method, Intermittent(InProcess(task), trace), 40, params=np.zeros(4), num_clients=5)
        assert state.ledger.failed.sum() > 20
        found.append(state.params)
    assert found[0] == pytest.approx(found[1], rel=1e-5, abs=1e-6)


def test_corefed_survives_losses_above_its_bound():
    weights, _ = weigh("core:bound=5", rows_of([-1, -1], [1, 99]))
    assert np.isfinite(weights).all()
    assert (weights > 0).all()


def test_cafed_knows_nothing_before_it_has_seen_something():
    """The authors' prior is built from the true availabilities; ours is the same for everybody."""
    state = WEIGHTINGS.build("cafed").init(3)
    assert not state.moves.any()
    weights, _ = weigh("cafed", rows_of([1, 1, 1], [1, 1, 1]), 3)
    assert len(set(weights.tolist())) == 1


@pytest.mark.parametrize(
    ("memory", "weighting"),
    [
        (memory, name)
        for memory in ("none", "last_updates", "prototype")
        for name in WEIGHTINGS
        if partners("weighting", name).get("memory", memory).partition(":")[0] == memory
    ]
    + [("running_sum", "fedlaavg"), ("echo", "fedawe"), ("decayed", "decayed_mean")],
)
def test_an_empty_round_divides_by_nothing_and_everything_goes_on(memory, weighting):
    """Warnings are errors here; the model stays (nothing is remembered yet) and the books advance."""
    method = Coordinator(
        2, scheduler=Fixed([np.array([], int)] * 2 + [np.array([0, 1])] + [np.array([], int)]), min_reports=0,
        **built(**partners("memory", memory) | {"weighting": weighting}),
    )  # fmt: skip
    state = method.init(3, np.ones(2))
    for t in range(4):
        plan, state = method.plan(state, np.arange(t % 2 + 1))
        reports = [ClientReport(int(k), np.ones(2), 1, 1.0) for k in plan.cohort.clients]
        record, state = method.absorb(state, plan, reports)
        assert np.isfinite(record.row_weights).all()
        if t < 2:
            assert state.params.tolist() == [1, 1]
    assert np.isfinite(state.params).all()
    assert state.ledger.online.tolist() == [4, 2, 0]
