from pathlib import Path

import numpy as np
import pytest

from fedparity.availability.phones import DAY, HOUR, Phones
from fedparity.core.errors import ConfigError
from fedparity.traces import stats
from fedparity.traces.readers import open_file

FLASH_DECILES = [0, 0, 0.001, 0.017, 0.042, 0.085, 0.124, 0.185, 0.275]
FLASH_EVENTS = Path(__file__).parents[3] / "shared/data/traces/flash_000_099_events.json.gz"
DAYS, PHONES = 10, 2000


def hour_profile(start, stop):
    """Seconds covered in each hour of the day, up to a factor."""
    edges = np.arange(0, max(stop.max(), 24 * HOUR) + DAY, HOUR)

    def before(x):  # seconds since each of `x`, summed, at each edge
        ordered = np.sort(x)
        count = np.searchsorted(ordered, edges)
        return count * edges - np.append(0, np.cumsum(ordered))[count]

    covered = np.diff(before(start) - before(stop))
    return np.bincount(np.arange(len(covered)) % 24, covered, 24)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_fits_the_figures_of_flash(seed):
    device, start, stop = Phones().sessions(PHONES, DAYS, seed)
    rates = np.bincount(device, stop - start, PHONES) / (DAYS * DAY)
    assert rates.mean() == pytest.approx(0.098, abs=0.01)
    assert np.quantile(rates, np.arange(1, 10) / 10) == pytest.approx(FLASH_DECILES, abs=0.03)
    assert (rates < 0.05).mean() == pytest.approx(0.52, abs=0.05)
    assert (rates == 0).mean() == pytest.approx(0.26, abs=0.05)
    assert np.median(stop - start) == pytest.approx(922, rel=0.25)
    assert (stop - start).mean() == pytest.approx(3423, rel=0.25)
    assert len(device) / PHONES / DAYS == pytest.approx(2.34, rel=0.25)


def test_rounds_keep_the_fit():
    rates = Phones().draw(PHONES, 48 * DAYS, 5).rates()
    assert np.quantile(rates, np.arange(1, 10) / 10) == pytest.approx(FLASH_DECILES, abs=0.03)
    assert (rates < 0.05).mean() == pytest.approx(0.52, abs=0.05)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_day_has_a_rhythm(seed):
    _, start, stop = Phones().sessions(PHONES, DAYS, seed)
    profile = hour_profile(start, stop)
    assert profile.max() / profile.min() > 1.5
    assert 9 <= profile.argmin() <= 14
    night_and_evening = profile[[18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4]].mean()
    assert night_and_evening > 1.35 * profile[9:15].mean()


def test_phones_keep_different_hours():
    # Phones that all kept the same hours would make the population's day swing wider.
    same, spread = (hour_profile(*Phones(phase_spread=s).sessions(PHONES, DAYS, 0)[1:]) for s in (0.0, 3.5))
    assert same.max() / same.min() > 1.2 * spread.max() / spread.min()


def test_start_hour_turns_the_clock():
    early, late = Phones().draw(400, 100, 1), Phones(start_hour=6.0).draw(400, 88, 1)
    assert np.array_equal(late.sizes(), early.sizes()[12:])


def test_sessions_are_sorted_disjoint_and_inside():
    device, start, stop = Phones().sessions(PHONES, 3, 4)
    assert device.dtype == np.int64
    assert start.dtype == stop.dtype == np.float64
    assert start.min() >= 0
    assert stop.max() <= 3 * DAY
    assert np.all(stop > start)
    assert np.all(np.diff(device) >= 0)
    same = np.diff(device) == 0
    assert np.all((start[1:] > stop[:-1])[same])
    assert 0 <= device.min() <= device.max() < PHONES


def test_draw_agrees_with_sessions_read_one_by_one():
    phones = Phones(round_seconds=2700.0, work_seconds=1200.0, start_hour=7.5)
    trace = phones.draw(60, 70, 2)
    device, start, stop = phones.sessions(60, 4, 2)
    for t in range(70):
        now = 7.5 * HOUR + t * 2700
        there = (start <= now) & (now < stop)
        assert np.array_equal(trace.online(t), device[there])
        assert np.array_equal(trace.staying(t), device[there & (now + 1200 <= stop)])


def test_work_only_decides_who_stays():
    short, long = Phones().draw(500, 96, 3), Phones(work_seconds=600.0).draw(500, 96, 3)
    assert short.stays is None
    assert np.array_equal(short.clients, long.clients)
    assert long.stays is not None
    assert 0.5 < long.stays.mean() < 1


def test_the_seed_decides():
    one, two, other = (Phones().draw(200, 96, s) for s in (7, 7, 8))
    assert np.array_equal(one.clients, two.clients)
    assert np.array_equal(one.starts, two.starts)
    assert not np.array_equal(one.clients, other.clients)


def test_a_longer_run_begins_like_a_shorter_one():
    assert np.array_equal(Phones().draw(200, 300, 7).head(90).clients, Phones().draw(200, 90, 7).clients)


def test_small_and_empty_populations():
    assert Phones().draw(1, 1, 0).num_rounds == 1
    nobody = Phones(never=1.0, work_seconds=60.0).draw(5, 20, 0)
    assert nobody.sizes().tolist() == [0] * 20
    assert Phones(day_charges=0.0, nights=0.0).draw(5, 20, 0).counts().tolist() == [0] * 5
    assert Phones(never=0.0, wifi=1.0, nights=1.0, breaks=0.0).draw(1, 480, 0).counts()[0] > 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("round_seconds", 0.0),
        ("round_seconds", float("inf")),
        ("work_seconds", -1.0),
        ("start_hour", 24.5),
        ("never", 1.1),
        ("wifi", -0.1),
        ("wifi_concentration", 0.0),
        ("nights", float("nan")),
        ("night_hour", -1.0),
        ("night_seconds", 0.0),
        ("day_charges", -1.0),
        ("day_hour", 25.0),
        ("day_width", float("inf")),
        ("day_seconds", -5.0),
        ("day_sigma", -0.1),
        ("phase_spread", float("nan")),
        ("breaks", -0.5),
    ],
)
def test_refuses_bad_parameters(name, value):
    with pytest.raises(ConfigError, match=name):
        Phones(**{name: value})


@pytest.mark.parametrize(("clients", "rounds", "named"), [(0, 1, "clients=0"), (1, 0, "rounds=0")])
def test_refuses_bad_sizes(clients, rounds, named):
    with pytest.raises(ConfigError, match=named):
        Phones().draw(clients, rounds, 0)
    with pytest.raises(ConfigError, match=named.replace("rounds", "days")):
        Phones().sessions(clients, rounds, 0)


def test_hour_of_day_follows_the_real_trace():
    if not FLASH_EVENTS.exists():
        pytest.skip(f"{FLASH_EVENTS} is not here")
    trace = open_file(FLASH_EVENTS).intervals
    _, start, stop = Phones().sessions(4 * PHONES, DAYS, 0)
    real, here = stats.hour_profile(trace), hour_profile(start, stop) * 24 / (4 * PHONES * DAYS * DAY)
    assert np.corrcoef(real, here)[0, 1] > 0.8  # .85 measured; 100 devices leave .02 of noise on an hour of .1
    assert np.abs(real - here).max() < 0.03
