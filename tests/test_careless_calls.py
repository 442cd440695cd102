"""Wrong calls of the Python API: each is one clear line, none is a raw error or silent nonsense."""

import numpy as np
import polars as pl
import pytest
from torch import nn

from fedparity import (
    AVAILABILITY,
    MEASURES,
    METHODS,
    ClientFrame,
    FedparityError,
    InProcess,
    Intermittent,
    Journal,
    Ledger,
    NoTraining,
    Run,
    Setting,
    Spec,
    TorchTask,
    Trace,
    Training,
    execute,
    fractional_frontier,
    frame_samples,
    frontier,
    load_trace,
    open_data,
    own_samples,
    run,
    run_side_by_side,
    save_trace,
    schedule,
    stream,
    torch_task,
    weighted_frontier,
    write_report,
)
from fedparity.core.coordinator import Coordinator
from fedparity.core.gate import Gate
from fedparity.tasks import Quadratic

TRACE = Trace.from_matrix([[1, 0, 1, 1], [0, 1, 1, 1], [1, 1, 0, 1]])
TASK = Quadratic(np.zeros((4, 3)), np.ones((4, 3)), rate=0.1, steps=2)
ENGINE, TWO, MODEL = InProcess(TASK), Coordinator(2), np.zeros(3)
NAN = float("nan")
SPEC = Spec(methods=["uniform"], rounds=2, cohort=2, population={"clients": 4}, data={"set": "quadratic"})
RUN = execute(SPEC)
Y = np.arange(40) % 4
X = np.random.default_rng(0).normal(size=(40, 3))
FRAME = pl.DataFrame({"x": X[:, 0], "y": Y})
DATES, TIMES = (FRAME.with_columns(pl.lit(1).cast(kind).alias("x")) for kind in (pl.Datetime, pl.Duration))

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
    "half a seed": (lambda: AVAILABILITY.build("phones").draw(4, 3, 0.5), "seed=0.5 must be a whole number"),
    "a model of another size": (
        lambda: run(TWO, ENGINE, 3, params=np.zeros(1)),
        "params has 1 entries but the model has 3; start from task.init",
    ),
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
    "no cohort": (lambda: Coordinator(scheduler="parity:target=opportunity"), r"cohort=None .*; Coordinator\(5\) asks"),
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
    "a number for a gate": (lambda: Coordinator(2, gate=5), r"gate=5 must be a Gate; Gate\(max_norm=10\) makes one"),
    "no gate": (lambda: Coordinator(2, gate=None), "gate=None must be a Gate"),
    "a number for a spill file": (lambda: Coordinator(2, spill=5), "spill=5 must be a SpillFile"),
    "labels as text": (lambda: Coordinator(2, labels="abc"), "labels='abc' must be whole numbers"),
    "labels of NaN": (lambda: Coordinator(2, labels=[[NAN]]), "whole numbers of at least 0, clients x labels"),
    "labels below 0": (lambda: Coordinator(2, labels=[[-1]]), "whole numbers of at least 0"),
    "a gate's run as a number": (lambda: Gate(run=5), "run=5 must be a str"),
    "a gate's key as text": (lambda: Gate(remote=True, key="x" * 20), "must be a bytes"),
    "remote as text": (lambda: Gate(remote="no"), "remote='no' must be a bool"),
    "a plan without a state": (lambda: TWO.plan(None, np.arange(2)), "state=None must be a State; Coordinator.init"),
    "reports that are none": (lambda: TWO.absorb(*reversed(TWO.plan(TWO.init(4), np.arange(4))), None), "reports=None"),
    "no plan": (lambda: TWO.absorb(TWO.init(4), None, []), "plan=None must be a RoundPlan"),
    "growing by text": (lambda: TWO.grow(TWO.init(4), "9"), "clients='9' must be a whole number"),
    "names in one text": (lambda: Trace.from_rounds(2, [[0]], names="ab"), "names='ab' must be texts, one per client"),
    "names as numbers": (lambda: Trace.from_rounds(2, [[0]], names=(1, 2)), "must be texts, one per client"),
    "lists for arrays": (lambda: Trace(2, [0, 1], [0]), "must be an array of whole numbers; use Trace.from_rounds"),
    "float ids in an array": (lambda: Trace(2, np.array([0, 1]), np.array([0.5])), "must be an array of whole numbers"),
    "a number watched": (lambda: Trace(2, np.arange(2), np.zeros(1, np.int32), before=5), "before=5 must be a Trace"),
    "dropout by a number": (lambda: TRACE.with_dropout(0.5, 5), "rng=5 must be a Generator"),
    "a number for a path": (lambda: load_trace(5), "path=5 must be a path"),
    "rounds of a file as text": (lambda: load_trace("t.csv", rounds="a"), "rounds='a' must be a whole number"),
    "half a round of a file": (lambda: load_trace("t.csv", rounds=1.5), "rounds=1.5 must be a whole number"),
    "half a watched round": (lambda: load_trace("t.csv", watch=1.5), "watch=1.5 must be a whole number"),
    "seconds as text": (lambda: load_trace("t.csv", start="a"), "start='a' must be a finite number"),
    "a rule as a number": (lambda: load_trace("t.csv", rule=5), "rule=5 must be a str"),
    "saving no trace": (lambda: save_trace(None, "t.csv"), "trace=None must be a Trace"),
    "a matrix laid over": (lambda: Intermittent(ENGINE, TRACE.matrix()), "must be a Trace"),
    "NaN gains": (lambda: NoTraining(2, gains=[1, NAN]), "gains must be finite"),
    "another shape of curvature": (lambda: Quadratic(np.zeros((4, 3)), np.ones((3, 3))), "the shape of centres"),
    "NaN centres": (lambda: Quadratic(np.full((4, 3), NAN), np.ones((4, 3))), "centres=<4 x 3 float64> must be finite"),
    "no coordinator": (lambda: run(None, NoTraining(4), 2), "coordinator=None must be a Coordinator"),
    "a number of observers": (lambda: run(TWO, NoTraining(4), 2, observers=5), "observers=5 must be"),
    "no setting": (lambda: schedule("uniform", None), "setting=None must be a Setting"),
    "no folder": (lambda: Run.open(None), "folder=None must be a path"),
    "no spec": (lambda: execute(None), "spec=None must be a Spec"),
    "a dict for a spec": (lambda: execute({}), "must be a Spec"),
    "a number for a trace": (lambda: execute(Spec(methods=["uniform"]), trace=5), "trace=5 must be a Trace"),
    "a report of nothing": (lambda: write_report(None, "r.html"), "run=None must be a Run"),
    "going on nowhere": (lambda: execute(SPEC, resume=True), "about the run in a folder; give it, out=FOLDER"),
    "a number for callbacks": (lambda: execute(SPEC, callbacks=3), "callbacks=3 must be a Callbacks"),
    "a number for a folder": (lambda: execute(SPEC, out=3), "out=3 must be a path"),
    "a number that observes": (lambda: execute(SPEC, observers=3), "observers=3 must be an Iterable"),
    "a number for a store": (lambda: execute(SPEC, store=3), "store=3 must be a Store; out=FOLDER opens one"),
    "runs of nobody": (lambda: RUN.of("uniforn"), "unknown method 'uniforn'; did you mean 'uniform'"),
    "a mean of nobody": (lambda: RUN.table.mean("gini", "nope"), "unknown method 'nope'; known: uniform"),
    "a mean of nothing": (lambda: RUN.table.mean("ginni", "uniform"), "unknown measure 'ginni'; did you mean 'gini'"),
    "a column of nothing": (
        lambda: RUN.runs[0].column("ginni"),
        "unknown column of the log 'ginni'; did you mean 'gini'",
    ),
    "a row of nobody": (lambda: RUN.table.row("nope"), "unknown method 'nope'"),
    "leaders in nothing": (lambda: RUN.table.leaders("ginni_avoidable"), "unknown measure 'ginni'"),
    "a folder as a number": (lambda: RUN.save(3), "folder=3 must be a path"),
    "an unknown method": (lambda: METHODS["unifrm"], "unknown method 'unifrm'; did you mean 'uniform'"),
    "an unknown measure": (lambda: MEASURES["ginni"], "unknown measure 'ginni'; did you mean 'gini'"),
    "a number for a name": (lambda: METHODS[3], "unknown method 3; known"),
    "a number for a journal": (lambda: Journal(3), "keep=3 must be a bool"),
    "a number for a record": (lambda: Ledger.replay(3, [1]), "record 0=1 must be a RoundRecord"),
    "no records": (lambda: Ledger.replay(3, None), "records=None must be an Iterable"),
    "texts for values": (lambda: ClientFrame("abc"), "values='abc' must be numbers"),
    "a class for a module": (
        lambda: torch_task(nn.Linear, X, Y, 4),
        r"module=<class .*> must be a Module; give an object",
    ),
    "an unknown path": (
        lambda: torch_task("logistic", X, Y, 4, path="foo"),
        "path='foo' must be one of auto, sequential",
    ),
    "rows for a layer of images": (
        lambda: torch_task(nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3, 4)), X, Y, 4),
        r"the model cannot take samples of shape \(3,\): expected 4D input",
    ),
    "nothing to train": (lambda: torch_task(nn.Identity(), X, Y, 4), "the model has no parameter that is trained"),
    "samples for a module": (lambda: TorchTask(own_samples(X, Y, 4), nn.Linear(3, 2)), "must be a Module"),
    "an unknown optimiser": (lambda: Training(optimiser="adm"), "optimiser='adm' must be one of sgd, adam"),
    "rows and a partition": (
        lambda: own_samples(X, Y, [range(8)], "iid"),
        "partition='iid' deals samples, but clients lists each client's rows; give one",
    ),
    "an unknown device": (lambda: torch_task("logistic", X, Y, 4, device="gpu"), "device='gpu' is none of PyTorch's"),
    "half a number of clients": (lambda: own_samples(X, Y, 2.5), "clients=2.5 must be a whole number, or a list"),
    "no number of clients": (lambda: own_samples(X, Y, None), "clients=None must be a whole number"),
    "a number in words": (lambda: own_samples(X, Y, "ten"), "clients='ten' must be a whole number"),
    "half a pair to test on": (lambda: own_samples(X, Y, 4, test=(X,)), "test: tuple is no Dataset of pairs"),
    "a frame for samples": (lambda: own_samples(FRAME), r"DataFrame is a frame; frame_samples\(frame, LABEL\)"),
    "a lazy frame": (lambda: frame_samples(FRAME.lazy(), "y"), "LazyFrame is no frame that holds columns; collect"),
    "an array for a frame": (lambda: frame_samples(X, "y"), "ndarray is no frame that holds columns; give one of"),
    "dates as features": (lambda: frame_samples(DATES, "y"), r"'x' holds datetime64.*, which is no number; encode it"),
    "lengths of time": (lambda: frame_samples(TIMES, "y"), r"'x' holds timedelta64.*, which is no number"),
    "a number for a data set": (lambda: open_data(3), "data set=3 must be a str"),
    "an object for a seed": (lambda: Coordinator(2, seed=object()), "seed=<object object> must be a whole number"),
    "an object for a scheduler": (lambda: Coordinator(2, scheduler=object()), "^<object object> is no scheduler"),
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
