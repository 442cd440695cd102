"""Availability models against their formulas."""

from __future__ import annotations

import numpy as np
import pytest

from fedparity.availability import (
    Adversarial,
    Bernoulli,
    BetaRates,
    Bursty,
    Cyclic,
    Diurnal,
    LabelSkewed,
    LogNormalRates,
    Markov,
    Outages,
    PaperLike,
    Staircase,
)
from fedparity.core.errors import ConfigError


def test_bernoulli_meets_given_rates_and_rounds_are_independent():
    rates = (0.05, 0.3, 0.7, 1.0, 0.0)
    online = Bernoulli(rates=rates).draw(5, 20_000, 1).matrix()
    assert online.mean(axis=0) == pytest.approx(rates, abs=0.017)  # five standard errors
    for k in range(3):
        assert abs(np.corrcoef(online[1:, k], online[:-1, k])[0, 1]) < 0.04
    assert abs(np.corrcoef(online[:, 1], online[:, 2])[0, 1]) < 0.04


@pytest.mark.parametrize("clients", [2, 4])
def test_rates_and_labels_are_one_a_client(clients):
    with pytest.raises(ConfigError, match=f"rates has 3 values for {clients} clients"):
        Bernoulli(rates=(0.1, 0.2, 0.3)).draw(clients, 5, 0)
    with pytest.raises(ConfigError, match=f"labels has 3 values for {clients} clients"):
        LabelSkewed(labels=(1, 2, 3)).draw(clients, 5, 0)


def test_beta_rates_have_the_moments_of_their_law():
    rates = BetaRates().client_rates(50_000, 0)
    assert rates.mean() == pytest.approx(0.1, abs=0.004)
    assert rates.var() == pytest.approx(0.1 * 0.9 / 5, abs=0.001)


def test_lognormal_rates_are_scaled_to_one():
    rates = LogNormalRates(0.5).client_rates(20_000, 0)
    assert rates.max() == 1
    assert np.log(rates).std() == pytest.approx(0.5, abs=0.01)
    assert np.array_equal(LogNormalRates(0).client_rates(4, 0), np.ones(4))


def test_label_skew_is_mifas_formula():
    assert LabelSkewed(0.1).client_rates(12, 0) == pytest.approx([0.1 + 0.1 * (k % 10) for k in range(12)])
    assert LabelSkewed(0.2, 3, (2, 0, 1)).client_rates(3, 0) == pytest.approx([1, 0.2, 0.6])


def bands(rates):
    return [int(np.sum((rates >= a) & (rates < b))) for a, b in ((0.005, 0.05), (0.05, 0.5), (0.5, 1.0))]


@pytest.mark.parametrize("seed", range(3))
def test_paper_like_has_the_bands_of_the_paper(seed):
    rates = PaperLike().client_rates(100, seed)
    assert bands(rates) == [21, 42, 37]
    assert bands(rates[:50]) != [21, 29, 0]
    assert bands(PaperLike().client_rates(1000, seed)) == [210, 420, 370]
    assert [sum(bands(PaperLike().client_rates(n, seed))) for n in (1, 2, 3, 7)] == [1, 2, 3, 7]


@pytest.mark.parametrize(("pi", "nu"), [(0.3, 0.8), (0.7, 0.5), (0.2, 0.0)])
def test_markov_is_stationary_with_correlation_nu(pi, nu):
    online = Markov(pi=pi, nu=nu).draw(4000, 40, 2).matrix()
    assert online.mean(axis=1) == pytest.approx(np.full(40, pi), abs=0.04)  # from the first round on
    before, after = online[:-1], online[1:]
    assert after[before].mean() == pytest.approx(nu + (1 - nu) * pi, abs=0.015)
    assert after[~before].mean() == pytest.approx((1 - nu) * pi, abs=0.015)
    assert np.corrcoef(before.ravel(), after.ravel())[0, 1] == pytest.approx(nu, abs=0.015)
    assert np.corrcoef(online[:-3].ravel(), online[3:].ravel())[0, 1] == pytest.approx(nu**3, abs=0.02)


def test_markov_frozen_never_changes():
    online = Markov(pi=0.5, nu=1).draw(200, 30, 0).matrix()
    assert np.all(online == online[0])
    assert 0 < online[0].sum() < 200


def test_diurnal_follows_its_sine():
    online = Diurnal(low=1, high=1, spread=0).draw(3000, 48, 1).matrix()
    expected = 0.4 * np.sin(2 * np.pi * np.arange(48) / 24) + 0.5
    assert online.mean(axis=1) == pytest.approx(expected, abs=0.05)
    flat = Diurnal(low=1, high=1, spread=1).draw(3000, 48, 1).matrix().mean(axis=1)
    assert flat == pytest.approx(np.full(48, 0.5), abs=0.05)


def test_staircase_steps_down_and_up():
    level = Staircase(5, 0.4, 0.8, 0.8).draw(4000, 20, 1).matrix().mean(axis=1)
    assert level == pytest.approx(np.tile(np.repeat([0.8, 0.32], 5), 2), abs=0.04)


