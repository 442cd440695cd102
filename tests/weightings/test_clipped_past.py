"""What is usual is said by many rounds, not by the one that is held."""

import numpy as np

from fedparity import Ledger
from fedparity.core.types import Rows
from fedparity.weightings import Clipped, ClippedPast


def rows(*lengths):
    count, ones = len(lengths), np.ones(len(lengths))
    deltas = [np.array([length, 0.0]) for length in lengths]
    return Rows(np.arange(count), deltas, np.zeros(count, np.int64), ones, ones, ones)


def test_a_round_that_is_held_does_not_say_what_is_usual():
    rule, ledger = ClippedPast(), Ledger.empty(4)
    state = rule.init(4)
    for _ in range(9):
        _, state = rule.weigh(state, rows(1.0, 2.0, 3.0), ledger)
    held = rows(1e4, 1e4, 1e4)
    weights, state = rule.weigh(state, held, ledger)
    assert np.allclose(weights * 1e4, 2 / 3)
    assert np.allclose(Clipped().weigh(None, held, ledger)[0], 1 / 3)
    weights, _ = rule.weigh(state, rows(1.0, 2.0, 4.0), ledger)
    assert np.allclose(weights, [1 / 3, 1 / 3, 1 / 6])


def test_the_first_round_is_clipped_to_its_own_median():
    rule = ClippedPast()
    first, _ = rule.weigh(rule.init(3), rows(1.0, 2.0, 8.0), Ledger.empty(3))
    assert first.tolist() == Clipped().weigh(None, rows(1.0, 2.0, 8.0), Ledger.empty(3))[0].tolist()


def test_what_shrinks_is_followed():
    rule, ledger = ClippedPast(window=5), Ledger.empty(3)
    state = rule.init(3)
    for length in np.linspace(4, 1, 30):
        weights, state = rule.weigh(state, rows(length, length, length), ledger)
        assert np.allclose(weights, 1 / 3)
    assert len(state.medians) == 5
