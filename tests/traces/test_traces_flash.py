"""FLASH events: the figures of the real file, the states against a plain loop, and one clear error for damage."""

import gzip
import importlib.util
import json
import random
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedparity.core.errors import ConfigError, InputError
from fedparity.traces.flash import EVENTS, read_events
from fedparity.traces.intervals import join
from fedparity.traces.readers import open_file
from fedparity.traces.stats import trace_stats

DATA = Path(__file__).parents[3] / "shared/data/traces"
FLASH = DATA / "flash_000_099_events.json.gz"


@pytest.fixture(scope="module")
def real():
    if not FLASH.exists():
        pytest.skip(f"{FLASH} is not here")
    return read_events(FLASH)


def test_the_real_file_gives_the_known_figures(real):
    s = trace_stats(real.intervals())
    assert len(real.device) == 106_248
    assert (s.devices, s.below_5pct, s.below_half, s.never) == (100, 52, 99, 26)
    assert s.mean == pytest.approx(0.098, abs=5e-4)
    assert s.deciles == pytest.approx([0, 0, 0.001, 0.017, 0.042, 0.085, 0.124, 0.185, 0.275], abs=5.1e-4)
    assert s.median_session_s == 922
    assert s.mean_session_s == pytest.approx(3423, abs=0.5)
    assert s.sessions_per_device == pytest.approx(10.3, abs=0.05)


def test_wifi_never_cleared_is_the_other_reading(real):
    s = trace_stats(real.intervals(wifi_cleared=False))
    assert (s.below_5pct, s.below_half) == (23, 97)


def test_spans_are_whole_days(real):
    intervals = real.intervals()
    days = (intervals.last_seen - intervals.first_seen) / 86400
    assert np.array_equal(days, days.round())
    assert 1 <= days.min() <= days.max() <= 10
    assert 0 <= intervals.first_seen.min() < 86400  # seconds since the earliest midnight


def test_the_thousand_devices(real):
    others = open_file(
        DATA / "flash_100_999_locked_intervals.csv.gz", devices=DATA / "flash_100_999_devices.csv"
    ).intervals
    ours = real.intervals("charging & wifi & locked", epoch="2020-01-02")
    s = trace_stats(join([ours, others]))
    assert (s.devices, s.below_5pct, s.never) == (1000, 630, 296)
    assert s.mean == pytest.approx(0.067, abs=5e-4)


def test_the_replay_of_the_reading(real):
    trace = real.intervals().replay(200, 1800.0, 30 * 3600.0)
    assert trace.sizes().mean() == pytest.approx(9.94)
    assert (trace.counts() == 0).sum() == 34


def stamp(second):
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S")


def write(folder, devices, name="t.json"):
    path = Path(folder) / name
    text = json.dumps({key: {"guid": key, "model": "x", "messages": value} for key, value in devices.items()})
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def naive(events, ready, *, wifi_cleared=True, open_end=True):
    """One device, second by second of its events."""
    state = {"charging": False, "wifi": False, "locked": False, "screen_on": True, "battery": float("nan")}
    found, since = [], None
    times = sorted({t for t, _ in events})
    for now in times:
        for _, event in [e for e in events if e[0] == now]:
            if event.endswith("%"):
                state["battery"] = float(event[:-1])
            elif event == "wifi":
                state["wifi"] = True
            elif event in ("Unknown", "2G", "3G", "4G", "5G"):
                state["wifi"] = state["wifi"] and not wifi_cleared
            else:
                key = {"battery_charged": "charging", "screen_": "screen_on"}
                if event in ("screen_lock", "screen_unlock"):
                    state["locked"] = event == "screen_lock"
                else:
                    state[key["screen_" if event.startswith("screen") else "battery_charged"]] = event.endswith("_on")
        if ready(state) and since is None:
            since = now
        elif not ready(state) and since is not None:
            found.append((since, now))
            since = None
    if since is not None and open_end and since < times[-1]:
        found.append((since, times[-1]))
    return found


