"""Clients trained together: the same numbers as one by one, whatever the model, the optimiser and the rule."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedparity import Coordinator, InProcess, run, stream
from fedparity.core.errors import ConfigError
from fedparity.core.types import Job
from fedparity.local import Difference, Ditto, Mixed, PhpFl, Prox
from fedparity.schedulers import Uniform
from fedparity.tasks.batched import Batched
from fedparity.tasks.samples import Samples
from fedparity.tasks.stacked import chain_of
from fedparity.tasks.torch_task import TorchTask
from fedparity.tasks.training import Training
from small_tasks import mlp

SIZES = (7, 20, 3, 30)
WANTS = frozenset({"loss_before", "loss_after", "accuracy_before", "loss_rms"})


def samples(shape=(3, 4, 4)):
    rng = np.random.default_rng(0)
    total = sum(SIZES)
    x, y = rng.integers(0, 256, (total, *shape), dtype=np.uint8), rng.integers(0, 4, total)
    parts = np.split(np.arange(total), np.cumsum(SIZES)[:-1])
    return Samples(x, y, x, y, parts, parts, 4, np.arange(total), peak=255)


def chain(double=False, hidden=(6, 5), **training):
    module = nn.Sequential(nn.Flatten(), mlp([48, *hidden, 4]))
    return TorchTask(module, samples(), Training(**{"batch": 8} | training), double=double)


def conv(double=False, **training):
    module = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Tanh(), nn.Flatten(), nn.Linear(20, 4))
    return TorchTask(module, samples(), Training(**{"batch": 8} | training), double=double)


def batched(task, **more):
    """The same clients, trained together."""
    return Batched(task.module, task.samples, task.training, double=task.double, **more)


OPTIONS = {
    "sgd": {},
    "steps": {"steps": 7},
    "momentum": {"momentum": 0.9},
    "decay": {"weight_decay": 0.1},
    "clip": {"clip": 0.05},
    "adam": {"optimiser": "adam", "rate": 0.01},
    "all": {"momentum": 0.5, "weight_decay": 0.01, "clip": 0.2},
}


@pytest.mark.parametrize("model", [chain, conv, lambda **k: chain(hidden=(), **k)], ids=["mlp", "conv", "logistic"])
@pytest.mark.parametrize("options", OPTIONS)
def test_ten_rounds_agree_to_1e_9_in_float64(model, options):
    task = model(double=True, **OPTIONS[options])
    first = task.init(stream(0, "init"))
    one, many = (
        run(Coordinator(3, scheduler=Uniform()), InProcess(t), 10, params=first, num_clients=4)
        for t in (task, batched(task))
    )
    assert np.abs(one.params - first).max() > 1e-3
    np.testing.assert_allclose(many.params, one.params, atol=1e-9)
    np.testing.assert_allclose(many.ledger.utility, one.ledger.utility, atol=1e-9)


@pytest.mark.parametrize("model", [chain, conv], ids=["mlp", "conv"])
@pytest.mark.parametrize("rule", [None, Prox(0.3), Ditto(0.7), Mixed(0.25), Difference()], ids=str)
def test_one_round_agrees_to_1e_5_in_float32_under_every_rule(model, rule):
    task = model()
    first = task.init(stream(0, "init"))
    own = (first + 0.1).astype(np.float32) if rule else None
    jobs = [Job(0, 0, k, first, local=rule, kept=own, report_fields=WANTS) for k in range(4)]
    for job, found in zip(jobs, batched(task).train_many(jobs), strict=True):
        expected = task.train(job)
        assert (found.client, found.num_samples) == (expected.client, expected.num_samples)
        np.testing.assert_allclose(found.delta, expected.delta, atol=1e-5)
        for name in ("loss_before", "loss_after", "accuracy_before", "loss_rms"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=1e-5)
        assert (found.kept is None) == (expected.kept is None)
        if found.kept is not None:
            np.testing.assert_allclose(found.kept, expected.kept, atol=1e-5)


def test_bits_do_not_depend_on_workers_and_groups_follow_from_the_plan(monkeypatch):
    monkeypatch.setattr("fedparity.tasks.batched.CACHE", 4 * 2 * (chain().flat.size + 8 * 48))
    task = chain()
    first = task.init(stream(0, "init"))
    states = [
        run(Coordinator(4, scheduler=Uniform()), InProcess(batched(task, workers=w)), 3, params=first, num_clients=4)
        for w in (1, 2)
    ]
    assert batched(task)._group == 2
    assert states[0].params.tobytes() == states[1].params.tobytes()


def test_a_client_that_diverges_fails_alone():
    data = samples()
    x = data.x_train.astype(np.float32)
    x[data.train[1]] = np.nan
    task = TorchTask(nn.Sequential(nn.Flatten(), mlp([48, 4])), replace(data, x_train=x), Training(batch=8))
    first = task.init(stream(0, "init"))
    reports = batched(task).train_many([Job(5, 0, k, first) for k in range(4)])
    assert [r.failure for r in reports] == [
        None, "client 1, round 5: loss is not finite in epoch 1 batch 1", None, None,
    ]  # fmt: skip
    alone = batched(task).train(Job(5, 0, 2, first))
    np.testing.assert_allclose(alone.delta, reports[2].delta, atol=1e-7)


def test_what_cannot_be_batched_is_refused_or_done_one_by_one():
    with pytest.raises(ConfigError, match="cannot train a model with buffers"):
        batched(TorchTask(nn.Sequential(nn.Flatten(), nn.BatchNorm1d(48), nn.Linear(48, 4)), samples()))
    frozen = nn.Sequential(nn.Flatten(), mlp([48, 6, 4]))
    frozen[1][0].weight.requires_grad = False
    with pytest.raises(ConfigError, match="trains whole models"):
        batched(TorchTask(frozen, samples()))
    task = chain()
    first = task.init(stream(0, "init"))
    job = Job(0, 0, 1, first, local=PhpFl())
    assert batched(task).train(job).kept.tobytes() == task.train(job).kept.tobytes()


def test_which_models_are_chains():
    assert len(chain_of(mlp([4, 3, 2]))) == 2
    assert len(chain_of(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)))) == 1
    assert chain_of(nn.Sequential(nn.Linear(4, 2), nn.Tanh(), nn.Linear(2, 2))) is None
    assert chain_of(nn.Sequential(nn.Linear(4, 2, bias=False))) is None
    assert chain_of(nn.Sequential(nn.Linear(4, 2), nn.ReLU())) is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of torch itself
def test_compiled_agrees():
    task = conv()
    first = task.init(stream(0, "init"))
    jobs = [Job(0, 0, k, first, report_fields=WANTS) for k in range(4)]
    for plain, compiled in zip(
        batched(task).train_many(jobs), batched(task, compiled=True).train_many(jobs), strict=True
    ):
        np.testing.assert_allclose(compiled.delta, plain.delta, atol=1e-5)
    torch.compiler.reset()
