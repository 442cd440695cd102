"""What is printed at a prompt is short: shapes instead of numbers, whatever the size of a run."""

import inspect

import numpy as np
import pytest
from torch import nn

import fedparity as fp
from fedparity.core.protocols import Feedback
from fedparity.core.reprs import one_line, short
from fedparity.core.types import Credit, Descent, LateCredit, Prototypes, SurrogateCredit
from fedparity.data import open_data
from fedparity.tasks import Logistic, Quadratic
from fedparity.tasks.noised import Noised

LONGEST = 300
N = 400
IDS, ONES, MODEL = np.arange(N), np.ones(N), np.zeros(1000)


@pytest.fixture(scope="module")
def things():
    """One large object of every class that is exported, and of those that they are made of."""
    trace = fp.Trace.from_matrix(np.random.default_rng(0).random((30, N)) < 0.5)
    methods = ["uniform", "parity", "cup", "cup_paper"]
    spec = fp.Spec(methods=methods, rounds=30, cohort=3, population={"clients": N}, data={"set": "quadratic"})
    run = fp.execute(spec, trace=trace)
    coordinator = fp.Coordinator(200, labels=np.ones((N, 10)))
    state = coordinator.init(N, MODEL)
    plan, state = coordinator.plan(state, IDS)
    view = fp.RoundView(0, None, 200, IDS, ONES, ONES, state.ledger, labels=np.ones((N, 10)))
    y = np.arange(8 * N) % 4
    samples = fp.own_samples(np.ones((8 * N, 6)), y, [range(8 * k, 8 * k + 8) for k in range(N)])
    layers = [nn.Linear(6, 6) for _ in range(60)]
    task = fp.torch_task(nn.Sequential(*layers), samples)
    setting = fp.Setting(trace, clients=N, rounds=30, cohort=3, draws=3)
    schedule = fp.schedule("parity", setting)
    journal, log = fp.Journal(), fp.MetricsLog(3)
    for method in methods:
        for record in run.of(method)[0].records:
            journal.on_round(method, record, state.ledger, MODEL)
            log.on_round(method, record, state.ledger, MODEL)
    report = fp.ClientReport(0, MODEL, prototypes=Prototypes(np.ones((9, 99)), IDS))
    return [
        fp.AVAILABILITY.build("phones"), fp.ESTIMATORS.build("forecast"), fp.LOCALS.build("ditto"),
        fp.MEMORIES.build("decayed"), fp.SCHEDULERS.build("parity_deployment"), fp.SERVERS.build("adam"),
        fp.SURROGATES.build("utility"), fp.UTILITIES.build("loss_drop"), fp.WEIGHTINGS.build("fedawe"),
        fp.Gate(max_norm=10), Quadratic.random(N),
        fp.Callbacks(stop=lambda: False), fp.ClientFrame(ONES, groups=IDS, names=map(str, IDS)), report, plan.cohort,
        coordinator, fp.Evals(IDS, ONES, ONES), run.limit, setting.gains, fp.InProcess(task), fp.Intermittent(
            fp.InProcess(Quadratic.random(N)), trace), plan.job(0), journal, state.ledger, log,
        fp.NoTraining(N, gains=ONES), plan, run.runs[0].records[-1], view, fp.Rows(IDS, [MODEL] * N, IDS, ONES, ONES,
            ONES), run, schedule, setting, spec, spec.resolved(), state, run.table, task, trace, fp.Training(rate=0.3),
        fp.fractional_frontier(trace, 2, ONES), run.runs, run.runs[0], run.runs[0].facts, run.outcome(run.runs[0]),
        schedule.draws[0], fp.MEASURES, fp.METHODS, samples, Logistic.synthetic(N), Noised(Logistic.synthetic(N)),
        open_data("digits"), Feedback(0, MODEL, [report] * N, state.ledger, None), Descent(MODEL, 0.1, MODEL),
        Credit(IDS, ONES), LateCredit(IDS, IDS, ONES, ONES), SurrogateCredit(IDS, ONES), spec.methods[0],
        spec.methods[2].parts, *fp.MEASURES.values(), *(t for t in vars(fp).values() if type(t).__name__ == "Registry"),
    ]  # fmt: skip


def test_whatever_is_exported_prints_in_a_line_or_two(things):
    long = {f"{type(thing).__name__}: {repr(thing)[:LONGEST]}" for thing in things if len(repr(thing)) > LONGEST}
    assert not long
    assert not [repr(thing) for thing in things if "\n" in repr(thing) or " at 0x" in repr(thing)]


def test_the_list_above_has_every_class_that_is_exported(things):
    classes = {found for name in fp.__all__ if inspect.isclass(found := getattr(fp, name))}
    missing = {cls for cls in classes if not issubclass(cls, Exception) and not getattr(cls, "_is_protocol", False)}
    missing -= {cls for thing in things for cls in type(thing).__mro__}
    assert not missing


def test_a_coordinator_is_printed_whole():
    """Stores of deployments from before today's line are compared by it: nothing of it may be cut."""
    texts = {"scheduler": "with_quota:inner=parity:target=opportunity;ratio=2,quota=1.5", "server": "sgd:schedule=step"}
    made = fp.Coordinator(2, **texts, weighting="qfair:q=2,lipschitz=3", gate=fp.Coordinator(2).gate, over_select=0.25)
    assert repr(made) == short(made)
    assert "over_select=0.25" in repr(made)


def test_few_client_numbers_are_shown():
    assert repr(fp.Cohort(np.array([3, 5]), np.ones(2), "exact")) == (
        "Cohort(clients=[3, 5], probs=<2 float64>, design='exact')"
    )


def test_an_error_shows_no_address():
    assert one_line(object()) == "<object object>"
    assert "0x" not in one_line(lambda: None)
