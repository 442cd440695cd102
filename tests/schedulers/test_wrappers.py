"""Quota, floor and label coverage around any scheduler: what each promises, and that one not needed changes nothing."""

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedparity import (
    AVAILABILITY,
    SCHEDULERS,
    ConfigError,
    Coordinator,
    InProcess,
    Intermittent,
    Journal,
    Ledger,
    NoTraining,
    Trace,
    run,
    stream,
)
from fedparity.core.types import RoundView
from fedparity.schedulers import Oort, Parity, Uniform, WithFloor, WithLabelCoverage, WithQuota
from fedparity.schedulers.with_label_coverage import covering
from fedparity.tasks import Quadratic

N = 12
INNER = [name for name in SCHEDULERS if name not in ("fixed", "with_quota", "with_floor", "with_label_coverage")]
INNER += ["parity:target=utility;ratio=2", "reactive:draw=sample;lam=.1", "power_of_choice:variant=rpow;d=5"]
LABELS = stream(0, "labels").integers(0, 3, (N, 4))


def history(scheduler, *, seed=0, rounds=20, labels=LABELS, cohort=3):
    """Everything that a run decided, as one digest, and its counts."""
    trace = AVAILABILITY.build("bernoulli:low=.1,high=.8").draw(N, rounds, seed).with_dropout(0.2, stream(seed, "drop"))
    coordinator = Coordinator(cohort, seed=seed, scheduler=scheduler, labels=labels)
    journal = Journal(keep=False)
    engine = Intermittent(InProcess(Quadratic.random(N)), trace)
    state = run(coordinator, engine, rounds, num_clients=N, params=np.zeros(4), observers=[journal])
    return journal.head(), state.ledger.selected.tolist()


@pytest.mark.parametrize("inner", INNER)
@settings(max_examples=3)
@given(seed=st.integers(0, 1000))
def test_a_wrapper_that_changes_nothing_changes_no_bit(inner, seed):
    plain = history(SCHEDULERS.build(inner.replace(";", ",")), seed=seed)
    assert history(SCHEDULERS.build(f"with_quota:inner={inner},quota=1e6"), seed=seed) == plain
    assert history(SCHEDULERS.build(f"with_floor:inner={inner},floor=0"), seed=seed) == plain
    one = LABELS.sum(1, keepdims=True) + 1
    plain = history(SCHEDULERS.build(inner.replace(";", ",")), seed=seed, labels=one)
    assert history(SCHEDULERS.build(f"with_label_coverage:inner={inner}"), seed=seed, labels=one) == plain


def test_text_and_objects_are_the_same():
    assert SCHEDULERS.build("with_quota:inner=oort,quota=1.3") == WithQuota(Oort(), quota=1.3)
    text = "with_floor:inner=parity:target=opportunity;ratio=2,floor=.25,window=7"
    assert SCHEDULERS.build(text) == WithFloor(Parity(target="opportunity", ratio=2), floor=0.25, window=7)
    deep = "with_quota:inner=with_floor:inner=parity:target=share;;ratio=3;floor=.5,window=9"
    assert SCHEDULERS.build(deep) == WithQuota(WithFloor(Parity(target="share", ratio=3), floor=0.5), window=9)
    assert WithLabelCoverage("with_quota:inner=oort;quota=2").inner == WithQuota(Oort(), quota=2)
    assert WithQuota().inner == Uniform()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("with_quota:inner=ort", "did you mean 'oort'"),
        ("with_quota:inner=parity:target=fast", "target='fast' must be share"),
        ("with_quota:inner=oort;cutoff=.5", "unknown scheduler 'oort,cutoff=.5'"),
        ("with_quota:quota=.5", "quota=0.5 must be between 1"),
        ("with_quota:window=0", "window=0 must be a whole number of at least 1"),
        ("with_floor:floor=2", "floor=2.0 must be between 0 and 1"),
        ("with_floor:inner=none", "unknown scheduler 'none'"),
        ("with_label_coverage:quota=2", "unknown key 'quota'"),
    ],
)
def test_mistakes_are_named_when_it_is_built(text, message):
    with pytest.raises(ConfigError, match=message):
        SCHEDULERS.build(text)


def test_only_schedulers_can_be_wrapped():
    with pytest.raises(ConfigError, match="inner=3 must be a scheduler, or the text of one"):
        WithQuota(3)


