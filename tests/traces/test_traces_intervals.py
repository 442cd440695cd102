"""The trace file: exact round trips, replay against a plain loop, and one clear error for anything malformed."""

from __future__ import annotations

import gzip
import itertools
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedparity.availability import Bernoulli, Markov
from fedparity.core.errors import ConfigError, InputError, OutputError
from fedparity.core.trace import Trace
from fedparity.traces import Intervals, load_trace, save_trace

GOOD = """# fedparity-trace 1
# round_seconds=10.0
client,first_seen_s,last_seen_s
a,0.0,100.0
b,5.0,105.0

client,start_s,end_s
a,0.0,20.0
b,50.0,60.0
a,80.0,100.0
"""


def write(folder, text, name="trace.csv"):
    path = Path(folder) / name
    path.write_text(text, encoding="utf-8")
    return path


def same(one, two):
    assert one.num_clients == two.num_clients
    assert one.names == two.names
    assert np.array_equal(one.starts, two.starts)
    assert np.array_equal(one.clients, two.clients)
    assert one.clients.dtype == two.clients.dtype
    assert (one.stays is None) == (two.stays is None)
    if one.stays is not None:
        assert np.array_equal(one.stays, two.stays)


def columns(intervals):
    return [getattr(intervals, name) for name in ("first_seen", "last_seen", "device", "start", "end")]


@st.composite
def tables(draw, times):
    names = draw(
        st.lists(
            st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]), min_size=1, max_size=5),
            min_size=1,
            max_size=4,
            unique=True,
        )
    )
    first, last, device, start, end = [], [], [], [], []
    for k in range(len(names)):
        points = sorted(draw(st.lists(times, min_size=2, max_size=8, unique=True)))
        first.append(points[0])
        last.append(points[-1])
        inside = points if draw(st.booleans()) else points[1:-1]
        touching = draw(st.booleans())
        pairs = itertools.pairwise(inside) if touching else zip(inside[::2], inside[1::2], strict=False)
        for low, high in pairs:
            device.append(k)
            start.append(low)
            end.append(high)
    floats = [np.array(column, dtype=np.float64) for column in (first, last, start, end)]
    return Intervals(tuple(names), floats[0], floats[1], np.array(device, dtype=np.int64), floats[2], floats[3])


def naive(table, rounds, round_seconds, start, work):
    """Second by second reasoning, one device at a time, in whole numbers."""
    ids, stays = [], []
    for r in range(rounds):
        instant = min(table.first_seen) + start + r * round_seconds
        here, kept = [], []
        for k in range(len(table.names)):
            first, last = table.first_seen[k], table.last_seen[k]
            mine = [(s, e) for d, s, e in zip(table.device, table.start, table.end, strict=True) if d == k]

            def online(when, first=first, last=last, mine=mine):
                local = first + (when - first) % (last - first)
                return any(s <= local < e for s, e in mine)

            if online(instant):
                here.append(k)
                kept.append(all(online(instant + s) for s in range(int(work))))
        ids.append(np.array(here, dtype=np.int64))
        stays.append(np.array(kept, dtype=bool))
    return ids, stays


@given(tables(st.floats(-1e6, 1e6)))
@settings(deadline=None)
def test_a_file_gives_back_every_bit(table):
    with tempfile.TemporaryDirectory() as folder:
        for name in ("t.csv", "t.csv.gz"):
            table.save(Path(folder) / name)
            back = Intervals.load(Path(folder) / name)
            assert back.names == table.names
            assert all(x.tobytes() == y.tobytes() for x, y in zip(columns(back), columns(table), strict=True))
        assert sorted(p.name for p in Path(folder).iterdir()) == ["t.csv", "t.csv.gz"]


@given(
    tables(st.integers(-40, 60).map(float)),
    st.integers(1, 12),
    st.integers(1, 30),
    st.integers(0, 200),
    st.integers(0, 150),
)
@settings(deadline=None)
def test_replay_agrees_with_a_plain_loop(table, rounds, round_seconds, start, work):
    trace = table.replay(rounds, round_seconds, start, work)
    ids, stays = naive(table, rounds, round_seconds, start, work)
    assert trace.num_rounds == rounds
    for t in range(rounds):
        assert trace.online(t).tolist() == ids[t].tolist()
        assert trace.staying(t).tolist() == ids[t][stays[t]].tolist()


