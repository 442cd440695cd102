"""States as data: what goes into a checkpoint comes out of it, and nothing else can."""

import json
import math
from dataclasses import dataclass, make_dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedparity import AVAILABILITY, Coordinator, InProcess, Intermittent, run
from fedparity.core.errors import ConfigError, InputError
from fedparity.core.tree import class_name, classes_in, flatten, rebuild
from fedparity.estimators import ESTIMATORS
from fedparity.local import Mixed
from fedparity.memory import MEMORIES
from fedparity.schedulers import SCHEDULERS
from fedparity.surrogates import SURROGATES
from fedparity.tasks import Logistic
from fedparity.utility import UTILITIES
from fedparity.weightings import WEIGHTINGS
from fitting import built, partners
from stored_runs import same

CLIENTS = 8
"""As many as a forecast has bins: an array of that length is not one entry per client."""
VARIANTS = (
    [("scheduler", SCHEDULERS, name) for name in SCHEDULERS if name != "fixed"]
    + [("estimator", ESTIMATORS, name) for name in ESTIMATORS]
    + [("estimator", ESTIMATORS, "window:window=3")]
    + [("utility", UTILITIES, name) for name in UTILITIES]
    + [("surrogate", SURROGATES, name) for name in SURROGATES]
    + [("surrogate", SURROGATES, "utility:g=level")]
    + [("memory", MEMORIES, name) for name in MEMORIES]
    + [("weighting", WEIGHTINGS, name) for name in WEIGHTINGS]
)


def through_json(state, classes):
    skeleton, arrays = flatten(state)
    text = json.dumps(skeleton, allow_nan=False)
    return rebuild(json.loads(text), {path: a.copy() for path, a in arrays.items()}, classes)


def coordinator_of(key, table, text, **more):
    labels = np.eye(CLIENTS, dtype=np.int64)  # for schedulers that go by them
    chosen = built(**partners(key, text)) if key in ("weighting", "memory") else {key: table.build(text)}
    return Coordinator(3, seed=1, **chosen, labels=labels, **more)


def engine_of():
    task = Logistic.synthetic(CLIENTS, seed=1)
    trace = AVAILABILITY.build("bernoulli:low=.3,high=.9").draw(CLIENTS, 12, 0)
    return task, Intermittent(InProcess(task), trace.with_dropout(0.2, np.random.default_rng(0)))


@pytest.mark.parametrize(("key", "table", "text"), VARIANTS, ids=[f"{k}-{t}" for k, _, t in VARIANTS])
def test_the_state_of_every_component_survives(key, table, text):
    task, engine = engine_of()
    method = coordinator_of(key, table, text)
    first = task.init(np.random.default_rng(0))
    classes = classes_in(method.init(CLIENTS, first))
    half = run(method, engine, 6, params=first, num_clients=CLIENTS)
    again = through_json(half, classes)
    assert same(again, half)
    # It also goes on as if nothing had happened.
    assert same(run(method, engine, 12, state=again), run(method, engine, 12, state=half.copy()))


def test_client_models_survive():
    task, engine = engine_of()
    method = Coordinator(3, seed=1, local=Mixed(0.5))
    state = run(method, engine, 6, params=task.init(np.random.default_rng(0)), num_clients=CLIENTS)
    again = through_json(state, classes_in(method.init(CLIENTS)))
    assert len(again.kept) > 2
    assert same(again, state)


@dataclass
class Pair:
    left: object
    right: object


PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False),
    st.just(math.nan),
    st.text(),
    hnp.arrays(
        st.sampled_from([np.dtype(d) for d in ("<f8", "<f4", "<i4", "<i8", "u1", "<u2", "?")]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    ),
)
KEYS = st.one_of(st.text(max_size=4), st.sampled_from(["a/b", "a#at", "#to", "", "/", "%2F"]))
TREES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
        st.dictionaries(st.integers(-5, 5), inner, max_size=3),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=12,
)


@given(TREES)
def test_any_tree_survives(tree):
    assert same(through_json(tree, {class_name(Pair): Pair}), tree)


@given(TREES)
def test_every_array_has_a_path_of_its_own(tree):
    def count(value):
        if isinstance(value, np.ndarray):
            return 1
        if isinstance(value, dict):
            return sum(map(count, value.values()))
        if isinstance(value, (tuple, list)):
            return sum(map(count, value))
        return count(value.left) + count(value.right) if isinstance(value, Pair) else 0

    assert len(flatten(tree)[1]) == count(tree)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308])
