"""Local training in PyTorch: the same numbers as plain torch written naively, the same bits whoever else is at work."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

from fedparity import Coordinator, InProcess, run, stream
from fedparity.core.errors import ConfigError
from fedparity.core.protocols import Local
from fedparity.core.types import Descent, Job
from fedparity.local import Difference, Ditto, Mixed, PhpFl, Prox, Received
from fedparity.schedulers import Uniform
from fedparity.tasks.flat import Flat, pieces, vector_of
from fedparity.tasks.samples import Samples
from fedparity.tasks.torch_task import TorchTask
from fedparity.tasks.training import Training
from small_tasks import digits_task as made
from small_tasks import mlp

EVERYTHING = frozenset({"loss_before", "loss_after", "accuracy_before", "loss_rms", "prototypes"})


def digits_task(num_clients=12, labels=2, *, hidden=32, seed=0, workers=1, **training):
    return made(num_clients, labels, hidden=hidden, seed=seed, workers=workers, training=Training(**training))


TASK = digits_task(12)
FIRST = TASK.init(stream(0, "init"))


def trained(task=TASK, client=3, params=FIRST, key=0, **job):
    return task.train(Job(key, 0, client, params, **{"report_fields": EVERYTHING} | job))


@dataclass(frozen=True)
class Anywhere(Local):
    """A rule of somebody's own, which no task knows: it starts anywhere, and is pulled towards anything."""

    start: np.ndarray
    pull: float = 0.0
    centre: np.ndarray | None = None

    def descents(self, kept, params):
        return (Descent(self.start, self.pull, self.centre),)


def module_with(vector, hidden=32):
    module = mlp([64, hidden, 10])
    nn.utils.vector_to_parameters(torch.tensor(vector, dtype=torch.float32), module.parameters())
    return module


def naive_training(task, client, start, rng):
    """Algorithm 2 with nothing but torch's own parts."""
    module = module_with(start)
    t, data = task.training, task.samples
    kind = torch.optim.Adam if t.optimiser == "adam" else torch.optim.SGD
    extra = {} if t.optimiser == "adam" else {"momentum": t.momentum}
    optimiser = kind(module.parameters(), lr=t.rate, weight_decay=t.weight_decay, **extra)
    rows = data.train[client]
    for _ in range(t.epochs):
        order = rng.permutation(len(rows))
        for first in range(0, len(rows), t.batch):
            batch = rows[order[first : first + t.batch]]
            optimiser.zero_grad()
            nn.CrossEntropyLoss()(
                module(torch.tensor(data.x_train[batch])), torch.tensor(data.y_train[batch])
            ).backward()
            optimiser.step()
    return nn.utils.parameters_to_vector(module.parameters()).detach().double().numpy()


def naive_evaluation(task, params, client):
    module, part = module_with(params).double(), task.samples
    x, y = torch.tensor(part.x_train).double(), torch.tensor(part.y_train)
    x_test, y_test = torch.tensor(part.x_test).double(), torch.tensor(part.y_test)
    with torch.no_grad():
        train, test = part.train[client], part.test[client]
        loss = nn.CrossEntropyLoss()(module(x[train]), y[train])
        return float(loss), float((module(x_test[test]).argmax(1) == y_test[test]).double().mean())


@pytest.mark.parametrize(
    "options",
    [{}, {"momentum": 0.9}, {"weight_decay": 0.01}, {"optimiser": "adam", "rate": 0.01}],
    ids="+".join,
)
def test_training_is_plain_torch_training(options):
    task = digits_task(12, **options)
    for client in (0, 5):
        report = trained(task, client)
        expected = naive_training(task, client, FIRST, stream(0, "train", 0, client))
        np.testing.assert_allclose(FIRST + report.delta, expected, atol=1e-6)