@st.composite
def traces(draw):
    clients, rounds = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    rows = st.lists(st.lists(st.booleans(), min_size=clients, max_size=clients), min_size=rounds, max_size=rounds)
    online, kept = np.array(draw(rows)), np.array(draw(rows))
    names = draw(st.sampled_from([None, tuple(f"phone, {k}" for k in range(clients))]))
    ids = [np.flatnonzero(row) for row in online]
    stays = [kept[t][ids[t]] for t in range(rounds)] if draw(st.booleans()) else None
    return Trace.from_rounds(clients, ids, stays, names)


@given(traces(), st.one_of(st.just(1.0), st.floats(1e-3, 1e5)))
@settings(deadline=None)
def test_a_trace_comes_back_identical(trace, round_seconds):
    with tempfile.TemporaryDirectory() as folder:
        save_trace(trace, Path(folder) / "t.csv", round_seconds)
        same(load_trace(Path(folder) / "t.csv"), trace)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_drawn_trace_with_dropout_comes_back(tmp_path, name):
    trace = Markov().draw(60, 80, 3).with_dropout(0.3, np.random.default_rng(0))
    save_trace(trace, tmp_path / name, 1800.0)
    same(load_trace(tmp_path / name), trace)
    first = (tmp_path / name).read_bytes()
    save_trace(trace, tmp_path / name, 1800.0)
    assert (tmp_path / name).read_bytes() == first


def test_what_is_written_is_plain_to_read(tmp_path):
    trace = Trace.from_rounds(2, [np.array([0, 1]), np.array([0])], [np.array([True, False]), np.array([True])])
    save_trace(trace, tmp_path / "t.csv", 2.0)
    assert (tmp_path / "t.csv").read_text() == (
        "# fedparity-trace 1\n# rounds=2\n# round_seconds=2.0\n# work_seconds=1.5\n"
        "client,first_seen_s,last_seen_s\n0,0.0,4.0\n1,0.0,4.0\n\n"
        "client,start_s,end_s\n0,0.0,4.0\n1,0.0,1.0\n"
    )


def test_arguments_win_over_the_header_and_the_span_sets_the_rounds(tmp_path):
    path = write(tmp_path, GOOD)
    trace = load_trace(path)
    assert trace.num_rounds == 10  # (105 - 0) / 10
    assert trace.names == ("a", "b")
    assert [ids.tolist() for ids in trace] == [[0], [0], [], [], [], [1], [], [], [0], [0]]
    assert [ids.tolist() for ids in load_trace(path, rounds=2, round_seconds=50, start=5)] == [[0], [1]]
    assert load_trace(write(tmp_path, GOOD.replace("# round_seconds=10.0\n", ""))).num_rounds == 1
    assert load_trace(path, start=95).num_rounds == 1
    with pytest.raises(ConfigError, match="one pass has 105000000 rounds"):
        load_trace(path, round_seconds=1e-6)


def test_a_device_loops_and_stays_across_the_seam(tmp_path):
    table = Intervals.load(write(tmp_path, GOOD))
    trace = table.replay(30, 10)
    online = trace.matrix()
    assert np.array_equal(online[:10, 0], online[10:20, 0])
    # At 90 s the interval 80..100 goes on into 0..20 of the next loop: 30 s in all, and not a second more.
    for work, kept in ((10, True), (30, True), (30.5, False)):
        assert (0 in table.replay(10, 10, work_seconds=work).staying(9)) is kept
    assert table.replay(10, 10).stays is None


def test_a_device_that_is_always_there_stays_for_any_work():
    table = Intervals(
        ("a",), np.zeros(1), np.full(1, 10.0), np.zeros(2, np.int64), np.array([0.0, 4.0]), np.array([4.0, 10.0])
    )
    assert [ids.tolist() for ids in map(table.replay(5, 7, work_seconds=1e6).staying, range(5))] == [[0]] * 5


def test_devices_never_online_are_kept(tmp_path):
    text = "# fedparity-trace 1\nclient,first_seen_s,last_seen_s\na,3.0,3.0\n\nclient,start_s,end_s\n"
    trace = load_trace(write(tmp_path, text), rounds=4)
    assert trace.sizes().tolist() == [0, 0, 0, 0]
    assert trace.num_clients == 1


