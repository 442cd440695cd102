"""Wrong calls of the Python API: each is one clear line, none is a raw error or silent nonsense."""

import numpy as np
import pytest

from fedparity import (
    FedparityError,
    InProcess,
    Intermittent,
    Ledger,
    NoTraining,
    Setting,
    Trace,
    fractional_frontier,
    frontier,
    run,
    run_side_by_side,
    schedule,
    stream,
    weighted_frontier,
)
from fedparity.core.coordinator import Coordinator
from fedparity.tasks import Quadratic

TRACE = Trace.from_matrix([[1, 0, 1, 1], [0, 1, 1, 1], [1, 1, 0, 1]])
TASK = Quadratic(np.zeros((4, 3)), np.ones((4, 3)), rate=0.1, steps=2)
ENGINE, TWO, MODEL = InProcess(TASK), Coordinator(2), np.zeros(3)
NAN = float("nan")

CALLS = {
    # name: (call, what the line says)
    "a matrix of one row": (lambda: Trace.from_matrix([1, 0, 1]), r"rounds x clients, not the shape \(3,\)"),
    "a cube": (lambda: Trace.from_matrix(np.ones((2, 2, 2))), "rounds x clients"),
    "NaN in a matrix": (lambda: Trace.from_matrix([[1, NAN]]), "made of 0 and 1, or False and True, not nan"),
    "shares in a matrix": (lambda: Trace.from_matrix([[0.3, 1]]), "not 0.3"),
    "texts in a matrix": (lambda: Trace.from_matrix([["a", "b"]]), "not 'a'"),
    "rows of two lengths": (lambda: Trace.from_matrix([[1, 0], [1]]), "rows of one length"),
    "no matrix": (lambda: Trace.from_matrix(None), "not None"),
    "float ids": (lambda: Trace.from_rounds(4, [[0.5, 1.7]]), r"client numbers, not \[0.5, 1.7\]"),
    "a mask for ids": (lambda: Trace.from_rounds(4, [np.ones(4, dtype=bool)]), "client numbers, not <4 bool>"),
    "ids not in rounds": (lambda: Trace.from_rounds(4, [1, 2]), "client numbers, not 1"),
    "a number for rounds": (lambda: Trace.from_rounds(4, 5), "one list per round"),
    "half a client": (lambda: Trace.from_rounds(4.5, [[1]]), "clients=4.5 must be a whole number"),
    "a text of clients": (lambda: Trace.from_rounds("4", [[1]]), "clients='4' must be a whole number"),
    "a huge id": (lambda: Trace.from_rounds(4, [[2**40]]), "names client 1099511627776"),
    "stays of other rounds": (lambda: Trace.from_rounds(4, [[1, 2], [1]], [[True], [True, False]]), "'stays' of a"),
    "stays that are counts": (lambda: Trace.from_rounds(4, [[1, 2]], [[2, 5]]), "made of 0 and 1"),
    "one name twice": (lambda: Trace.from_rounds(2, [[1]], names=("a", "a")), "1 names for 2 clients"),
    "a round too late": (lambda: TRACE.online(99), "round=99 must be at most 2"),
    "a round from the end": (lambda: TRACE.online(-1), "round=-1 must be a whole number of at least 0"),
    "half a round": (lambda: TRACE.online(1.5), "round=1.5 must be a whole number"),
    "a head of half a round": (lambda: TRACE.head(1.5), "rounds=1.5 must be a whole number"),
    "dropout as text": (lambda: TRACE.with_dropout("a", stream(0, "x")), "dropout='a' must be between 0 and 1"),
    "a total of 3.5": (lambda: frontier(TRACE, 2, total=3.5), "total=3.5 must be a whole number"),
    "a total as text": (lambda: frontier(TRACE, 2, total="3"), "total='3' must be a whole number"),
    "a cohort of True": (lambda: frontier(TRACE, True), "cohort=True must be a whole number"),
    "a matrix for a trace": (lambda: frontier(TRACE.matrix(), 2), "must be a Trace; Trace.from_matrix"),
    "too few weights": (lambda: weighted_frontier(TRACE, 2, [1, 2]), r"shape \(2,\) for 4 clients"),
    "weights as texts": (lambda: weighted_frontier(TRACE, 2, list("abcd")), "must be numbers, one per client"),
    "weights in a column": (lambda: weighted_frontier(TRACE, 2, np.ones((4, 1))), "one per client"),
    "an unknown objective": (
        lambda: weighted_frontier(TRACE, 2, np.ones(4), "gini"),
        "objective='gini' must be one of",
    ),
    "sweeps below 0": (lambda: fractional_frontier(TRACE, 2, np.ones(4), sweeps=-1), "sweeps=-1"),
    "no number": (lambda: Coordinator(None), "cohort=None must be a whole number"),
    "a share as text": (lambda: Coordinator(2, over_select="a"), "over_select='a' must be between"),
    "NaN in the model": (lambda: TWO.init(4, np.array([1, NAN])), "one flat array of finite numbers"),
    "a matrix for a model": (lambda: TWO.init(4, np.zeros((2, 2))), "params=<2 x 2 float64> must be one flat array"),
    "a text for a model": (lambda: TWO.init(4, "abc"), "params='abc' must be one flat array"),
    "a complex model": (lambda: TWO.init(4, np.array([1j])), "finite numbers"),
    "4.0 clients": (lambda: TWO.init(4.0), "clients=4.0 must be a whole number"),
    "others were watched": (lambda: TWO.init(9, watched=TRACE), "clients=9 but 4 were watched"),
    "labels of others": (lambda: Coordinator(2, labels=[[1, 2]]).init(4), "one row per client, 4 in all"),
    "fewer than no rounds": (lambda: TWO.plan(TWO.init(4), np.arange(4), -5), "rounds_left=-5 must be"),
    "more clients than there are": (lambda: run(TWO, ENGINE, 2, params=MODEL, num_clients=50), "the engine has 4"),
    "no model": (lambda: run(TWO, ENGINE, 2), r"give its first one, params=task.init\(rng\)"),
    "rounds as text": (lambda: run(TWO, ENGINE, "3", params=MODEL), "rounds='3' must be a whole number"),
    "a task for an engine": (lambda: run(TWO, TASK, 2, params=MODEL), r"InProcess\(task\) makes one of a task"),
    "a list of methods": (lambda: run_side_by_side([TWO], ENGINE, 2), "give a coordinator by name"),
    "a trace of others": (
        lambda: Intermittent(ENGINE, Trace.from_matrix(np.ones((2, 9)))),
        "9 clients but the engine 4",
    ),
    "trace and engine swapped": (lambda: Intermittent(TRACE, ENGINE), "must be an engine"),
    "a trace for a task": (lambda: InProcess(TRACE), "must be a task: it has no method 'train'"),
    "nobody": (lambda: NoTraining(0), "clients=0 must be"),
    "gains of others": (lambda: NoTraining(4, gains=[1, 2]), "one number per client, 4"),
    "an unknown population": (lambda: Setting("fones", 9, 3, 2), "unknown availability 'fones'; did you mean 'phones'"),
    "a matrix for a population": (lambda: Setting(np.ones((3, 4)), 4, 3, 2), "is no availability"),
    "an unknown comparison": (
        lambda: schedule("uniform", Setting("always", 9, 3, 2), by="luck"),
        "by='luck' must be one",
    ),
    "a ledger of nobody": (lambda: Ledger.empty(-1), "clients=-1 must be"),
    "an unknown normaliser": (lambda: Ledger.empty(3).normalised_utility("luck"), "by='luck' must be one of"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_one_clear_line(name):
    call, says = CALLS[name]
    with pytest.raises(FedparityError, match=says) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_lists_do_where_arrays_do():
    by_list = weighted_frontier(TRACE, 2, [1, 2, 3, 4])
    assert by_list.counts.tolist() == weighted_frontier(TRACE, 2, np.arange(1.0, 5)).counts.tolist()
    assert Trace.from_matrix(np.eye(2)).counts().tolist() == [1, 1]
    assert run(TWO, NoTraining(4, gains=[1, 2, 3, 4]), 2).round == 2
