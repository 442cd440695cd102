"""Local training in PyTorch: the same numbers as plain torch written naively, the same bits whoever else is at work."""

from __future__ import annotations

import copy
import importlib
import pickle  # noqa: TID251 - only our own object, in this test
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from fedparity import Coordinator, InProcess, run, stream
from fedparity.errors import ConfigError
from fedparity.schedulers import Uniform
from fedparity.tasks.torch_task import Flat, TorchTask, digits_task, mlp

TASK = digits_task(12)
FIRST = TASK.init(stream(0, "init"))


def trained(task=TASK, client=3, params=FIRST, start=None, key=0):
    return task.train(client, params, params if start is None else start, stream(0, "train", key, client))


def module_with(vector, hidden=32):
    module = mlp([64, hidden, 10])
    nn.utils.vector_to_parameters(torch.tensor(vector, dtype=torch.float32), module.parameters())
    return module


def naive_training(task, client, start, rng):
    """Algorithm 2 with nothing but torch's own parts."""
    module = module_with(start)
    optimiser = torch.optim.SGD(module.parameters(), lr=task.rate, momentum=task.momentum)
    rows = task.partition.train[client]
    for _ in range(task.epochs):
        order = rng.permutation(len(rows))
        for first in range(0, len(rows), task.batch):
            batch = rows[order[first : first + task.batch]]
            optimiser.zero_grad()
            nn.CrossEntropyLoss()(module(torch.tensor(task.images[batch])), torch.tensor(task.labels[batch])).backward()
            optimiser.step()
    return nn.utils.parameters_to_vector(module.parameters()).detach().double().numpy()


def naive_evaluation(task, params, client):
    module, part = module_with(params).double(), task.partition
    x, y = torch.tensor(task.images).double(), torch.tensor(task.labels)
    with torch.no_grad():
        train, test = part.train[client], part.test[client]
        loss = nn.CrossEntropyLoss()(module(x[train]), y[train])
        return float(loss), float((module(x[test]).argmax(1) == y[test]).double().mean())


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_training_is_plain_torch_training(momentum):
    task = digits_task(12, momentum=momentum)
    for client in (0, 5):
        report = trained(task, client)
        expected = naive_training(task, client, FIRST, stream(0, "train", 0, client))
        np.testing.assert_allclose(FIRST + report.delta, expected, atol=1e-6)


def test_one_full_batch_step_follows_finite_differences_of_the_loss():
    task, h = digits_task(12, epochs=1, batch=10_000, rate=1.0), 1e-5
    step = trained(task, 4).delta
    for i in stream(0, "coordinates").choice(np.flatnonzero(np.abs(step) > 1e-3), 12):
        ahead, behind = (FIRST + s * h * (np.arange(len(FIRST)) == i) for s in (1, -1))
        losses = [_loss_in_float64(task, w, 4) for w in (ahead, behind)]
        assert -step[i] == pytest.approx((losses[0] - losses[1]) / (2 * h), rel=1e-3)


def _loss_in_float64(task, w, client):
    a, b, c = 64 * 32, 64 * 32 + 32, 64 * 32 + 32 + 320
    rows = task.partition.train[client]
    hidden = np.maximum(task.images[rows].astype(float) @ w[:a].reshape(32, 64).T + w[a:b], 0)
    logits = hidden @ w[b:c].reshape(10, 32).T + w[c:]
    picked = logits[np.arange(len(rows)), task.labels[rows]]
    return float((np.log(np.exp(logits).sum(1)) - picked).mean())


def test_a_report_tells_what_evaluate_tells():
    report = trained()
    before, after = (TASK.evaluate(w, np.array([3])) for w in (FIRST, FIRST + report.delta))
    assert report.loss_before == before.loss[0]
    assert report.accuracy_before == before.accuracy[0]
    assert report.loss_after == after.loss[0] < report.loss_before
    assert report.num_samples == len(TASK.partition.train[3])
    assert report.delta.dtype == np.float64


def test_the_update_is_relative_to_the_model_received():
    start = FIRST + stream(0, "elsewhere").normal(scale=0.1, size=len(FIRST))
    report, there = trained(start=start), trained(params=start)
    np.testing.assert_allclose(FIRST + report.delta, start + there.delta, atol=1e-12)
    assert report.loss_before == trained().loss_before
    assert report.loss_after == there.loss_after


def test_the_key_alone_decides_the_bits():
    assert trained().delta.tobytes() == trained().delta.tobytes()
    assert trained().delta.tobytes() != trained(key=1).delta.tobytes()


def test_threads_set_outside_do_not_change_the_bits():
    task = digits_task(12, batch=5)
    one = trained(task)
    torch.set_num_threads(2)
    two = trained(task)
    assert one.delta.tobytes() == two.delta.tobytes()
    assert one.loss_after == two.loss_after


@pytest.mark.parametrize("mixing", [1.0, 0.5])
def test_one_and_four_workers_give_the_same_bits(mixing):
    coordinator = Coordinator(cohort=8, scheduler=Uniform(), mixing=mixing)
    one, four = (
        run(coordinator, InProcess(digits_task(12), workers), 3, params=FIRST, num_clients=12) for workers in (1, 4)
    )
    assert one.params.tobytes() == four.params.tobytes()
    assert one.ledger.utility.tobytes() == four.ledger.utility.tobytes()
    assert not np.array_equal(one.params, FIRST)


