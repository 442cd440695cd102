"""What is usual is said by many clients, one vote each, not by the round that is held."""

import numpy as np
import pytest

from fedparity import Ledger
from fedparity.core.errors import ConfigError
from fedparity.core.types import Rows
from fedparity.weightings import Clipped, ClippedPast


def rows(*lengths, clients=None, age=0):
    count, ones = len(lengths), np.ones(len(lengths))
    deltas = [np.array([length, 0.0]) for length in lengths]
    clients = np.arange(count) if clients is None else np.array(clients)
    return Rows(clients, deltas, np.full(count, age, np.int64), ones, ones, ones)


def after(rule, *rounds, num_clients):
    """The weights of the last of these rounds."""
    state, ledger = rule.init(num_clients), Ledger.empty(num_clients)
    for one in rounds:
        weights, state = rule.weigh(state, one, ledger)
        ledger.rounds += 1
    return weights


def test_a_round_that_is_held_does_not_say_what_is_usual():
    honest, held = rows(1.0, 2.0, 3.0), rows(1e4, 1e4, clients=(3, 4))
    weights = after(ClippedPast(), *[honest] * 9, held, num_clients=5)
    assert np.allclose(weights * 1e4, 3 / 2)
    assert np.allclose(Clipped().weigh(None, held, Ledger.empty(5))[0], 1 / 2)


def test_thin_rounds_held_again_and_again_do_not_either():
    honest, held = rows(1.0, 1.0, 1.0), rows(1e4, 1e4, clients=(3, 4))
    weights = after(ClippedPast(), honest, *[held] * 30, num_clients=5)
    assert np.allclose(weights * 1e4, 1 / 2)


@pytest.mark.parametrize(("quantile", "held"), [(0.5, True), (0.25, False)])
def test_a_lower_quantile_takes_more_attackers(quantile, held):
    weights = after(ClippedPast(quantile=quantile), rows(1.0, 1.0, 9.0, 9.0, 9.0), num_clients=5)
    assert (weights[-1] == 1 / 5) == held


def test_at_first_the_shortest_counts():
    first = rows(1.0, 9.0, 9.0, 9.0)
    assert after(ClippedPast(), first, num_clients=100).tolist() == [1 / 4, 1 / 36, 1 / 36, 1 / 36]
    assert after(ClippedPast(), first, num_clients=20).tolist() == [1 / 4] * 4, "a fifth of them is enough"


def test_the_first_round_of_enough_clients_is_clipped_to_its_own_median():
    first = rows(1.0, 2.0, 8.0)
    assert after(ClippedPast(), first, num_clients=3).tolist() == after(Clipped(), first, num_clients=3).tolist()


def test_nothing_sent_is_no_vote():
    weights = after(ClippedPast(), rows(0.0, 0.0, 0.0, 2.0, 4.0), num_clients=5)
    assert np.allclose(weights, [1 / 5, 1 / 5, 1 / 5, 1 / 5, 3 / 20])


def test_an_old_update_is_no_vote():
    weights = after(ClippedPast(), rows(1.0, 1.0, 1.0), *[rows(5.0, 5.0, 5.0, age=1)] * 3, num_clients=3)
    assert np.allclose(weights, 1 / 15)


def test_what_shrinks_is_followed():
    shrinking = [rows(length, length, length) for length in np.linspace(4, 1, 30)]
    assert np.allclose(after(ClippedPast(window=5), *shrinking, num_clients=3), 1 / 3)


def test_a_length_counts_for_a_window():
    small, large = rows(1.0, 1.0), rows(3.0, 3.0, clients=(2, 3))
    assert np.allclose(after(ClippedPast(window=5), small, *[large] * 4, num_clients=4), 1 / 3)
    assert np.allclose(after(ClippedPast(window=5), small, *[large] * 5, num_clients=4), 1 / 2)


def test_a_quantile_above_the_median_is_refused():
    with pytest.raises(ConfigError, match="quantile"):
        ClippedPast(quantile=0.6)
