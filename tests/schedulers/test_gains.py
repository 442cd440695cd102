"""What asking a client is expected to gain, and what is outstanding for it."""

import numpy as np
import pytest

from fedparity import Ledger
from fedparity.schedulers.gains import MOST_URGENT, URGENT, Gains, Line

N = 6


def a_ledger(online):
    ledger = Ledger.empty(N)
    ledger.rounds = 10
    ledger.online[:] = online
    return ledger


def credited(gains, ledger, clients, credits, losses):
    """One round in which these clients were credited."""
    ids = np.array(clients)
    ledger.utility[ids] += credits
    ledger.loss[ids] = losses
    gains.learn(ids, ledger)


def test_a_line_is_learned_and_faded():
    line = Line()
    assert line.at(np.array([5.0])).tolist() == [0.0]
    x = np.array([0.5, 1.0, 1.5, 2.0])
    line.add(x, 0.5 * x, 1.0)
    assert line.at(np.array([0.0, 3.0])) == pytest.approx([0.0, 1.5])
    line.add(x, 0.1 * x, 0.0)
    assert line.at(np.array([3.0])) == pytest.approx([0.3])


def test_a_line_that_says_nothing_is_flat():
    line = Line()
    line.add(np.ones(5), np.arange(5.0), 1.0)
    assert line.at(np.array([0.0, 9.0])).tolist() == [2.0, 2.0]


def test_who_stayed_away_with_a_high_loss_has_much_outstanding():
    """Utility since the last credit waits for its client, however small the gains of others have become."""
    gains, ledger = Gains.none(N), a_ledger(10)
    credited(gains, ledger, [0, 1, 2, 3], 0.0, 2.0)
    for loss in (1.5, 1.0, 0.6, 0.3, 0.2, 0.1):
        credited(gains, ledger, [0, 1, 2], ledger.loss[:3] - loss, loss)
    waiting = gains.outstanding(np.arange(4))
    assert waiting[3] > 5 * waiting[0]
    assert waiting[3] > 2 * gains.recent.value()


def test_nothing_credited_is_unknown_not_zero():
    gains, ledger = Gains.none(N), a_ledger(10)
    credited(gains, ledger, [0, 1, 2], 0.5, 1.0)
    credited(gains, ledger, [0, 1, 2], 0.4, 0.6)
    gain, relative = gains.expected(np.array([0, 5]))
    assert gain[1] >= gain[0] > 0
    assert relative[1] >= 1
    assert gains.outstanding(np.array([5]))[0] >= gains.first.value()


@pytest.mark.parametrize(("rare", "skewed"), [(1.0, False), (2.0, True)])
def test_skew_tells_whether_who_is_rare_fares_worse(rare, skewed):
    gains = Gains.none(N)
    assert gains.skew() == 1.0
    ledger = a_ledger([10, 10, 10, 1, 1, 1])
    credited(gains, ledger, list(range(N)), 0.1, [1.0, 1.0, 1.0, rare, rare, rare])
    assert (gains.skew() > 1.2) == skewed


def test_who_is_left_behind_is_seen_once_losses_fell_or_everybody_was_credited_often():
    gains, ledger = Gains.none(N), a_ledger(10)
    assert gains.seen() == 0.0
    credited(gains, ledger, range(N), 0.1, 2.0)
    assert gains.seen() == 0.0
    for loss in (1.0, 0.5, 0.2, 0.1, 0.1):
        credited(gains, ledger, range(N), 0.5, loss)
    assert gains.seen() == 1.0
    constant, ledger = Gains.none(N), a_ledger(10)
    for _ in range(8):
        credited(constant, ledger, range(N), 0.1, 1.0)
    assert constant.seen() == 1.0


def test_the_last_loss_of_who_was_never_heard_of_is_the_usual_one():
    gains, ledger = Gains.none(N), a_ledger(10)
    credited(gains, ledger, [0, 1], 0.1, [1.0, 3.0])
    assert gains.last_losses(np.array([0, 1, 5])).tolist() == [1.0, 3.0, 2.0]


def test_who_has_much_outstanding_is_urgent_as_long_as_there_is_much_to_learn():
    gains, ledger = Gains.none(N), a_ledger(10)
    assert gains.start.value() == 0
    credited(gains, ledger, [0, 1, 2, 3], 0.0, 2.0)
    for loss in (1.5, 1.2, 1.0):
        credited(gains, ledger, [0, 1, 2], ledger.loss[:3] - loss, loss)
    early = gains.urgency(np.arange(4))
    assert early[3] > early[0]
    assert early.max() <= MOST_URGENT**URGENT
    for loss in (0.5, 0.2, 0.05, 0.01, 0.01, 0.01, 0.01):
        credited(gains, ledger, [0, 1, 2], ledger.loss[:3] - loss, loss)
    late = gains.urgency(np.arange(4))
    assert 1 <= late[3] < early[3], "what is left to learn is little, whoever lacks it"