def test_one_full_batch_step_follows_finite_differences_of_the_loss():
    task, h = digits_task(12, epochs=1, batch=10_000, rate=1.0), 1e-5
    step = trained(task, 4).delta
    first = FIRST.astype(np.float64)
    for i in stream(0, "coordinates").choice(np.flatnonzero(np.abs(step) > 1e-3), 12):
        ahead, behind = (first + s * h * (np.arange(len(FIRST)) == i) for s in (1, -1))
        losses = [_loss_in_float64(task, w, 4) for w in (ahead, behind)]
        assert -step[i] == pytest.approx((losses[0] - losses[1]) / (2 * h), rel=1e-3)


def _loss_in_float64(task, w, client):
    a, b, c = 64 * 32, 64 * 32 + 32, 64 * 32 + 32 + 320
    rows = task.samples.train[client]
    hidden = np.maximum(task.samples.x_train[rows].astype(float) @ w[:a].reshape(32, 64).T + w[a:b], 0)
    logits = hidden @ w[b:c].reshape(10, 32).T + w[c:]
    picked = logits[np.arange(len(rows)), task.samples.y_train[rows]]
    return float((np.log(np.exp(logits).sum(1)) - picked).mean())


def test_a_report_tells_what_evaluate_tells():
    report = trained()
    before, after = (TASK.evaluate(w, np.array([3])) for w in (FIRST, FIRST + report.delta))
    assert report.loss_before == before.loss[0]
    assert report.accuracy_before == before.accuracy[0]
    assert report.loss_after == pytest.approx(after.loss[0], rel=1e-5)
    assert report.loss_after < report.loss_before
    assert report.num_samples == len(TASK.samples.train[3])
    assert report.delta.dtype == FIRST.dtype == np.float32


def test_the_update_is_relative_to_the_model_received():
    start = (FIRST + stream(0, "elsewhere").normal(scale=0.1, size=len(FIRST))).astype(np.float32)
    report, there = trained(local=Anywhere(start)), trained(params=start)
    np.testing.assert_allclose(FIRST + report.delta, start + there.delta, atol=1e-6)
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


@pytest.mark.parametrize("a", [1.0, 0.5])
def test_one_and_four_workers_give_the_same_bits(a):
    coordinator = Coordinator(cohort=8, scheduler=Uniform(), local=Mixed(a))
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
    held = TASK.samples.held_out
    guess = module_with(FIRST)(torch.tensor(TASK.samples.x_test[held])).argmax(1).numpy()
    assert TASK.accuracy(FIRST) == pytest.approx((guess == TASK.samples.y_test[held]).mean())
    assert TASK.accuracy(np.full(len(FIRST), np.nan)) == 0


def test_a_diverging_client_fails_and_the_round_goes_on():
    report = trained(digits_task(12, rate=1e30))
    assert report.failure == "client 3, round 0: loss is NaN in epoch 1 batch 2"
    assert report.delta is None
    single = trained(digits_task(12, rate=1e30, epochs=1, batch=10_000))
    assert single.failure == "client 3, round 0: loss is NaN after training"
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
    images = TASK.samples.x_train.copy()
    images[TASK.samples.train[0]] = np.nan
    task = TorchTask(mlp([64, 32, 10]), replace(TASK.samples, x_train=images))
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


def test_drawing_a_model_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    TASK.init(stream(0, "init"))
    trained()
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"labels": 11}, "k=11 must be between 1 and 10"),
        ({"num_clients": 0}, "clients=0 must be .*at least 1"),
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
    with pytest.raises(ConfigError, match=r"answers with shape \(1, 9\) but there are 10 labels; it must give"):
        TorchTask(mlp([64, 9]), TASK.samples)
    with pytest.raises(ConfigError, match=r"cannot take samples of shape \(64,\): mat1 and mat2"):
        TorchTask(mlp([65, 10]), TASK.samples)
    with pytest.raises(ConfigError, match="client 1 has no training or no test samples"):
        replace(TASK.samples, train=[np.array([1]), np.array([], int)], test=[np.array([1])] * 2)
    with pytest.raises(ConfigError, match="sees no GPU here"):
        TorchTask(mlp([64, 10]), TASK.samples, device="cuda")


