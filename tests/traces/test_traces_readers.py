"""Any trace file through one door: told by content, options only where they mean something, tables, samples."""

import gzip
import json
import pickle  # noqa: TID251 - only to write a file
import random
from pathlib import Path

import numpy as np
import pytest

from fedparity.core.errors import ConfigError, InputError
from fedparity.traces import Intervals, load_trace
from fedparity.traces.intervals import join
from fedparity.traces.readers import detect, open_file

DAY = 86400.0
TABLE = "device_id,start_s,end_s\na,3600,7200\nb,10,20\na,0,60\n"
SEEN = "device_id,first_s,last_s\na,0,86400\nb,5,86405\nc,,\n"
FLASH = json.dumps(
    {"a": {"messages": "2020-01-01 01:00:00\twifi\n2020-01-01 02:00:00\tbattery_charged_on\n2020-01-01 03:00:00\t4G\n"}}
)
FEDSCALE = pickle.dumps({1: {"active": [10], "inactive": [30], "finish_time": 100}})
PLAIN = "# fedparity-trace 1\nclient,first_seen_s,last_seen_s\na,0,100\n\nclient,start_s,end_s\na,10,30\n"
KINDS = {"flash": FLASH.encode(), "fedscale": FEDSCALE, "intervals": TABLE.encode(), "plain": PLAIN.encode()}


def write(folder, data, name="t"):
    path = Path(folder) / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def rows(found):
    return list(zip([found.names[k] for k in found.device], found.start, found.end, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packed", [False, True])
def test_content_tells_the_kind(tmp_path, kind, packed):
    data = KINDS[kind]
    path = write(tmp_path, gzip.compress(data) if packed else data, "t.gz" if packed else "t")
    assert detect(data) == kind
    opened = open_file(path)
    assert opened.format == kind
    assert rows(opened.intervals) == rows(open_file(path, form=kind).intervals)
    assert (opened.events is not None) == (kind == "flash")


def test_what_each_kind_holds(tmp_path):
    assert rows(open_file(write(tmp_path, FLASH)).intervals) == [("a", 7200, 10800)]
    assert rows(open_file(write(tmp_path, FLASH), "wifi").intervals) == [("a", 3600, 10800)]
    assert rows(open_file(write(tmp_path, FEDSCALE)).intervals) == [("1", 10, 30)]
    assert rows(open_file(write(tmp_path, PLAIN)).intervals) == [("a", 10, 30)]


def test_tables_with_and_without_devices(tmp_path):
    path = write(tmp_path, TABLE)
    alone = open_file(path).intervals
    assert rows(alone) == [("a", 0, 60), ("a", 3600, 7200), ("b", 10, 20)]
    assert (alone.first_seen.tolist(), alone.last_seen.tolist()) == ([0, 0], [DAY, DAY])
    both = open_file(path, devices=write(tmp_path, SEEN, "d.csv")).intervals
    assert both.names == ("a", "b", "c")
    assert both.first_seen.tolist() == [0, 5, 0]
    assert both.last_seen.tolist() == [DAY, DAY + 5, 0]  # c was seen at no known time: a span of nothing
    assert both.replay(48, 1800.0).counts()[2] == 0
    other = "id, start ,end,model\na,1,2,x\nb,5,5,y\n"
    assert rows(open_file(write(tmp_path, other)).intervals) == [("a", 1, 2)]


@pytest.mark.parametrize(
    ("table", "seen", "says"),
    [
        (TABLE.replace("b,10,20", "z,10,20"), SEEN, "t:3: client 'z' is not in"),
        (TABLE.replace("b,10,20", "b,10"), SEEN, "t:3: 2 columns found; write the 3"),
        (TABLE.replace("b,10,20", "b,ten,20"), SEEN, "t:3: 'ten' is not a number"),
        (TABLE.replace("b,10,20", "b,,20"), SEEN, "t:3: '' is not a number"),
        (TABLE.replace("b,10,20", "b,nan,20"), SEEN, "t:3: 'nan' is not a number"),
        (TABLE.replace("b,10,20", "b,10,inf"), SEEN, "t:3: 'inf' is not a number"),
        (TABLE.replace("b,10,20", "b,30,20"), SEEN, "t:3: end_s=20.0 must be after"),
        (TABLE.replace("b,10,20", "b,1,20"), SEEN, "t:3: 1.0..20.0 lies outside"),
        (TABLE.replace("a,0,60", "a,0,3601"), SEEN, "t:2: 3600.0..7200.0 overlaps"),
        (TABLE + '"a,0,1\n', SEEN, "not CSV"),
        (TABLE, SEEN.replace("c,,", "c,5,"), "d.csv:4: one of two times is missing"),
        (TABLE, SEEN.replace("c,,", "a,0,86400"), "d.csv:4: client 'a' is listed twice"),
        (TABLE, SEEN.replace("c,,", "c,7,5"), "d.csv:4: last_seen_s=5.0 is before"),
        (TABLE, "device_id,first_s\n", "d.csv:1: no column 'last_seen_s'"),
        (TABLE, "", "d.csv:1: no column 'client'"),
        (TABLE, "id,first,last\na,,\nb,,\n", "d.csv:2: no device has times"),
        (TABLE, "id,first,last\n", "t:2: client 'a' is not in"),
        ("id,start,end\n", None, "no intervals"),
        ("id,start,end\n", "id,first,last\n", "d.csv:1: no devices"),
    ],
)
def test_a_bad_table_is_one_error_with_file_and_line(tmp_path, table, seen, says):
    path = write(tmp_path, table)
    devices = None if seen is None else write(tmp_path, seen, "d.csv")
    with pytest.raises(InputError) as caught:
        open_file(path, devices=devices, form="intervals")
    assert f"{tmp_path}/" in str(caught.value)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        ("plain", {"rule": "wifi"}, "rule is for files of events"),
        ("fedscale", {"wifi_cleared": False}, "wifi_cleared=False is for files of events"),
        ("intervals", {"open_end": False}, "open_end=False is for"),
        ("intervals", {"epoch": "2020-01-01"}, "epoch is for files of events"),
        ("flash", {"devices": "d.csv"}, "devices is for tables of intervals"),
        ("flash", {"rule": "wify"}, "unknown state 'wify'"),
        ("flash", {"form": "flsh"}, "did you mean 'flash'"),
    ],
)
def test_options_that_mean_nothing_are_refused(tmp_path, kind, given, says):
    with pytest.raises(ConfigError, match=says):
        open_file(write(tmp_path, KINDS[kind]), **given)


