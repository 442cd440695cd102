"""The digits and how they are dealt: who holds what, who is tested on what, and when an image is shared."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedparity.core.errors import ConfigError
from fedparity.tasks.digits import load_digits, partition_labels

IMAGES, LABELS = load_digits()

LABELLINGS = st.lists(st.integers(0, 4), min_size=0, max_size=80).map(
    lambda extra: np.array([*range(5), *range(5), *extra], dtype=np.int64)
)


def test_the_digits_are_1797_images_of_ten_labels_exact_in_float32():
    assert IMAGES.shape == (1797, 64)
    assert IMAGES.dtype == np.float32
    assert IMAGES.min() == 0
    assert IMAGES.max() == 1
    assert np.array_equal(IMAGES * 16, np.rint(IMAGES * 16))
    assert np.bincount(LABELS).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ConfigError, match=r"pip install 'fedparity\[torch\]'"):
        load_digits()


@settings(deadline=None, max_examples=150)
@given(
    labels=LABELLINGS,
    num_clients=st.integers(1, 30),
    per_client=st.integers(1, 5),
    samples=st.none() | st.integers(5, 40),
    share=st.floats(0, 1),
)
def test_invariants(labels, num_clients, per_client, samples, share):
    deal = partition_labels(labels, num_clients, per_client, samples=samples, min_samples=1, test_share=share)
    held = set(deal.held_out.tolist())
    assert deal.num_clients == num_clients == len(deal.test)
    assert deal.labels.tolist() == [[(k + i) % 5 for i in range(per_client)] for k in range(num_clients)]
    for k in range(num_clients):
        train, test = deal.train[k].tolist(), deal.test[k].tolist()
        assert train == sorted(set(train))
        assert len(train) >= per_client
        assert samples is None or len(train) <= samples
        assert not held & set(train)
        assert set(labels[train]) == set(deal.labels[k])
        assert test == [i for i in sorted(held) if labels[i] in deal.labels[k]]
    for label in range(5):
        images = set(np.flatnonzero(labels == label).tolist())
        rest = images - held
        assert rest
        assert images & held
        owners = [set(train[labels[train] == label].tolist()) for train in deal.train if label in labels[train]]
        if len(owners) <= len(rest):
            assert sum(map(len, owners)) == len(set().union(*owners))


@settings(deadline=None, max_examples=40)
@given(num_clients=st.integers(1, 400), per_client=st.integers(1, 10), seed=st.integers(0, 5))
def test_digits_are_shared_only_when_there_are_too_few(num_clients, per_client, seed):
    deal = partition_labels(LABELS, num_clients, per_client, min_samples=20, seed=seed)
    used = np.bincount(np.concatenate(deal.train), minlength=len(LABELS))
    assert min(map(len, deal.train)) >= 20
    for label in range(10):
        pool = np.setdiff1d(np.flatnonzero(label == LABELS), deal.held_out)
        holders = int((deal.labels == label).sum())
        least = -(-20 // per_client)
        if holders == 0:
            assert not used[pool].any()
        elif holders * least <= len(pool):
            assert set(used[pool]) == {1}
        else:
            assert np.ptp(used[pool]) <= 1


def test_the_hold_out_is_stratified():
    deal = partition_labels(LABELS, 10)
    per_label = np.bincount(LABELS[deal.held_out])
    assert per_label.tolist() == np.rint(np.bincount(LABELS) / 4).astype(int).tolist()


def test_samples_are_split_evenly_over_labels():
    deal = partition_labels(LABELS, 10, 3, samples=11)
    assert [np.bincount(LABELS[deal.train[0]]).tolist()] == [[4, 4, 3]]


def test_a_seed_is_a_deal():
    one, same, other = (partition_labels(LABELS, 60, seed=seed) for seed in (1, 1, 2))
    assert all(map(np.array_equal, one.train, same.train))
    assert np.array_equal(one.held_out, same.held_out)
    assert not np.array_equal(one.held_out, other.held_out)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_clients": 0}, "clients=0 must be .*at least 1"),
        ({"labels_per_client": 11}, "labels_per_client=11 must be between 1 and 10"),
        ({"samples": 1}, "samples=1 must be .*at least 2"),
        ({"min_samples": 0}, "min_samples=0 must be .*at least 1"),
        ({"min_samples": 400}, "lower min_samples"),
        ({"test_share": 1.5}, "test_share=1.5 must be between 0 and 1"),
        ({"labels": np.array([0, 0, 1])}, "label 1 has a single image"),
    ],
)
def test_refusals(wrong, message):
    with pytest.raises(ConfigError, match=message):
        partition_labels(**({"labels": LABELS, "num_clients": 10, "labels_per_client": 2} | wrong))