def test_without_torch_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "fedparity.tasks.torch_task")
    with pytest.raises(ConfigError, match=r"pip install 'fedparity\[torch\]'"):
        importlib.import_module("fedparity.tasks.torch_task")


def test_importing_the_library_does_not_import_torch():
    code = "import sys, fedparity, fedparity.experiment.own; print({'torch', 'sklearn'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_steps_replace_epochs_and_go_through_the_data_again():
    t = Training(steps=5, batch=4)
    batches = list(t.batches(6, stream(0, "x")))
    assert [len(b) for b in batches] == [4, 2, 4, 2, 4]
    assert sorted(np.concatenate(batches[:2])) == sorted(np.concatenate(batches[2:4])) == list(range(6))
    assert [t.place(i, 6) for i in (0, 1, 2)] == ["epoch 1 batch 1", "epoch 1 batch 2", "epoch 2 batch 1"]


def test_only_what_is_asked_for_is_computed():
    report = trained(report_fields=frozenset())
    assert np.isnan([report.loss_before, report.loss_after, report.accuracy_before, report.loss_rms]).all()
    assert report.prototypes is None
    assert report.delta.tobytes() == trained().delta.tobytes()
    evals = TASK.evaluate(FIRST, np.arange(3), "accuracy")
    assert np.isnan(evals.loss).all()
    assert np.isnan(TASK.evaluate(FIRST, np.arange(3), "loss").accuracy).all()


def test_a_clipped_gradient_bounds_the_step():
    free = trained(digits_task(12, epochs=1, batch=10_000, rate=1.0))
    length = np.linalg.norm(free.delta)
    bound = trained(digits_task(12, epochs=1, batch=10_000, rate=1.0, clip=float(length) / 2))
    np.testing.assert_allclose(bound.delta, free.delta / 2, atol=1e-6)


def test_rates_are_scaled_by_the_plan():
    slow, fast = trained(digits_task(12, rate=0.05)), trained(digits_task(12, rate=0.1), rate=0.5)
    np.testing.assert_allclose(slow.delta, fast.delta, atol=1e-7)


def test_fedprox_pulls_towards_the_model_received():
    far = (FIRST + 1).astype(np.float32)
    task = digits_task(12, epochs=1, batch=10_000, rate=0.1)
    plain, pulled = trained(task, local=Anywhere(far)), trained(task, local=Anywhere(far, 0.5))
    np.testing.assert_allclose(pulled.delta, plain.delta - 0.1 * 0.5 * 1, atol=1e-5)
    home = trained(task, local=Anywhere(far, 0.5, far))
    assert home.delta.tobytes() == plain.delta.tobytes()
    assert Prox(0.5).descents(None, FIRST) == (Descent(FIRST, 0.5),)
    assert trained(local=Prox(0.0)).delta.tobytes() == trained().delta.tobytes()


def test_ditto_keeps_a_personal_model_and_the_shared_one_is_fedavg_s():
    report = trained(local=Ditto(1.0))
    assert report.delta.tobytes() == trained().delta.tobytes()
    own = (FIRST + 0.5).astype(np.float32)
    task = digits_task(12, epochs=1, batch=10_000, rate=0.1)
    moved = trained(task, local=Ditto(2.0), kept=own).kept
    gradient = -trained(task, params=own).delta / 0.1
    np.testing.assert_allclose(moved, own - 0.1 * (gradient + 2.0 * 0.5), atol=1e-5)


def test_differences_add_up_to_the_update():
    last = stream(0, "last").normal(size=len(FIRST)).astype(np.float32)
    report = trained(local=Difference(), kept=last)
    np.testing.assert_allclose(report.delta + last, trained().delta, atol=1e-6)
    assert report.kept.tobytes() == trained().delta.tobytes()