NAMES = [*EVENTS[:6], "Unknown", "2G", "3G", "4G", "5G", "wifi", "wifi", "battery_charged_on", "50.0%", "9%", "100.0%"]
RULES = {
    "charging & wifi": lambda s: s["charging"] and s["wifi"],
    "wifi & (screen_off | locked)": lambda s: s["wifi"] and (not s["screen_on"] or s["locked"]),
    "battery>=50 & !locked": lambda s: s["battery"] >= 50 and not s["locked"],
}
DEVICE = st.lists(st.tuples(st.integers(1_580_000_000, 1_580_000_030), st.sampled_from(NAMES)), max_size=25)


@given(st.lists(DEVICE, min_size=1, max_size=3), st.sampled_from(sorted(RULES)), st.booleans(), st.booleans())
def test_states_agree_with_a_plain_loop(tmp_path_factory, devices, rule, cleared, open_end):
    if not any(devices):
        devices = [*devices, [(1_580_000_000, "wifi")]]
    folder = tmp_path_factory.mktemp("flash")
    messages = {str(k): "".join(f"{stamp(t)} \t{e}\n" for t, e in events) for k, events in enumerate(devices)}
    found = open_file(
        write(folder, messages), rule, wifi_cleared=cleared, open_end=open_end, epoch="1970-01-01", form="flash"
    ).intervals
    first = min(t for events in devices for t, _ in events)
    for k, events in enumerate(devices):
        mine = list(zip(found.start[found.device == k], found.end[found.device == k], strict=True))
        assert mine == naive(events, RULES[rule], wifi_cleared=cleared, open_end=open_end)
        span = [t for t, _ in events] or [first]
        assert (found.first_seen[k], found.last_seen[k]) == (min(span), max(span))


def test_events_of_one_second_are_applied_together(tmp_path):
    lines = ["battery_charged_on", "wifi", "4G"], ["wifi"], ["battery_charged_off", "battery_charged_on"], ["2G"]
    text = "".join(f"{stamp(100 * k)}\t{e}\n" for k, events in enumerate(lines) for e in events)
    found = open_file(write(tmp_path, {"a": text}), form="flash").intervals
    assert list(zip(found.start, found.end, strict=True)) == [(100, 300)]


def test_lines_may_be_out_of_order_padded_and_packed(tmp_path):
    text = f"\n{stamp(50)} \tWIFI \r\n\n  {stamp(0)}\tbattery_charged_on\n{stamp(90)}\t3g\n"
    for name in ("t.json", "t.json.gz"):
        found = open_file(write(tmp_path, {"a": text}, name), form="flash").intervals
        assert (found.first_seen[0], found.last_seen[0]) == (0, 90)
        assert list(zip(found.start, found.end, strict=True)) == [(50, 90)]


GOOD = "2020-01-29 18:42:18 \tscreen_off\n\n2020-01-29 18:42:19 \twifi\n"