@pytest.mark.parametrize("change", [lambda s: "\ufeff" + s, lambda s: s.replace("\n", "\r\n"), lambda s: s + "\n\n"])
def test_what_editors_add_is_accepted(tmp_path, change):
    path = tmp_path / "t.csv"
    path.write_bytes(change(GOOD).encode())
    same(load_trace(path), load_trace(write(tmp_path, GOOD, "plain.csv")))


MALFORMED = {
    "empty file": ("", 1, "not a trace file"),
    "wrong first line": (GOOD.replace("# fedparity-trace 1", "client,start_s,end_s"), 1, "the first line must be"),
    "no version": (GOOD.replace("# fedparity-trace 1", "# fedparity-trace"), 1, "first line must be"),
    "version": (GOOD.replace("trace 1", "trace 2"), 1, "version '2' is not supported"),
    "header key": (GOOD.replace("round_seconds", "round_second"), 2, "did you mean 'round_seconds'"),
    "header number": (GOOD.replace("=10.0", "=ten"), 2, "'ten' is not a number"),
    "header range": (GOOD.replace("=10.0", "=0"), 2, "round_seconds=0.0 must be"),
    "header nan": (GOOD.replace("=10.0", "=nan"), 2, "round_seconds=nan must be"),
    "header rounds": (GOOD.replace("round_seconds=10.0", "rounds=2.5"), 2, "whole number"),
    "header twice": (GOOD.replace("client,first", "# round_seconds=5\nclient,first"), 3, "given twice"),
    "header words": (GOOD.replace("round_seconds=10.0", "my trace"), 2, "# key=value"),
    "first block missing": (GOOD.replace("client,first_seen_s,last_seen_s\n", ""), 3, "must stand"),
    "only a header": ("# fedparity-trace 1\n", 2, "the file ends here"),
    "second block missing": (GOOD[: GOOD.index("\nclient,start_s")], 6, "must stand"),
    "second head wrong": (GOOD.replace("client,start_s,end_s", "client,start,end"), 7, "must stand"),
    "no empty line": (GOOD.replace("\n\n", "\n"), 6, "'start_s' is not a number"),
    "no devices": (GOOD.replace("a,0.0,100.0\nb,5.0,105.0\n", "").partition("a,0.0")[0], 3, "no devices"),
    "two columns": (GOOD.replace("a,0.0,20.0", "a,0.0"), 8, "2 columns"),
    "four columns": (GOOD.replace("b,5.0,105.0", "b,5.0,105.0,1"), 5, "4 columns"),
    "not a number": (GOOD.replace("b,50.0", "b,noon"), 9, "'noon' is not a number"),
    "empty cell": (GOOD.replace("b,50.0", "b,"), 9, "'' is not a number"),
    "nan": (GOOD.replace("b,50.0", "b,nan"), 9, "finite"),
    "inf": (GOOD.replace("60.0", "inf"), 9, "finite"),
    "device nan": (GOOD.replace("b,5.0", "b,nan"), 5, "finite"),
    "device inf": (GOOD.replace("105.0", "1e400"), 5, "finite"),
    "end before start": (GOOD.replace("b,50.0,60.0", "b,60.0,50.0"), 9, "must be after"),
    "end at start": (GOOD.replace("b,50.0,60.0", "b,50.0,50.0"), 9, "must be after"),
    "overlap": (GOOD.replace("a,80.0", "a,19.0"), 10, "overlaps 0.0..20.0"),
    "same twice": (GOOD.replace("a,80.0,100.0", "a,0.0,20.0"), 10, "overlaps"),
    "unknown client": (GOOD.replace("b,50.0", "c,50.0"), 9, "unknown client 'c'"),
    "duplicate client": (GOOD.replace("b,5.0,105.0", "a,5.0,105.0").replace("b,50", "a,50"), 5, "listed twice"),
    "nameless client": (GOOD.replace("b,5.0,105.0", ",5.0,105.0").replace("b,50", ",50"), 5, "is not a name"),
    "name of two lines": (GOOD.replace("b,5.0,105.0", '"b\nc",5.0,105.0').replace("b,50", "a,50"), 6, "is not a name"),
    "seen backwards": (GOOD.replace("b,5.0,105.0", "b,105.0,5.0"), 5, "is before"),
    "seen for no time": (GOOD.replace("b,5.0,105.0", "b,5.0,5.0"), 9, "lies outside"),
    "outside": (GOOD.replace("b,50.0", "b,4.0"), 9, "lies outside"),
    "text at the end": (GOOD + "\n\nmore,1,2\n", 13, "after the last block"),
    "open quote": (GOOD.replace("b,50.0", '"b,50.0'), 9, "not CSV"),
}


