"""FedScale's pickle: the real file as the standard library reads it, every way to run code refused, damage typed."""

import os
import pickle  # noqa: TID251 - only to write pickles, honest and malicious
import random
from pathlib import Path

import numpy as np
import pytest

from fedparity.core.errors import ConfigError, InputError
from fedparity.core.safe_pickle import RUNS, read_pickle
from fedparity.traces import load_trace
from fedparity.traces.fedscale import read_fedscale

REAL = Path(__file__).parents[3] / "shared/data/traces/fedscale_clients_001_100.pkl"
CLIENT = {"duration": 15, "inactive": [10, 30], "finish_time": 40, "active": [5, 20], "model": "x"}


def write(folder, value, protocol=3):
    path = Path(folder) / "t.pkl"
    path.write_bytes(value if isinstance(value, bytes) else pickle.dumps(value, protocol))
    return path


def test_the_real_file_reads_as_it_should():
    if not REAL.exists():
        pytest.skip(f"{REAL} is not here")
    found = read_fedscale(REAL)
    truth = pickle.loads(REAL.read_bytes())
    assert read_pickle(REAL.read_bytes(), str(REAL)) == truth
    assert found.names == tuple(str(k) for k in truth)
    ready = np.bincount(found.device, found.end - found.start, len(truth))
    assert ready.tolist() == [c["duration"] for c in truth.values()]
    assert found.last_seen.tolist() == [c["finish_time"] for c in truth.values()]


def opcodes(data):
    import pickletools

    return [opcode.name for opcode, _, _ in pickletools.genops(data)]


class Payload:
    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def payloads(command):
    """Pickles that run `command` when unpickled, by every opcode that can import, call or look up."""
    text = command.encode()
    arg = b"X" + len(text).to_bytes(4, "little") + text
    yield from (pickle.dumps({1: Payload(command)}, p) for p in range(pickle.HIGHEST_PROTOCOL + 1))
    system = b"cposix\nsystem\n"
    yield b"\x80\x03" + system + arg + b"\x85R."  # GLOBAL, REDUCE
    yield b"\x80\x04\x8c\x05posix\x8c\x06system\x93" + arg + b"\x85R."  # STACK_GLOBAL
    yield b"(" + arg + b"iposix\nsystem\n."  # INST
    yield b"(" + system + arg + b"o."  # OBJ
    yield b"\x80\x02" + system + arg + b"\x85\x81."  # NEWOBJ
    yield b"\x80\x04" + system + arg + b"\x85}\x92."  # NEWOBJ_EX
    yield b"\x80\x02}" + b"}b."  # BUILD
    yield b"\x80\x02\x82\x01."  # EXT1
    yield b"\x80\x02\x83\x01\x00."  # EXT2
    yield b"\x80\x02\x84\x01\x00\x00\x00."  # EXT4
    yield b"Pname\n."  # PERSID
    yield b"X\x01\x00\x00\x00aQ."  # BINPERSID


