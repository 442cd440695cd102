"""Prototypes of a real network: the head is where the memory looks for it, and its step helps the absent."""

import numpy as np
import pytest

from fedparity import MEMORIES, WEIGHTINGS, Coordinator, InProcess, Intermittent, Ledger, Rows, Trace, run, stream
from fedparity.core.errors import ConfigError
from fedparity.schedulers import Uniform

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def task():
    from small_tasks import digits_task

    return digits_task(8, hidden=16)


def reports_of(task, method, params):
    plan, _ = method.plan(method.init(8, params), np.arange(8))
    return [task.train(plan.job(k)) for k in range(8)]


def test_the_step_is_torchs_gradient_of_the_head_on_the_prototypes(task):
    from small_tasks import mlp

    params = task.init(stream(0, "init"))
    rule = MEMORIES.build("prototype:rate=1")
    reports = reports_of(task, Coordinator(8, memory=rule), params)
    state, ledger = rule.remember(rule.init(8), reports), Ledger.empty(8)
    ledger.last_completed[:] = 0
    ids = np.empty(0, np.int64)
    none = Rows(ids, (), ids, np.empty(0), np.empty(0), np.empty(0))
    rows, _ = rule.complete(state, 1, none, params, ledger)
    assert rows.clients.tolist() == list(range(8))
    assert rows.sizes.tolist() == [float(r.prototypes.counts.sum()) for r in reports]
    module = mlp([64, 16, 10])
    torch.nn.utils.vector_to_parameters(torch.tensor(params), module.parameters())
    head = module[-1]
    for report, row in zip(reports, rows.deltas, strict=True):
        found = report.prototypes
        module.zero_grad()
        each = torch.nn.functional.cross_entropy(
            head(torch.tensor(found.features, dtype=torch.float32)), torch.arange(10), reduction="none"
        )
        (each @ torch.tensor(found.counts / found.counts.sum(), dtype=torch.float32)).backward()
        gradient = torch.cat([head.weight.grad.ravel(), head.bias.grad]).numpy()
        assert row.dtype == params.dtype
        assert row[-170:] == pytest.approx(-gradient, abs=1e-6)
        assert not row[:-170].any()


def test_a_class_that_is_away_is_forgotten_less(task):
    """Half of the clients come in the first rounds only: with prototypes the model is better on their data after."""
    away = np.ones((40, 8), bool)
    away[6:, 4:] = False
    engine, params = Intermittent(InProcess(task), Trace.from_matrix(away)), task.init(stream(0, "init"))
    loss = {}
    for memory, weighting in (("none", "mean"), ("prototype:rate=.5,max_age=none", "decayed_mean:lam=0,by=size")):
        method = Coordinator(
            4, scheduler=Uniform(), memory=MEMORIES.build(memory), weighting=WEIGHTINGS.build(weighting)
        )
        state = run(method, engine, 40, params=params, num_clients=8)
        loss[memory] = float(task.evaluate(state.params, np.arange(4, 8)).loss.mean())
    assert loss["prototype:rate=.5,max_age=none"] < 0.8 * loss["none"]


def test_running_statistics_of_batch_norm_are_left_alone():
    """They come after the last layer in the vector: a step that took its end for the head would write into them."""
    from torch import nn

    from fedparity.tasks.torch_task import TorchTask
    from small_tasks import digits_task

    given = digits_task(8)
    module = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
    task = TorchTask(module, given.samples, given.training)
    params, rule = task.init(stream(0, "init")), MEMORIES.build("prototype")
    reports = reports_of(task, Coordinator(8, memory=rule), params)
    state, ledger = rule.remember(rule.init(8), reports), Ledger.empty(8)
    ledger.last_completed[:] = 0
    ids = np.empty(0, np.int64)
    rows, _ = rule.complete(state, 1, Rows(ids, (), ids, *[np.empty(0)] * 3), params, ledger)
    assert len(params) == 64 * 32 + 32 + 64 + 330 + 64
    for row in rows.deltas:
        assert not row[-64:].any()  # means and variances
        assert np.count_nonzero(row[-394:-64]) > 100
        assert not row[:-394].any()


def test_the_named_method_needs_a_network():
    from fedparity.experiment.runner import check_methods
    from fedparity.experiment.spec import Spec

    where = {"population": {"clients": 12, "availability": "bernoulli"}, "methods": ["parity_prototype"]}
    check_methods(Spec(**where))
    with pytest.raises(ConfigError, match="'parity_prototype' needs a classifier trained with PyTorch"):
        check_methods(Spec(data={"set": "logistic"}, **where))