def test_evaluate_is_a_loop_over_clients():
    evals = TASK.evaluate(FIRST, np.arange(12))
    expected = np.array([naive_evaluation(TASK, FIRST, client) for client in range(12)])
    np.testing.assert_allclose(evals.loss, expected[:, 0], atol=1e-6)
    np.testing.assert_allclose(evals.accuracy, expected[:, 1])


def test_a_client_scores_the_same_bits_whoever_else_is_asked_about():
    everybody = TASK.evaluate(FIRST, np.arange(12))
    some = TASK.evaluate(FIRST, np.array([2, 7]))
    assert some.loss.tolist() == everybody.loss[[2, 7]].tolist()
    assert some.accuracy.tolist() == everybody.accuracy[[2, 7]].tolist()
    assert len(TASK.evaluate(FIRST, np.array([], dtype=np.int64)).loss) == 0


def test_global_accuracy_is_that_on_all_held_out_images():
    held = TASK.partition.held_out
    guess = module_with(FIRST)(torch.tensor(TASK.images[held])).argmax(1).numpy()
    assert TASK.accuracy(FIRST) == pytest.approx((guess == TASK.labels[held]).mean())
    assert TASK.accuracy(np.full(len(FIRST), np.nan)) == 0


def test_a_diverging_client_fails_and_the_round_goes_on():
    report = trained(digits_task(12, rate=1e30))
    assert report.failure == "loss is NaN in epoch 1 batch 2"
    assert report.delta is None
    single = trained(digits_task(12, rate=1e30, epochs=1, batch=10_000))
    assert single.failure == "loss is NaN after training"
    state = run(
        Coordinator(cohort=4, scheduler=Uniform()),
        InProcess(digits_task(12, rate=1e30)),
        2,
        params=FIRST,
        num_clients=12,
    )
    assert state.round == 2
    assert state.ledger.selected.sum() == 8
    assert state.ledger.completed.sum() == 0
    assert np.array_equal(state.params, FIRST)


def test_one_diverging_client_does_not_stop_the_others():
    images = TASK.images.copy()
    images[TASK.partition.train[0]] = np.nan
    task = TorchTask(mlp([64, 32, 10]), images, TASK.labels, TASK.partition)
    state = run(Coordinator(cohort=12, scheduler=Uniform()), InProcess(task), 1, params=FIRST, num_clients=12)
    assert state.ledger.completed.tolist() == [0] + [1] * 11


def test_a_federation_learns_to_read():
    task = digits_task(20, rate=0.3)
    coordinator = Coordinator(cohort=20, scheduler=Uniform())
    state = run(coordinator, InProcess(task), 30, params=task.init(stream(0, "init")), num_clients=20)
    assert task.accuracy(state.params) > 0.8  # measured: 0.91 (seeds 0 to 3: 0.91 to 0.94)
    assert task.accuracy(FIRST) < 0.2


def test_the_first_model_has_torch_s_own_spread_and_is_float32():
    assert np.array_equal(FIRST, FIRST.astype(np.float32))
    assert np.array_equal(FIRST, TASK.init(stream(0, "init")))
    assert 0.12 < np.abs(FIRST[: 65 * 32]).max() <= 1 / 8
    assert 0.17 < np.abs(FIRST[65 * 32 :]).max() <= 1 / np.sqrt(32)


def test_flat_order_is_that_of_torch():
    flat = Flat(mlp([3, 2, 2]))
    vector = np.arange(flat.size, dtype=np.float64)
    with flat.lend(vector) as one, flat.lend(vector + 1) as two:
        assert [tuple(p.shape) for p in one.module.parameters()] == [(2, 3), (2,), (2, 2), (2,)]
        assert nn.utils.parameters_to_vector(one.module.parameters()).tolist() == vector.tolist()
        assert nn.utils.parameters_to_vector(two.module.parameters()).tolist() == (vector + 1).tolist()
        assert one.vector().tolist() == vector.tolist()


def test_building_a_model_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    mlp([64, 8, 10])
    trained()
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda task: pickle.loads(pickle.dumps(task))])
def test_a_task_can_be_copied_after_use(twin):
    trained()
    assert trained(twin(TASK)).delta.tobytes() == trained().delta.tobytes()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"labels_per_client": 11}, "labels_per_client=11 must be between 1 and 10"),
        ({"num_clients": 0}, "clients=0 must be .*at least 1"),
        ({"hidden": 0}, "hidden=0 must be .*at least 1"),
        ({"epochs": 0}, "epochs=0 must be .*at least 1"),
        ({"batch": 0}, "batch=0 must be .*at least 1"),
        ({"rate": 0.0}, "rate=0.0 must be a finite number above 0"),
        ({"momentum": 1.0}, "momentum=1.0 must be between 0 and 0.999"),
    ],
)
def test_refusals(wrong, message):
    with pytest.raises(ConfigError, match=message):
        digits_task(**({"num_clients": 10} | wrong))


def test_models_and_vectors_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match="params has 3 entries but the model has 2410"):
        TASK.evaluate(np.zeros(3), np.arange(2))
    with pytest.raises(ConfigError, match="batch norm"):
        Flat(nn.BatchNorm1d(4))


def test_without_torch_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "fedparity.tasks.torch_task")
    with pytest.raises(ConfigError, match=r"pip install 'fedparity\[torch\]'"):
        importlib.import_module("fedparity.tasks.torch_task")


def test_importing_the_library_does_not_import_torch():
    code = (
        "import sys, fedparity, fedparity.tasks, fedparity.tasks.digits; print({'torch', 'sklearn'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