def test_floats_at_the_edge_survive(value):
    skeleton = json.loads(json.dumps(flatten((value,))[0], allow_nan=False))
    assert same(rebuild(skeleton, {}, {}), (value,))


def test_numpy_scalars_become_python_numbers():
    got = through_json((np.float64(0.1), np.int32(3), np.bool_(1)), {})
    assert same(got, (0.1, 3, True))


@pytest.mark.parametrize(
    "value",
    [{1, 2}, object(), b"bytes", 1j, lambda: 0, {(1, 2): 3}, {1.5: 2}, {None: 1}, Pair, {1: 1, "1": 2}],
    ids=lambda value: type(value).__name__ + str(value)[:12],
)
def test_what_cannot_be_stored_is_refused_when_it_is_written(value):
    with pytest.raises(ConfigError, match=r"which cannot be stored; use numbers, texts, arrays, tuples, lists, dicts"):
        flatten(value)


def test_only_classes_that_were_named_come_out():
    skeleton, arrays = flatten(Pair(1, np.ones(2)))
    assert same(rebuild(skeleton, arrays, {class_name(Pair): Pair}), Pair(1, np.ones(2)))
    for classes in ({}, {"other:Pair": Pair}):
        with pytest.raises(InputError, match="does not fit this run"):
            rebuild(skeleton, arrays, classes)


def test_a_checkpoint_imports_and_runs_nothing():
    hit = []
    evil = make_dataclass("Evil", [("x", int)], namespace={"__post_init__": hit.append})
    for name in ("os:system", "builtins:eval", class_name(evil), "subprocess:Popen"):
        with pytest.raises(InputError):
            rebuild({"class": name, "fields": {"x": 1}}, {}, {class_name(Pair): Pair})
    assert hit == []


DEEP = json.loads('{"list":[' * 400 + "1" + "]}" * 400)
HOSTILE = [
    {},
    {"array": "/gone"},
    {"array": 5},
    {"array": ["/a"]},
    {"array": None},
    {"float": "one"},
    {"float": []},
    {"float": 10**400},
    {"float": None},
    {"tuple": 5},
    {"tuple": None},
    {"list": True},
    {"dict": 5},
    {"dict": [5]},
    {"dict": [[1]]},
    {"dict": [[1, 2, 3]]},
    {"dict": [[[1], 2]]},
    {"dict": [[{}, 2]]},
    {"dict": {"a": 1}},
    {"class": "x:Y"},
    {"class": class_name(Pair)},
    {"class": class_name(Pair), "fields": []},
    {"class": class_name(Pair), "fields": None},
    {"class": class_name(Pair), "fields": {}},
    {"class": class_name(Pair), "fields": {"left": 1}},
    {"class": class_name(Pair), "fields": {"left": 1, "right": 2, "more": 3}},
    {"class": class_name(Pair), "fields": {"__class__": 1}},
    {"class": [], "fields": {}},
    {"class": None, "fields": {}},
    {"class": {}, "fields": {}},
    {"fields": {}},
    {"unknown": 1},
]


@pytest.mark.parametrize("skeleton", HOSTILE, ids=str)
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: {"tuple": [1, x]}, lambda x: {"dict": [["k", x]]}])
def test_hostile_skeletons_are_refused_as_input(skeleton, wrap):
    with pytest.raises(InputError):
        rebuild(wrap(skeleton), {"/a": np.ones(1)}, {class_name(Pair): Pair})


def test_a_nesting_bomb_is_refused_or_rebuilt():
    bomb = 1
    for _ in range(100_000):
        bomb = {"list": [bomb]}
    with pytest.raises(InputError):
        rebuild(bomb, {}, {})
    while isinstance(bomb, dict):  # taken apart by hand, or its end would recurse as well
        bomb = bomb["list"].pop()
    assert isinstance(rebuild(DEEP, {}, {}), list)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["array", "float", "tuple", "list", "dict", "class", "fields", "left", "right"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=15,
)


@given(JSON)
def test_any_json_is_rebuilt_or_refused_as_input(skeleton):
    try:
        rebuild(skeleton, {"/a": np.ones(1)}, {class_name(Pair): Pair})
    except InputError as error:
        assert "does not fit this run" in str(error)  # noqa: PT017 - both ways out are right