@pytest.mark.parametrize(
    ("messages", "line", "says"),
    [
        (GOOD + "2020-01-29 18:42:20 \tsleeps\n", 4, "unknown event 'sleeps'; known: battery_charged_off"),
        (GOOD + "2020-01-29 18:42:20 \t\n", 4, "unknown event ''"),
        (GOOD + "2020-01-29 18:42:20 wifi\n", 4, "is not a time"),
        (GOOD + "2020-01-29 18:42:20 \t101%\n", 4, "unknown event '101%'"),
        (GOOD + "2020-01-29 18:42:20 \tnan%\n", 4, "unknown event 'nan%'"),
        (GOOD.replace("18:42:19", "18:42:60"), 3, "is not a time"),
        (GOOD.replace("2020-01-29 18:42:19", "2021-02-29 18:42:19"), 3, "is not a time"),
        (GOOD.replace("2020-01-29 18:42:19", "2020-13-01 18:42:19"), 3, "is not a time"),
        (GOOD.replace("2020-01-29 18:42:19", "2020-01-29T18:42:19"), 3, "is not a time"),
        (GOOD.replace("2020-01-29 18:42:19", "2020-01-29 18:42:1٣"), 3, "is not a time"),
        (GOOD.replace("2020-01-29 18:42:19", "yesterday"), 3, "'yesterday' is not a time; write it as"),
    ],
)
def test_a_bad_line_is_named_with_file_device_and_line(tmp_path, messages, line, says):
    path = write(tmp_path, {"0": GOOD, "17": messages})
    with pytest.raises(InputError) as caught:
        open_file(path, form="flash")
    assert str(caught.value).startswith(f"{path}: device '17', line {line} of its messages: ")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", ":1: not JSON"),
        ('{"a":\n\n 5,}', ":3: not JSON"),
        ("[]", "not FLASH events"),
        ("{}", "not FLASH events"),
        ("5", "not FLASH events"),
        ('{"a": 5}', "device 'a': key 'messages'"),
        ('{"a": {"messages": 5}}', "device 'a': key 'messages'"),
        ('{"a": {}}', "device 'a': key 'messages'"),
        ('{"a": {"messages": ""}, "a": {"messages": ""}}', "key 'a' is given twice"),
        ('{"a": {"messages": ""}}', "no device has an event"),
        ('{"": {"messages": ""}}', "device '' is not a name"),
        ('{"a\\nb": {"messages": ""}}', "is not a name"),
        ("[" * 200_000, "not JSON"),
        ('{"a": ' + "9" * 5000 + "}", "not JSON"),
    ],
)
def test_a_bad_file_is_one_error(tmp_path, text, says):
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        open_file(path, form="flash")
    assert str(caught.value).startswith(str(path))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_arguments_are_refused(tmp_path):
    path = write(tmp_path, {"a": GOOD})
    for epoch in ("2020-02-30", "today", "2020-01-02 "):
        with pytest.raises(ConfigError, match="epoch="):
            open_file(path, epoch=epoch, form="flash")
    with pytest.raises(ConfigError, match="unknown state 'wify'"):
        open_file(path, "wify", form="flash")


def damaged(rng, data):
    """A file with a few bytes changed, cut, doubled or swapped."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data)) if data else 0
        match rng.randrange(5):
            case 0:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del data[at : at + rng.randint(1, 30)]
            case 2:
                data[at:at] = data[at : at + rng.randint(1, 30)]
            case 3:
                data[at:at] = rng.choice([b"\t", b"\\n", b'"', b"{", b"%", b"\\u0000", b"\\ud800", b"-", b"9" * 20])
            case _:
                del data[at:]
    return bytes(data)


def fuzz(tmp_path, count):
    rng = random.Random(5)
    messages = "".join(f"2020-01-{d:02d} 0{d}:1{d}:00 \t{e}\n" for d, e in enumerate(["wifi", "5.0%", "2G"], 1))
    good = write(tmp_path, {"0": messages, "x": GOOD}).read_bytes()
    refused = 0
    for k in range(count):
        name = "f.json.gz" if k % 10 == 0 else "f.json"
        path = tmp_path / name
        path.write_bytes(damaged(rng, gzip.compress(good) if k % 10 == 0 else good))
        try:
            open_file(path, form="flash").intervals.replay(3)
        except InputError as error:
            refused += str(path) in str(error) or pytest.fail(f"{error} does not name {path}")
    return refused


def test_damaged_files_give_typed_errors_only(tmp_path):
    assert fuzz(tmp_path, 500) > 200


@pytest.mark.slow
def test_five_thousand_damaged_files_give_typed_errors_only(tmp_path):
    assert fuzz(tmp_path, 5000) > 2000


@pytest.mark.slow
def test_a_million_events_are_read(tmp_path, capsys):
    root = Path(__file__).parents[2]
    spec = importlib.util.spec_from_file_location("bench_traces", root / "benchmarks/traces.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    path = bench.flash_file(tmp_path / "big.json", devices=1000, events=1000)
    start = time.perf_counter()
    events = read_events(path)
    intervals = events.intervals()
    with capsys.disabled():
        print(f"\n10^6 FLASH events: {time.perf_counter() - start:.1f} s")  # noqa: T201 - the figure is what this is for
    assert len(events.device) == 1_000_000
    assert len(intervals.names) == 1000
    assert len(intervals.device) > 1000