@pytest.mark.parametrize("case", MALFORMED)
@pytest.mark.parametrize("packed", [False, True])
def test_malformed_text_is_one_error_with_file_and_line(tmp_path, case, packed):
    text, line, says = MALFORMED[case]
    path = tmp_path / ("bad.csv.gz" if packed else "bad.csv")
    path.write_bytes(gzip.compress(text.encode(), mtime=0) if packed else text.encode())
    for read in (Intervals.load, load_trace):
        with pytest.raises(InputError) as caught:
            read(path)
        message = str(caught.value)
        assert message.startswith(f"{path}:{line}: "), message
        assert says in message
        assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "data", "line", "says"),
    [
        ("t.csv", GOOD.encode().replace(b"b,50", b"\xff,50"), 9, "not UTF-8"),
        ("t.csv", gzip.compress(GOOD.encode(), mtime=0), 1, "name it .gz"),
        ("t.csv", GOOD.encode().replace(b"b,5.0", b"\0,5.0"), 5, "zero byte"),
        ("t.csv.gz", GOOD.encode(), 1, "gzip"),
        ("t.csv.gz", gzip.compress(GOOD.encode(), mtime=0)[:-12], 1, "gzip"),
        ("t.csv.gz", gzip.compress(GOOD.encode(), mtime=0)[:15] + b"\x07" * 40, 1, "gzip"),
        ("t.csv.gz", b"", 1, "trace file"),
    ],
)
def test_bytes_that_are_no_text_are_one_error(tmp_path, name, data, line, says):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError, match=f"^{re.escape(str(path))}:{line}: .*{says}"):
        load_trace(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.csv: no such file; check the path"):
        load_trace(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match="is a folder"):
        load_trace(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        load_trace(write(tmp_path, GOOD) / "below.csv")


def test_nothing_half_written_stays(tmp_path):
    trace = Bernoulli().draw(3, 4, 0)
    with pytest.raises(OutputError, match=re.escape(str(tmp_path / "no" / "t.csv"))):
        save_trace(trace, tmp_path / "no" / "t.csv")
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    with pytest.raises(OutputError, match=re.escape(str(folder))):
        save_trace(trace, folder)
    old = write(tmp_path, "old")
    for bad in (old / "below.csv", tmp_path / "zero\0.csv"):
        with pytest.raises(OutputError, match="cannot be written"):
            save_trace(trace, bad)
    assert old.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder.csv", "trace.csv"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"rounds": 0}, "rounds=0"),
        ({"round_seconds": 0.0}, "round_seconds=0"),
        ({"round_seconds": float("nan")}, "round_seconds=nan"),
        ({"start": -1.0}, "start=-1"),
        ({"start": float("nan")}, "start=nan"),
        ({"work_seconds": float("inf")}, "work_seconds=inf"),
    ],
)
def test_bad_arguments_are_refused_by_name(tmp_path, arguments, named):
    path = write(tmp_path, GOOD)
    with pytest.raises(ConfigError, match=named):
        load_trace(path, **arguments)
    with pytest.raises(ConfigError, match=named):
        Intervals.load(path).replay(**({"rounds": 3} | arguments))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"names": ("a",)}, "for each device"),
        ({"device": np.array([0])}, "an end each"),
        ({"device": np.array([1, 0])}, "sorted"),
        ({"device": np.array([0, 2])}, "device 2 is not one of the 2"),
        ({"start": np.array([1.0, np.nan])}, "finite"),
    ],
)
def test_intervals_made_in_code_are_checked_too(change, says):
    good = {
        "names": ("a", "b"),
        "first_seen": np.zeros(2),
        "last_seen": np.full(2, 10.0),
        "device": np.array([0, 1]),
        "start": np.array([1.0, 2.0]),
        "end": np.array([3.0, 4.0]),
    }
    assert Intervals(**good).replay(2, 2.0).sizes().tolist() == [0, 2]
    with pytest.raises(ConfigError, match=says):
        Intervals(**(good | change))


def test_a_header_is_checked_before_it_is_written(tmp_path):
    table = Intervals.load(write(tmp_path, GOOD))
    with pytest.raises(ConfigError, match="unknown key 'colour'"):
        table.save(tmp_path / "t.csv", {"colour": 1})
    assert not (tmp_path / "t.csv").exists()
