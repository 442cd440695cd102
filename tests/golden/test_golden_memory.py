"""Worked numbers and laws of the methods that remember: MIFA, FedLaAvg, FedVARP, FedStale, F3AST, FedAWE, CA-Fed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from fedparity.local import LOCALS
from fedparity.schedulers import Fixed
from fedparity.servers.rate_schedules import RATE_SCHEDULES
from fedparity.tasks import Quadratic
from fedparity.weightings.cafed import keep, score
from fedparity.weightings.f3ast import Rates

NONE = np.empty(0)


def fresh(deltas, clients=None, losses=None, probs=None):
    matrix = np.reshape(np.array(deltas, dtype=float), (len(deltas), -1)) if len(deltas) else np.empty((0, 1))
    k = len(matrix)
    ids = np.arange(k) if clients is None else np.array(list(clients), dtype=np.int64)
    return Rows(
        ids.astype(np.int64), list(matrix), np.zeros(k, np.int64), np.ones(k),
        np.full(k, np.nan) if losses is None else np.array(losses, float),
        np.ones(k) if probs is None else np.array(probs, float),
    )  # fmt: skip


def moved(weights, rows):
    return sum((w * np.asarray(d, float) for w, d in zip(weights, rows.deltas, strict=True)), np.zeros(1))


class Bench:
    """A memory and a weighting, driven round by round without a coordinator."""

    def __init__(self, memory, weighting, clients):
        self.rule, self.weighting = MEMORIES.build(memory), WEIGHTINGS.build(weighting)
        self.memory, self.state = self.rule.init(clients), self.weighting.init(clients)
        self.ledger = Ledger.empty(clients)

    def round(self, updates, probs=None):
        """One round with these updates by client: the step."""
        ids = sorted(updates)
        came = fresh([updates[k] for k in ids], ids, probs=probs)
        t = self.ledger.rounds
        rows, self.memory = self.rule.complete(self.memory, t, came, np.zeros(1), self.ledger)
        weights, self.state = self.weighting.weigh(self.state, rows, self.ledger)
        if ids:
            reports = [ClientReport(k, np.atleast_1d(np.array(updates[k], float))) for k in ids]
            self.memory = self.rule.remember(self.memory, reports)
        self.ledger.online[ids] += 1
        self.ledger.completed[ids] += 1
        self.ledger.last_completed[ids] = self.ledger.last_online[ids] = t
        self.ledger.rounds += 1
        return moved(weights, rows)


STORED = {0: 1.0, 1: 2.0, 2: -4.0}
"""h = (1, 2, -4); then client 0 alone comes with 3 (methods.md, section 9)."""


@pytest.mark.parametrize(
    ("memory", "weighting", "expected"),
    [
        ("last_updates:own=replace", "memory_mean:over=all", 1 / 3),
        ("last_updates:own=replace", "memory_mean:over=seen", 1 / 3),
        ("last_updates:own=keep", "memory_mean", 1 / 3),
        ("last_updates", "fedvarp", 5 / 3),
        ("last_updates", "fedstale:beta=0,p=ledger,a=0,b=0", 2.0),
        ("last_updates", "fedstale:beta=.5,p=ledger,a=0,b=0", 1.5),
        ("last_updates", "fedstale:beta=1,p=ledger,a=0,b=0", 1.0),
        ("none", "mean", 3.0),
        ("none", "all", 1.0),
    ],
)
def test_one_returns(memory, weighting, expected):
    bench = Bench(memory, weighting, 3)
    bench.round(STORED)
    if "fedstale" in weighting:  # p = .5: took part in two of four rounds, this one included
        bench.ledger.rounds = 3
    assert bench.round({0: 3.0})[0] == pytest.approx(expected)


def test_fedstale_takes_fedaus_estimate_or_the_plans_probabilities():
    bench = Bench("last_updates", "fedstale:beta=0,p=fedau", 3)
    for updates in (STORED, {}, {}):
        bench.round(updates)
    assert bench.round({0: 3.0})[0] == pytest.approx(1.0)  # one interval of length 1 is closed: omega = 1
    assert bench.round({0: 3.0})[0] == pytest.approx((1 + 3) / 2)  # then the mean of 1 and 3
    bench = Bench("last_updates", "fedstale:beta=0,p=plan,a=0,b=0", 3)
    bench.round(STORED)
    assert bench.round({0: 3.0}, probs=[0.25])[0] == pytest.approx(4.0)


def test_fedstale_has_no_cap_and_may_stay_when_nobody_comes():
    """An interval of 60 rounds counts as 60; FedAU's own estimate closes one at 50."""
    for weighting, omega in (("fedstale:beta=0", 30.5), ("fedstale:beta=0,cap=50", (1 + 50 + 10) / 3)):
        bench = Bench("last_updates", weighting, 1)
        bench.round({0: 1.0})
        for _ in range(59):
            bench.round({})
        bench.round({0: 1.0})
        assert bench.round({0: 1.0})[0] == pytest.approx(omega)
    bench = Bench("last_updates", "fedstale:beta=.5,empty=stay", 3)
    bench.round(STORED)
    assert bench.round({})[0] == 0


