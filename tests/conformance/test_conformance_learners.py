"""Laws that every scheduler keeps that also looks at what came back, and that every scheduler's memory keeps."""

import copy
import json

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from selection import VARIANTS, N, a_round, a_view, build, warm

from fedparity import ClientReport, Ledger, stream
from fedparity.core.protocols import Feedback, Learner
from fedparity.core.tree import classes_in, flatten, rebuild

LEARNERS = [name for name in VARIANTS if isinstance(build(name), Learner)]
ANY = st.floats(-1e308, 1e308) | st.just(float("nan"))


def as_data(state):
    """A state to the last bit."""
    skeleton, arrays = flatten(state)
    return json.dumps(skeleton), {path: (a.dtype.str, a.tobytes()) for path, a in arrays.items()}


def stored(state, classes):
    skeleton, arrays = flatten(state)
    text = json.dumps(skeleton, allow_nan=False)
    return rebuild(json.loads(text), {path: a.copy() for path, a in arrays.items()}, classes)


def test_the_learners_are_those_that_should_be():
    plain = {name.partition(":")[0] for name in LEARNERS}
    assert plain == {
        "parity", "fairfedcs", "oort", "oort_code", "parity_deployment", "with_quota", "with_company", "with_floor",
        "with_label_coverage", "power_of_choice",
    }  # fmt: skip


@pytest.mark.parametrize("name", LEARNERS)
def test_an_empty_round_teaches_nothing(name):
    scheduler = build(name)
    for validate in (None, lambda _: 1.0, lambda _: float("nan")):
        state = warm(scheduler, 1, 5)
        before = as_data(state)
        after = scheduler.learn(state, Feedback(5, np.zeros(4), [], Ledger.empty(N), validate))
        assert as_data(after) == before


@settings(max_examples=15)
@given(seed=st.integers(0, 99), clients=st.lists(st.integers(0, N - 1), unique=True, max_size=N).map(sorted))
def test_the_same_round_teaches_the_same(seed, clients):
    feedback = a_round(stream(seed, "round"), 5, clients, Ledger.empty(N))
    for name in LEARNERS:
        note(name)
        scheduler = build(name)
        one, other = (scheduler.learn(warm(scheduler, seed, 4), feedback) for _ in range(2))
        assert as_data(one) == as_data(other)


@settings(max_examples=25)
@given(
    said=st.lists(st.tuples(st.integers(1, 10**9), ANY, ANY), min_size=1, max_size=N),
    loss=st.sampled_from([None, 1.0, -1e300, float("nan"), float("inf")]),
)
def test_nothing_that_a_report_or_a_validation_says_stops_the_next_choice(said, loss):
    reports = [
        ClientReport(k, np.full(4, 1e300), num_samples=n, loss_rms=rms, duration=seconds)
        for k, (n, rms, seconds) in enumerate(said)
    ]
    validate = None if loss is None else lambda params: loss if params.any() else 1.0
    for name in LEARNERS:
        note(name)
        scheduler = build(name)
        state = warm(scheduler, 2, 3)
        for t in range(3):
            state = scheduler.learn(state, Feedback(t, np.zeros(4), reports, Ledger.empty(N), validate))
        chosen, _ = scheduler.select(state, a_view(2, list(range(N)), 3), stream(0, "select"))
        assert len(chosen.clients) == 3 or any(bound in name for bound in ("quota", "company", "deployment"))


@settings(max_examples=12)
@given(seed=st.integers(0, 99), rounds=st.integers(0, 8), cohort=st.integers(1, 6))
def test_a_state_survives_a_checkpoint_and_goes_on_alike(seed, rounds, cohort):
    for name in VARIANTS:
        if name != "fixed":
            note(name)
            survives_a_checkpoint(build(name), seed, rounds, cohort)


def survives_a_checkpoint(scheduler, seed, rounds, cohort):
    state = warm(scheduler, seed, rounds)
    again = stored(state, classes_in(scheduler.init(N)))
    assert as_data(again) == as_data(state)
    view = a_view(seed, list(range(0, N, 2)), cohort)
    one, first = scheduler.select(copy.deepcopy(state), view, stream(seed, "select"))
    other, second = scheduler.select(again, view, stream(seed, "select"))
    assert one.clients.tolist() == other.clients.tolist()
    assert as_data(first) == as_data(second)
