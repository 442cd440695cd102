"""Every scheduler through the coordinator: thin and empty rounds, clients that fail, no losses, large populations."""

import json
import subprocess
import sys

import numpy as np
import pytest

from fedparity import (
    AVAILABILITY,
    SCHEDULERS,
    ClientReport,
    ConfigError,
    Coordinator,
    Evals,
    InProcess,
    Intermittent,
    Journal,
    Ledger,
    NoTraining,
    Setting,
    Trace,
    run,
    run_side_by_side,
    schedule,
    stream,
)
from fedparity.core.protocols import Engine, Feedback, Learner
from fedparity.core.types import RoundView
from fedparity.tasks import Logistic, Quadratic

N = 10
NAMES = [name for name in SCHEDULERS if name != "fixed"]
VARIANTS = [
    *NAMES,
    "fairfedcs:queue=share,offline=freeze",
    "power_of_choice:variant=cpow",
    "power_of_choice:variant=rpow",
    "fedgs:alpha=0",
    "with_quota:inner=fairfedcs,window=5",
    "with_floor:inner=power_of_choice",
    "with_label_coverage:inner=oort",
]


class Validating(InProcess):
    """A task of which the server holds some data: the first client's."""

    @property
    def validate(self):
        return lambda params: float(self.task.evaluate(params, np.array([0])).loss[0])


def labels_of(task):
    if isinstance(task, Logistic):
        return np.stack([np.bincount(y, minlength=task.classes) for y in task.y])
    return np.arange(N * 3).reshape(N, 3) % 4


@pytest.mark.parametrize("task", [Quadratic.random(N), Logistic.synthetic(N)], ids=["quadratic", "logistic"])
@pytest.mark.parametrize("name", VARIANTS)
def test_twenty_rounds_with_empty_ones_and_failures(name, task):
    online = stream(3, "online").random((20, N)) < np.linspace(0.1, 0.9, N)
    online[[0, 7, 8]] = False
    trace = Trace.from_matrix(online).with_dropout(0.3, stream(0, "drop"))
    engine = Intermittent(Validating(task), trace)
    coordinator = Coordinator(3, seed=2, scheduler=SCHEDULERS.build(name), labels=labels_of(task), over_select=0.4)
    first, kept, journal = task.init(stream(0, "init")), [], Journal(keep=False)

    def after(_name, record, state):
        if record.round == 10:
            kept.append(state.copy())

    whole = run_side_by_side(
        {"": coordinator}, engine, 20, num_clients=N, params=first, observers=[journal], after=after
    )[""]
    resumed = run(coordinator, engine, 20, state=kept[0])
    assert resumed.params.tobytes() == whole.params.tobytes()
    assert resumed.ledger == whole.ledger
    assert whole.ledger.selected.sum() > 30
    assert whole.ledger.failed.sum() > 0
    assert np.isfinite(whole.params).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_roll_call_knows_no_losses_and_no_labels(name):
    """Losses that are NaN are losses not known: nothing breaks; labels that are missing are said to be missing."""
    trace = AVAILABILITY.build("bernoulli").draw(N, 12, 0)
    coordinator = Coordinator(3, scheduler=SCHEDULERS.build(name))
    if "labels" in getattr(coordinator.scheduler, "requires", ()):
        with pytest.raises(ConfigError, match="give Coordinator `labels`"):
            run(coordinator, Intermittent(NoTraining(N), trace), 12, num_clients=N)
        return
    ledger = run(coordinator, Intermittent(NoTraining(N), trace), 12, num_clients=N).ledger
    # A thin round leaves slots empty, as does a quota and a draw from everybody.
    assert ledger.selected.sum() > 12 or name == "population"


