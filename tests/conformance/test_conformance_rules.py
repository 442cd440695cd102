"""Laws that every utility, surrogate, memory and weighting keeps, run over the tables."""

import copy
import itertools

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from fedparity import SURROGATES, UTILITIES, WEIGHTINGS, ClientReport, Evals, Rows
from fedparity.core.types import Prototypes
from fedparity.memory import MEMORIES
from fedparity.testing import weightings as laws
from fedparity.testing.weightings import N, content
from fedparity.testing.weightings import ledger_of as a_ledger

WEIRD = st.floats(-1e6, 1e6) | st.just(float("nan"))
COLUMN = st.lists(WEIRD, min_size=N, max_size=N).map(np.array)
CLIENTS = st.lists(st.integers(0, N - 1), unique=True, min_size=1).map(sorted)


PARTICIPANTS = [name for name in UTILITIES if not UTILITIES.build(name).credits_all]


@pytest.mark.parametrize("name", [name for name in UTILITIES if name not in PARTICIPANTS])
@settings(deadline=None)
@given(columns=st.tuples(*[COLUMN] * 3), bound=st.floats(0.01, 100))
def test_credits_of_everybody_are_bounded_and_begin_where_the_last_ended(name, columns, bound):
    rule = UTILITIES[name](bound=bound)
    models = [np.array([number]) for number in range(len(columns))]
    state = rule.init(N)

    def evaluate(model):
        return Evals(np.arange(N), columns[model[0]], columns[model[0]])

    for before, after in itertools.pairwise(models):
        credited, state = rule.credit_all(state, evaluate, before, after)
        assert (np.abs(credited) <= bound).all()
        assert np.isfinite(credited).all()
        same, _ = rule.credit_all(state, evaluate, after, after)
        assert not same.any()


@settings(deadline=None)
@given(data=st.data(), clients=CLIENTS, columns=st.tuples(*[COLUMN] * 6), bound=st.floats(0.01, 100))
def test_utilities_are_bounded_and_each_client_is_credited_for_itself(data, clients, columns, bound):
    """All rules credit the same reports."""
    before, after, accuracy, last, loss_now, accuracy_now = columns
    reports = [ClientReport(k, None, 1, before[k], after[k], accuracy[k]) for k in clients]
    other = data.draw(st.permutations(reports))

    def credit(rule, order):
        ids = np.array([r.client for r in order])
        evals = Evals(ids, loss_now[ids], accuracy_now[ids])
        utility, loss, _ = rule.credit(rule.init(N), order, a_ledger(last), evals)
        assert utility.dtype == loss.dtype == np.float64
        return {k: (u, repr(f)) for k, u, f in zip(ids.tolist(), utility.tolist(), loss.tolist(), strict=True)}

    for name in PARTICIPANTS:
        note(name)
        rule = UTILITIES[name](bound=bound)
        found = credit(rule, reports)
        assert all(0 <= u <= bound for u, _ in found.values())
        assert credit(rule, other) == found
        for report in reports:
            assert credit(rule, [report]) == {report.client: found[report.client]}


@pytest.mark.parametrize("name", PARTICIPANTS)
def test_crediting_nobody_changes_nothing(name):
    rule, none = UTILITIES.build(name), np.empty(0)
    state, ledger = rule.init(N), a_ledger(np.ones(N))
    kept = copy.deepcopy((state, ledger))
    utility, loss, state = rule.credit(state, [], ledger, Evals(np.empty(0, np.int64), none, none))
    assert len(utility) == len(loss) == 0
    assert repr(state) == repr(kept[0])
    assert ledger == kept[1]


@settings(deadline=None)
@given(
    clients=CLIENTS,
    online=st.sets(st.integers(0, N - 1)),
    loss=st.lists(st.floats(0, 10), min_size=N, max_size=N).map(np.array),
)
def test_surrogates_stand_in_for_the_absent_only(clients, online, loss):
    for name in (*SURROGATES, "utility:g=level", "utility:epsilon=.5"):
        note(name)
        stands_in_for_the_absent_only(SURROGATES.build(name), clients, online, loss)


def stands_in_for_the_absent_only(rule, clients, online, loss):
    ledger, available = a_ledger(loss), np.array(sorted(online), dtype=np.int64)
    reports = [ClientReport(k, loss_after=loss[k]) for k in clients]
    state = rule.remember(rule.init(N), reports, loss[clients])
    kept = ledger.copy()

    def scored(ids):
        return Evals(ids, loss[ids], loss[ids], credit=loss[ids])

    found, state = rule.stand_in(state, 4, available, ledger, scored)
    again, _ = rule.stand_in(state, 4, available, ledger, scored)
    assert ledger == kept
    assert not online & set(found.clients.tolist())
    assert (ledger.last_completed[found.clients] >= 0).all()
    assert len(found.utility) == len(found.clients)
    assert np.isfinite(found.utility).all()
    assert (found.utility >= 0).all()
    assert found.eta_sum >= 0
    assert found.bias_bound >= 0
    assert again.utility.tobytes() == found.utility.tobytes()