@pytest.mark.parametrize(("weighting", "step"), [("fedvarp", -1 / 3), ("fedvarp:empty=stay", 0.0)])
def test_fedvarp_when_nobody_comes(weighting, step):
    bench = Bench("last_updates", weighting, 3)
    bench.round(STORED)
    assert bench.round({})[0] == pytest.approx(step)


@pytest.mark.parametrize(
    ("memory", "weighting", "step"),
    [
        ("last_updates:own=replace", "memory_mean", -1 / 3),
        ("last_updates", "fedstale:beta=.5", -1 / 6),
        ("running_sum", "fedlaavg", -1 / 3),
    ],
)
def test_memory_methods_step_on_memory_when_nobody_comes(memory, weighting, step):
    bench = Bench(memory, weighting, 3)
    assert bench.round({})[0] == 0
    bench.round(STORED)
    assert bench.round({})[0] == pytest.approx(step)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_everything_is_a_no_op_on_an_empty_first_round(weighting):
    bench = Bench("last_updates", weighting, 3)
    assert bench.round({})[0] == 0
    assert np.isfinite(bench.round({1: 2.0})[0])


@pytest.mark.parametrize("weighting", [w for w in WEIGHTINGS if w != "fedlaavg"])
def test_without_memory_an_empty_round_is_a_no_op(weighting):
    bench = Bench("none", weighting, 3)
    bench.round(STORED)
    assert bench.round({})[0] == 0


HISTORY = st.lists(
    st.dictionaries(st.integers(0, 4), st.integers(-64, 64).map(float), max_size=5), min_size=1, max_size=8
)


@given(HISTORY)
@settings(deadline=None)
def test_fedlaavg_is_mifa_over_all(history):
    mifa, light, last = Bench("last_updates:own=replace", "memory_mean", 5), Bench("running_sum", "fedlaavg", 5), {}
    for updates in history:
        differences = {k: v - last.get(k, 0.0) for k, v in updates.items()}
        last |= updates
        expected = sum(last.values()) / 5
        assert mifa.round(updates)[0] == pytest.approx(expected, abs=1e-12)
        assert light.round(differences)[0] == pytest.approx(expected, abs=1e-12)


@given(HISTORY, st.lists(st.integers(-64, 64).map(float), min_size=5, max_size=5))
@settings(deadline=None)
def test_laws_between_the_memory_methods(history, everybody):
    benches = {
        name: Bench(memory, name, 5)
        for name, memory in {
            "fedvarp": "last_updates",
            "memory_mean": "last_updates:own=replace",
            "fedstale:beta=1,p=plan,a=0,b=0": "last_updates",
            "fedstale:beta=0,p=ledger": "last_updates",
            "ipw:form=ht": "none",
        }.items()
    }
    for updates in history:
        steps = {name: bench.round(updates)[0] for name, bench in benches.items()}
        assert steps["fedstale:beta=0,p=ledger"] == pytest.approx(steps["ipw:form=ht"])
    for bench in benches.values():
        bench.ledger.online[:] = bench.ledger.rounds  # p = 1
    steps = {name: bench.round(dict(enumerate(everybody)))[0] for name, bench in benches.items()}
    assert steps["fedvarp"] == pytest.approx(steps["memory_mean"])  # S = all
    assert steps["fedstale:beta=1,p=plan,a=0,b=0"] == pytest.approx(steps["fedvarp"])
    assert steps["memory_mean"] == pytest.approx(np.mean(everybody))


