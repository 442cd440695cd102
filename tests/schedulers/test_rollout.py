"""Rollout: the present counts carried through sampled futures decide who is asked."""

import numpy as np
import pytest

from fedparity import AVAILABILITY, ConfigError, Ledger, Setting, schedule, stream
from fedparity.core.types import RoundView
from fedparity.schedulers import LeastServed, Rollout
from fedparity.schedulers.rollout import MOST_CLIENTS, ends


def a_view(selected, futures, cohort=1):
    """Everybody is online; `futures` (rounds x clients) is what every sample says."""
    ledger, count = Ledger.empty(len(selected)), len(selected)
    ledger.selected[:] = selected
    rounds = np.array(futures, dtype=bool)
    return RoundView(
        0, len(rounds), cohort, np.arange(count), np.full(count, 0.5), rounds.sum(0).astype(float), ledger,
        futures=lambda left, samples, _: np.repeat(rounds[:left, None], samples, axis=1),
    )  # fmt: skip


def test_ends_are_those_of_asking_whoever_is_behind():
    online = np.array([[1, 1, 0], [0, 1, 1], [1, 1, 1], [0, 0, 0]], dtype=bool)[:, None]
    # Round by round: client 0 (0 < 1), client 1 (1 < 3), client 0 (1 < 2), nobody.
    assert ends(np.array([0, 1, 3]), online, 1, 0.0, stream(0, "lots")).tolist() == [[2, 2, 3]]
    # Client 0 has two more rounds: with an outlook of 1 each it waits for them, without it does not.
    online = np.array([[1, 1], [1, 0], [1, 0]], dtype=bool)[:, None]
    found = [ends(np.array([0, 1]), online, 1, rate, stream(0, "lots")).tolist() for rate in (0.0, 1.0)]
    assert found == [[[3, 1]], [[2, 2]]]


def test_whoever_will_not_be_back_is_asked_even_if_it_is_ahead():
    view = a_view([1, 0], [[0, 1]] * 6)
    rng = stream(0, "select")
    assert Rollout().select(Rollout().init(2), view, rng)[0].clients.tolist() == [0]
    assert LeastServed().select(None, view, rng)[0].clients.tolist() == [1]


def test_without_a_known_end_the_least_served_is_asked():
    view = a_view([2, 1, 0], np.empty((0, 3)))
    assert Rollout().select(Rollout().init(3), view, stream(0, "select"))[0].clients.tolist() == [2]


def test_with_the_future_known_it_comes_closer_to_the_limit():
    setting = Setting(AVAILABILITY.build("phones"), 40, 60, 3, draws=3, estimator="oracle")
    served, found = (schedule(name, setting).means() for name in ("least_served", "rollout:samples=1"))
    assert found["gini_avoidable"] < 0.6 * served["gini_avoidable"]


def test_populations_that_it_could_not_simulate_are_refused():
    with pytest.raises(ConfigError, match=f"at most {MOST_CLIENTS}, but there are {MOST_CLIENTS + 1}; use parity"):
        Rollout().init(MOST_CLIENTS + 1)
