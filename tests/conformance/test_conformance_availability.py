"""What every availability model promises, over the whole table."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fedparity.availability import AVAILABILITY
from fedparity.core.errors import ConfigError
from fedparity.testing import check_availability

NAMES = sorted(AVAILABILITY)
VARIANTS = [*NAMES, "adversarial:kind=crowding", "outages:by=label", "markov:pi=.3,nu=0", "diurnal:spread=0"]
HORIZON_BOUND = {"adversarial"}  # departures are spread over the run, so a longer run is another trace


@pytest.mark.parametrize("text", VARIANTS)
def test_laws_of_everybody_s_models(text):
    check_availability(text, by_horizon=text in HORIZON_BOUND)


@pytest.mark.parametrize("text", [text for text in VARIANTS if text != "always"])
def test_another_seed_gives_another_trace(text):
    model = AVAILABILITY.build(text)
    assert not np.array_equal(model.draw(50, 80, 5).matrix(), model.draw(50, 80, 6).matrix())


@pytest.mark.parametrize("text", VARIANTS)
def test_somebody_is_there(text):
    sizes = AVAILABILITY.build(text).draw(60, 60, 2).sizes()
    assert 0 < sizes.mean() <= 60


@pytest.mark.parametrize("name", [n for n in NAMES if hasattr(AVAILABILITY[n], "client_rates")])
def test_rates_keep_their_range_and_are_met(name):
    model = AVAILABILITY.build(name)
    rates = model.client_rates(400, 9)
    assert rates.shape == (400,)
    assert np.all((rates > 0) & (rates <= 1))
    if hasattr(model, "low"):
        assert np.all((rates >= model.low) & (rates <= model.high))
    online = np.mean([model.draw(400, 1, 9).matrix()[0], model.draw(400, 200, 9).rates()], axis=1)
    # 400 stationary clients: the first round alone is within five standard errors of the mean rate.
    assert online[0] == pytest.approx(rates.mean(), abs=5 * 0.5 / 20)
    assert online[1] == pytest.approx(rates.mean(), abs=0.06)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("clients", "rounds", "named"), [(0, 5, "clients=0"), (-3, 5, "clients=-3"), (5, 0, "rounds=0")]
)
def test_a_trace_of_nothing_is_refused(name, clients, rounds, named):
    with pytest.raises(ConfigError, match=named):
        AVAILABILITY.build(name).draw(clients, rounds, 0)


@pytest.mark.parametrize("name", NAMES)
def test_the_table_describes_it(name):
    shown = AVAILABILITY.describe(name)
    model = AVAILABILITY.build(name)
    assert shown["summary"].endswith(".")
    assert shown["parameters"] == {f.name: getattr(model, f.name) for f in dataclasses.fields(model)}
    assert AVAILABILITY[name].__dataclass_params__.frozen


@pytest.mark.parametrize("name", NAMES)
def test_every_number_refuses_what_is_no_number(name):
    model = AVAILABILITY.build(name)
    numbers = [f.name for f in dataclasses.fields(model) if isinstance(getattr(model, f.name), float)]
    for field in numbers:
        for bad in (float("nan"), float("inf"), -1.0):
            with pytest.raises(ConfigError, match=field):
                type(model)(**{field: bad})
    whole = [f.name for f in dataclasses.fields(model) if isinstance(getattr(model, f.name), int)]
    for field in whole:
        with pytest.raises(ConfigError, match=field):
            type(model)(**{field: 0})
    assert len(numbers) + len(whole) <= len(dataclasses.fields(model))
