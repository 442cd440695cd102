"""Server steps: by hand, and the laws they share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedparity import ClientReport, Coordinator
from fedparity.core.errors import ConfigError
from fedparity.core.tree import classes_in, flatten, rebuild
from fedparity.servers import SERVERS, Adaptive, Sgd
from fedparity.servers.rate_schedules import RATE_SCHEDULES, Scaled, rate_schedule_of


def walk(server, updates, start=0.0):
    params, state = np.array([start]), server.init(1)
    for t, update in enumerate(updates):
        params, state = server.step(state, params, np.array([update]), t)
    return float(params[0])


def test_plain_and_momentum_by_hand():
    assert walk(Sgd(), [1, 2]) == 3
    assert walk(Sgd(rate=0.5), [1, 2]) == 1.5
    assert walk(Sgd(momentum=0.5), [1, 2]) == 1 + (0.5 + 2)


def test_adam_and_yogi_by_hand():
    """Reddi et al.: no bias correction; v starts at eps^2."""
    rate, b1, b2, eps, d = 0.1, 0.9, 0.99, 1e-3, 2.0
    yogi = Adaptive(rate, second="yogi")
    m = (1 - b1) * d
    v = b2 * eps**2 + (1 - b2) * d**2
    assert walk(Adaptive(rate), [d]) == pytest.approx(rate * m / (np.sqrt(v) + eps))
    v = eps**2 + (1 - b2) * d**2  # v < d^2, so yogi adds
    assert walk(yogi, [d]) == pytest.approx(rate * m / (np.sqrt(v) + eps))
    small = 1e-9
    v = v - (1 - b2) * small**2
    m = b1 * m + (1 - b1) * small
    assert walk(yogi, [d, small]) - walk(yogi, [d]) == pytest.approx(rate * m / (np.sqrt(v) + eps))


@pytest.mark.parametrize("name", [*SERVERS, "sgd:momentum=.9", "adam:schedule=cosine:every=5;floor=.1"])
@given(updates=st.lists(st.floats(-10, 10), min_size=1, max_size=6), dtype=st.sampled_from([np.float32, np.float64]))
def test_a_step_keeps_the_type_leaves_its_input_and_can_be_taken_again(name, updates, dtype):
    server = SERVERS.build(name)
    params, state = np.ones(3, dtype), server.init(3)
    for t, update in enumerate(updates):
        given_params, direction = params.copy(), np.full(3, update)
        skeleton, arrays = flatten(state)
        kept = {path: array.copy() for path, array in arrays.items()}
        again, _ = server.step(rebuild(skeleton, kept, classes_in(state)), params, direction, t)
        params, state = server.step(state, params, direction, t)
        assert params.dtype == dtype
        assert np.isfinite(params).all()
        assert again.tobytes() == params.tobytes()
        assert given_params.tobytes() != params.tobytes() or update == 0 or name.startswith(("adam", "yogi", "sgd"))
        assert (direction == update).all()


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("constant", 7, 1.0),
        ("inverse", 4, 0.2),
        ("sqrt:every=10", 30, 0.5),
        ("step:every=10,factor=.1", 25, 0.01),
        ("cosine:every=10", 5, 0.5),
        ("cosine:every=10,floor=.2", 99, 0.2),
    ],
)
def test_schedules_by_hand(text, at, expected):
    assert RATE_SCHEDULES.build(text).scale(at) == pytest.approx(expected)
    assert rate_schedule_of(text.replace(",", ";")).scale(at) == pytest.approx(expected)
    assert Scaled(RATE_SCHEDULES.build(text), 3).scale(at) == pytest.approx(3 * expected)


@pytest.mark.parametrize("name", RATE_SCHEDULES)
@given(t=st.integers(0, 10**7))
def test_schedules_start_at_one_and_stay_above_zero(name, t):
    schedule = RATE_SCHEDULES.build(name)
    assert schedule.scale(0) == pytest.approx(1)
    assert 0 <= schedule.scale(t) <= 1


@pytest.mark.parametrize("wrong", ["sgd:rate=0", "sgd:momentum=1", "adam:eps=0", "yogi:b2=1", "adam:schedule=cosin"])
def test_refusals(wrong):
    with pytest.raises(ConfigError):
        SERVERS.build(wrong)


def test_momentum_of_a_run_goes_on_and_an_empty_round_leaves_it():
    coordinator = Coordinator(1, server=Sgd(momentum=0.5))
    state = coordinator.init(1, np.zeros(1))
    seen = []
    for sent in (1.0, None, 1.0):
        plan, state = coordinator.plan(state, np.arange(1))
        reports = [] if sent is None else [ClientReport(0, np.array([sent]))]
        _, state = coordinator.absorb(state, plan, reports)
        seen.append(float(state.params[0]))
    assert seen == [1.0, 1.0, 2.5]
