"""Worked numbers of the published rules, computed by hand or by independent readers."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedparity import WEIGHTINGS, Ledger
from fedparity.core.types import Rows
from fedparity.experiment.methods import METHODS
from fedparity.weightings.agnostic import project_to_simplex


def rows_of(deltas, losses=None, ages=None, clients=None):
    given = np.array(deltas, dtype=float)
    matrix = given if given.ndim == 2 else given[:, None]
    k = len(matrix)
    return Rows(
        np.arange(k) if clients is None else np.array(list(clients), dtype=np.int64),
        matrix,
        np.zeros(k, int) if ages is None else np.array(ages),
        np.ones(k),
        np.full(k, np.nan) if losses is None else np.array(losses, float),
        np.ones(k),
    )


def step(name, rows, clients=2, state=None, ledger=None):
    rule = WEIGHTINGS.build(name)
    weights, state = rule.weigh(
        rule.init(clients) if state is None else state, rows, ledger or Ledger.empty(clients)
    )  # fmt: skip
    return weights, weights @ rows.deltas, state


@pytest.mark.parametrize(("q", "new"), [(0, 0.75), (1, 0.797619), (2, 0.848837)])
def test_q_fedavg(q, new):
    """Scalar w=1, w_1=.9, w_2=.6, F=(.5, 2), L=10."""
    _, moved, _ = step(f"qfair:q={q},lipschitz=10", rows_of([-0.1, -0.4], [0.5, 2]))
    assert 1 + moved[0] == pytest.approx(new, abs=1e-6)


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=6), st.floats(0.1, 100))
def test_q_zero_is_the_uniform_mean(deltas, lipschitz):
    weights, _, _ = step(f"qfair:q=0,lipschitz={lipschitz}", rows_of(deltas, [1.0] * len(deltas)), len(deltas))
    assert weights == pytest.approx(np.full(len(deltas), 1 / len(deltas)))


def test_q_fedavg_uses_each_clients_own_loss():
    """Flower's legacy strategy uses one server-side loss for all, which only shrinks the step."""
    weights, _, _ = step("qfair:q=1", rows_of([-0.1, -0.4], [0.5, 2]))
    assert weights[1] / weights[0] == pytest.approx(4)


def test_afl_projection_and_exponentiated_step():
    assert project_to_simplex(np.array([1.5, 0.3])) == pytest.approx([1, 0])
    for form, expected in (("projected", [0.46, 0.54]), ("exponentiated", [0.480011, 0.519989])):
        _, _, state = step(f"agnostic:rate=.1,form={form}", rows_of([1.0, 1.0], [0.2, 1.0]))
        assert state.lam == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8))
def test_afl_stays_on_the_simplex(values):
    found = project_to_simplex(np.array(values))
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()


def test_afl_does_not_forget_those_that_are_seldom_there():
    """A client seen in a tenth of the rounds is pushed ten times as hard, so it does not fade away."""
    rng = np.random.default_rng(0)
    rule, ledger = WEIGHTINGS.build("agnostic:rate=.001,form=projected,unbiased=true"), Ledger.empty(2)
    state = rule.init(2)
    for _ in range(4000):
        ids = np.flatnonzero(rng.random(2) < [1, 0.1])
        _, state = rule.weigh(state, rows_of(np.ones(len(ids)), [1.0] * len(ids), clients=ids), ledger)
        ledger.online[ids] += 1
        ledger.rounds += 1
    assert state.lam[1] > 0.3


def test_aaggff():
    """N=4, two came with losses (1, 3): x = (.5, 1.5), 1 - e^(-x^2) = (.221199, .894601), C = 1/2, round 1."""
    weights, _, state = step("aaggff", rows_of([1.0, 1.0], [1, 3]), 4)
    mean = (0.221199 + 0.894601) / 4
    seen = np.array([0.221199 / 2 - mean, 0.894601 / 2 - mean, mean / 2, mean / 2]) / 0.5 / (1 + mean)
    assert state.total == pytest.approx(seen, abs=1e-6)
    assert weights == pytest.approx([0.456276, 0.543724], abs=1e-6)
    # Who stays away is not forgotten: under the code's estimate it gains beside those that lose as little as the mean.
    _, _, state = step("aaggff", rows_of([1.0, 1.0], [2, 2], clients=[1, 2]), 4, state=state)
    assert state.total[3] > state.total[0]
    even, _, _ = step("aaggff:estimate=doubly_robust", rows_of([1.0, 1.0], [2, 2]), 4)
    assert even == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("cdf", ["weibull", "exponential", "frechet", "gumbel", "logistic"])
