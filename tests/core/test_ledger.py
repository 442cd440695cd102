"""What each client got: columns by hand, replay as a law."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedparity import SCHEDULERS, Coordinator, InProcess, Intermittent, Journal, Ledger, Trace, run
from fedparity.core.ledger import NEVER
from fedparity.core.types import NO_FLOATS, NO_IDS, RoundRecord, SurrogateCredit
from fedparity.surrogates import UtilitySurrogate
from fedparity.tasks import Quadratic
from fedparity.utility import AccuracyGain, GlobalLossDrop, LossDrop


def a_record(t, available, selected, credit, *, failed=(), stand_in=None):
    """`credit` has the utility and loss of each client that completed the round."""
    ids = [np.array(list(x), dtype=np.int64) for x in (available, selected, credit)]
    return RoundRecord(
        round=t,
        available=ids[0],
        selected=ids[1],
        probs=np.ones(len(ids[1])),
        design="deterministic",
        wasted=0,
        completed=ids[2],
        utility=np.array([u for u, _ in credit.values()], dtype=float),
        loss=np.array([f for _, f in credit.values()], dtype=float),
        failed=failed,
        abandoned=False,
        row_clients=NO_IDS,
        row_ages=NO_IDS,
        row_weights=NO_FLOATS,
        surrogate=stand_in or SurrogateCredit(),
        model_sha256="",
    )


HISTORY = [
    a_record(0, [0, 1, 2], [0, 1], {0: (2.0, 1.0), 1: (0.5, 3.0)}),
    a_record(
        1,
        [0, 2],
        [0, 2],
        {0: (1.0, 0.25)},
        failed=((2, "gone"),),
        stand_in=SurrogateCredit(np.array([1]), np.array([0.125])),
    ),
    a_record(2, [], [], {}, stand_in=SurrogateCredit(np.array([0, 1]), np.array([0.5, 0.0625]))),
    a_record(3, [2], [2], {2: (0.0, np.nan)}),
]


def by_hand():
    return Ledger.replay(4, HISTORY)


def test_columns_by_hand():
    ledger = by_hand()
    assert ledger.rounds == 4
    assert ledger.num_clients == 4
    assert ledger.online.tolist() == [2, 1, 3, 0]
    assert ledger.selected.tolist() == [2, 1, 2, 0]
    assert ledger.completed.tolist() == [2, 1, 1, 0]
    assert ledger.failed.tolist() == [0, 0, 1, 0]
    assert ledger.utility.tolist() == [3, 0.5, 0, 0]
    assert ledger.surrogate_utility.tolist() == [0.5, 0.1875, 0, 0]
    assert ledger.last_online.tolist() == [1, 0, 3, NEVER]
    assert ledger.last_selected.tolist() == [1, 0, 3, NEVER]
    assert ledger.last_completed.tolist() == [1, 0, 3, NEVER]
    assert ledger.loss[:2].tolist() == [0.25, 3]
    assert np.isnan(ledger.loss[2:]).all()
    assert ledger.seen().tolist() == [True, True, True, False]


def test_normalised_utility_by_hand():
    """u_k T / online_k, T = 4; client 3 was never there and is left out."""
    ledger = by_hand()
    assert ledger.normalised_utility().tolist() == [3 * 4 / 2, 0.5 * 4 / 1, 0]
    assert ledger.normalised_utility("participation").tolist() == [3 * 4 / 2, 0.5 * 4 / 1, 0]
    assert ledger.normalised_utility(with_surrogates=True).tolist() == [3.5 * 4 / 2, 0.6875 * 4, 0]
    assert ledger.fairness_variance() == pytest.approx(np.var([6, 2, 0]))
    assert ledger.fairness_variance(with_surrogates=True) == pytest.approx(np.var([7, 2.75, 0]))


def test_the_two_normalisers_differ_where_the_counts_do():
    ledger = Ledger.replay(2, [a_record(0, [0, 1], [0], {0: (1.0, 0.0)}), a_record(1, [0, 1], [1], {1: (3.0, 0.0)})])
    assert ledger.normalised_utility("availability").tolist() == [1, 3]
    assert ledger.normalised_utility("participation").tolist() == [2, 6]
    assert ledger.fairness_variance("availability") == 1
    assert ledger.fairness_variance("participation") == 4
    never_asked = Ledger.replay(3, [a_record(0, [0, 1], [0], {0: (1.0, 0.0)})])
    assert len(never_asked.normalised_utility("availability")) == 2
    assert len(never_asked.normalised_utility("participation")) == 1


def test_nobody_seen_has_no_variance():
    assert np.isnan(Ledger.empty(3).fairness_variance())
    assert len(Ledger.empty(3).normalised_utility()) == 0


@pytest.mark.parametrize("num_clients", [1, 1000])
def test_a_client_costs_at_most_60_bytes(num_clients):
    assert 0 < Ledger.empty(num_clients).nbytes <= 60 * num_clients


def test_a_copy_is_independent_and_equality_is_of_bits():
    ledger = by_hand()
    twin = ledger.copy()
    assert twin == ledger
    twin.record(HISTORY[0])
    assert twin != ledger
    assert ledger == by_hand()
    other = by_hand()
    other.utility[2] = -0.0
    assert other != ledger
    assert ledger != "a ledger"
    with pytest.raises(TypeError):
        hash(ledger)


@settings(max_examples=60, deadline=None)
@given(
    matrix=st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=10),
    dropout=st.sampled_from([0.0, 0.4, 1.0]),
    name=st.sampled_from(["parity", "uniform", "inverse:replace=true", "population", "reactive:missed=since_selected"]),
    utility=st.sampled_from([LossDrop(), GlobalLossDrop(), AccuracyGain(), LossDrop(bound=0.1)]),
    g=st.sampled_from(["gain", "level"]),
    min_reports=st.integers(0, 3),
    seed=st.integers(0, 99),
)
def test_the_journal_replays_into_the_ledger(*, matrix, dropout, name, utility, g, min_reports, seed):
    trace = Trace.from_matrix(matrix).with_dropout(dropout, np.random.default_rng(seed))
    coordinator = Coordinator(
        3,
        seed=seed,
        scheduler=SCHEDULERS.build(name),
        utility=utility,
        surrogate=UtilitySurrogate(g=g),
        min_reports=min_reports,
    )
    journal = Journal()
    engine = Intermittent(InProcess(Quadratic.random(5, dim=2, seed=seed)), trace)
    state = run(coordinator, engine, len(matrix), num_clients=5, params=np.zeros(2), observers=[journal])
    ledger = state.ledger
    assert Ledger.replay(5, journal.records()) == ledger
    assert ledger.online.tolist() == trace.counts().tolist()
    assert (ledger.completed + ledger.failed <= ledger.selected).all()
    assert (ledger.selected <= ledger.online).all()
    if min_reports < 2:
        assert (ledger.completed + ledger.failed == ledger.selected).all()