def test_load_trace_takes_every_kind(tmp_path):
    trace = load_trace(write(tmp_path, FLASH), rounds=3, round_seconds=1800.0)
    assert [ids.tolist() for ids in trace] == [[], [], [0]]
    assert load_trace(write(tmp_path, FLASH), rule="wifi", rounds=1).sizes().tolist() == [1]
    assert load_trace(write(tmp_path, FEDSCALE), round_seconds=10.0).counts().tolist() == [2]
    devices = write(tmp_path, SEEN, "d.csv")
    assert load_trace(write(tmp_path, TABLE), round_seconds=1800.0, devices=devices).num_clients == 3


def population(days=(3, 1, 2.5)):
    """Devices of several spans with an hour online a day, later every day."""
    device, start, end = [], [], []
    for k, span in enumerate(days):
        for d in range(int(span)):
            device.append(k)
            start.append(d * DAY + 3600.0 * (d + k))
            end.append(start[-1] + 3600)
    names = tuple("abc"[: len(days)])
    last = np.array(days) * DAY
    return Intervals(names, np.zeros(len(days)), last, np.array(device), np.array(start), np.array(end))


def test_samples_are_seeded_and_without_replacement():
    table = population()
    assert table.sample(3, 5).names == ("a", "b", "c")
    picked = table.sample(2, 1)
    assert picked.names == table.sample(2, 1).names
    assert len(set(picked.names)) == 2
    assert len({table.sample(1, s).names for s in range(20)}) == 3
    for name in picked.names:
        mine = [r[1:] for r in rows(picked) if r[0] == name]
        assert mine == [r[1:] for r in rows(table) if r[0] == name]
    for n in (0, 4):
        with pytest.raises(ConfigError, match=f"n={n}"):
            table.sample(n, 0)


