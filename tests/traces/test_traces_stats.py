"""Figures of a trace against plain loops, and phones fitted to a trace."""

import itertools
import tomllib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedparity.availability import AVAILABILITY, Phones
from fedparity.core.errors import ConfigError
from fedparity.traces import Intervals
from fedparity.traces.fit import fit_phones, phones_intervals
from fedparity.traces.stats import LAGS, MOST_DEVICES, autocorrelation, availability, hour_profile, trace_stats

STEP = 900  # seconds; all times below are whole steps, so that sums over steps are exact


@st.composite
def tables(draw):
    n = draw(st.integers(1, 3))
    first, last, device, start, end = [], [], [], [], []
    for k in range(n):
        first.append(STEP * draw(st.integers(0, 100)))
        steps = draw(st.sampled_from([0, 3, 96, 150, 192]))
        last.append(first[-1] + STEP * steps)
        cuts = sorted(draw(st.sets(st.integers(0, steps), max_size=12)))
        pairs = itertools.pairwise(cuts) if draw(st.booleans()) else zip(cuts[::2], cuts[1::2], strict=False)
        for low, high in pairs:
            device.append(k)
            start.append(first[-1] + STEP * low)
            end.append(first[-1] + STEP * high)
    floats = [np.array(x, dtype=np.float64) for x in (first, last, start, end)]
    return Intervals(
        tuple(map(str, range(n))), floats[0], floats[1], np.array(device, dtype=np.int64), floats[2], floats[3]
    )


def steps(table, k):
    """Whether device k is ready in each step of its span."""
    grid = np.arange(table.first_seen[k], table.last_seen[k], STEP)
    ready = np.zeros(len(grid), dtype=bool)
    for d, low, high in zip(table.device, table.start, table.end, strict=True):
        ready |= (d == k) & (grid >= low) & (grid < high)
    return grid, ready


@given(tables())
@settings(max_examples=60)
def test_figures_agree_with_sums_over_steps(table):
    n = len(table.names)
    grids = [steps(table, k) for k in range(n)]
    shares = [ready.mean() if len(ready) else 0.0 for _, ready in grids]
    found = trace_stats(table)
    assert availability(table) == pytest.approx(shares)
    assert found.mean == pytest.approx(np.mean(shares))
    assert found.never == sum(s == 0 for s in shares)
    assert found.below_half == sum(s < 0.5 for s in shares)

    ready, seen = np.zeros(24), np.zeros(24)
    for grid, online in grids:
        hours = (grid % 86400 // 3600).astype(int)
        if len(grid):
            np.add.at(ready, hours, online / len(grid))
            np.add.at(seen, hours, 1 / len(grid))
        else:
            seen += 1 / 24
    assert hour_profile(table) == pytest.approx(np.divide(ready, seen, out=np.zeros(24), where=seen > 1e-9), abs=1e-9)

    runs = [np.count_nonzero(np.diff(np.append(0, online.astype(int))) == 1) for _, online in grids]
    assert found.sessions_per_device == pytest.approx(sum(runs) / n)

    for lag, value in zip(LAGS, autocorrelation(table), strict=True):
        shift = int(lag * 3600 / STEP)
        top = bottom = 0.0
        for (_, online), share in zip(grids, shares, strict=True):
            if len(online) > shift:
                a, b = online[:-shift].astype(float), online[shift:].astype(float)
                top += (a * b).sum() - a.sum() * b.sum() / len(a)
                bottom += len(a) * share * (1 - share)
        assert value == (None if bottom == 0 else pytest.approx(top / bottom, abs=1e-9))


def test_nobody_ever_ready():
    none = Intervals(("a", "b"), np.zeros(2), np.array([0.0, 86400.0]), np.empty(0, np.int64), np.empty(0), np.empty(0))
    found = trace_stats(none)
    assert (found.never, found.mean, found.sessions_per_device) == (2, 0, 0)
    assert found.median_session_s is None
    assert found.pair_correlation is None
    assert set(found.autocorrelation.values()) == {None}
    assert found.hours == (0.0,) * 24


def test_devices_that_move_together_are_correlated():
    n = 20
    start = np.tile(np.arange(3) * 86400.0, n)
    same = Intervals(
        tuple(map(str, range(n))),
        np.zeros(n),
        np.full(n, 3 * 86400.0),
        np.repeat(np.arange(n), 3),
        start,
        start + 30000,
    )
    assert trace_stats(same).pair_correlation == pytest.approx(1)
    drawn = phones_intervals(200, 5, *Phones().sessions(200, 5, 1))
    assert abs(trace_stats(drawn).pair_correlation) < 0.05


def test_json_holds_what_is_promised():
    found = trace_stats(phones_intervals(50, 2, *Phones().sessions(50, 2, 1)), events=7).to_json()
    promised = {"devices", "events", "below_5pct", "below_half", "never", "mean", "deciles"}
    promised |= {"sessions_per_device", "median_session_s"}
    assert promised <= set(found)
    assert found["events"] == 7
    assert len(found["deciles"]) == 9
    assert len(found["hours"]) == 24


def test_a_large_trace_is_sampled_by_seed():
    n = MOST_DEVICES + 500
    table = phones_intervals(n, 2, *Phones().sessions(n, 2, 1))
    assert autocorrelation(table, 1) == autocorrelation(table, 1)
    assert autocorrelation(table, 1) != autocorrelation(table, 2)
    assert autocorrelation(table, 1)[1] == pytest.approx(autocorrelation(table, 2)[1], abs=0.05)


def test_phones_are_fitted_to_a_trace():
    asked = Phones(never=0.4, wifi=0.8, wifi_concentration=5.0, day_charges=9.0, night_hour=14.0)
    table = phones_intervals(150, 3, *asked.sessions(150, 3, 4))
    plain = fit_phones(table, seed=1, steps=1, phones=60)
    fit = fit_phones(table, seed=1, steps=60, phones=60)
    again = fit_phones(table, seed=1, steps=60, phones=60)
    assert fit.distance < plain.distance
    assert fit.phones == again.phones
    assert AVAILABILITY.build(fit.component()) == fit.phones
    read = tomllib.loads(fit.toml('a "b"\nc'))
    assert AVAILABILITY.build(read["availability"]) == fit.phones
    assert Phones(**read["phones"]) == fit.phones
    assert read["figures"]["mean"]["trace"] == pytest.approx(availability(table).mean(), rel=1e-4)
    assert "autocorrelation_0.5h" in read["figures"]


def test_a_fit_needs_steps():
    table = phones_intervals(20, 1, *Phones().sessions(20, 1, 4))
    with pytest.raises(ConfigError, match="steps=0"):
        fit_phones(table, steps=0)