@given(HISTORY)
@settings(deadline=None)
def test_fedstale_with_certain_participation_is_mifa(history):
    """beta = 1, p = 1: FedVARP's correction with m = N, that is, the mean of everybody's latest update."""
    stale, mifa = (
        Bench("last_updates", "fedstale:beta=1,p=plan,a=0,b=0", 5),
        Bench("last_updates:own=replace", "memory_mean", 5),
    )
    for updates in history:
        stale.ledger.online[:] = stale.ledger.rounds
        assert stale.round(updates)[0] == pytest.approx(mifa.round(updates)[0], abs=1e-9)


def test_f3ast():
    """p=(.5,.3,.2), r=(.6,.2,.2), client 1 chosen, beta=.1: r=(.54,.28,.18), weight .3/.28; not divided by M."""
    for code in ("false", "true"):
        rule = WEIGHTINGS.build(f"f3ast:beta=.1,p=.5/.3/.2,code={code}")
        weights, state = rule.weigh(Rates(np.array([0.6, 0.2, 0.2]), started=True), fresh([1.0], [1]), Ledger.empty(3))
        assert state.r == pytest.approx([0.54, 0.28, 0.18])
        assert weights == pytest.approx([1.0714286])


@pytest.mark.parametrize(("code", "first"), [("false", 1.0), ("true", 1.0)])
def test_f3ast_with_a_steady_cohort(code, first):
    """Two of four, in turns: without the code's 1/M steps stay means; with it they shrink to 1/M of that."""
    bench = Bench("none", f"f3ast:beta=.05,code={code}", 4)
    steps = [bench.round({k: 1.0, k + 1: 1.0})[0] for t in range(400) for k in [2 * (t % 2)]]
    assert steps[0] == pytest.approx(first, abs=0.2)
    assert np.mean(steps[-100:]) == pytest.approx(1.0 if code == "false" else 0.5, abs=0.04)


def test_fedawe():
    """x=(0,2), G=(1,-1), gaps (1,3): x+ = (-1, 5), new model 2 (methods.md, section 15), wherever the model is."""
    for w in (0.0, 7.0):
        ledger = Ledger.empty(2)
        ledger.rounds, ledger.last_completed[:] = 5, [4, 2]
        rows = Rows(
            np.array([0, 0, 1, 1]), [np.array([v - w]) for v in (-1.0, 0.0, 3.0, 2.0)], np.array([0, 1, 0, 3]),
            np.ones(4), np.full(4, np.nan), np.ones(4),
        )  # fmt: skip
        rule = WEIGHTINGS.build("fedawe:clip=none")
        weights, _ = rule.weigh(None, rows, ledger)
        assert weights == pytest.approx([0.5, 0, 1.5, -1])
        assert w + moved(weights, rows)[0] == pytest.approx(2.0)
        clipped, _ = WEIGHTINGS.build("fedawe:clip=.5").weigh(None, rows, ledger)
        innovation = w + moved(clipped, rows)[0] - (0.0 + 2.0) / 2
        assert innovation == pytest.approx(0.5)


