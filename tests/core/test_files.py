"""Writing results: whole or not at all."""

import csv
import gzip
import io
import os
import stat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedparity.core.errors import OutputError
from fedparity.core.files import csv_text, write_bytes, write_text

ROOT = os.geteuid() == 0


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_is_written_is_there_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "alt\n")
    write_text(str(path), "neu ☂\n")
    assert path.read_text(encoding="utf-8") == "neu ☂\n"
    assert names(tmp_path) == ["a.txt"]


def test_a_file_may_be_read_by_whom_the_umask_says(tmp_path):
    old = os.umask(0o027)
    try:
        write_text(tmp_path / "a.txt", "x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


def test_packed_by_name_and_the_same_bytes_every_time(tmp_path):
    for name in ("a.csv.gz", "b.csv.gz"):
        write_text(tmp_path / name, "x,y\n")
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == b"x,y\n"
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


def test_a_failure_leaves_the_old_file_and_no_scraps(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedparity.core.system.System.replace", full)
    with pytest.raises(OutputError, match=f"{path}: cannot be written .No space left on device.; choose a folder"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_an_interrupt_leaves_no_scraps_either(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedparity.core.system.System.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(tmp_path / "a.txt", b"new")
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["no/such/folder/a.txt", "taken/a.txt", "folder", "nul\0.txt", "x" * 300, ""])
def test_a_place_that_cannot_be_written_is_named(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "taken").write_text("a file")
    path = tmp_path / name if name else ""
    with pytest.raises(OutputError) as caught:
        write_text(path, "x")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == ["folder", "taken"]
    assert names(tmp_path / "folder") == []


@pytest.mark.skipif(ROOT, reason="root may write anywhere")
def test_a_folder_without_permission_is_named(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o555)
    with pytest.raises(OutputError, match=f"{tmp_path}/closed/a.txt: cannot be written .Permission denied."):
        write_text(tmp_path / "closed" / "a.txt", "x")


def test_what_is_no_text_is_refused(tmp_path):
    with pytest.raises(OutputError, match=r"a\.txt: cannot be written .*remove what is not text"):
        write_text(tmp_path / "a.txt", "\ud800")
    assert names(tmp_path) == []


def test_cells_by_hand():
    row = (1, 0.1, np.float64(0.5), None, float("nan"), "a,b", True, float("inf"), np.int64(7), -2.5)
    assert csv_text(["h"] * 10, [row]) == f'{",".join("h" * 10)}\n1,0.1,0.5,,,"a,b",True,inf,7,-2.5\n'


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_starts_a_formula(start):
    [_, [cell]] = csv.reader(io.StringIO(csv_text(["name"], [[f"{start}cmd|' /C calc'!A0"]]), newline=""))
    assert cell.startswith(f"'{start}")


@given(st.lists(st.tuples(st.floats(allow_nan=False), st.integers(), st.text()), min_size=1))
def test_numbers_read_back_exactly_and_text_but_for_its_quote(rows):
    read = list(csv.reader(io.StringIO(csv_text(["f", "i", "s"], rows), newline="")))
    assert read[0] == ["f", "i", "s"]
    for (f, i, s), found in zip(rows, read[1:], strict=True):
        assert float(found[0]).hex() == f.hex()
        assert int(found[1]) == i
        assert found[2] in (s, f"'{s}")
