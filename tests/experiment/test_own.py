"""One's own module, tensors, frames and Datasets as a task: who holds what, is tested on what, and how it trains."""

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from fedparity import Coordinator, InProcess, run, stream
from fedparity.core.errors import ConfigError, InputError
from fedparity.data.dataset import every_fourth
from fedparity.experiment.own import frame_samples, own_samples, torch_task
from fedparity.tasks.batched import Batched
from fedparity.tasks.torch_task import TorchTask
from fedparity.tasks.training import Training

RNG = np.random.default_rng(0)
Y = np.arange(120) % 4
X = (RNG.normal(size=(120, 6)) + 3 * np.eye(6)[Y]).astype(np.float32)
LISTS = [np.arange(k, 120, 5) for k in range(5)]


def linear():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x):
        return self.out(x + self.inner(x).tanh())


@pytest.mark.parametrize(("module", "kind"), [(linear, Batched), (Residual, TorchTask)])
def test_a_few_lines_train_a_module_of_one_s_own(module, kind):
    task = torch_task(module(), X, Y, clients=10, partition="labels:k=2", training=Training(rate=0.1))
    assert isinstance(task, kind)
    first = task.init(stream(0, "init"))
    state = run(Coordinator(5), InProcess(task), 30, num_clients=10, params=first)
    assert task.accuracy(state.params) > 0.8 > task.accuracy(first)  # chance is a quarter
    assert (task.label_counts() > 0).sum(axis=1).tolist() == [2] * 10


def test_the_path_follows_from_the_module_and_may_be_said():
    frozen = linear()
    frozen[0].requires_grad_(requires_grad=False)
    assert isinstance(torch_task(frozen, X, Y, 5), TorchTask)
    assert isinstance(torch_task(linear(), X, Y, 5, path="sequential"), TorchTask)
    assert isinstance(torch_task(Residual(), X, Y, 5, path="batched"), Batched)
    assert isinstance(torch_task("logistic", X, Y, 5), Batched)
    assert torch_task("mlp:hidden=5", X, Y, 5).flat.size == 6 * 5 + 5 + 5 * 4 + 4


def test_tensors_arrays_and_data_sets_are_the_same_samples():
    tensors = torch.tensor(X, requires_grad=True), torch.tensor(Y)
    pairs = [(x, int(y)) for x, y in zip(X, Y, strict=True)]
    ways = [(X, Y), (X.astype(float).tolist(), Y.tolist()), tensors, (TensorDataset(*tensors), None), (pairs, None)]
    found = [own_samples(x, y, 6, seed=3) for x, y in ways]
    for other in found[1:]:
        assert np.array_equal(other.x_train, found[0].x_train)
        assert other.y_test.tolist() == found[0].y_test.tolist()
        assert [rows.tolist() for rows in other.train] == [rows.tolist() for rows in found[0].train]


def test_a_number_of_clients_may_be_numpy_s():
    assert own_samples(X, Y, np.int64(6)).num_clients == 6


def test_every_fourth_sample_of_a_label_is_held_out_unless_test_samples_are_given():
    mine = own_samples(X, Y, 6)
    assert np.bincount(mine.y_test).tolist() == [8] * 4
    assert len(mine.held_out) == 32
    assert sum(map(len, mine.train)) == 88
    given = own_samples(X, Y, 6, test=(X[:8], Y[:8]))
    assert sum(map(len, given.train)) == 120
    assert np.array_equal(given.x_test, X[:8])
    assert own_samples(X, Y, 6, test=TensorDataset(torch.tensor(X[:8]), torch.tensor(Y[:8]))).y_test.tolist() == (
        Y[:8].tolist()
    )