def test_php_fl_sends_the_auxiliary_and_keeps_the_local_model():
    first = trained(local=PhpFl())
    assert len(first.kept) == 2 * len(FIRST) + 1
    assert first.kept[-1] == 1
    again = trained(local=PhpFl(), kept=first.kept, key=1)
    assert again.kept[-1] == 2
    local = PhpFl(base=0.25, grow=0.0).take_over(first.kept, FIRST)
    importance = first.kept[len(FIRST) : -1]
    replaced = np.flatnonzero(local == FIRST)
    assert len(replaced) >= len(FIRST) // 4
    assert importance[replaced].max() <= np.sort(importance)[len(FIRST) // 4 - 1] or (local == FIRST).all()


def test_php_fl_s_teachers_are_not_moved_by_their_pupils():
    """The gradient of each model is that of the ensemble and of its own lesson, with the other model as it is."""
    lesson, pieces = PhpFl(lam=1.0, temperature=2.0), stream(0, "logits").normal(size=(2, 5, 4)).astype(np.float32)
    y = torch.arange(5) % 4
    aux, local = (torch.tensor(piece, requires_grad=True) for piece in pieces)
    lesson.joint([aux, local], y).backward()
    for pupil, teacher in ((aux, local), (local, aux)):
        own, fixed = pupil.detach().clone().requires_grad_(), teacher.detach()
        soft = torch.softmax(fixed / 2, dim=1)
        taught = (soft * (soft.log() - torch.log_softmax(own / 2, dim=1))).sum(1).mean() * 4
        (torch.nn.functional.cross_entropy((own + fixed) / 2, y) + taught).backward()
        np.testing.assert_allclose(pupil.grad, own.grad, atol=1e-6)


def test_the_client_s_own_rules_run_in_a_federation():
    for rule in (Prox(0.1), Ditto(), Received(), PhpFl()):
        parts = {"weighting": "fedawe", "memory": "echo"} if isinstance(rule, Received) else {}
        coordinator = Coordinator(cohort=4, scheduler=Uniform(), local=rule, **parts)
        state = run(coordinator, InProcess(TASK), 3, params=FIRST, num_clients=12)
        assert np.isfinite(state.params).all()
        assert len(state.kept) == (0 if isinstance(rule, Prox) else (state.ledger.completed > 0).sum())


def test_prototypes_are_class_means_of_what_the_last_layer_takes():
    rows = TASK.samples.train[3]
    found = trained().prototypes
    hidden = module_with(FIRST)[:2](torch.tensor(TASK.samples.x_train[rows])).detach().double().numpy()
    for label in range(10):
        mine = TASK.samples.y_train[rows] == label
        assert found.counts[label] == mine.sum()
        expected = hidden[mine].mean(0) if mine.any() else np.zeros(32)
        np.testing.assert_allclose(found.features[label], expected, atol=1e-6)


def test_probing_a_few_samples_is_a_mean_over_some_of_them():
    alone = TASK.probe(FIRST, np.array([3]), 4, stream(0, "p"))
    among = TASK.probe(FIRST, np.arange(12), 4, stream(0, "p"))
    assert alone[0] == among[3]
    assert among.tolist() != TASK.evaluate(FIRST, np.arange(12)).loss.tolist()
    whole = TASK.probe(FIRST, np.array([3]), 10_000, stream(0, "p"))
    assert whole[0] == pytest.approx(TASK.evaluate(FIRST, np.array([3])).loss[0])


def test_the_server_s_own_data():
    assert TASK.validate is None
    rows = np.arange(40)
    task = TorchTask(TASK.module, replace(TASK.samples, validation=rows))
    module = module_with(FIRST)
    expected = nn.CrossEntropyLoss()(
        module(torch.tensor(task.samples.x_train[rows])), torch.tensor(task.samples.y_train[rows])
    )
    assert task.validate(FIRST) == pytest.approx(expected.item(), abs=1e-6)


def small_images(seed=0, clients=3):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 256, (60, 3, 8, 8), dtype=np.uint8), rng.integers(0, 4, 60)
    parts = np.split(np.arange(60), clients)
    return Samples(x, y, x, y, parts, parts, 4, np.arange(60), peak=255)