@pytest.mark.parametrize("name", ["fairfedcs", "oort", "power_of_choice", "fedgs", "with_quota:inner=oort"])
def test_on_the_command_line(name):
    words = [
        "schedule",
        "--scheduler",
        name,
        "--clients",
        "12",
        "--rounds",
        "8",
        "--cohort",
        "3",
        "--draws",
        "2",
        "--json",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "from fedparity.cli.main import main; main()", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    if name == "fedgs":
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "use alpha=0" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["scheduler"] == name


def test_power_of_choice_without_losses_says_what_to_do():
    view = RoundView(0, None, 2, np.arange(4), np.ones(4), None, Ledger.empty(4))
    for variant in ("pow", "cpow"):
        with pytest.raises(ConfigError, match="use variant=rpow, or give"):
            SCHEDULERS.build(f"power_of_choice:variant={variant}").select(None, view, stream(0, "x"))
    rule = SCHEDULERS.build("power_of_choice:variant=rpow")
    rule.select(rule.init(4), view, stream(0, "x"))


def test_power_of_choice_asks_for_as_many_samples_as_its_variant_needs():
    asked = []
    view = RoundView(
        0, None, 1, np.arange(6), np.ones(6), None, Ledger.empty(6),
        losses=lambda ids, samples: asked.append((len(ids), samples)) or np.zeros(len(ids)),
    )  # fmt: skip
    for text in ("power_of_choice", "power_of_choice:variant=cpow,batch=7,d=2", "power_of_choice:d=99"):
        SCHEDULERS.build(text).select(None, view, stream(0, "x"))
    assert asked == [(3, 0), (2, 7), (6, 0)]


def test_a_loss_not_known_ranks_last_and_a_client_never_seen_first():
    ledger = Ledger.empty(4)
    rule = SCHEDULERS.build("power_of_choice:variant=rpow,d=4")
    reports = [ClientReport(k, np.zeros(1), loss_before=loss) for k, loss in enumerate((1.0, np.nan, 2.0))]
    state = rule.learn(rule.init(4), Feedback(3, np.zeros(1), reports, ledger, None))
    order = []
    for cohort in range(1, 5):
        view = RoundView(4, None, cohort, np.arange(4), np.ones(4), None, ledger)
        chosen = rule.select(state, view, stream(0, "x"))[0].clients.tolist()
        order += [k for k in chosen if k not in order]
    assert order == [3, 2, 0, 1]


@pytest.mark.parametrize("utility", ["none", "loss_drop", "global_loss_drop"])
def test_rpow_ranks_by_what_clients_report_whatever_is_credited(utility):
    task, asked = Quadratic.random(6, dim=2, seed=1), []

    class Watch:
        def on_round(self, method, record, ledger, params):
            asked.append(record.selected.tolist())

    rule = SCHEDULERS.build("power_of_choice:variant=rpow,d=6")
    trace = Trace.from_matrix(np.ones((8, 6), bool))
    method = Coordinator(2, scheduler=rule, utility=utility)
    state = run(
        method, Intermittent(InProcess(task), trace), 8, params=np.zeros(2), num_clients=6, observers=[Watch()]
    )  # fmt: skip
    assert sorted(k for cohort in asked[:3] for k in cohort) == list(range(6))  # first those never seen
    assert np.isfinite(state.scheduler).all()
    largest = np.argsort(-state.scheduler)[:2]
    assert method.plan(state, np.arange(6))[0].cohort.clients.tolist() == sorted(largest.tolist())


def test_fairfedcs_tells_help_from_harm():
    """The server wants 1: whoever pulls away from it loses reputation; without server data nobody does."""
    rule = SCHEDULERS.build("fairfedcs")
    reports = [ClientReport(0, np.array([1.0])), ClientReport(2, np.array([-1.0]))]
    for count, limit in ((2, "exact"), (12, "sampled")):
        given = reports + [ClientReport(k, np.array([1.0])) for k in range(3, 1 + count)]
        feedback = Feedback(0, np.zeros(1), given, Ledger.empty(20), lambda w: float((w[0] - 1) ** 2))
        state = rule.learn(rule.init(20), feedback)
        assert (state.harmed[2], state.helped[2], state.helped[0]) == (2, 1, 2), limit
    unknown = rule.learn(rule.init(20), Feedback(0, np.zeros(1), reports, Ledger.empty(20), None))
    assert (unknown.helped[[0, 2]] == 2).all()


def test_fairfedcs_queue_of_the_absent():
    for offline, waiting in (("grow", 3 * 0.25 * 0.5), ("freeze", 0.0)):
        rule = SCHEDULERS.build(f"fairfedcs:offline={offline}")
        state = rule.init(4)
        for t in range(3):
            view = RoundView(t, None, 1, np.arange(3), np.ones(3), None, Ledger.empty(4))
            _, state = rule.select(state, view, stream(0, "x", t))
        assert state.queue[3] == pytest.approx(waiting)


def test_oort_goes_from_exploring_to_the_lossy():
    """With nothing left to explore, the clients that lose most get most."""
    rng, rule = np.random.default_rng(0), SCHEDULERS.build("oort:blacklist=none")
    state, ledger, counts = rule.init(20), Ledger.empty(20), np.zeros(20)
    for t in range(150):
        view = RoundView(t, None, 4, np.arange(20), np.ones(20), None, ledger)
        cohort, state = rule.select(state, view, stream(0, "x", t))
        ledger.last_completed[cohort.clients] = t
        counts[cohort.clients] += 1
        reports = [ClientReport(int(k), np.zeros(1), loss_rms=1.0 + int(k) + rng.random()) for k in cohort.clients]
        state = rule.learn(state, Feedback(t, np.zeros(1), reports, ledger, None))
    assert state.exploration == pytest.approx(0.2)
    assert counts.min() > 0
    assert counts[15:].mean() > 2 * counts[:15].mean()


def test_oort_avoids_the_slow():
    rule, ledger = SCHEDULERS.build("oort:exploration=0,threshold=50,cutoff=0"), Ledger.empty(10)
    ledger.last_completed[:] = 0
    reports = [ClientReport(k, np.zeros(1), loss_rms=1.0, duration=1.0 + 9 * (k >= 5)) for k in range(10)]
    state = rule.learn(rule.init(10), Feedback(0, np.zeros(1), reports, ledger, None))
    state.threshold = 40
    hits = np.zeros(10)
    for i in range(300):
        view = RoundView(1, None, 2, np.arange(10), np.ones(10), None, ledger)
        hits[rule.select(state, view, stream(i, "x"))[0].clients] += 1
    assert hits[5:].sum() < 0.1 * hits.sum()


class Timed(NoTraining):
    """Everybody loses alike; clients from 10 on take ten times as long, where anybody says how long it took."""

    told = True

    def train(self, plan):
        for k in plan.cohort.clients.tolist():
            seconds = (1.0 + 9 * (k >= 10)) * (1 + k / 1000)
            duration = seconds if self.told else float("nan")
            yield ClientReport(k, np.zeros(0), loss_rms=1 / (1 + plan.round), duration=duration)


class Untimed(Timed):
    told = False


def test_oort_s_penalty_and_pacer_act_on_durations_that_reports_tell():
    """In a run: slow clients lose slots, and T rises as the utility falls; without durations neither happens."""
    share, threshold = {}, {}
    for engine in (Timed(20), Untimed(20)):
        told = engine.told
        rule = SCHEDULERS.build("oort:exploration=.5,window=10,blacklist=none,cutoff=.5")
        trace = Trace.from_matrix(np.ones((60, 20), bool))
        state = run(Coordinator(4, scheduler=rule), Intermittent(engine, trace), 60, num_clients=20)
        share[told] = state.ledger.selected[10:].sum() / state.ledger.selected.sum()
        threshold[told] = state.scheduler.threshold
        assert np.isnan(state.scheduler.duration).all() != told
    assert share[True] < 0.35
    assert share[False] > 0.4
    assert threshold[True] > 10


def test_refl_asks_who_will_not_be_back():
    view = RoundView(
        0, None, 1, np.arange(3), np.array([0.1, 0.5, 0.9]), None, Ledger.empty(3),
        expected=lambda rounds: np.array([2.0, 1.0, 0.5]) * rounds,
    )  # fmt: skip
    assert SCHEDULERS.build("refl").select(None, view, stream(0, "x"))[0].clients.tolist() == [2]


def test_refl_does_not_ask_again_for_five_rounds():
    """One of eight, all always there: nobody is asked before its time; with six of eight slots are filled first."""
    trace = Trace.from_matrix(np.ones((20, 8), bool))
    asked = []

    class Watch:
        def on_round(self, method, record, ledger, params):
            asked.append(set(record.selected.tolist()))

    for text, rounds_apart in (("refl", 5), ("refl:hold=3", 3), ("refl:hold=0", 1)):
        asked.clear()
        method = Coordinator(1, scheduler=SCHEDULERS.build(text))
        run(method, Intermittent(NoTraining(8), trace), 20, num_clients=8, observers=[Watch()])
        last, gaps = {}, []
        for t, cohort in enumerate(asked):
            gaps += [t - last[k] for k in cohort if k in last]
            last |= dict.fromkeys(cohort, t)
        assert min(gaps) >= rounds_apart
    method = Coordinator(6, scheduler=SCHEDULERS.build("refl"))  # who is held off is asked before slots stay empty
    state = run(method, Intermittent(NoTraining(8), trace), 20, num_clients=8)
    assert state.ledger.selected.sum() == 120


def test_refl_is_less_unequal_when_it_holds_off():
    setting = Setting(AVAILABILITY.build("paper_like"), 100, 200, 5, draws=4)
    held, free = (schedule(SCHEDULERS.build(text), setting).means()["gini"] for text in ("refl", "refl:hold=0"))
    assert held < 0.55
    assert free > 0.6


def test_oldest_first_starts_with_those_never_asked():
    ledger = Ledger.empty(4)
    ledger.last_selected[:] = [5, -1, 2, 7]
    rule = SCHEDULERS.build("oldest_first")
    for cohort, expected in ((1, [1]), (2, [1, 2]), (3, [0, 1, 2])):
        view = RoundView(8, None, cohort, np.arange(4), np.ones(4), None, ledger)
        assert rule.select(None, view, stream(0, "x"))[0].clients.tolist() == expected


def test_both_debts_of_the_authors_choose_alike_and_the_third_does_not():
    online = stream(1, "online").random((60, N)) < np.linspace(0.1, 0.9, N)

    def chosen(due):
        coordinator = Coordinator(3, scheduler=SCHEDULERS.build(f"deficit:due={due}"))
        trace = Trace.from_matrix(online)
        return run(coordinator, Intermittent(NoTraining(N), trace), 60, num_clients=N).ledger.selected.tolist()

    assert chosen("share") == chosen("missed")
    assert chosen("share") != chosen("opportunity")


def test_fedgs_prefers_different_labels_among_equals():
    labels = np.repeat(1 - np.eye(3, dtype=np.int64), 3, axis=0)
    rule = SCHEDULERS.build("fedgs:alpha=1")
    for i in range(20):
        view = RoundView(0, None, 3, np.arange(9), np.ones(9), None, Ledger.empty(9), labels=labels)
        chosen = rule.select(None, view, stream(i, "x"))[0].clients
        assert sorted(chosen // 3) == [0, 1, 2]


def test_fedgs_says_when_there_are_too_many():
    with pytest.raises(ConfigError, match="takes at most 4000 clients, not 5000; use alpha=0"):
        SCHEDULERS.build("fedgs").init(5000)
    SCHEDULERS.build("fedgs:alpha=0").init(5000)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("fedgs", "rollout")])