@pytest.mark.parametrize(("weighting", "clip"), [("fedawe:clip=none", np.inf), ("fedawe", 0.5)])
def test_fedawe_in_a_run_is_the_papers_algorithm(weighting, clip):
    """Against a plain loop: everybody trains from its own last model, at first the run's first, echoed by its gap."""
    task = Quadratic.random(4, dim=3, seed=2)
    rounds = [[0, 1, 2], [0], [1, 3], [], [0, 2], [0, 1, 2, 3], [3], [0, 1]]
    schedule = [np.array(ids, dtype=np.int64) for ids in rounds]
    method = Coordinator(
        4, scheduler=Fixed(schedule), weighting=WEIGHTINGS.build(weighting), memory=MEMORIES.build("echo"),
        local=LOCALS.build("received"), min_reports=0,
    )  # fmt: skip
    engine = Intermittent(InProcess(task), Trace.from_matrix(np.ones((len(rounds), 4), bool)))
    state = run(method, engine, len(rounds), params=np.ones(3), num_clients=4)
    w, received, tau = np.ones(3), dict.fromkeys(range(4), np.ones(3)), dict.fromkeys(range(4), -1)
    for t, ids in enumerate(rounds):
        starts, steps = [], []
        for k in ids:
            x = received[k]
            local = x.copy()
            for _ in range(task.steps):
                local -= task.rate * task.curvature[k] * (local - task.centres[k])
            starts.append(x)
            steps.append((t - tau[k]) * (local - x))
        if ids:
            step = np.mean(steps, axis=0)
            w = np.mean(starts, axis=0) + step * min(1, clip / np.linalg.norm(step))
        received |= dict.fromkeys(ids, w)
        tau |= dict.fromkeys(ids, t)
    assert state.params == pytest.approx(w)


ROUNDS = [[0, 1, 2], [0], [1, 3], [], [0, 2], [3], [0, 1]]


def run_fixed(weighting, memory, local="plain", rate="constant"):
    """Seven rounds of a fixed schedule on four quadratic clients: the last model."""
    task = Quadratic.random(4, dim=3, seed=2)
    schedule = [np.array(ids, dtype=np.int64) for ids in ROUNDS]
    method = Coordinator(
        4, scheduler=Fixed(schedule), weighting=weighting, memory=memory, local=local, local_rate=rate, min_reports=0
    )  # fmt: skip
    engine = Intermittent(InProcess(task), Trace.from_matrix(np.ones((len(ROUNDS), 4), bool)))
    return run(method, engine, len(ROUNDS), params=np.ones(3), num_clients=4)


@pytest.mark.parametrize("over", ["all", "seen"])
@pytest.mark.parametrize("rate", ["constant", "inverse", "sqrt:every=2"])
def test_mifa_in_a_run_remembers_gradients_not_steps(rate, over):
    """Against a plain loop: G_k = (w - w_k) / eta_s of the last round s with k, stepped with the eta_t of today."""
    task, course = Quadratic.random(4, dim=3, seed=2), RATE_SCHEDULES.build(rate)
    w, memory = np.ones(3), {}
    for t, ids in enumerate(ROUNDS):
        eta = task.rate * course.scale(t)
        for k in ids:
            local = w.copy()
            for _ in range(task.steps):
                local -= eta * task.curvature[k] * (local - task.centres[k])
            memory[k] = (w - local) / eta
        w = w - eta * sum(memory.values()) / (4 if over == "all" else len(memory))
    found = run_fixed(f"memory_mean:over={over}", "last_updates:own=replace", rate=rate)
    assert found.params == pytest.approx(w, rel=1e-5)


@pytest.mark.parametrize("rate", ["constant", "inverse", "sqrt:every=2"])
def test_fedvarp_may_count_old_updates_at_the_rate_of_today(rate):
    """Against a plain loop over gradients: at the rate of their day, old updates would outweigh what is fresh."""
    task, course = Quadratic.random(4, dim=3, seed=2), RATE_SCHEDULES.build(rate)
    w, memory = np.ones(3), {}
    for t, ids in enumerate(ROUNDS):
        eta, came = task.rate * course.scale(t), {}
        for k in ids:
            local = w.copy()
            for _ in range(task.steps):
                local -= eta * task.curvature[k] * (local - task.centres[k])
            came[k] = (w - local) / eta
        known = sum(memory.values(), np.zeros(3)) / 4
        fresh = [came[k] - memory.get(k, np.zeros(3)) for k in ids]
        w = w - eta * (known + (np.mean(fresh, axis=0) if ids else 0.0))
        memory |= came
    now = run_fixed("fedvarp:at=now", "last_updates", rate=rate)
    assert now.params == pytest.approx(w, rel=1e-5)
    then = run_fixed("fedvarp", "last_updates", rate=rate)
    assert (then.params == pytest.approx(w, rel=1e-5)) == (rate == "constant")