def test_what_the_inner_scheduler_asks_for_is_passed_on():
    deep = SCHEDULERS.build("with_quota:inner=with_floor:inner=oort")
    assert Coordinator(3, scheduler=deep).report_fields >= {"loss_rms"}
    assert SCHEDULERS.build("with_floor:inner=parity").forecasts
    assert not SCHEDULERS.build("with_floor:inner=uniform").forecasts
    assert SCHEDULERS.build("with_quota:inner=power_of_choice").requires == ("losses",)
    assert SCHEDULERS.build("with_label_coverage:inner=fedgs").requires == ("labels",)
    coordinator = Coordinator(3, scheduler=deep)
    trace = AVAILABILITY.build("always").draw(N, 8, 0)
    state = run(coordinator, Intermittent(InProcess(Quadratic.random(N)), trace), 8, num_clients=N, params=np.zeros(4))
    assert np.isfinite(state.scheduler.inner.inner.utility).any(), "the innermost one learns"


class Watch:
    """Who was asked, as a matrix of rounds x clients."""

    def __init__(self, rounds, clients):
        self.asked = np.zeros((rounds, clients), int)

    def on_round(self, method, record, ledger, params):
        self.asked[record.round, record.selected] = 1


def asked(scheduler, matrix, cohort):
    trace, watch = Trace.from_matrix(matrix), Watch(*matrix.shape)
    coordinator = Coordinator(cohort, scheduler=SCHEDULERS.build(scheduler))
    run(
        coordinator,
        Intermittent(NoTraining(matrix.shape[1]), trace),
        len(matrix),
        num_clients=matrix.shape[1],
        observers=[watch],
    )
    return watch.asked


@pytest.mark.parametrize("inner", ["uniform", "oort", "reactive", "refl"])
def test_the_quota_holds_in_every_window(inner):
    matrix = stream(0, "m").random((120, 10)) < np.array([0.1] * 8 + [1, 1])
    chosen = asked(f"with_quota:inner={inner},quota=1.5,window=20", matrix, 2)
    assert max(chosen[i : i + 20].sum(0).max() for i in range(101)) == 6  # 1.5 x the fair share of 2 * 20 / 10
    plain = asked(inner, matrix, 2)
    assert max(plain[i : i + 20].sum(0).max() for i in range(101)) > 6


def test_the_lifetime_quota_holds_at_every_time():
    matrix = stream(0, "m").random((200, 10)) < np.array([0.1] * 8 + [1, 1])
    chosen = asked("with_quota:inner=uniform,quota=1.5,window=20,lifetime=1.1", matrix, 2)
    fair = 2 / 10 * np.arange(1, 201)
    assert (chosen.cumsum(0).max(1) <= np.floor(1.1 * fair) + 2).all()  # (1.5 - 1) x the fair share of 20 rounds
    assert asked("with_quota:inner=uniform,quota=1.5,window=20", matrix, 2).sum(0).max() > 1.1 * fair[-1] + 2


def test_a_newcomer_is_first_asked_after_a_fair_turn():
    rule = SCHEDULERS.build("with_quota:inner=uniform,lifetime=1")
    ledger = Ledger.empty(10).grown(11)
    ledger.rounds = 24
    ledger.since = np.array([0] * 10 + [20], np.int32)
    for rounds, there in ((24, []), (25, [10])):  # N / m = 5 rounds
        ledger.rounds = rounds - 1
        view = RoundView(rounds, None, 2, np.array([10]), np.ones(1), None, ledger)
        assert rule.select(rule.init(11), view, stream(0, "x"))[0].clients.tolist() == there


def test_clients_that_come_equally_often_hold_less_than_a_third_of_a_round():
    rates = np.concatenate([np.full(10, 0.9), np.linspace(0.2, 0.8, 90)])
    matrix = stream(0, "m").random((400, 100)) < rates
    text = "least_served"  # the rarest of equals first: parity's spread turns keep such clients apart on their own
    free, bound = (asked(name, matrix, 10)[100:, :10].sum(1) for name in (text, f"with_company:inner={text}"))
    assert (free >= 4).mean() > 0.05
    assert (bound >= 4).mean() < 0.01
    assert bound.sum() >= 0.95 * free.sum(), "they get their share all the same"


