"""Laws that every scheduler keeps, run over the table."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection import LABELS, VARIANTS, N, a_view, build, warm

from fedparity import SCHEDULERS, Coordinator, InProcess, Intermittent, NoTraining, Trace, run, run_side_by_side, stream
from fedparity.tasks import Quadratic

BOUNDED = ("quota", "company", "deployment")  # their promise may leave slots empty
DISTINCT_SIZE = [
    v
    for v in VARIANTS
    if v not in ("population", "inverse:replace=true", "fixed") and not any(bound in v for bound in BOUNDED)
]


@pytest.mark.parametrize("name", VARIANTS)
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 50),
    available=st.lists(st.integers(0, N - 1), unique=True, max_size=N).map(sorted),
    cohort=st.integers(1, 15),
    left=st.none() | st.integers(0, 40),
    before=st.integers(0, 5),
)
def test_a_cohort_is_part_of_the_available(name, seed, available, cohort, left, before):
    scheduler, view = build(name), a_view(seed, available, cohort, left)
    chosen, _ = scheduler.select(warm(scheduler, seed, before), view, stream(seed, "select"))
    assert np.array_equal(chosen.clients, np.unique(chosen.clients))
    assert np.isin(chosen.clients, view.available).all()
    assert len(chosen.clients) + chosen.wasted <= max(cohort, 3 if name == "fixed" else 0)
    assert len(chosen.probs) == len(chosen.clients)
    assert ((chosen.probs > 0) & (chosen.probs <= 1)).all()
    if chosen.design == "deterministic":
        assert (chosen.probs == 1).all()
    if name in DISTINCT_SIZE:
        assert len(chosen.clients) == min(cohort, len(available))


MANY = [pytest.param(before, draws, marks=pytest.mark.slow) for before, draws in ((0, 4000), (4, 1500))]


@pytest.mark.parametrize(("before", "draws"), [(0, 1000), (4, 500), *MANY])
@pytest.mark.parametrize("name", VARIANTS)
def test_inclusion_probabilities_are_true(name, before, draws):
    """Frequencies over many draws from one state match the probabilities that were returned, if they are claimed."""
    scheduler, view = build(name), a_view(3, [0, 2, 3, 5, 6, 8, 9, 11], 3)
    state = warm(scheduler, 3, before)
    hits, told = np.zeros(N), {}
    for i in range(draws):
        chosen, _ = scheduler.select(copy.deepcopy(state), view, stream(i, "select"))
        if chosen.design == "unknown":
            assert (chosen.probs == 1).all()
            return
        hits[chosen.clients] += 1
        for client, prob in zip(chosen.clients.tolist(), chosen.probs.tolist(), strict=True):
            assert told.setdefault(client, prob) == prob
    for client, prob in told.items():
        assert abs(hits[client] / draws - prob) <= 4.5 * np.sqrt(prob * (1 - prob) / draws) + 1e-12
    if name in DISTINCT_SIZE:
        assert sum(told.values()) == pytest.approx(3)


@pytest.mark.parametrize("name", VARIANTS)
def test_same_state_same_choice_and_the_view_is_left_alone(name):
    scheduler, view = build(name), a_view(1, list(range(N)), 4)
    before = view.ledger.copy()
    first, state = scheduler.select(scheduler.init(N), view, stream(0, "select"))
    again, same = scheduler.select(scheduler.init(N), view, stream(0, "select"))
    assert np.array_equal(first.clients, again.clients)
    assert np.array_equal(first.probs, again.probs)
    assert view.ledger == before
    assert repr(state) == repr(same)


@pytest.mark.parametrize("name", VARIANTS)
def test_works_with_nobody_one_and_too_few(name):
    for available in ([], [4], [1, 7]):
        scheduler = build(name)
        chosen, _ = scheduler.select(scheduler.init(N), a_view(2, available, 5), stream(0, "select"))
        assert len(chosen.clients) <= len(available)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_run_goes_through_and_resuming_equals_never_stopping(name):
    trace = Trace.from_matrix(stream(5, "t").random((14, N)) < np.linspace(0.1, 0.9, N))
    engine = Intermittent(InProcess(Quadratic.random(N)), trace)
    coordinator = Coordinator(3, seed=9, scheduler=build(name), labels=LABELS)
    kept = []

    def after(_name, record, state):
        if record.round == 6:
            kept.append(state.copy())

    whole = run_side_by_side({"": coordinator}, engine, 14, num_clients=N, params=np.zeros(4), after=after)[""]
    resumed = run(coordinator, engine, 14, state=kept[0])
    assert resumed.ledger == whole.ledger
    assert resumed.params.tobytes() == whole.params.tobytes()


@pytest.mark.parametrize("name", VARIANTS)
def test_describes_itself(name):
    entry = SCHEDULERS.describe(name.partition(":")[0])
    assert entry["summary"].endswith(".")
    assert isinstance(entry["parameters"], dict)


def test_rollcall_and_training_give_the_same_selections():
    """Schedulers see counts, not models: a roll call and a training run agree for every utility-blind scheduler."""
    trace = Trace.from_matrix(stream(5, "t").random((20, N)) < np.linspace(0.1, 0.9, N))
    for name in ("parity", "inverse", "reactive", "uniform", "least_served", "round_robin", "deficit", "refl", "f3ast"):
        coordinator = Coordinator(3, seed=1, scheduler=SCHEDULERS.build(name))
        roll = run(coordinator, Intermittent(NoTraining(N), trace), 20, num_clients=N)
        task = Intermittent(InProcess(Quadratic.random(N)), trace)
        real = run(coordinator, task, 20, num_clients=N, params=np.zeros(4))
        assert np.array_equal(roll.ledger.selected, real.ledger.selected)