@pytest.mark.parametrize("name", SURROGATES)
def test_remembering_nobody_changes_nothing(name):
    rule = SURROGATES.build(name)
    assert repr(rule.remember(rule.init(N), [], np.empty(0))) == repr(rule.init(N))


@pytest.mark.parametrize("name", MEMORIES)
def test_a_memory_of_nobody_changes_nothing(name):
    rule = MEMORIES.build(name)
    assert repr(rule.remember(rule.init(N), [])) == repr(rule.init(N))
    assert rule.bias(rule.init(N)) == (0, 0)


ADDING = [
    *MEMORIES, "last_updates:own=replace", "last_updates:max_age=2", "last_updates:wait=true", "last_updates:ram=0",
    "decayed:epsilon=1",
]  # fmt: skip
"""Every memory, and the ways in which it can add rows."""
HEAD = Prototypes(np.array([[1.0], [0.5]]), np.array([3, 2]))
"""Of two labels with one feature: a head of four numbers."""


def seen(name, clients, values):
    """A memory after a round in which these clients took part, and the ledger after it (at least one more)."""
    rule, ledger = MEMORIES.build(name), a_ledger(np.ones(N))
    reports = [ClientReport(k, np.full(4, v), 2, v, prototypes=HEAD) for k, v in zip(clients, values, strict=True)]
    _, state = rule.complete(rule.init(N), 3, fresh_rows([], []), np.zeros(4), ledger)
    state = rule.remember(state, reports)
    ledger.last_completed[clients] = 3
    return rule, state, ledger


def fresh_rows(clients, values):
    k = len(clients)
    deltas = [np.full(4, float(v)) for v in values]
    return Rows(np.array(clients, dtype=np.int64), deltas, np.zeros(k, np.int64), np.ones(k), np.ones(k), np.ones(k))


SOME = st.lists(st.integers(0, N - 1), unique=True, max_size=N)


@settings(deadline=None, max_examples=30)
@given(before=SOME, now=SOME.map(sorted), values=st.lists(st.floats(-9, 9), min_size=N, max_size=N), data=st.data())
def test_completed_rows_are_in_order_and_fresh_ones_stay_as_they_are(before, now, values, data):
    """All memories complete the same rows."""
    order = data.draw(st.permutations(range(len(before))))
    for name in ADDING:
        note(name)
        completes_in_order(name, before, now, values, order)


def completes_in_order(name, before, now, values, order):
    rule, state, ledger = seen(name, before, values[: len(before)])
    kept, here = ledger.copy(), fresh_rows(now, values[: len(now)])
    as_it_was = content(here)
    rows, state = rule.complete(state, 5, here, np.ones(4), ledger)
    assert ledger == kept
    assert content(here) == as_it_was
    columns = (rows.ages, rows.sizes, rows.losses, rows.probs, rows.deltas)
    assert {len(column) for column in columns} == {len(rows.clients)}
    assert (rows.clients.dtype, rows.ages.dtype) == (np.int64, np.int64)
    pairs = list(zip(rows.clients.tolist(), rows.ages.tolist(), strict=True))
    assert pairs == sorted(set(pairs))  # in client order, fresh before stale, none twice
    fresh = rows.ages == 0
    if "wait" not in name or len(set(before) | set(now)) == N:
        assert rows.clients[fresh].tolist() == now
        assert [d.tobytes() for d, f in zip(rows.deltas, fresh, strict=True) if f] == as_it_was[1]
    started = now if name.startswith("echo") else []  # everybody has the first model
    assert set(rows.clients[~fresh].tolist()) <= {*before, *started, -1}
    assert (rows.ages[~fresh] > 0).all()
    assert all(np.isfinite(d).all() and len(d) == 4 for d in rows.deltas)
    assert np.isfinite(rows.sizes).all()
    assert (rows.probs > 0).all()
    # The order in which reports were remembered does not matter, nor does asking twice.
    other, turned, _ = seen(name, [before[i] for i in order], [values[i] for i in order])
    again, turned = other.complete(turned, 5, fresh_rows(now, values[: len(now)]), np.ones(4), ledger)
    assert content(again) == content(rows)
    assert content(other.complete(turned, 5, fresh_rows(now, values[: len(now)]), np.ones(4), ledger)[0]) == content(
        rows
    )