@pytest.mark.parametrize("cohort", [3, 5, 10, 20])
def test_equals_fill_their_slots(cohort):
    chosen = asked("with_company:inner=uniform", np.ones((60, 100), dtype=bool), cohort)
    assert chosen.sum() >= 0.97 * 60 * cohort


def test_the_floor_holds_for_those_that_are_there():
    """The literal reactive rule never lets go of a client; with a floor nobody that is there is left out."""
    matrix = np.ones((120, 8), bool)
    matrix[:, 4:] = stream(0, "m").random((120, 4)) < 0.8
    plain = asked("reactive", matrix, 2)
    chosen = asked("with_floor:inner=reactive,floor=.8,window=16", matrix, 2)
    windows = range(16, 105)
    assert min(plain[i : i + 16].sum(0).min() for i in windows) == 0
    assert min(chosen[i : i + 16].sum(0).min() for i in windows) >= 0.8 * 2 * 16 / 8 - 2


def test_the_floor_asks_first_who_got_least():
    rule = WithFloor(Parity(), floor=1.0, window=4)
    state = rule.init(4)
    state.recent = (np.array([0]), np.array([0, 1]), np.array([0, 2]), np.array([], int))
    view = RoundView(4, None, 2, np.arange(4), np.ones(4), None, Ledger.empty(4))
    cohort, _ = rule.select(state, view, stream(0, "x"))
    assert cohort.clients[-1] == 3, "never asked"
    assert cohort.clients[0] in (1, 2), "asked once, where two are fair; the other three times"
    assert cohort.probs.tolist() == [0.5, 1]


def test_labels_are_covered_if_they_can_be():
    labels = np.eye(6, dtype=np.int64)
    labels[3:, 0] = 1
    trace = AVAILABILITY.build("always").draw(6, 30, 0)

    class Covered:
        def on_round(self, method, record, ledger, params):
            assert (labels[record.selected].sum(0) > 0).all()
            assert len(record.selected) == 5

    coordinator = Coordinator(5, scheduler=WithLabelCoverage(), labels=labels)
    run(coordinator, Intermittent(NoTraining(6), trace), 30, num_clients=6, observers=[Covered()])


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), cohort=st.integers(1, 8))
def test_swaps_never_cover_less_and_end_where_none_helps(seed, cohort):
    rng = stream(seed, "cover")
    holds = rng.random((10, 7)) < 0.25
    before = np.zeros(10, bool)
    before[rng.permutation(10)[:cohort]] = True
    after = covering(holds, before, cohort, rng)
    assert after.sum() == cohort
    covered = holds[after].any(0).sum()
    assert covered >= holds[before].any(0).sum()
    missing = holds.any(0) & ~holds[after].any(0)
    if not missing.any():
        assert covered == holds.any(0).sum()
    free = covering(holds, before, 10, rng)
    assert holds[free].any(0).sum() == holds.any(0).sum(), "with free slots everything can be covered"


def test_labels_must_be_known():
    view = RoundView(0, None, 2, np.arange(4), np.ones(4), None, Ledger.empty(4))
    for name in ("with_label_coverage", "fedgs"):
        with pytest.raises(ConfigError, match="not known here; give Coordinator `labels`, or use"):
            SCHEDULERS.build(name).select(None, view, stream(0, "x"))


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        ("with_quota:inner=parity:ratio=1.1,spare=fill", "78dccfbf631fa096"),
        ("with_quota:inner=parity:target=utility;ratio=2,quota=1.5,window=20,spare=fill", "468d8d90850f8fd7"),
    ],
)
def test_parity_under_a_quota_looks_at_everybody_online(text, digest):
    """Rates and medians are those of everybody online, whoever is hidden; the choices are pinned."""
    told = []
    observer = type(
        "Seen",
        (),
        {"on_round": lambda _, _m, r, *__: told.append((r.selected.tolist(), r.probs.tolist(), r.design))},
    )()
    trace = AVAILABILITY.build("bernoulli:low=.1,high=.9").draw(30, 120, 0)
    engine = Intermittent(NoTraining(30, np.random.default_rng(0).random(30) * 3, 0.3), trace)
    run(Coordinator(3, scheduler=SCHEDULERS.build(text)), engine, 120, num_clients=30, observers=[observer])
    assert hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16] == digest