@pytest.mark.parametrize("rate", ["constant", "inverse"])
def test_fedlaavg_in_a_run_is_mifa_also_where_rates_decay(rate):
    light = run_fixed("fedlaavg", "running_sum", "difference", rate)
    mifa = run_fixed("memory_mean", "last_updates:own=replace", rate=rate)
    assert light.params == pytest.approx(mifa.params, rel=1e-5)
    replayed = run_fixed("fedvarp", "last_updates", rate=rate)  # which uses updates as they came
    assert replayed.params != pytest.approx(mifa.params, rel=1e-3)


def test_f3ast_gives_every_client_its_share_of_the_samples():
    """One p for selection and weights: over a long run the weights of a client add up to its share."""
    labels = np.array([[4], [1], [2], [1], [8], [4]])
    trace = Trace.from_matrix(np.random.default_rng(0).random((3000, 6)) < [0.9, 0.5, 0.3, 0.8, 0.6, 0.4])
    given = np.zeros(6)

    class Watch:
        def on_round(self, method, record, ledger, params):
            np.add.at(given, record.row_clients, record.row_weights)

    task = Quadratic.random(6, dim=1)
    method = Coordinator(2, scheduler="f3ast:beta=.01", weighting="f3ast:beta=.01", labels=labels)
    run(method, Intermittent(InProcess(task), trace), 3000, params=np.zeros(1), num_clients=6, observers=[Watch()])
    assert given / given.sum() == pytest.approx(labels[:, 0] / 20, abs=0.005)


ALPHA, PI = np.full(3, 1 / 3), np.array([0.9, 0.5, 0.1])


@pytest.mark.parametrize(
    ("gaps", "everybody", "without_3", "dropped"),
    [((1, 1, 1.3), 1.1, 1.144444, False), ((1, 1, 4), 2.0, 1.444444, True)],
)
def test_cafed(gaps, everybody, without_3, dropped):
    gap = np.array(gaps, float)
    assert score(np.array([True, True, True]), ALPHA, gap) == pytest.approx(everybody)
    assert score(np.array([True, True, False]), ALPHA, gap) == pytest.approx(without_3)
    assert keep(ALPHA, PI, np.zeros(3), gap).tolist() == [True, True, not dropped]
    assert keep(ALPHA, PI, np.zeros(3), gap, tau=0.6).all()


def test_cafed_looks_at_correlation_first_then_at_availability():
    """Two clients that could each be dropped, but not both: the order decides."""
    alpha, gaps = np.full(4, 0.25), np.array([1.0, 1.0, 2.0, 2.0])
    assert keep(alpha, np.full(4, 0.5), np.array([0, 0, 0.1, -0.9]), gaps).tolist() == [1, 1, 1, 0]
    assert keep(alpha, np.full(4, 0.5), np.array([0, 0, 0.9, 0.1]), gaps).tolist() == [1, 1, 0, 1]
    assert keep(alpha, np.array([0.5, 0.5, 0.4, 0.1]), np.zeros(4), gaps).sum() == 3