@pytest.mark.parametrize("name", ADDING)
def test_completing_nobody_without_memory_adds_nobody(name):
    rule, ledger = MEMORIES.build(name), a_ledger(np.ones(N))
    rows, _ = rule.complete(rule.init(N), 0, fresh_rows([], []), np.zeros(4), ledger)
    assert content(rows) == content(fresh_rows([], []))


@pytest.mark.parametrize("name", ADDING)
def test_what_is_remembered_is_a_copy(name):
    """A client that goes on writing into its update does not change what stands in for it."""
    rule, ledger = MEMORIES.build(name), a_ledger(np.ones(N))
    delta = np.ones(4)
    everybody = [ClientReport(k, delta, prototypes=HEAD) for k in range(N)]
    state = rule.remember(rule.init(N), everybody)
    ledger.last_completed[:] = 3
    first, state = rule.complete(state, 4, fresh_rows([], []), np.zeros(4), ledger)
    before = content(first)
    delta[:] = 7
    assert content(rule.complete(state, 4, fresh_rows([], []), np.zeros(4), ledger)[0]) == before


@st.composite
def rows(draw):
    clients = np.array(draw(CLIENTS))
    k = len(clients)
    sizes = draw(st.lists(st.integers(1, 10**9), min_size=k, max_size=k))
    deltas = draw(st.lists(st.floats(-1e3, 1e3), min_size=2 * k, max_size=2 * k))
    probs = draw(st.lists(st.floats(1e-3, 1), min_size=k, max_size=k))
    losses = draw(st.lists(WEIRD, min_size=k, max_size=k))
    return Rows(
        clients, np.reshape(deltas, (k, 2)), clients * 0, np.array(sizes, float), np.array(losses), np.array(probs)
    )


BY_GEOMETRY = ("fair_vector", "geometric_median", "rfa", "krum")
"""Rules that compare rows with each other: equal rows are taken in client order, and weights may be negative."""


@pytest.mark.parametrize("name", BY_GEOMETRY)
@pytest.mark.parametrize("seed", range(5))
def test_rows_in_general_position_may_come_in_any_order(name, seed):
    rng = np.random.default_rng(seed)
    k = 7
    one = Rows(np.arange(k), rng.normal(size=(k, 9)), np.zeros(k, int), np.ones(k), rng.random(k), np.ones(k))
    order = rng.permutation(k)
    turned = Rows(*(getattr(one, f)[order] for f in ("clients", "deltas", "ages", "sizes", "losses", "probs")))
    rule = WEIGHTINGS.build(name)
    first, _ = rule.weigh(rule.init(N), one, a_ledger(np.ones(N)))
    then, _ = rule.weigh(rule.init(N), turned, a_ledger(np.ones(N)))
    assert then @ turned.deltas == pytest.approx(first @ one.deltas, rel=1e-6)


@given(rows=rows(), data=st.data())
def test_weights_are_finite_and_follow_their_rows(rows, data):
    """All rules weigh the same rows: drawing them costs more than weighing them."""
    ledger, order = a_ledger(np.ones(N)), data.draw(st.permutations(range(len(rows.clients))))
    for name in WEIGHTINGS:
        note(name)
        rule = WEIGHTINGS.build(name)
        weights = laws.gives_one_weight_per_row(rule, rows, ledger)
        if name in ("mean", "by_size"):
            assert weights.sum() == pytest.approx(1, rel=1e-12)
        if name not in BY_GEOMETRY:
            laws.follows_its_rows(rule, rows, order, ledger)


@pytest.mark.parametrize("text", ["last_updates", "last_updates:own=replace", "decayed", "prototype"])
@settings(deadline=None, max_examples=20)
@given(before=SOME, now=SOME.map(sorted), values=st.lists(st.floats(-9, 9), min_size=N, max_size=N))
def test_weights_of_stale_rows_are_finite_and_change_nothing_else(text, before, now, values):
    memory, state, ledger = seen(text, before, values[: len(before)])
    found, _ = memory.complete(state, 5, fresh_rows(now, values[: len(now)]), np.zeros(4), ledger)
    for name in WEIGHTINGS:
        laws.gives_one_weight_per_row(WEIGHTINGS.build(name), found, ledger)


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_no_rows_have_no_weights(name):
    laws.has_none_for_nobody(WEIGHTINGS.build(name))


@pytest.mark.parametrize(
    ("table", "name"),
    [(t, name) for t in (UTILITIES, SURROGATES, MEMORIES, WEIGHTINGS) for name in t],
    ids=lambda x: str(x)[:20],
)
def test_every_entry_describes_itself(table, name):
    entry = table.describe(name)
    assert entry["summary"].endswith(".")
    assert all(value is not ... for value in entry["parameters"].values())
    assert table.build(name) == table[name]()