def test_a_malicious_pickle_runs_nothing(tmp_path):
    target = tmp_path / "owned"
    met = set()
    for data in payloads(f"touch {target}"):
        with pytest.raises(InputError, match="would run code") as caught:
            read_fedscale(write(tmp_path, data))
        met.add(str(caught.value).partition("opcode ")[2].partition(",")[0])
        assert not target.exists()
    honest = {name for data in payloads("x") for name in opcodes(data)} & RUNS
    assert honest == RUNS  # every such opcode is in the payloads
    assert met >= {"GLOBAL", "STACK_GLOBAL", "INST", "BUILD", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"}


def test_the_test_itself_would_notice(tmp_path):
    target = tmp_path / "owned"
    pickle.loads(next(iter(payloads(f"touch {target}"))))
    assert target.exists()


def test_intervals_loop_merge_and_drop_what_is_empty(tmp_path):
    client = CLIENT | {"active": [5, 12, 12, 35], "inactive": [12, 12, 20, 47]}
    found = read_fedscale(write(tmp_path, {7: client, "b": CLIENT | {"active": [], "inactive": []}}))
    assert found.names == ("7", "b")
    assert list(zip(found.start, found.end, strict=True)) == [(0, 20), (35, 40)]
    assert found.last_seen.tolist() == [40, 40]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({}, "not a FedScale trace"),
        ([], "not a FedScale trace"),
        (5, "not a FedScale trace"),
        ({1: 5}, "client '1' must be a dict"),
        ({1: CLIENT | {"active": [5]}}, "1 times active but 2 inactive"),
        ({1: CLIENT | {"active": [20, 15]}}, "inactive[0]=10 is before active[0]=20"),
        ({1: CLIENT | {"active": 5}}, "active must be a list"),
        ({1: CLIENT | {"active": [5, "noon"]}}, "active: str found"),
        ({1: CLIENT | {"active": [5, True]}}, "active: bool found"),
        ({1: CLIENT | {"active": [5, float("nan")]}}, "finite"),
        ({1: CLIENT | {"active": [5, 10**400]}}, "active: int found"),
        ({1: CLIENT | {"finish_time": 0}}, "finish_time=0 must be above 0"),
        ({1: CLIENT | {"finish_time": None}}, "finish_time: NoneType found"),
        ({1: {}}, "finish_time: NoneType found"),
        ({None: CLIENT}, "a key that is no str, bytes or int"),
        ({"": CLIENT}, "is not a name"),
        ({"a\nb": CLIENT}, "is not a name"),
        ({1: CLIENT, "1": CLIENT}, "the same name"),
    ],
)
def test_another_content_is_one_error(tmp_path, value, says):
    path = write(tmp_path, value)
    with pytest.raises(InputError) as caught:
        read_fedscale(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_python_2_wrote(tmp_path):
    old = {(k.encode() if isinstance(k, str) else k): v for k, v in CLIENT.items()}
    assert read_fedscale(write(tmp_path, {b"a": old})).end.tolist() == [10, 30]


def test_lists_that_clients_share_cannot_unfold_to_more_than_a_file_holds(tmp_path):
    times = list(range(100_000))
    entry = CLIENT | {"active": times, "inactive": times, "finish_time": 200_000}
    path = write(tmp_path, dict.fromkeys(range(20_000), entry))  # less than 1 MB; 32 GB if every client had its own
    assert path.stat().st_size < 1_000_000
    with pytest.raises(InputError, match="share lists of more times in all than the file can hold"):
        read_fedscale(path)


def test_a_span_of_centuries_is_refused_before_it_is_replayed(tmp_path):
    path = write(tmp_path, {1: CLIENT | {"finish_time": 10**10}})
    with pytest.raises(ConfigError, match=r"has 5555555 rounds of 1800 s, more than 100000; .* give rounds"):
        load_trace(path)
    assert load_trace(path, rounds=3).num_rounds == 3
    with pytest.raises(ConfigError, match="rounds=1e\\+07 must be at most 1000000"):
        load_trace(path, rounds=10_000_000)
    with pytest.raises(ConfigError, match="has 5000000 rounds before it, at most 1000000; give watch"):
        load_trace(path, rounds=3, start=9e9)


BROKEN = [
    *(b"", b"\x80", b"\x80\x03", b"}", b"\x80\x03.", b"\x80\x03}}.", b"\x80\x03h\x05.", b"\x80\x03e.", b"\x80\x03u."),
    *(b"\x80\x03]K\x01K\x02s.", b"\x80\x03}(K\x01u.", b"\x80\x03}](]K\x01u.", b"0.", b"1.", b"(.", b"2.", b"\x85."),
    *(b"\x80\x05\x97.", b"\x80\x05\x98.", b"\x80\x04\x8f.", b"\x80\x05\x96\x00\x00\x00\x00\x00\x00\x00\x00."),
]


@pytest.mark.parametrize("data", BROKEN)
def test_broken_programs_are_typed_errors(tmp_path, data):
    with pytest.raises(InputError):
        read_fedscale(write(tmp_path, data))


def fuzz(tmp_path, count):
    rng = random.Random(3)
    goods = [pickle.dumps(dict.fromkeys(range(3), CLIENT), p) for p in range(pickle.HIGHEST_PROTOCOL + 1)]
    refused = 0
    for k in range(count):
        data = bytearray(goods[k % len(goods)])
        for _ in range(rng.randint(1, 5)):
            at = rng.randrange(max(1, len(data)))
            if rng.random() < 0.7:
                data[at : at + 1] = bytes([rng.randrange(256)])
            elif rng.random() < 0.5:
                del data[at : at + rng.randint(1, 9)]
            else:
                data[at:at] = data[at : at + rng.randint(1, 9)]
        try:
            read_fedscale(write(tmp_path, bytes(data))).replay(3)
        except InputError as error:
            refused += str(tmp_path) in str(error) or pytest.fail(f"{error} does not name the file")
    return refused


def test_damaged_files_give_typed_errors_only(tmp_path):
    assert fuzz(tmp_path, 500) > 200


@pytest.mark.slow
def test_five_thousand_damaged_files_give_typed_errors_only(tmp_path):
    assert fuzz(tmp_path, 5000) > 2000
