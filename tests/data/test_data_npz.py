"""Images as .npz: strict, bounded, and never an object."""

import io
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fakes
from fedparity.core.errors import InputError
from fedparity.data import load_npz
from fedparity.data.npy import read_npy

RNG = np.random.default_rng(0)
GOOD = {
    "x_train": RNG.integers(0, 256, (9, 4, 5, 3), dtype=np.uint8),
    "y_train": np.arange(9) % 3,
    "x_test": RNG.integers(0, 256, (4, 4, 5, 3), dtype=np.uint8),
    "y_test": np.arange(4) % 3,
}


def save(tmp_path, packed=False, **changes):
    path = tmp_path / "own.npz"
    (np.savez_compressed if packed else np.savez)(
        path, **{k: v for k, v in {**GOOD, **changes}.items() if v is not None}
    )
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_reads_back(tmp_path, packed):
    found = load_npz(save(tmp_path, packed, groups_train=np.arange(9) // 2))
    for name, value in GOOD.items():
        assert np.array_equal(getattr(found, name), value)
    assert (found.name, found.classes, dict(found.digests)) == ("own", 3, {})
    assert found.y_train.dtype == np.int64
    assert found.groups.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    assert found.path == tmp_path / "own.npz"


def test_grey_images_columns_of_labels_and_other_orders(tmp_path):
    grey = {"x_train": np.asfortranarray(GOOD["x_train"][..., 0]), "x_test": GOOD["x_test"][..., 0]}
    found = load_npz(
        save(tmp_path, **grey, y_train=GOOD["y_train"][:, None].astype(">i2"), y_test=GOOD["y_test"].astype("u1"))
    )
    assert np.array_equal(found.x_train, grey["x_train"])
    assert found.x_train.flags.c_contiguous
    assert found.y_train.tolist() == GOOD["y_train"].tolist()


@given(
    hnp.arrays(
        st.sampled_from(["u1", "<i2", ">u4", "<i8", "i1", "<f4", ">f8", "<f2"]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0),
    )
)
def test_any_array_of_numbers(array):
    for version in ((1, 0), (2, 0), (3, 0)):
        file = io.BytesIO()
        np.lib.format.write_array(file, array, version=version)
        size = file.tell()
        file.seek(0)
        found = read_npy(file, size, "x")
        assert found.tobytes() == array.tobytes()
        assert found.dtype == array.dtype


@pytest.mark.parametrize("kind", ["<f2", "<f4", ">f8"])
@pytest.mark.parametrize("shape", [(7,), (4, 5), (4, 5, 3), (2, 2, 2, 2)])
def test_floats_of_any_shape_are_taken_as_they_are(tmp_path, kind, shape):
    x = RNG.normal(size=(13, *shape)).astype(kind)
    found = load_npz(save(tmp_path, x_train=x[:9], x_test=x[9:], groups_train=np.arange(9), groups_test=np.arange(4)))
    assert found.x_train.dtype == found.x_test.dtype == np.float32
    assert np.array_equal(np.concatenate([found.x_train, found.x_test]), x.astype(np.float32))
    assert (found.peak, found.groups_test.tolist()) == (1, [0, 1, 2, 3])


def test_a_bomb_is_refused_by_the_sizes_it_states(tmp_path, monkeypatch):
    path = save(tmp_path, packed=True, **{name: np.zeros((9, 3000, 3000), np.uint8) for name in ("x_train", "x_test")})
    monkeypatch.setattr("fedparity.data.npy.read_npy", lambda *_: pytest.fail("it was read"))
    with pytest.raises(InputError, match=r"\d+ bytes would unpack to 162\d+, at most 8 GiB and 100 times the file"):
        load_npz(path)


class Trap:
    def __reduce__(self):
        return (print, ("ran",))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"x_test": None}, "no array called x_test"),
        ({"x_train": GOOD["x_train"].astype(complex)}, "not that of a plain array of numbers; use uint8, float32"),
        ({"x_train": GOOD["x_train"].astype(np.int64)}, "x_train is int64 of shape .*; give uint8 or floats"),
        ({"x_train": GOOD["x_train"][0, 0, 0]}, "give uint8 or floats of shape"),
        ({"x_train": GOOD["x_train"][:0]}, "give uint8 or floats of shape"),
        ({"x_train": GOOD["x_train"].astype(float)}, "float32 of shape .* and uint8 of shape .*; make them the same"),
        ({"x_train": np.full((9, 2), np.nan)}, "x_train: row 0 holds a number that is not finite"),
        ({"x_train": np.full((9, 2), 1e300)}, "not finite in float32"),
        ({"y_train": GOOD["y_train"][:5]}, r"y_train is int64 of shape \(5,\) for 9 samples"),
        ({"y_train": GOOD["y_train"].astype(float)}, "y_train is float64 .*; give one whole number per sample"),
        ({"y_train": -GOOD["y_train"]}, r"y_train holds -2\.\.0; labels must be"),
        ({"y_train": GOOD["y_train"] + 10**6}, "labels must be whole numbers from 0 to 65535"),
        ({"y_train": np.full(9, 2**64 - 1, dtype=np.uint64)}, "more than a 64-bit number"),
        ({"y_train": np.array([Trap()] * 9, dtype=object)}, "not that of a plain array"),
        ({"x_test": GOOD["x_test"][:, :3]}, r"uint8 of shape \(4, 5, 3\) and uint8 of shape \(3, 5, 3\)"),
        ({"groups_train": np.arange(3)}, r"groups_train is int64 of shape \(3,\)"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, capsys, changes, said):
    with pytest.raises(InputError, match=said) as error:
        load_npz(save(tmp_path, **changes))
    assert "own.npz" in str(error.value)
    assert "\n" not in str(error.value)
    assert capsys.readouterr().out == ""