def test_a_hundred_thousand_clients(name):
    """A large population fits: nothing is quadratic in clients."""
    many, scheduler = 100_000, SCHEDULERS.build(name)
    rng, ledger = stream(0, "many"), Ledger.empty(many)
    labels = np.ones((many, 4), np.int64)
    labels[rng.random(many) < 0.9, 1:] = 0
    state = scheduler.init(many)
    for t in range(3):
        ids = np.flatnonzero(rng.random(many) < 0.3)
        pi = np.full(len(ids), 0.3)
        view = RoundView(
            t, 10, 100, ids, pi, pi * 10, ledger, labels=labels,
            losses=lambda clients, _: clients / many, expected=lambda rounds, pi=pi: pi * rounds,
        )  # fmt: skip
        cohort, state = scheduler.select(state, view, stream(0, "select", t))
        ledger.selected[cohort.clients] += 1
        ledger.last_completed[cohort.clients] = t
        if isinstance(scheduler, Learner):
            reports = [ClientReport(int(k), np.zeros(1), loss_rms=1.0) for k in cohort.clients]
            state = scheduler.learn(state, Feedback(t, np.zeros(1), reports, ledger, None))
        assert name in ("population", "with_quota", "with_company", "parity_deployment") or len(cohort.clients) == 100


class Diverged(Engine):
    """An engine whose model has no finite loss."""

    def available(self, round):
        return np.arange(N)

    def train(self, plan):
        return [ClientReport(int(k), np.ones(1), loss_rms=np.nan) for k in plan.cohort.clients]

    def evaluate(self, params, clients, measure="both"):
        return Evals(clients, np.full(len(clients), np.inf), np.full(len(clients), np.nan))

    def validate(self, params):
        return float("inf")


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_diverged_is_no_reason_to_stop(name):
    coordinator = Coordinator(3, scheduler=SCHEDULERS.build(name), labels=np.eye(N, dtype=np.int64))
    ledger = run(coordinator, Diverged(), 6, num_clients=N, params=np.zeros(1)).ledger
    assert ledger.completed.sum() == (18 if name not in ("population", "with_quota") else ledger.selected.sum())