def test_aaggff_gives_more_to_who_loses_more(cdf):
    weights, _, _ = step(f"aaggff:cdf={cdf}", rows_of([1, 1, 1], [0.1, 1, 5]), 9)
    assert weights[0] < weights[1] < weights[2]
    assert weights.sum() == pytest.approx(1)


def test_the_authors_later_weights():
    """(1/N) / (inclusion x pi): N=2, asked with chance .5, online in all 4 rounds and in one: 1 and 4; at most 100."""
    ledger = Ledger.empty(2)
    ledger.rounds, ledger.online[:] = 3, [3, 0]
    rows = replace(rows_of([1.0, 1.0]), probs=np.array([0.5, 0.5]))
    text = METHODS["cup_later"].weighting
    assert step(text, rows, ledger=ledger)[0] == pytest.approx([1, 4])
    tiny = replace(rows, probs=np.array([0.5, 1e-3]))
    assert step(text, tiny, ledger=ledger)[0] == pytest.approx([1, 100])


def test_fedfv():
    """g_1=(1,0) with loss 1, g_2=(-1,1) with loss 2; our rows are updates, so the sign turns."""
    both = rows_of([[-1, 0], [1, -1]], [1, 2])
    _, moved, _ = step("fair_vector:alpha=0,tau=0", both)
    assert -moved == pytest.approx([0.158114, 0.474342], abs=1e-6)
    _, moved, _ = step("fair_vector:alpha=.1,tau=0", both)
    assert -moved == pytest.approx([-0.158114, 0.474342], abs=1e-6)


@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(0, 3))
def test_fedfv_keeps_the_length_of_the_mean(seed, m, tau):
    rng = np.random.default_rng(seed)
    ages = np.concatenate([np.zeros(m, int), rng.integers(1, 4, 3)])
    rows = rows_of(rng.normal(size=(m + 3, 20)), rng.random(m + 3), ages)
    ledger = Ledger.empty(m + 3)
    ledger.rounds = 9
    _, moved, _ = step(f"fair_vector:tau={tau}", rows, m + 3, ledger=ledger)
    assert np.linalg.norm(moved) == pytest.approx(np.linalg.norm(rows.deltas[:m].mean(0)))


def test_fedfv_external_conflict_is_projected_out():
    """An update of the round before against which the mean goes is no longer gone against."""
    rows = rows_of([[1.0, 0.2], [-1.0, 1.0]], [1, 1], ages=[0, 1])
    ledger = Ledger.empty(2)
    ledger.rounds = 1
    _, moved, _ = step("fair_vector:tau=1", rows, ledger=ledger)
    assert moved @ rows.deltas[1] == pytest.approx(0, abs=1e-12)
    assert rows.deltas[0] @ rows.deltas[1] < 0


def test_corefed():
    """M=5, F=(1,3), updates (-1,-1): weights (1/4, 1/2) over two, a step of -.375."""
    weights, moved, _ = step("core:bound=5", rows_of([-1, -1], [1, 3]))
    assert 2 * weights == pytest.approx([0.25, 0.5])
    assert moved[0] == pytest.approx(-0.375)
    assert np.isfinite(step("core:bound=5", rows_of([-1, -1], [1, 99]))[0]).all()