def test_files_that_are_none(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load_npz(tmp_path / "nowhere.npz")
    with pytest.raises(InputError, match="cannot be read"):
        load_npz(tmp_path)
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04 no")
    with pytest.raises(InputError, match=r"not a readable \.npz file"):
        load_npz(tmp_path / "a.npz")


def test_two_arrays_of_one_name(tmp_path):
    path = save(tmp_path)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("y_test.npy", b"")
    with pytest.raises(InputError, match="two arrays called y_test"):
        load_npz(path)


def header(text, version=1):
    data = text.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(data)) + data


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x93NUMPY", b"\x93NUMPY\x09\x00\x00\x00\x00\x00\x00\x00",
        header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n"),
        header("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }\n"),
        header("{'descr': '<i4', 'fortran_order': __import__('os'), 'shape': (1,), }\n"),
        header("{'descr': '<i4', 'fortran_order': False, 'shape': (-1,), }\n"),
        header("{'descr': '<i4', 'fortran_order': False, 'shape': (999999999999,999999999999), }\n"),
        header("{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999,), }\n"),
        header("{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }\n") + b"abc",
        header("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }\n") + b"abc",
        header("{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }\n") + b"a",
        header(" " * 5000), b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
    ],
)  # fmt: skip
def test_headers_that_lie(data):
    with pytest.raises(InputError, match=r"^x"):
        read_npy(io.BytesIO(data), len(data), "x")


def test_a_size_that_lies_is_found_before_allocating():
    data = header("{'descr': '|u1', 'fortran_order': False, 'shape': (8000000000,), }\n")
    with pytest.raises(InputError, match="needs 8000000000 bytes"):
        read_npy(io.BytesIO(data), len(data), "x")


def test_a_file_shorter_than_its_zip_entry_says():
    data = header("{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }\n")
    with pytest.raises(InputError, match="ends early"):
        read_npy(io.BytesIO(data + b"abc"), len(data) + 5, "x")


@pytest.mark.parametrize("count", [500, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore")
def test_damaged_npz(tmp_path, count):
    fine, path = 0, tmp_path / "bad.npz"
    for packed in (False, True):
        data = save(tmp_path, packed).read_bytes()
        for bad in fakes.damaged(data, count // 2):
            path.write_bytes(bad)
            said = fakes.refusal(InputError, load_npz, path)
            fine += said is None
            assert (said or str(path)).startswith(str(path))
    assert fine < count


@pytest.mark.parametrize("count", [500, pytest.param(5000, marks=pytest.mark.slow)])
def test_damaged_npy(count):
    file = io.BytesIO()
    np.lib.format.write_array(file, GOOD["x_train"])
    for bad in fakes.damaged(file.getvalue(), count):
        said = fakes.refusal(InputError, read_npy, io.BytesIO(bad), len(bad), "x")
        assert (said or "x").startswith("x")