def test_cafed_learns_the_chains():
    rng, rule, ledger = np.random.default_rng(0), WEIGHTINGS.build("cafed"), Ledger.empty(2)
    state, on = rule.init(2), np.array([True, True])
    sticky = np.array([[0.5, 0.5], [0.9, 0.1]])  # P(on|on), P(on|off): nu = 0 and .8, pi = .5 both
    for t in range(4000):
        ids = np.flatnonzero(on)
        _, state = rule.weigh(state, fresh(np.ones(len(ids)), ids, np.ones(len(ids))), ledger)
        ledger.online[ids] += 1
        ledger.last_online[ids] = t
        ledger.rounds += 1
        on = rng.random(2) < np.where(on, sticky[:, 0], sticky[:, 1])
    rate = (state.moves[:, :, 1] + 1) / (state.moves.sum(axis=2) + 2)
    assert rate[:, 1] - rate[:, 0] == pytest.approx([0, 0.8], abs=0.05)
    assert state.moves.sum(axis=(1, 2)).tolist() == [3998, 3998]


def test_cafed_weights_are_inverse_availability_and_not_renormalised():
    ledger = Ledger.empty(2)
    ledger.rounds, ledger.online[:] = 98, [49, 24]
    rule = WEIGHTINGS.build("cafed")
    weights, _ = rule.weigh(rule.init(2), fresh([1.0, 1.0], losses=[1, 1], probs=[1, 0.5]), ledger)
    assert weights == pytest.approx([0.5 / 0.5, 0.5 / (0.25 * 0.5)])


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(0, 3), st.integers(0, 4), st.sampled_from([0.0, 0.1, 0.5]))
@settings(deadline=None)
def test_fedfv_is_its_pseudo_code(seed, m, tau, t, alpha):
    """Steps 1 to 6 of methods.md, section 5, in plain NumPy on gradients, against weights over rows of updates."""
    rng = np.random.default_rng(seed)
    history = {int(k): (rng.normal(size=4), int(rng.integers(0, t))) for k in range(8)} if t else {}
    ids = np.sort(rng.choice(8, m, replace=False))
    grads, losses = rng.normal(size=(m, 4)), rng.random(m)
    memory, stamp = {k: g for k, (g, _) in history.items()}, {k: s for k, (_, s) in history.items()}
    bench = Bench(f"last_updates:max_age={tau}", f"fair_vector:alpha={alpha},tau={tau}", 8)
    bench.memory = bench.rule.remember(bench.memory, [ClientReport(k, -g) for k, g in memory.items()])
    for k, s in stamp.items():
        bench.ledger.last_completed[k] = s
    bench.ledger.rounds = t
    rows, _ = bench.rule.complete(bench.memory, t, fresh(-grads, ids, losses), np.zeros(4), bench.ledger)
    weights, _ = bench.weighting.weigh(None, rows, bench.ledger)

    memory = {k: g.astype(np.float32).astype(float) for k, g in memory.items()}
    memory |= dict(zip(ids.tolist(), grads, strict=True))
    stamp |= dict.fromkeys(ids.tolist(), t)
    order = np.argsort(losses)
    kept = order[int(np.ceil((m - 1) * (1 - alpha))) :] if alpha > 0 else []
    projected = grads.copy()
    for k in range(m):
        for i in order if k not in kept else []:
            if i != k and projected[k] @ grads[i] < 0:
                projected[k] -= (projected[k] @ grads[i]) / (grads[i] @ grads[i]) * grads[i]
    g = projected.mean(0)
    if t >= tau:
        for i in range(tau, 0, -1):
            conflict = sum((memory[k] for k in memory if stamp[k] == t - i and g @ memory[k] < 0), np.zeros(4))
            if g @ conflict < 0:
                g = g - (g @ conflict) / (conflict @ conflict) * conflict
    g *= np.linalg.norm(grads.mean(0)) / np.linalg.norm(g)
    assert -moved(weights, rows) == pytest.approx(g, rel=1e-5, abs=1e-6)


