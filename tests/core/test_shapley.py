"""Shapley values: the axioms, worked games, sampling and what truncation saves, and the value of clients' updates."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedparity.core.errors import ConfigError
from fedparity.core.rng import stream
from fedparity.metrics import coalition_model, federated_shapley, shapley

quick = settings(max_examples=40, deadline=None)
worths = st.floats(-100, 100).map(lambda x: round(x, 3))


@st.composite
def games(draw, players=None):
    """A table of what each coalition is worth."""
    m = draw(st.integers(1, 5)) if players is None else players
    values = draw(st.lists(worths, min_size=1 << m, max_size=1 << m))
    return m, values


def by_table(values):
    return lambda coalition: values[sum(1 << i for i in coalition)]


def by_permutations(value, players):
    """The definition, over all orders of arrival."""
    total = np.zeros(players)
    orders = list(itertools.permutations(range(players)))
    for order in orders:
        for place, i in enumerate(order):
            before = tuple(sorted(order[:place]))
            total[i] += value(tuple(sorted((*before, i)))) - value(before)
    return total / len(orders)


def glove(coalition):
    """Player 0 has a left glove, 1 and 2 a right one; only a pair is worth something."""
    return float(0 in coalition and len(coalition) > 1)


class Counted:
    """A value that counts how often it is asked."""

    def __init__(self, value):
        self.value = value
        self.asked = []

    def __call__(self, coalition):
        self.asked.append(coalition)
        return self.value(coalition)


def test_the_glove_game_by_hand():
    np.testing.assert_allclose(shapley(glove, 3), [4 / 6, 1 / 6, 1 / 6])


def test_without_the_empty_coalition_first_places_count_for_nothing():
    np.testing.assert_allclose(shapley(glove, 3, empty="exclude"), [4 / 6, 1 / 6, 1 / 6])
    np.testing.assert_allclose(shapley(sum, 3, empty="exclude"), [0, 2 / 3, 4 / 3])
    assert shapley(lambda _: 5.0, 1, empty="exclude") == [0]


def test_nobody_and_one():
    assert len(shapley(glove, 0)) == 0
    assert shapley(lambda c: 3.0 + 4.0 * len(c), 1) == [4]


def test_every_coalition_is_valued_once():
    value = Counted(lambda c: float(len(c)) ** 2)
    shapley(value, 6)
    assert len(value.asked) == len(set(value.asked)) == 2**6
    assert all(list(c) == sorted(c) for c in value.asked)


@quick
@given(games())
def test_exact_is_the_mean_over_all_orders(game):
    m, values = game
    np.testing.assert_allclose(shapley(by_table(values), m), by_permutations(by_table(values), m), atol=1e-9)


@quick
@given(games())
def test_excluding_is_the_sum_over_non_empty_coalitions(game):
    m, values = game
    value, found = by_table(values), np.zeros(m)
    for i in range(m):
        others = [j for j in range(m) if j != i]
        for size in range(1, m):
            for s in itertools.combinations(others, size):
                found[i] += (value(tuple(sorted((*s, i)))) - value(s)) / math.comb(m - 1, size) / m
    np.testing.assert_allclose(shapley(value, m, empty="exclude"), found, atol=1e-9)


@quick
@given(games())
def test_efficiency(game):
    m, values = game
    assert shapley(by_table(values), m).sum() == pytest.approx(values[-1] - values[0], abs=1e-9)
    alone = np.mean([values[1 << i] for i in range(m)])
    assert shapley(by_table(values), m, empty="exclude").sum() == pytest.approx(values[-1] - alone, abs=1e-9)


@quick
@given(games(players=4), st.permutations(range(4)))
def test_symmetry_who_is_who_does_not_matter(game, names):
    m, values = game
    value = by_table(values)
    renamed = shapley(lambda c: value(tuple(sorted(names[i] for i in c))), m)
    np.testing.assert_allclose(renamed, shapley(value, m)[names], atol=1e-9)


@quick
@given(st.lists(worths, min_size=5, max_size=5))
def test_symmetry_equal_players_get_the_same(by_size):
    found = shapley(lambda c: by_size[len(c)], 4)
    np.testing.assert_allclose(found, (by_size[4] - by_size[0]) / 4, atol=1e-9)


@quick
@given(games(players=4), st.integers(0, 3), st.booleans())
def test_a_player_that_changes_nothing_gets_nothing(game, null, sampled):
    m, values = game
    value = by_table(values)
    options = {"limit": 0, "samples": 7, "rng": stream(0, "test")} if sampled else {}
    found = shapley(lambda c: value(tuple(i for i in c if i != null)), m, **options)
    assert found[null] == 0


@quick
@given(games(players=3), games(players=3), worths)
def test_additivity(one, two, scale):
    first, second = by_table(one[1]), by_table(two[1])
    both = shapley(lambda c: first(c) + scale * second(c), 3)
    np.testing.assert_allclose(both, shapley(first, 3) + scale * shapley(second, 3), atol=1e-6)


@quick
@given(games(), st.integers(1, 30), st.integers(0, 5))
def test_sampled_values_add_up_too_and_depend_on_the_generator_alone(game, samples, seed):
    m, values = game
    one, two = (shapley(by_table(values), m, limit=0, samples=samples, rng=stream(seed, "test")) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert one.sum() == pytest.approx(values[-1] - values[0], abs=1e-9)


@quick
@given(games(), st.floats(0, 50), st.integers(1, 30))
def test_truncation_costs_at_most_eps(game, eps, samples):
    m, values = game
    found = shapley(by_table(values), m, limit=0, samples=samples, rng=stream(0, "test"), eps=eps)
    assert abs(found.sum() - (values[-1] - values[0])) <= eps + 1e-9


@pytest.mark.parametrize("empty", ["include", "exclude"])
def test_sampling_converges_to_the_exact_values(empty):
    values = stream(1, "test").normal(size=2**6).tolist()
    exact = shapley(by_table(values), 6, empty=empty)
    found = shapley(by_table(values), 6, limit=0, samples=6000, rng=stream(2, "test"), empty=empty)
    np.testing.assert_allclose(found, exact, atol=0.06)


def test_any_number_of_orders_is_unbiased():
    draws = [shapley(glove, 3, limit=0, samples=2, rng=stream(seed, "test")) for seed in range(3000)]
    np.testing.assert_allclose(np.mean(draws, axis=0), [4 / 6, 1 / 6, 1 / 6], atol=0.03)


def test_every_m_orders_start_once_with_each_player():
    value = Counted(lambda c: float(bool(c)))
    found = shapley(value, 12, samples=24, rng=stream(0, "test"), eps=0.5)
    np.testing.assert_allclose(found, 1 / 12)
    assert len(value.asked) == 14  # everybody, nobody and each alone: the rest is cut off


def test_a_round_that_changed_nothing_costs_two_evaluations():
    value = Counted(lambda c: 0.01 * len(c))
    assert not shapley(value, 5, eps_round=0.1).any()
    assert len(value.asked) == 2
    assert shapley(value, 5, eps_round=0.01).all()


def test_beyond_the_limit_orders_must_be_drawn():
    with pytest.raises(ConfigError, match="players=11 is above limit=10"):
        shapley(glove, 11)
    with pytest.raises(ConfigError, match="samples=0 must be"):
        shapley(glove, 11, samples=0, rng=stream(0, "test"))
    assert shapley(lambda c: float(len(c)), 11, limit=11) == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"players": -1}, "players=-1"),
        ({"limit": 21}, "limit=21 must be between 0 and 20"),
        ({"eps": -1}, "eps=-1"),
        ({"eps_round": math.nan}, "eps_round=nan"),
        ({"empty": "includes"}, "did you mean 'include'"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        shapley(glove, **{"players": 3, **options})


def test_a_value_that_is_no_number_is_named_by_its_coalition():
    with pytest.raises(ConfigError, match=r"coalition \(0, 2\) is nan"):
        shapley(lambda c: math.nan if c == (0, 2) else 1.0, 3)


# --- updates of clients


def square(w):
    """Loss with its minimum at (1, 0)."""
    return float((w[0] - 1) ** 2 + w[1] ** 2)


def test_coalition_models_by_hand():
    w, deltas = np.array([1.0, 1.0]), np.array([[2.0, 0.0], [0.0, 4.0], [6.0, 6.0]])
    np.testing.assert_array_equal(coalition_model(w, deltas, (0, 1)), [2, 3])
    np.testing.assert_array_equal(coalition_model(w, deltas, (0, 1), np.array([3.0, 1, 9])), [2.5, 2])
    np.testing.assert_array_equal(coalition_model(w, deltas, ()), w)
    assert coalition_model(w, deltas, ()) is not w


def test_the_value_of_two_updates_by_hand():
    # From (0, 0): loss 1. Client 0 moves to the minimum (drop 1), client 1 away to (-1, 0) (drop -3), both stay (0).
    deltas = [[1, 0], [-1, 0]]
    np.testing.assert_allclose(federated_shapley([0, 0], deltas, square), [2, -2])  # (1 + 3) / 2 and (-3 - 1) / 2
    np.testing.assert_allclose(federated_shapley([0, 0], deltas, square, empty="exclude"), [1.5, -0.5])


def test_equal_updates_are_worth_the_same_and_weights_matter():
    deltas = [[1, 0], [1, 0], [-1, 0]]
    one, two, three = federated_shapley([0, 0], deltas, square)
    assert one == pytest.approx(two)
    assert three < 0 < one
    heavy = federated_shapley([0, 0], deltas, square, weights=[1, 1, 10])
    assert heavy[2] < three
    np.testing.assert_allclose(federated_shapley([0, 0], deltas, square, weights=[7, 7, 7]), [one, two, three])


@quick
@given(st.integers(1, 12), st.integers(0, 100))
def test_values_add_up_to_the_drop_of_the_round(clients, seed):
    rng = stream(seed, "test")
    w, deltas = rng.normal(size=2), rng.normal(size=(clients, 2))
    found = federated_shapley(w, deltas, square, samples=5, rng=rng, limit=6)
    assert found.sum() == pytest.approx(square(w) - square(w + deltas.mean(axis=0)), abs=1e-9)


def test_the_loss_cannot_change_the_model_it_is_shown():
    def spoiling(w):
        found = square(w)
        w[:] = 99
        return found

    w = np.zeros(2)
    np.testing.assert_allclose(federated_shapley(w, [[1, 0], [-1, 0]], spoiling), [2, -2])
    assert not w.any()


def test_a_round_without_updates():
    assert len(federated_shapley([0, 0], np.empty((0, 2)), square)) == 0


def test_updates_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match=r"params of shape \(2,\) and deltas of \(1, 3\) do not fit"):
        federated_shapley([0, 0], [[1, 2, 3]], square)
    for weights in ([1], [1, 0], [1, math.nan]):
        with pytest.raises(ConfigError, match="must be finite numbers above 0, one for each of 2"):
            federated_shapley([0, 0], [[1, 2], [3, 4]], square, weights=weights)