def test_labels_that_come_in_turns_are_trained_on_and_tested():
    turns = [np.arange(24 * k, 24 * k + 24) for k in range(5)]  # every fourth row has the same label
    mine = own_samples(X, Y, turns)
    for rows, test in zip(mine.train, mine.test, strict=True):
        assert np.bincount(Y[rows]).min() >= 4
        assert set(Y[test]) == {0, 1, 2, 3}
    columns = {f"x{i}": X[:, i] for i in range(6)} | {"y": Y, "who": np.arange(120) // 24}
    framed = frame_samples(pl.DataFrame(columns), "y", "who")
    assert framed.label_counts().min() >= 4
    assert {tuple(np.bincount(framed.y_test[test])) for test in framed.test} == {tuple(np.bincount(Y[mine.test[0]]))}


@pytest.mark.parametrize(
    ("labels", "tested"),
    [
        ([0, 1, 1, 1, 1, 1], [1, 5]),  # a label that a client holds once is trained on,
        ([0, 2, 1, 1, 1, 1, 0], [0, 2]),  # of labels with few rows one row is for testing, of one that there is more of
        ([3, 2, 1, 0], [3]),
        ([0, 1], [0]),
        ([2, 0, 1, 2, 0, 1, 2, 0, 1], [1, 5, 6]),
    ],
)
def test_labels_of_few_rows(labels, tested):
    assert np.flatnonzero(every_fourth(np.zeros(len(labels), np.int64), np.array(labels))).tolist() == tested
    split = own_samples(X[: len(labels)], np.array(labels), [range(len(labels))])
    assert split.test[0].tolist() == tested
    assert sorted([*split.train[0], *tested]) == [*range(len(labels))]


def test_lists_say_who_holds_which_rows():
    mine = own_samples(X, Y, LISTS)
    for k, rows in enumerate(LISTS):
        assert mine.test[k].tolist() == sorted(row for y in range(4) for row in rows[Y[rows] == y][::4])
        assert sorted([*mine.train[k], *mine.test[k]]) == rows.tolist()
    assert sorted(mine.held_out) == sorted(np.concatenate(mine.test))
    given = own_samples(X, Y, [*LISTS[:2], LISTS[0]], test=(X[:8], Y[:8]))  # two clients may hold the same rows
    assert [rows.tolist() for rows in given.train] == [LISTS[0].tolist(), LISTS[1].tolist(), LISTS[0].tolist()]
    assert set(Y[given.test[0]].tolist()) == set(Y[LISTS[0]].tolist())
    data = TensorDataset(torch.tensor(X), torch.tensor(Y))
    assert [r.tolist() for r in own_samples(data, None, LISTS).train] == [r.tolist() for r in mine.train]


def test_bytes_are_divided_by_255_and_floats_taken_as_they_are():
    images = RNG.integers(0, 256, (120, 3, 4, 4), dtype=np.uint8)
    task = torch_task("logistic", images, Y, 5, path="sequential")
    assert task.samples.x_train.dtype == np.uint8
    assert torch.equal(task.floats(images[:2]), torch.tensor(images[:2]).float() / 255)
    assert torch.equal(torch_task("logistic", X, Y, 5, path="sequential").floats(X[:2]), torch.tensor(X[:2]))


def test_standardised_features_have_mean_0_and_deviation_1_on_training_samples():
    x = X * [1, 10, 100, 1000, 1, 0] + 5
    mine = own_samples(x, Y, 6).standardised()
    np.testing.assert_allclose(mine.x_train.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(mine.x_train.std(axis=0), [1, 1, 1, 1, 1, 0], atol=1e-5)
    raw = own_samples(x, Y, 6)
    mean, deviation = raw.x_train.mean(axis=0), raw.x_train.std(axis=0) + np.eye(6)[5]
    np.testing.assert_allclose(mine.x_test, (raw.x_test - mean) / deviation, rtol=1e-3, atol=1e-4)
    with pytest.raises(ConfigError, match="samples of uint8 are divided by 255; standardise is for float features"):
        own_samples(np.zeros((120, 2), np.uint8), Y, 6).standardised()


def test_a_frame_with_a_client_column():
    columns = {f"x{i}": X[:, i] for i in range(6)} | {"y": Y, "who": [f"c{i % 5}" for i in range(120)]}
    samples = frame_samples(pl.DataFrame(columns), "y", "who")
    assert samples.num_clients == 5
    task = torch_task("logistic", samples.standardised(), training=Training(rate=0.1))
    state = run(Coordinator(5), InProcess(task), 20, num_clients=5, params=task.init(stream(0, "init")))
    assert task.accuracy(state.params) > 0.8
    del columns["who"]
    assert frame_samples(pl.DataFrame(columns), "y", clients=12).num_clients == 12


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"x": X[:, 0]}, r"samples are float32 of shape \(120,\); give numbers, one row per sample"),
        ({"x": "text"}, "give numbers"),
        ({"x": object(), "y": None}, "object is no Dataset of pairs; give one, or x and y"),
        ({"x": [[1], [2, 3]]}, "list is no array"),
        ({"y": Y[:5]}, r"labels are int64 of shape \(5,\) for 120 samples"),
        ({"y": Y / 2}, "labels are float64"),
        ({"y": -Y}, "of at least 0"),
        ({"y": np.array([9, *Y[1:]])}, "label 9 has a single sample"),
        ({"clients": 0}, "clients=0 must be"),
        ({"clients": 500}, "of 500 clients, first client .* would hold no sample"),
        ({"clients": 500, "partition": "iid"}, "clients=500 is more than the 88 images; lower clients"),
        ({"clients": [[0, 1], [1, 2]]}, "row 1 is held by two clients"),
        ({"clients": [[0, 1], [2]]}, "client 1 has a single row"),
        ({"clients": [[0, 1], []]}, r"clients\[1\]=\[\] must list rows between 0 and 119"),
        ({"clients": [[0, 120]]}, r"clients\[0\]=\[.*\] must list rows"),
        ({"clients": [[0, 0]]}, r"clients\[0\]=\[.*\] must list rows"),
        ({"clients": [["a"]]}, r"clients\[0\]=\[.*\] must list rows"),
        ({"partition": "ring"}, "unknown partition 'ring'"),
        ({"test": (X[:, :2], Y)}, r"float32 of shape \(6,\) and float32 of shape \(2,\); make them the same"),
    ],
)
def test_refusals(wrong, said):
    with pytest.raises(ConfigError, match=said):
        own_samples(**({"x": X, "y": Y, "clients": 5} | wrong))


def test_numbers_that_are_not_finite_name_their_row():
    x = X.copy()
    x[7, 2] = np.inf
    with pytest.raises(InputError, match="row 7 holds a number that is not finite"):
        own_samples(x, Y, 5)