def test_a_resampled_population_keeps_the_time_of_day():
    table = population()
    many = table.resample(400, 3)
    assert len(many.names) == len(set(many.names)) == 400
    assert np.array_equal(many.start, table.resample(400, 3).start)
    seen = {}
    for k, name in enumerate(many.names):
        mine = [(s % DAY, e - s) for d, s, e in zip(many.device, many.start, many.end, strict=True) if d == k]
        origin = name.partition("~")[0]
        assert sorted(mine) == sorted((s % DAY, e - s) for n, s, e in rows(table) if n == origin)
        seen.setdefault(origin, set()).add(tuple(many.start[many.device == k]))
    assert len(seen["a"]) == 3  # a copy may begin on any of its days
    assert len(seen["b"]) == len(seen["c"]) == 1  # one day; not a whole number of days
    same = table.resample(50, 3, shift_days=False)
    for k, name in enumerate(same.names):
        assert [r[1:] for r in rows(table) if r[0] == name[0]] == list(
            zip(same.start[same.device == k], same.end[same.device == k], strict=True)
        )


def test_a_time_online_that_crosses_the_seam_is_cut_there():
    table = Intervals(
        ("a",), np.zeros(1), np.full(1, 2 * DAY), np.zeros(1, np.int64), np.array([80000.0]), np.array([90000.0])
    )
    turned = {tuple(zip(t.start, t.end, strict=True)) for t in (table.resample(1, s) for s in range(9))}
    assert turned == {((80000.0, 90000.0),), ((0.0, 3600.0), (80000.0 + DAY, 2 * DAY))}
    for t in (table.resample(1, s) for s in range(9)):
        assert (t.end - t.start).sum() == 10000


def test_populations_are_joined():
    one, two = population(), population((1,))
    with pytest.raises(ConfigError, match="'a' is listed twice"):
        join([one, two])
    other = Intervals(("x",), *(getattr(two, k) for k in ("first_seen", "last_seen", "device", "start", "end")))
    both = join([one, other])
    assert both.names == ("a", "b", "c", "x")
    assert rows(both) == rows(one) + rows(other)
    assert join([one]) is one
    with pytest.raises(ConfigError, match="nothing to join"):
        join([])


@pytest.mark.parametrize("block", [1, 7, 1 << 16])
def test_a_replay_does_not_depend_on_how_many_rounds_are_looked_up_at_once(monkeypatch, block):
    rng = np.random.default_rng(3)
    cuts = np.sort(rng.permuted(np.tile(np.arange(200), (5, 1)), axis=1)[:, :6], axis=1)
    table = Intervals(
        tuple("abcde"),
        np.arange(5.0),
        np.full(5, 210.0),
        np.repeat(np.arange(5), 3),
        (cuts[:, ::2] + 5.0).ravel(),
        (cuts[:, 1::2] + 5.0).ravel(),
    )
    monkeypatch.setattr("fedparity.traces.intervals.BLOCK", block)
    trace = table.replay(100, 7.5, 3.0, 2.0)
    for t in range(100):
        there, staying = [], []
        for k in range(5):
            now = k + (3.0 + 7.5 * t - k) % (210 - k)
            held = [
                (a, b) for a, b in zip(table.start[3 * k :], table.end[3 * k : 3 * k + 3], strict=False) if a <= now < b
            ]
            there += [k] * len(held)
            staying += [k] * any(now + 2.0 <= b for _, b in held)
        assert trace.online(t).tolist() == there
        assert trace.staying(t).tolist() == staying


def fuzz(tmp_path, count):
    rng = random.Random(9)
    refused = 0
    for k in range(count):
        data = bytearray(list(KINDS.values())[k % 4] if k % 5 else b"id,start,end\na,1,2\nb,3,4\n")
        for _ in range(rng.randint(1, 5)):
            at = rng.randrange(max(1, len(data)))
            match rng.randrange(4):
                case 0:
                    data[at : at + 1] = bytes([rng.randrange(256)])
                case 1:
                    del data[at : at + rng.randint(1, 9)]
                case 2:
                    data[at:at] = rng.choice([b",", b"\n", b'"', b"-", b"1e308", b"nan", b"#", b"\xff"])
                case _:
                    data[at:at] = data[at : at + rng.randint(1, 9)]
        path = write(tmp_path, bytes(data))
        try:
            open_file(path).intervals.replay(3)
        except InputError as error:
            refused += str(path) in str(error) or pytest.fail(f"{error} does not name {path}")
    return refused


def test_damaged_files_give_typed_errors_only(tmp_path):
    assert fuzz(tmp_path, 500) > 200


@pytest.mark.slow
def test_five_thousand_damaged_files_of_each_kind_give_typed_errors_only(tmp_path):
    assert fuzz(tmp_path, 25_000) > 10_000  # a fifth of them our own files, two fifths tables