def halves(scheduler):
    """Of those always there, the share of their selections that falls into the first half of a run."""
    trace = AVAILABILITY.build("bernoulli:low=.2,high=1").draw(60, 160, 3)
    often = trace.rates() > 0.9
    counts = []
    for rounds in (80, 160):
        engine = Intermittent(NoTraining(60), trace)
        coordinator = Coordinator(3, scheduler=scheduler)
        state = coordinator.init(60)
        for t in range(rounds):
            plan, state = coordinator.plan(state, engine.available(t), 160 - t - 1)
            _, state = coordinator.absorb(state, plan, engine.train(plan))
        counts.append(state.ledger.selected[often].sum())
    return counts[0] / counts[1]


def test_parity_puts_nobody_off_for_long_within_a_horizon():
    assert halves("parity") <= 0.2
    assert 0.35 < halves("parity:horizon=12") < halves("parity:horizon=0") + 0.1


def alike_in_a_cohort(scheduler):
    """Of all pairs within cohorts, the share that comes equally often, against chance: ten kinds of clients."""
    kinds = np.arange(100) % 10
    trace = Trace.from_matrix(stream(4, "m").random((200, 100)) < np.linspace(0.1, 1, 10)[kinds])
    pairs = []

    class Watch:
        def on_round(self, method, record, ledger, params):
            mine = kinds[record.selected]
            pairs.append([(mine == kind).sum() for kind in range(10)])

    engine = Intermittent(NoTraining(100), trace)
    run(Coordinator(5, scheduler=scheduler), engine, 200, num_clients=100, observers=[Watch()])
    counts = np.array(pairs)
    shares = counts.sum(0) / counts.sum()
    together = (counts * (counts - 1)).sum() / (counts.sum(1) * (counts.sum(1) - 1)).sum()
    return together / (shares**2).sum()


