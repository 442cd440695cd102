"""Dealing images out: exact sizes, one owner each, the same every time, and availability that erases classes."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedparity.availability.bernoulli import LabelSkewed
from fedparity.availability.outages import Outages
from fedparity.core.errors import ConfigError
from fedparity.data.partitions import PARTITIONS

TRAIN = np.repeat(np.arange(10), 500)
TEST = np.repeat(np.arange(10), 100)
EVERY = [
    "labels",
    "labels:pairs=fixed",
    "labels:k=3,samples=20",
    "shards",
    "dirichlet",
    "quantity",
    "quantity:law=power",
    "iid",
]


def split(text, clients=20, seed=0, train=TRAIN, test=TEST, groups=None):
    return PARTITIONS.build(text).split(train, test, clients, seed, groups)


def check(dealt, train, test):
    """What holds whatever the scheme."""
    assert dealt.offsets[0] == 0
    assert dealt.offsets[-1] == len(dealt.train)
    assert dealt.sizes.min() >= 1
    matrix = dealt.matrix()
    assert matrix.sum() == len(dealt.train)
    for k in range(dealt.num_clients):
        mine, own = dealt.train_of(k), dealt.labels_of(k)
        assert (np.diff(mine) > 0).all()
        assert own.tolist() == np.unique(train[mine]).tolist()
        assert np.array_equal(dealt.counts_of(k), np.bincount(train[mine])[own])
        assert np.array_equal(matrix[k, own], dealt.counts_of(k))
        held = dealt.test_of(k)
        assert len(held) >= 1
        assert (np.diff(held) > 0).all()
        assert set(test[held].tolist()) <= set(own.tolist())


@st.composite
def labels(draw):
    classes = draw(st.integers(1, 6))
    values = draw(st.lists(st.integers(0, classes - 1), min_size=1, max_size=60))
    # Every label is there to train and to test on.
    return np.array([*values, *range(classes)]), np.repeat(np.arange(classes), draw(st.integers(1, 5)))


@given(labels(), st.integers(1, 12), st.integers(0, 3), st.sampled_from(EVERY), st.sampled_from(["own", "mix"]))
def test_invariants(data, clients, seed, text, kind):
    train, test = data
    text = f"{text}{',' if ':' in text else ':'}test={kind}"
    try:
        dealt = split(text, clients, seed, train, test)
    except ConfigError:
        return
    check(dealt, train, test)
    if "samples=" not in text:
        assert dealt.shared == 0
        assert len(np.unique(dealt.train)) == len(dealt.train)
    if text.startswith(("iid", "shards", "dirichlet", "quantity")):
        assert np.array_equal(np.sort(dealt.train), np.arange(len(train)))
    again = split(text, clients, seed, train, test)
    assert np.array_equal(again.train, dealt.train)
    # In any order of asking.
    for k in reversed(range(clients)):
        assert np.array_equal(again.test_of(k), dealt.test_of(k))


@given(labels(), st.integers(1, 12), st.integers(1, 6), st.integers(1, 30), st.sampled_from(["ring", "fixed"]))
def test_labels_are_exact(data, clients, k, samples, pairs):
    train, test = data
    classes = int(train.max()) + 1
    assume(k <= classes and samples >= k)
    try:
        dealt = split(f"labels:k={k},samples={samples},pairs={pairs}", clients, 0, train, test)
    except ConfigError as error:
        short = -(-samples // k) > np.bincount(train).min()
        assert short or (pairs == "fixed" and classes % k), error  # noqa: PT017 - either is right
        return
    assert (dealt.sizes == samples).all()
    for i in range(clients):
        wanted = (i + np.arange(k)) % classes if pairs == "ring" else i % (classes // k) * k + np.arange(k)
        assert dealt.labels_of(i).tolist() == sorted(wanted.tolist())
        assert np.ptp(dealt.counts_of(i)) <= 1
    demand = dealt.matrix().sum(axis=0)
    assert (dealt.shared == 0) == bool((demand <= np.bincount(train)).all())
    use = np.bincount(dealt.train, minlength=len(train))
    for label in range(classes):
        assert np.ptp(use[train == label]) <= 1


def test_the_papers_setting():
    fixed = split("labels:k=2,samples=90,pairs=fixed", 50)
    assert [fixed.labels_of(i).tolist() for i in range(6)] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [0, 1]]
    ring = split("labels:k=2,samples=90", 50)
    assert [ring.labels_of(i).tolist() for i in (0, 1, 8, 9)] == [[0, 1], [1, 2], [8, 9], [0, 9]]
    assert (ring.matrix()[ring.matrix() > 0] == 45).all()
    assert ring.shared == fixed.shared == 0
    for dealt in (fixed, ring):
        assert all(len(dealt.test_of(k)) == 200 for k in range(50))


def test_images_are_shared_only_when_there_are_too_few():
    assert split("labels:k=2,samples=250", 20).shared == 0
    dealt = split("labels:k=2,samples=252", 20)
    assert 0 < dealt.shared < len(TRAIN)
    check(dealt, TRAIN, TEST)
    # More clients than images, each with images of its own labels.
    many = split("labels:samples=2", 300, train=np.repeat(np.arange(10), 5))
    assert (many.sizes == 2).all()


def test_shards():
    dealt = split("shards", 25)
    assert (dealt.sizes == 200).all()
    assert np.diff(dealt.label_offsets).max() <= 2
    assert np.diff(split("shards:shards=1", 50).label_offsets).max() == 1


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_dirichlet_shares_have_the_right_mean_and_variance(alpha):
    clients, draws = 8, 300
    scheme = PARTITIONS.build(f"dirichlet:alpha={alpha}")
    supply = np.full(10, 5000)
    shares = np.concatenate([scheme._counts(supply, clients, np.random.default_rng(i)) for i in range(draws)]) / 5000
    assert np.allclose(shares.sum(axis=1), 1)
    variance = (1 / clients) * (1 - 1 / clients) / (clients * alpha + 1)
    error = np.sqrt(variance / len(shares))
    assert np.abs(shares.mean(axis=0) - 1 / clients).max() < 5 * error
    assert shares.var(axis=0).mean() == pytest.approx(variance, rel=0.1)


def test_small_alpha_means_few_labels():
    few, all_ = split("dirichlet:alpha=.1"), split("dirichlet:alpha=100")
    assert np.diff(few.label_offsets).mean() < 6 < np.diff(all_.label_offsets).min()
    assert split("dirichlet:alpha=.3,min_samples=50").sizes.min() >= 50


def test_quantity():
    sizes = np.sort(split("quantity:law=power,skew=1", 100).sizes)[::-1]
    assert sizes[0] / sizes[9] == pytest.approx(10, rel=0.1)
    assert np.ptp(split("quantity:skew=0", 100).sizes) <= 1
    wild = split("quantity:skew=3", 500)
    assert wild.sizes.sum() == 5000
    assert wild.sizes.min() == 1
    logs = np.log(split("quantity:skew=.5", 500, train=np.zeros(10**6, dtype=int), test=np.zeros(3, dtype=int)).sizes)
    assert logs.std() == pytest.approx(0.5, rel=0.1)


def test_groups():
    groups = np.arange(5000) // 50 * 7
    whole = split("groups", 100, groups=groups)
    assert all(np.unique(groups[whole.train_of(k)]).tolist() == [k * 7] for k in range(100))
    several = split("groups", 7, groups=groups)
    assert np.ptp(several.sizes) <= 50
    owners = [set(groups[several.train_of(k)].tolist()) for k in range(7)]
    assert sum(map(len, owners)) == 100
    check(several, TRAIN, TEST)


def test_test_sets():
    assert len(split("iid:test_samples=30").test_of(3)) == 30
    assert len(split("labels:k=2").test_of(3)) == 200
    dealt = split("dirichlet:alpha=.5,test=mix", 10)
    for k in range(10):
        mix = np.bincount(TEST[dealt.test_of(k)], minlength=10)
        want = dealt.matrix()[k] / dealt.sizes[k]
        assert np.abs(mix / mix.sum() - want).max() < 0.02
        assert mix.max() == 100
    capped = split("dirichlet:alpha=.5,test=mix,test_samples=40", 10)
    assert all(30 <= len(capped.test_of(k)) <= 40 for k in range(10))


def test_seeds_differ_and_the_global_generator_is_left_alone():
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - to see that nobody uses it
    for text in EVERY:
        assert not np.array_equal(split(text, seed=0).train, split(text, seed=1).train)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@pytest.mark.parametrize(
    ("text", "clients", "said"),
    [
        ("iid", 0, "clients=0 must be"),
        ("iid", 5001, "clients=5001 is more than the 5000 images; lower clients"),
        ("labels", 10_000, "would hold no sample; 5000 are there: lower clients, or give samples=S"),
        ("labels:k=11", 5, "k=11 must be between 1 and 10"),
        ("labels:k=3,pairs=fixed", 5, "does not divide 10 labels; use pairs=ring"),
        ("labels:k=1,samples=501", 5, "asks for 501 images of label 0 per client, but only 500 are there"),
        ("labels:k=3,samples=2", 5, "samples=2 must be a whole number of at least 3"),
        ("shards:shards=300", 20, "need 6000 images, 5000 are there; lower clients or shards"),
        ("dirichlet:alpha=.001", 500, "raise alpha, or lower clients or min_samples"),
        ("dirichlet:alpha=0", 5, "alpha=0"),
        ("quantity:skew=-1", 5, "skew=-1"),
        ("groups", 5, "needs one group per image, but none is there; add groups_train"),
        ("iid:test_samples=0", 5, "test_samples=0"),
        ("iid:test=all", 5, "own or mix"),
        ("label", 5, "did you mean 'labels'"),
    ],
)
def test_refusals_name_the_fix(text, clients, said):
    with pytest.raises(ConfigError) as error:
        split(text, clients)
    assert said in str(error.value)


def test_inputs_that_are_no_labels():
    for bad in (np.empty(0, dtype=int), np.zeros((2, 2), dtype=int), np.array([-1, 0]), np.array([0.5])):
        with pytest.raises(ConfigError, match="labels_train must be"):
            split("iid", 1, train=bad)
    with pytest.raises(ConfigError, match="no test image is there"):
        split("labels:k=1", 10, test=np.arange(9))
    with pytest.raises(ConfigError, match="2 groups are too few for 20 clients; lower clients to 2"):
        split("groups", 20, groups=np.arange(5000) % 2)
    with pytest.raises(ConfigError, match=r"it has shape \(3,\) for 5000 images"):
        split("groups", 2, groups=np.arange(3))


# Availability that knows the data.


def labels_seen(dealt, trace):
    """The labels of all clients that are ever there."""
    clients = {k for t in range(trace.num_rounds) for k in trace.online(t).tolist()}
    return set(np.concatenate([dealt.labels_of(k) for k in clients]).tolist())


def test_label_skew_erases_a_class():
    dealt = split("labels:k=2", 40)
    smallest = tuple(int(dealt.labels_of(k).min()) for k in range(40))
    skewed = LabelSkewed(p_min=0, classes=10, labels=smallest)
    trace = skewed.draw(40, 50, 0)
    assert 0 not in labels_seen(dealt, trace)
    assert len(labels_seen(dealt, trace)) == 9
    assert smallest[:10] == (0, 1, 2, 3, 4, 5, 6, 7, 8, 0)


def test_outages_by_label_take_fixed_pairs_away():
    dealt = split("labels:k=2,pairs=fixed", 40)
    model = Outages(by="label", classes=5, rate=0.2)
    assert model.group(40).tolist() == [dealt.labels_of(k).min() // 2 for k in range(40)]
    trace = Outages(by="label", classes=5, rate=0.2, low=1).draw(40, 30, 0)
    there = [{l for k in trace.online(t).tolist() for l in dealt.labels_of(k).tolist()} for t in range(30)]
    assert any(len(now) < 10 for now in there)
    assert all({2 * p, 2 * p + 1} <= now or not {2 * p, 2 * p + 1} & now for now in there for p in range(5))


def test_many_clients():
    dealt = split("labels:k=2,samples=4", 100_000)
    assert dealt.num_clients == 100_000
    assert len(dealt.test_of(99_999)) == 200
