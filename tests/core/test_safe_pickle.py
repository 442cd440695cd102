"""Pickles are read, never run."""

import collections
import os
import pickle  # noqa: TID251 - makes what is read, reads nothing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fakes
from fedparity.core.errors import InputError
from fedparity.core.safe_pickle import RUNS, RawArray, _Machine, _RefusedError
from fedparity.core.safe_pickle import read_pickle as read

KEYS = st.one_of(st.text(max_size=5), st.binary(max_size=5), st.integers(-(2**63), 2**63))


def read_pickle(data, label, **more):
    return read(data, label, arrays=True, **more)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(KEYS, inner), st.tuples(inner, inner), st.tuples(inner)),
    max_leaves=20,
)


@given(VALUES, st.integers(0, 5))
def test_plain_values_read_back(value, protocol):
    # Protocols below 3 write empty bytes as a call of `bytes`, which is refused.
    data = pickle.dumps(value, protocol=protocol)
    said = fakes.refusal(InputError, read_pickle, data, "x")
    if said is None:
        assert read_pickle(data, "x") == value
    else:
        assert protocol < 3
        assert "bytes'" in said


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize("dtype", ["u1", "<i4", ">i8", "<f8", "bool"])
def test_arrays(protocol, dtype):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    found = read_pickle(pickle.dumps({"a": array}, protocol=protocol), "x")
    assert isinstance(found["a"], RawArray)
    assert np.array_equal(found["a"].array(), array)
    assert found["a"].array().dtype == array.dtype


def test_what_python_2_wrote():
    (name, x, y) = next(fakes.batches())
    found = read_pickle(fakes.python_pickle(x, y), name)
    assert found[b"labels"] == y.tolist()
    assert found[b"batch_label"] == b"training batch 1 of 5"
    assert np.array_equal(found[b"data"].array(), fakes.planes(x))
    assert found[b"filenames"] == [b"x.png"] * 3


def test_without_arrays_a_name_is_refused_whatever_it_is():
    for protocol in range(5):
        with pytest.raises(InputError, match=r"opcode (STACK_)?GLOBAL, which would run code; only plain values"):
            read(pickle.dumps(np.arange(3), protocol=protocol), "x")


class Evil:
    def __init__(self, call, *arguments):
        self.made = call, arguments

    def __reduce__(self):
        return self.made


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("call", [os.system, eval, exec, os.unlink, getattr, __import__])
def test_nothing_is_executed(tmp_path, monkeypatch, protocol, call):
    ran = []
    monkeypatch.setattr(os, "system", lambda *a: ran.append(a))
    target = tmp_path / "there"
    target.write_text("")
    data = pickle.dumps({"labels": [Evil(call, str(target))]}, protocol=protocol)
    with pytest.raises(InputError, match="which would run code; only plain values and arrays are read"):
        read_pickle(data, "batch")
    assert target.exists()
    assert not ran


@pytest.mark.parametrize(
    "data",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"(cos\nsystem\nS'true'\no.",
        b"\x80\x02cbuiltins\nobject\n)\x81.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x02\x82\x01.",
        b"P1\n.",
        b"\x80\x02K\x01Q.",
        b"\x80\x02cnumpy\nndarray\n)R.",
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n)R.",
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nK\x01\x85R.",
        b"\x80\x02cnumpy\ndtype\nU\x01O\x85R.",
        b"\x80\x02cnumpy\ndtype\nU\x07S999999\x85R.",
        b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x04\x00\x00\x00zlib\x86R.",
        b"\x80\x02]K\x01b.",
        b"\x80\x05\x96\x01\x00\x00\x00\x00\x00\x00\x00a.",
        b"\x80\x05\x97.",
    ],
)
def test_names_calls_and_objects_are_refused(data):
    with pytest.raises(InputError, match=r"^batch: byte [0-9]+: .*only plain values and arrays are read"):
        read_pickle(data, "batch")


@pytest.mark.parametrize(
    "data",
    [
        b"", b".", b"\x80\x02", b"\x80\x02K", b"hello", b"h\x05.", b"t.", b"\x85.", b"(.", b"a.", b"]a.",
        b"K\x01K\x02s.",        b"(K\x01d.", b"}]K\x01s.", b"}N]s.", b"e.", b"u.", b"0.",
        b"T\xff\xff\xff\xff.", b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"I9" + b"9" * 5000 + b"\n.", b"\x80\xff.", b"\x93.", b"S'\xff'\n.", b"X\x01\x00\x00\x00\xff.", b"R.", b"b.",
    ],
)  # fmt: skip
def test_what_is_no_pickle(data):
    with pytest.raises(InputError, match=r"^batch: "):
        read_pickle(data, "batch")