@pytest.mark.parametrize(("t", "expected"), [(0.1, [0.4626, 0.5374]), (1, [0.1824, 0.8176]), (5, [0.0006, 0.9994])])
def test_term(t, expected):
    assert step(f"tilted:t={t}", rows_of([1, 1], [0.5, 2]))[0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("cap", "used", "final"),
    [(50, [1, 1, 1, 1, 2, 2], 2), (2, [1, 1, 1, 1.5, 4 / 3, 4 / 3], 1.5)],
)
def test_fedau(cap, used, final):
    """Participation 1,0,0,1,0,1 of one client."""
    rule = WEIGHTINGS.build(f"fedau:cap={cap}")
    state, seen = rule.init(1), []
    for took_part in (1, 0, 0, 1, 0, 1):
        seen.append(float(state.omega[0]))
        _, state = rule.weigh(state, rows_of(np.ones(took_part), clients=range(took_part)), Ledger.empty(1))
    assert seen == pytest.approx(used)
    assert state.omega[0] == pytest.approx(final)


@given(st.integers(1, 9))
def test_fedau_with_a_steady_rhythm_is_the_interval(every):
    rule = WEIGHTINGS.build("fedau")
    state = rule.init(1)
    for t in range(every * 20):
        here = int(t % every == every - 1)
        _, state = rule.weigh(state, rows_of(np.ones(here), clients=range(here)), Ledger.empty(1))
    assert state.omega[0] == pytest.approx(every)


def test_ipw_bias_and_variance():
    """Two clients, updates (+1,-1), p=(.8,.2): plain mean .6, Horvitz-Thompson 0 with variance 1.0625, Hajek .504."""
    p, delta = np.array([0.8, 0.2]), np.array([1.0, -1.0])
    ledger = Ledger.empty(2)
    ledger.rounds = 10**7 - 1
    ledger.completed[:] = p * 10**7 - 1
    found = {name: [] for name in ("mean", "ipw:form=ht,a=0,b=0", "ipw:form=hajek,a=0,b=0")}
    chance = []
    for who in ([], [0], [1], [0, 1]):
        chance.append(float(np.prod([p[k] if k in who else 1 - p[k] for k in range(2)])))
        for name, steps in found.items():
            _, moved, _ = step(name, rows_of(delta[who], clients=who), ledger=ledger)
            steps.append(float(moved.sum()))
    mean = {name: float(np.dot(chance, steps)) for name, steps in found.items()}
    assert list(mean.values()) == pytest.approx([0.6, 0, 0.504], abs=1e-3)
    ht = np.array(found["ipw:form=ht,a=0,b=0"])
    assert np.dot(chance, ht**2) - np.dot(chance, ht) ** 2 == pytest.approx(1.0625, abs=1e-3)


def test_ipw_of_those_always_there_is_the_mean():
    ledger = Ledger.empty(3)
    ledger.rounds = 7
    ledger.completed[:] = 7
    for form in ("ht", "hajek"):
        assert step(f"ipw:form={form},a=0,b=0", rows_of([1, 2, 3]), 3, ledger=ledger)[0] == pytest.approx([1 / 3] * 3)


def test_robust_rules_shrug_off_one_huge_update():
    rng = np.random.default_rng(1)
    good = rng.normal(1, 0.1, (9, 5))
    rows = rows_of(np.vstack([good, np.full((1, 5), -1e4)]))
    for name in ("clipped", "geometric_median", "krum"):
        _, moved, _ = step(name, rows, 10)
        assert np.linalg.norm(moved - good.mean(0)) < 0.6
    assert np.linalg.norm(step("mean", rows, 10)[1] - good.mean(0)) > 1000


def test_rfa_weighs_distances_by_samples():
    """Weiszfeld by hand, from the weighted mean: 4 steps, a_k = n_k."""
    rows = replace(rows_of([0.0, 1.0, 10.0]), sizes=np.array([1.0, 2.0, 5.0]))
    weights = rows.sizes / 8
    for _ in range(4):
        raw = rows.sizes / np.maximum(np.abs(rows.deltas[:, 0] - weights @ rows.deltas[:, 0]), 1e-5)
        weights = raw / raw.sum()
    assert step("rfa", rows, 3)[0] == pytest.approx(weights, rel=1e-6)
    assert step("geometric_median", rows, 3)[0] != pytest.approx(weights, rel=0.1)


def test_geometric_median_of_a_line_is_its_middle():
    assert step("geometric_median:steps=200", rows_of([0, 1, 10]), 3)[1][0] == pytest.approx(1, abs=1e-3)