def test_utility_compensated():
    """Normalised utilities (4, 2, 0) of mean 2: weights 1, 1, 1 + gamma over their sum."""
    ledger = Ledger.empty(4)
    ledger.rounds, ledger.online[:], ledger.utility[:] = 10, [5, 5, 10, 0], [2, 1, 0, 0]
    rows = fresh([1.0, 1.0, 1.0])
    assert WEIGHTINGS.build("utility_compensated:gamma=3").weigh(None, rows, ledger)[0] == pytest.approx(
        np.array([1, 1, 4]) / 6
    )
    newcomer = fresh([1.0, 1.0], [0, 3])
    assert WEIGHTINGS.build("utility_compensated:gamma=3").weigh(None, newcomer, ledger)[0] == pytest.approx([0.2, 0.8])


@given(st.lists(st.floats(0, 10), min_size=5, max_size=5), st.floats(0, 50), st.sets(st.integers(0, 4), min_size=1))
def test_utility_compensated_is_bounded_and_gamma_0_is_the_mean_to_the_bit(utilities, gamma, ids):
    ledger = Ledger.empty(5)
    ledger.rounds, ledger.online[:], ledger.utility[:] = 7, [7, 1, 0, 3, 7], utilities
    rows = fresh(np.ones(len(ids)), sorted(ids))
    weights, _ = WEIGHTINGS["utility_compensated"](gamma=gamma).weigh(None, rows, ledger)
    assert weights.sum() == pytest.approx(1)
    assert weights.max() <= (1 + gamma) * weights.min() * (1 + 1e-9)
    plain = WEIGHTINGS.build("mean").weigh(None, rows, ledger)[0]
    assert WEIGHTINGS["utility_compensated"](gamma=0.0).weigh(None, rows, ledger)[0].tobytes() == plain.tobytes()


def test_availability_adjusted():
    ledger = Ledger.empty(2)
    ledger.rounds, ledger.online[:] = 9, [7, 1]
    rows = fresh([1.0, 1.0])
    weights = {
        text: WEIGHTINGS.build(f"availability_adjusted:a=0,b=0,{text}").weigh(None, rows, ledger)[0]
        for text in ("form=ht", "form=hajek", "form=hajek,power=2", "form=hajek,power=0", "form=ht,clip=2")
    }
    assert weights["form=ht"] == pytest.approx([0.5 / 0.8, 0.5 / 0.2])
    assert weights["form=hajek"] == pytest.approx([0.2, 0.8])
    assert weights["form=hajek,power=2"] == pytest.approx([1 / 17, 16 / 17])
    assert weights["form=hajek,power=0"].tolist() == [0.5, 0.5]
    assert weights["form=ht,clip=2"] == pytest.approx([0.625, 1.0])


def test_ipw_with_the_plans_probabilities():
    """The worked example of section 1 with p known from the plan: unbiased, variance 1.0625."""
    p, delta, ledger = np.array([0.8, 0.2]), np.array([1.0, -1.0]), Ledger.empty(2)
    ledger.rounds, ledger.online[:] = 9, 9
    steps, chance = [], []
    for who in ([], [0], [1], [0, 1]):
        chance.append(float(np.prod([p[k] if k in who else 1 - p[k] for k in range(2)])))
        rows = fresh(delta[who], who, probs=p[who])
        weights, _ = WEIGHTINGS.build("ipw:form=ht,p=plan,a=0,b=0").weigh(None, rows, ledger)
        steps.append(float(moved(weights, rows)[0]))
    assert np.dot(chance, steps) == pytest.approx(0)
    assert np.dot(chance, np.square(steps)) == pytest.approx(1.0625)


@pytest.mark.parametrize(
    ("form", "expected"), [("mean", (3 + 0.25 * 2) / 1.25), ("paper", 3 + 0.25 * 2)]
)  # fmt: skip
def test_decayed_mean(form, expected):
    """A fresh update 3 and one of 2 that is two rounds old, eta = 1/4."""
    rows = Rows(np.array([0, 1]), [np.array([3.0]), np.array([2.0])], np.array([0, 2]), np.ones(2), NONE, np.ones(2))
    weights, _ = WEIGHTINGS.build(f"decayed_mean:lam={np.log(2)},form={form}").weigh(None, rows, Ledger.empty(2))
    assert moved(weights, rows)[0] == pytest.approx(expected)