def test_a_turn_is_spread_over_clients_that_come_alike():
    """Who comes alike often holds alike data: asked together, turn after turn, the model would follow one kind."""
    assert alike_in_a_cohort("least_served") > 1.5
    assert alike_in_a_cohort("parity:horizon=0") < 1.1
    assert alike_in_a_cohort("parity") < 1.3
    # Per round online equal rates and equal counts are equals, too: 1.85 without places in a turn.
    assert alike_in_a_cohort("parity:target=opportunity") < 1.4


def test_spread_turns_cost_next_to_nothing_in_counts():
    """Places draw together in the last two turns, so that nobody misses the last one for its place."""
    apart = []
    for seed in range(10):
        trace = AVAILABILITY.build("bernoulli").draw(100, 200, seed)
        done = run(Coordinator(5, scheduler="parity"), Intermittent(NoTraining(100), trace), 200, num_clients=100)
        apart.append(int(np.ptp(done.ledger.selected)))
    assert np.mean(apart) <= 0.6
    setting = Setting("bernoulli", clients=100, rounds=200, cohort=5, draws=5)
    assert schedule("parity:target=opportunity", setting).means()["cv_per_opportunity"] <= 0.043  # whole places: 0.055


def test_what_is_promised_per_round_online_does_not_look_ahead():
    assert halves("parity:target=opportunity") == halves("parity:target=opportunity,horizon=0") > 0.4
