"""Tables: frames of any make and files, read alike, checked cell by cell, and never more than a budget."""

import csv

import numpy as np
import polars as pl
import pytest

from fedparity.core.errors import ConfigError, InputError
from fedparity.data import from_frame, load_table, table
from fedparity.data.partitions import PARTITIONS

ROWS = 24
COLUMNS = {
    "user": [f"u{i % 3}" for i in range(ROWS)],
    "age": [float(i) for i in range(ROWS)],
    "on": [i % 2 for i in range(ROWS)],
    "y": ["no" if i % 5 else "yes" for i in range(ROWS)],
}


class Column:
    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return self.values


class Duck(dict):
    """What pandas and polars have in common: `columns`, and columns with `to_numpy()`."""

    columns = property(dict.keys)

    def __getitem__(self, name):
        return Column(np.array(super().__getitem__(name), dtype=object if name in ("user", "y") else None))


def write_csv(path, columns):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
    return path


@pytest.fixture(params=["duck", "polars", "csv", "parquet"])
def made(request, tmp_path):
    """The same table, read in every way."""
    if request.param == "duck":
        return from_frame(Duck(COLUMNS), "y", "user")
    if request.param == "polars":
        return from_frame(pl.DataFrame(COLUMNS), "y", "user")
    path = tmp_path / f"t.{request.param}"
    write_csv(path, COLUMNS) if request.param == "csv" else pl.DataFrame(COLUMNS).write_parquet(path)
    return load_table(path, "y", "user")


def test_every_way_to_read_a_table_gives_the_same_data_set(made):
    # Of each user's rows with "no" the first and the fifth, and the first of two with "yes"; one is for training.
    test = np.isin(np.arange(ROWS), [3, 18, 0, 1, 16, 2, 17, 5])
    x = np.stack([COLUMNS["age"], COLUMNS["on"]], axis=1).astype(np.float32)
    y, user = np.array([int(v == "yes") for v in COLUMNS["y"]]), np.arange(ROWS) % 3
    assert (made.x_train.tolist(), made.x_test.tolist()) == (x[~test].tolist(), x[test].tolist())
    assert (made.y_train.tolist(), made.y_test.tolist()) == (y[~test].tolist(), y[test].tolist())
    assert (made.groups.tolist(), made.groups_test.tolist()) == (user[~test].tolist(), user[test].tolist())
    assert (made.classes, made.peak, made.x_train.dtype) == (2, 1, np.float32)


def test_clients_are_tested_on_their_own_rows(made):
    scheme = PARTITIONS.build("groups")
    dealt = scheme.split(made.y_train, made.y_test, 3, 0, made.groups, groups_test=made.groups_test)
    for k in range(3):
        (whose,) = set(made.groups[dealt.train_of(k)].tolist())
        assert dealt.test_of(k).tolist() == np.flatnonzero(made.groups_test == whose).tolist()
    two = scheme.split(made.y_train, made.y_test, 2, 0, made.groups, groups_test=made.groups_test)
    assert sorted(np.concatenate([two.test_of(0), two.test_of(1)]).tolist()) == list(range(len(made.y_test)))
    few = PARTITIONS.build("groups:test_samples=1").split(
        made.y_train, made.y_test, 3, 0, made.groups, groups_test=made.groups_test
    )
    assert [len(few.test_of(k)) for k in range(3)] == [1, 1, 1]
    with pytest.raises(ConfigError, match="group 9 has test images but none to train on"):
        scheme.split(made.y_train, made.y_test, 3, 0, made.groups, groups_test=np.full(len(made.y_test), 9))
    with pytest.raises(ConfigError, match="client 0 has no test image of its own"):
        scheme.split(made.y_train, made.y_test, 3, 0, made.groups, groups_test=np.full(len(made.y_test), 2))


def test_without_a_client_column_labels_are_split_alike():
    data = from_frame(Duck(COLUMNS | {"user": [7] * ROWS}), "y")
    assert data.groups is data.groups_test is None
    assert data.x_train.shape[1] == 3
    assert np.bincount(data.y_test).tolist() == [-(-19 // 4), -(-5 // 4)]


def test_labels_of_a_csv_are_sorted_as_numbers(tmp_path):
    path = write_csv(tmp_path / "t.csv", {"x": range(24), "label": [i % 12 for i in range(24)]})
    data = load_table(path, "label")
    assert data.y_test.tolist() == list(range(12))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"y": None}, "unknown column 'y'"),
        ({"user": None}, "unknown column 'user'; known: age, on, y"),
        ({"age": ["old"] * ROWS}, "column 'age' holds what is no number"),
        ({"age": [*[1.0] * (ROWS - 1), ""]}, "column 'age' holds what is no number"),
        ({"age": [*[1.0] * (ROWS - 1), "nan"]}, "column 'age': row 23 holds a number that is not finite"),
        ({"y": [i / 7 for i in range(ROWS)]}, "column 'y' holds float64, .*; give whole numbers or texts"),
        ({"user": ["x", *["u"] * (ROWS - 1)]}, "x has a single row; one to train on and one to test on are needed"),
        ({"age": None, "on": None}, "0 columns of features and 24 rows; give at least 1 and 2"),
    ],
)
def test_tables_that_do_not_fit(tmp_path, changes, said):
    columns = {k: v for k, v in (COLUMNS | changes).items() if v is not None}
    path = write_csv(tmp_path / "t.csv", columns)
    with pytest.raises(InputError, match=said) as caught:
        load_table(path, "y", "user")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a,b\n1,2\n3\n", "row 1 has 1 cells for 2 columns"),
        (b"a,a\n1,2\n", "two columns have the same name"),
        (b'a,b\n"1,2\n', "not a table in CSV"),
        (b"\xff\xfe\x00", "not a table in CSV"),
        (b"", "unknown column 'y'"),
        (b"y,x\n", "give at least 1 and 2"),
    ],
)
def test_files_that_are_no_tables(tmp_path, data, said):
    (tmp_path / "t.csv").write_bytes(data)
    with pytest.raises(InputError, match=said):
        load_table(tmp_path / "t.csv", "y")


def test_files_that_are_not_there_or_not_parquet(tmp_path):
    for name in ("t.csv", "t.parquet"):
        with pytest.raises(InputError, match=r"t\.(csv|parquet): cannot be read"):
            load_table(tmp_path / name, "y")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InputError, match="not a table in Parquet"):
        load_table(tmp_path / "t.parquet", "y")


def test_budgets(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "MOST_CELLS", 90)
    monkeypatch.setattr(table, "MOST_BYTES", 100)
    pl.DataFrame(COLUMNS).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="24 x 4 cells, more than 90"):
        load_table(tmp_path / "t.parquet", "y")
    with pytest.raises(InputError, match=r"bytes, more than 100; write it as Parquet or \.npz"):
        load_table(write_csv(tmp_path / "t.csv", COLUMNS), "y")