def array_pickle(shape, kind=b"u1", order=b"|", data=b"abcd", fortran=b"\x89", version=b"K\x01"):
    return (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R("
        + version + shape + b"cnumpy\ndtype\n" + fakes.old_string(kind)
        + b"K\x00K\x01\x87R(K\x03" + fakes.old_string(order)
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb" + fortran + fakes.old_string(data) + b"tb."
    )  # fmt: skip


def test_arrays_that_lie():
    assert read_pickle(array_pickle(b"K\x04\x85"), "x").array().tobytes() == b"abcd"
    assert read_pickle(array_pickle(b")", data=b"a"), "x").array().shape == ()
    for bad in (
        array_pickle(b"K\x05\x85"),
        array_pickle(b"J\xff\xff\xff\xffJ\xfc\xff\xff\xff\x86"),
        array_pickle(b"K\x04"),
        array_pickle(b"\x88\x85"),
        array_pickle(b"K\x02K\x02\x86", fortran=b"\x88"),
        array_pickle(b"K\x04\x85", order=b"?"),
        array_pickle(b"K\x04\x85", kind=b"u3"),
        array_pickle(b"K\x04\x85", kind=b"i8"),
        array_pickle(b"(" + b"K\x01" * 9 + b"t"),
    ):
        with pytest.raises(InputError):
            read_pickle(bad, "x")


def test_bounds_and_structures_that_contain_themselves():
    with pytest.raises(InputError, match="more than 10 opcodes"):
        read_pickle(pickle.dumps(list(range(20))), "x", most=10)
    loop = read_pickle(b"]q\x00h\x00a.", "x")
    assert loop[0] is loop
    # A tuple of tuples that would be 2^60 items if it were unfolded.
    assert len(read_pickle(b")" + b"q\x00h\x00\x86" * 60 + b".", "x")) == 2
    deep = read_pickle(b"N" + b"\x85" * 100_000 + b".", "x")
    assert isinstance(deep, tuple)
    with pytest.raises(InputError, match=r"collections\.OrderedDict"):
        read_pickle(pickle.dumps(collections.OrderedDict(a=1)), "x")


@pytest.mark.parametrize("count", [500, pytest.param(5000, marks=pytest.mark.slow)])
def test_damaged_pickles(count):
    (_, x, y) = next(fakes.batches())
    sources = [fakes.python_pickle(x, y)[:400] + b"tbu."]
    sources += [pickle.dumps({"a": [1, 2.5, "x", b"y", (None, True)], 3: np.arange(3)}, protocol=p) for p in range(6)]
    for seed, source in enumerate(sources):
        for data in fakes.damaged(source, count, seed):
            said = fakes.refusal(InputError, read_pickle, data, "x")
            assert (said or "x: ").startswith("x: ")


ENCODE = b"\x80\x02c_codecs\nencode\nq\x00"


def test_bombs_are_refused_before_they_fill_memory():
    text = b"X" + (600_000).to_bytes(4, "little") + b"a" * 600_000 + b"X\x06\x00\x00\x00latin1\x86q\x01"
    many = ENCODE + text + b"0(" + b"h\x00h\x01R" * 100_000 + b"t."  # 1.1 MB that would be 60 GB
    with pytest.raises(InputError, match="more than 256 MiB made by calls"):
        read_pickle(many, "x")
    with pytest.raises(InputError, match="more than 2000000 opcodes"):
        read_pickle(b"(" + b"}" * 2_000_001 + b"t.", "x")
    with pytest.raises(InputError, match="more than 8192 bits"):
        read_pickle(pickle.dumps(1 << 10_000), "x")
    with pytest.raises(InputError, match="a key that is no str, bytes or int of 64 bits"):
        read_pickle(pickle.dumps({k * (2**61 - 1) ** 2: 0 for k in range(1, 9)}), "x")
    with pytest.raises(InputError, match="2 values are left where one must be"):
        read_pickle(b"NN.", "x")


@pytest.mark.parametrize("name", sorted(RUNS))
def test_every_opcode_that_could_run_code_is_refused_whatever_came_before_it(name):
    with pytest.raises(_RefusedError, match=f"opcode {name}, which would run code"):
        _Machine(arrays=False).do(name, "posix system")