def conv(norm=None):
    layers = [nn.Conv2d(3, 8, 3, padding=1), *([norm] if norm else []), nn.ReLU(), nn.Conv2d(8, 4, 3)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def test_channels_last_is_the_same_model():
    one, two = (TorchTask(conv(), small_images(), channels_last=c) for c in (False, True))
    first = one.init(stream(0, "init"))
    assert first.tobytes() == two.init(stream(0, "init")).tobytes()
    a, b = (trained(t, 1, first, report_fields=frozenset()) for t in (one, two))
    np.testing.assert_allclose(a.delta, b.delta, atol=1e-5)
    with two.flat.lend(first) as replica:
        weight = next(replica.module.parameters())
        assert weight.is_contiguous(memory_format=torch.channels_last)
        assert replica.vector().tobytes() == first.tobytes()


def test_float64_is_offered():
    task = TorchTask(conv(), small_images(), double=True)
    first = task.init(stream(0, "init"))
    assert first.dtype == trained(task, 1, first, report_fields=frozenset()).delta.dtype == np.float64


def test_buffers_of_batch_norm_are_averaged_like_parameters_and_counters_are_not_shared():
    module = conv(nn.BatchNorm2d(8))
    task = TorchTask(module, small_images())
    names = [name for name, _ in pieces(module)]
    assert names[-2:] == ["1.running_mean", "1.running_var"]
    assert "1.num_batches_tracked" not in names
    first = task.init(stream(0, "init"))
    delta = trained(task, 1, first, report_fields=frozenset()).delta
    assert (delta[-16:] != 0).all()
    state = run(Coordinator(3, scheduler=Uniform()), InProcess(task), 1, params=first, num_clients=3)
    deltas = [trained(task, k, first, report_fields=frozenset()).delta for k in range(3)]
    np.testing.assert_allclose(state.params - first, np.mean(deltas, axis=0), atol=1e-6)


def test_a_part_that_is_not_trained_stays():
    module = conv()
    for p in module[0].parameters():
        p.requires_grad = False
    task = TorchTask(module, small_images(), Training(weight_decay=0.1))
    delta = trained(task, 1, task.init(stream(0, "init")), report_fields=frozenset()).delta
    frozen = sum(p.numel() for p in module[0].parameters())
    assert (delta[:frozen] == 0).all()
    assert (delta[frozen:] != 0).any()


@pytest.mark.parametrize("frozen", [False, True])
def test_a_frozen_norm_keeps_its_running_means(frozen):
    module = conv(nn.BatchNorm2d(8))
    for p in module[1].parameters():
        p.requires_grad = not frozen
    task = TorchTask(module, small_images())
    delta = trained(task, 1, task.init(stream(0, "init")), report_fields=frozenset()).delta
    assert (delta[-16:] == 0).all() == frozen  # running mean and variance come last


def test_a_first_model_can_be_given():
    module = conv()
    task = TorchTask(module, small_images(), first=vector_of(module))
    assert task.init(stream(9, "init")).tobytes() == vector_of(module).tobytes()


def test_shared_test_images_go_through_the_model_once():
    seen = []

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = conv()

        def forward(self, x):
            if not self.training:
                seen.append(len(x))
            return self.inner(x)

    data = small_images()
    task = TorchTask(Counting(), replace(data, test=[np.arange(60)] * 3))
    seen.clear()
    first = task.init(stream(0, "init"))
    task.evaluate(first, np.arange(3), "accuracy")
    task.accuracy(first)
    assert sum(seen) == 60
    task.evaluate(first.copy(), np.arange(3), "accuracy")
    assert sum(seen) == 120, "another model is scored anew"