def test_cyclic_is_exact_in_every_window_of_a_period():
    model = Cyclic(20, 0.07, 1)
    online = model.draw(300, 70, 3).matrix()
    expected = np.rint(model.client_rates(300, 3) * 20)
    for begin in (0, 7, 33, 50):
        assert np.array_equal(online[begin : begin + 20].sum(axis=0), expected)
    assert np.array_equal(online[:50], online[20:])
    runs = Cyclic(10, 0.5, 0.5).draw(50, 100, 0).sessions()
    assert np.all(runs[(runs[:, 1] > 0) & (runs[:, 1] + runs[:, 2] < 100), 2] == 5)


def test_cyclic_does_not_round_up_an_exact_product():
    assert np.array_equal(Cyclic(100, 0.07, 0.07).client_rates(3, 0), np.full(3, 0.07))


@pytest.mark.parametrize(("by", "groups"), [("block", 5), ("label", 10)])
def test_outages_take_whole_groups(by, groups):
    model = Outages(rate=0.05, length=5, low=1, high=1, by=by)
    online = model.draw(50, 4000, 1).matrix()
    group = model.group(50)
    assert sorted(set(group.tolist())) == list(range(groups))
    for g in range(groups):
        members = online[:, group == g]
        assert np.all(members == members[:, :1])
    assert online.mean() == pytest.approx(0.95**5, abs=0.02)
    gaps = model.draw(50, 4000, 1).gaps()
    assert gaps.min() == 5


def test_outages_correlate_within_a_group_and_not_across():
    model = Outages(groups=2, low=0.8, high=0.8)
    together = np.corrcoef(model.draw(20, 6000, 4).matrix().T)
    assert together[0, 1:10].min() > 0.3
    assert np.abs(together[0, 10:]).max() < 0.2


def test_bursty_is_stationary_at_its_rates_from_the_first_round():
    for tail in (1.3, 2.5):
        model = Bursty(tail=tail, low=0.3, high=0.3)
        share = model.draw(5000, 60, 1).matrix().mean(axis=1)
        assert share == pytest.approx(np.full(60, 0.3), abs=0.04)


def test_bursty_sojourns_have_their_mean_and_tail():
    model = Bursty(tail=3, mean_on=20, low=0.5, high=0.5)
    runs = model.draw(300, 3000, 2).sessions()
    inner = runs[(runs[:, 1] > 0) & (runs[:, 1] + runs[:, 2] < 3000), 2]
    assert inner.mean() == pytest.approx(20, rel=0.03)
    shortest = 20 * 2 / 3
    for times in (2, 3):
        assert np.mean(inner >= times * shortest) == pytest.approx(times**-3.0, rel=0.15)


def test_bursty_at_rate_one_never_leaves():
    assert Bursty(low=1, high=1).draw(20, 50, 0).matrix().all()


def test_departures_are_for_good_and_one_after_another():
    trace = Adversarial().draw(50, 100, 3)
    online = trace.matrix()
    assert online[0].all()
    assert np.all(online[1:] <= online[:-1])
    assert np.array_equal(np.sort(trace.counts()), np.arange(2, 101, 2))
    assert trace.counts().tolist() != sorted(trace.counts())
    assert Adversarial().draw(7, 3, 0).matrix()[0].all()


def test_crowding_brings_the_other_half_together():
    online = Adversarial("crowding", every=10).draw(41, 100, 3).matrix()
    regular = online.all(axis=0)
    assert regular.sum() == 21
    assert np.all(online[:, ~regular] == (np.arange(100) % 10 == 0)[:, None])


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Bernoulli(low=-0.1), "low=-0.1"),
        (lambda: Bernoulli(low=0.5, high=0.4), "high=0.4"),
        (lambda: Bernoulli(rates=(0.5, 1.5)), "rates=1.5"),
        (lambda: BetaRates(a=0), "a=0"),
        (lambda: LogNormalRates(-1), "sigma=-1"),
        (lambda: LabelSkewed(p_min=2), "p_min=2"),
        (lambda: LabelSkewed(classes=1), "classes=1"),
        (lambda: LabelSkewed(labels=(10,)), "labels=10"),
        (lambda: Markov(pi=1.2), "pi=1.2"),
        (lambda: Markov(nu=-0.2), "nu=-0.2"),
        (lambda: Diurnal(period=0), "period=0"),
        (lambda: Staircase(factor=1.1), "factor=1.1"),
        (lambda: Outages(length=0), "length=0"),
        (lambda: Outages(by="region"), "by='region'"),
        (lambda: Bursty(tail=1), "tail=1"),
        (lambda: Bursty(mean_on=0.5), "mean_on=0.5"),
        (lambda: Bursty(low=0), "low=0"),
        (lambda: Adversarial(kind="nice"), "kind='nice'"),
        (lambda: Adversarial(every=0), "every=0"),
    ],
)
def test_bounds_are_refused_by_name(make, named):
    with pytest.raises(ConfigError, match=named):
        make()
