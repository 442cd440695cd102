"""Surrogates in the model's step: what they keep, which rows they add, and where the vectors lie."""

import copy
import gc
import math
import os

import numpy as np
import pytest

from fedparity import (
    MEMORIES,
    WEIGHTINGS,
    ClientReport,
    ConfigError,
    Coordinator,
    InProcess,
    Intermittent,
    Journal,
    Ledger,
    OutputError,
    Rows,
    Trace,
    run,
)
from fedparity.core.rows import combine, gram, let_go, mapping_of
from fedparity.core.spill import SpillFile, as_float32
from fedparity.core.types import Prototypes
from fedparity.local import LOCALS
from fedparity.memory.prototype import head_gradient
from fedparity.metrics.participation import influence
from fedparity.schedulers import Fixed
from fedparity.tasks import Quadratic

NONE = np.empty(0)


def rows_of(updates):
    ids = np.array(sorted(updates), dtype=np.int64)
    k = len(ids)
    deltas = [np.atleast_1d(np.array(updates[i], float)) for i in ids.tolist()]
    return Rows(ids, deltas, np.zeros(k, np.int64), np.full(k, 5.0), np.full(k, 0.5), np.full(k, 0.25))


def ledger_of(rounds, last):
    ledger = Ledger.empty(len(last))
    ledger.rounds, ledger.last_completed[:] = rounds, last
    return ledger


def remembering(text, updates):
    rule = MEMORIES.build(text)
    reports = [ClientReport(k, np.atleast_1d(np.array(v, float)), 7, 0.125) for k, v in updates.items()]
    return rule, rule.remember(rule.init(5), reports)


def shown(rows):
    return [(k, a, float(d[0])) for k, a, d in zip(rows.clients.tolist(), rows.ages.tolist(), rows.deltas, strict=True)]


LEDGER = ledger_of(6, [5, 2, -1, 4, -1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("last_updates", [(0, 1, 1), (1, 0, 9), (1, 4, 2), (2, 0, 8), (3, 2, 3)]),
        ("last_updates:own=replace", [(0, 1, 1), (1, 0, 9), (2, 0, 8), (3, 2, 3)]),
        ("last_updates:max_age=2", [(0, 1, 1), (1, 0, 9), (2, 0, 8), (3, 2, 3)]),
        ("last_updates:max_age=1", [(0, 1, 1), (1, 0, 9), (2, 0, 8)]),
        ("last_updates:max_age=0", [(1, 0, 9), (2, 0, 8)]),
        ("last_updates:wait=true", []),
        ("decayed", [(0, 1, 1), (1, 0, 9), (2, 0, 8), (3, 2, 3)]),
        ("decayed:max_age=1", [(0, 1, 1), (1, 0, 9), (2, 0, 8)]),
    ],
)
def test_which_rows_are_added(text, expected):
    rule, state = remembering(text, {0: 1.0, 1: 2.0, 3: 3.0})
    rows, _ = rule.complete(state, 6, rows_of({1: 9.0, 2: 8.0}), np.zeros(1), LEDGER)
    assert shown(rows) == expected


def test_a_stale_row_has_what_its_report_said():
    rule, state = remembering("last_updates", {0: 1.0, 1: 2.0})
    rows, _ = rule.complete(state, 6, rows_of({1: 9.0}), np.zeros(1), LEDGER)
    assert rows.sizes.tolist() == [7, 5, 7]
    assert rows.losses.tolist() == [0.125, 0.5, 0.125]
    assert rows.probs.tolist() == [1, 0.25, 1]


def test_waiting_ends_when_everybody_was_seen_once():
    rule, state = remembering("last_updates:wait=true,own=replace", dict.fromkeys(range(4), 1.0))
    ledger = ledger_of(6, [5, 2, 3, 4, -1])
    assert len(rule.complete(state, 6, rows_of({0: 9.0}), np.zeros(1), ledger)[0].clients) == 0
    rows, _ = rule.complete(state, 6, rows_of({4: 9.0}), np.zeros(1), ledger)
    assert rows.clients.tolist() == [0, 1, 2, 3, 4]


def a_run(weighting, memory, local="plain", rounds=25, ram=None, **more):
    text = memory if ram is None else f"{memory}{',' if ':' in memory else ':'}ram={ram}"
    matrix = np.random.default_rng(5).random((rounds, 6)) < np.linspace(0.15, 0.8, 6)
    method = Coordinator(
        3, weighting=WEIGHTINGS.build(weighting), memory=MEMORIES.build(text), local=LOCALS.build(local), **more
    )
    journal = Journal()
    engine = Intermittent(InProcess(Quadratic.random(6, seed=1)), Trace.from_matrix(matrix))
    state = run(method, engine, rounds, params=np.zeros(4), num_clients=6, observers=[journal])
    return state, journal


@pytest.mark.parametrize(
    ("memory", "weighting"),
    [("decayed:max_age=0", "decayed_mean")]
    + [("last_updates:max_age=0", name) for name in ("mean", "fair_vector", "decayed_mean", "fedau", "by_size")],
)
def test_a_memory_that_adds_nothing_changes_no_bit(weighting, memory):
    """Of journal and model; a decayed mean without stale rows is the mean."""
    plain = a_run("mean" if weighting == "decayed_mean" else weighting, "none")
    assert a_run(weighting, memory)[1].head() == plain[1].head()


def test_a_decayed_mean_without_weight_for_the_absent_is_the_mean_to_the_bit():
    assert a_run("decayed_mean:eta0=0", "last_updates")[0].params.tobytes() == a_run("mean", "none")[0].params.tobytes()


@pytest.mark.parametrize(
    ("weighting", "memory"),
    [
        ("memory_mean", "last_updates:own=replace"),
        ("fedvarp", "last_updates"),
        ("decayed_mean", "decayed"),
        ("fedawe", "echo"),
    ],
)
def test_bits_do_not_depend_on_where_vectors_lie(weighting, memory):
    local = "received" if memory == "echo" else "plain"
    found = {a_run(weighting, memory, local, ram=ram)[1].head() for ram in (0, 40, 10**9)}
    assert len(found) == 1


def test_fedlaavg_is_mifa_in_a_run():
    mifa, _ = a_run("memory_mean:over=all", "last_updates:own=replace")
    light, journal = a_run("fedlaavg", "running_sum", "difference")
    assert light.params == pytest.approx(mifa.params, rel=1e-5, abs=1e-7)
    records = list(journal.records())
    assert [r.row_clients[0] for r in records if len(r.row_clients)][1:] == [-1] * (
        sum(len(r.row_clients) > 0 for r in records) - 1
    )
    assert Ledger.replay(6, records) == light.ledger


def test_influence_of_a_row_that_is_nobodys_is_nobodys():
    _, journal = a_run("fedlaavg", "running_sum", "difference")
    records = list(journal.records())
    shares = [np.abs(r.row_weights[r.row_clients >= 0]).sum() / np.abs(r.row_weights).sum() for r in records if len(r.row_weights)]  # fmt: skip # noqa: E501
    found = influence(records, 6)
    assert found.sum() == pytest.approx(sum(shares))
    never = [k for k in range(6) if not any(k in r.row_clients for r in records)]
    assert (found[never] == 0).all()


def test_mifa_goes_to_the_optimum_where_the_mean_of_those_that_came_does_not():
    """With small local steps: MIFA's steady point is that of everybody; the mean's leans to those often there."""
    task = Quadratic.random(6, seed=1, rate=0.02, steps=1)
    matrix = np.random.default_rng(5).random((1500, 6)) < np.linspace(0.05, 0.9, 6)
    engine = Intermittent(InProcess(task), Trace.from_matrix(matrix))
    apart = {}
    for weighting, memory in (("memory_mean", "last_updates:own=replace"), ("mean", "none")):
        method = Coordinator(6, weighting=WEIGHTINGS.build(weighting), memory=MEMORIES.build(memory))
        state = run(method, engine, 1500, params=np.zeros(4), num_clients=6)
        apart[weighting] = float(np.linalg.norm(state.params - task.optimum()))
    assert apart["memory_mean"] < 0.1 * apart["mean"]


# --- decayed


def test_the_decayed_memory_logs_lemma_3():
    rule, state = remembering("decayed:eta0=2,lam=.5,epsilon=.25", {0: 1.0, 1: 2.0, 3: 3.0})
    _, state = rule.complete(state, 6, rows_of({1: 9.0}), np.zeros(1), LEDGER)
    eta_sum, bias_bound = rule.bias(state)
    total = 2 * (math.exp(-0.5) + math.exp(-1))
    assert eta_sum == pytest.approx(total)
    assert bias_bound == pytest.approx(total / 4)


def test_epsilon_is_measured_on_those_that_come_back():
    rule, state = remembering("decayed", {0: 1.0, 1: 2.0, 3: 3.0})
    _, state = rule.complete(state, 6, rows_of({2: 8.0}), np.zeros(1), LEDGER)
    assert math.isnan(rule.bias(state)[1])  # nobody came back yet
    _, state = rule.complete(state, 6, rows_of({1: 9.0}), np.zeros(1), LEDGER)
    assert state.epsilon == pytest.approx(7)
    _, state = rule.complete(state, 6, rows_of({1: 2.5}), np.zeros(1), LEDGER)
    assert state.epsilon == pytest.approx(7)  # the largest so far
    eta_sum, bias_bound = rule.bias(state)
    assert bias_bound == pytest.approx(7 * eta_sum)


def test_lemma_3_holds_for_the_step_itself():
    """|sum eta (stale - true)| <= eps sum eta, eps the largest distance among them."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        stale, true, ages = rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), rng.integers(1, 9, 5)
        eta = np.exp(-0.5 * ages)
        epsilon = np.linalg.norm(stale - true, axis=1).max()
        assert np.linalg.norm(eta @ (stale - true)) <= epsilon * eta.sum() + 1e-12


# --- prototypes


def test_a_prototype_row_is_a_step_of_the_head_alone():
    rng = np.random.default_rng(0)
    labels, features, tail = 3, 2, 4
    first = 5
    params = rng.normal(size=first + labels * (features + 1) + tail)
    means, counts = rng.normal(size=(labels, features)), np.array([4, 0, 2])
    rule = MEMORIES.build("prototype:rate=.5")
    state = rule.remember(rule.init(5), [ClientReport(1, params * 0, prototypes=Prototypes(means, counts, first))])
    rows, _ = rule.complete(state, 6, rows_of({0: params * 0}), params, LEDGER)
    assert (rows.clients.tolist(), rows.ages.tolist(), rows.sizes.tolist()) == ([0, 1], [0, 4], [5, 6])
    row = rows.deltas[1]
    assert not row[:first].any()
    assert not row[-tail:].any()

    def loss(head):
        weight, bias = head[:-labels].reshape(labels, features), head[-labels:]
        logits = means @ weight.T + bias
        picked = logits[np.arange(labels), np.arange(labels)] - np.log(np.exp(logits).sum(1))
        return -(counts / counts.sum()) @ picked

    head = params[first:-tail]
    slopes = [(loss(head + h) - loss(head - h)) / 2e-6 for h in np.eye(len(head)) * 1e-6]
    assert row[first:-tail] == pytest.approx(-0.5 * np.array(slopes), abs=1e-8)
    assert loss(head + row[first:-tail]) < loss(head)
    assert rule.report_fields == ("prototypes",)


def test_prototypes_and_the_model_must_fit():
    rule = MEMORIES.build("prototype")
    report = ClientReport(1, np.zeros(4), prototypes=Prototypes(np.ones((3, 2)), np.ones(3, int)))
    state = rule.remember(rule.init(5), [report])
    with pytest.raises(ConfigError, match="prototypes of 3 x 2"):
        rule.complete(state, 6, rows_of({}), np.zeros(4), LEDGER)


def test_prototypes_for_another_place_are_not_kept():
    rule, found = MEMORIES.build("prototype"), [Prototypes(np.ones((3, 2)), np.ones(3, int), at) for at in (5, 0, 5)]
    state = rule.init(5)
    for k, each in enumerate(found):
        state = rule.remember(state, [ClientReport(k, np.zeros(20), prototypes=each)])
    assert (state.head, sorted(state.kept)) == (5, [0, 2])


def test_a_head_on_one_label_has_a_gradient():
    assert head_gradient(np.zeros((2, 1)), np.zeros(2), np.ones((2, 1)), np.array([3.0, 0.0])) == pytest.approx(
        [-0.5, 0.5, -0.5, 0.5]
    )


def test_rows_of_zeros_take_no_memory_until_touched():
    rule = MEMORIES.build("prototype")
    params = np.zeros(20_000_000, np.float32)
    found = Prototypes(np.ones((10, 8)), np.ones(10, int))
    state = rule.remember(rule.init(5), [ClientReport(k, None, prototypes=found) for k in range(5)])
    before = resident()
    rows, _ = rule.complete(state, 6, rows_of({}), params, ledger_of(6, [5] * 5))
    assert len(rows.clients) == 5
    assert resident() - before < 100e6  # 400 MB if they were all there


def resident():
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# --- echo


def test_echo_rows_are_how_far_the_model_moved_since():
    rule = MEMORIES.build("echo")
    state, ledger = rule.init(5), Ledger.empty(5)
    models = [np.array([float(t * t)]) for t in range(6)]
    for t, ids in enumerate(([0, 1], [0], [], [0, 1, 2])):
        rows, state = rule.complete(state, t, rows_of(dict.fromkeys(ids, 0.5)), models[t], ledger)
        if ids:
            state = rule.remember(state, [ClientReport(k, np.ones(1)) for k in ids])
        ledger.last_completed[ids] = t
        ledger.rounds += 1
    # 0 got model 2 (the one round 1 ended with), 1 got model 1; the model is number 3 now; 2 starts from the first.
    assert shown(rows) == [(0, 0, 0.5), (0, 2, 4 - 9), (1, 0, 0.5), (1, 3, 1 - 9), (2, 0, 0.5), (2, 4, 0 - 9)]
    rule.complete(state, 4, rows_of({}), models[4], ledger)
    assert state.received.kept[0] is state.received.kept[1] is state.received.kept[2] is models[4]


# --- where vectors lie


def test_what_is_kept_is_float32_and_read_only():
    kept = as_float32(np.array([1.5, 1e300, -1e300]))
    assert kept.dtype == np.float32
    assert np.isfinite(kept).all()
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 0


def test_a_shelf_keeps_vectors_apart_and_uses_places_again():
    spill, rng = SpillFile(), np.random.default_rng(0)
    given = rng.normal(size=(200, 1000)).astype(np.float32)
    kept = {}
    for round_ in range(20):
        for k in rng.integers(0, 50, 10).tolist():
            kept[k] = (spill.put(given[(k + round_) % 200]), (k + round_) % 200)
    assert all(vector.tobytes() == given[n].tobytes() for vector, n in kept.values())
    assert all(mapping_of(vector) is not None for vector, _ in kept.values())
    live = len(kept)
    places = spill._free[4000]
    made = live + len(places)
    assert made <= 8 + 16 + 32 + 64
    part = next(iter(kept.values()))[0][10:20]  # a window on a vector keeps its place
    kept.clear()
    gc.collect()
    assert len(places) == made - 1
    del part
    gc.collect()
    assert len(places) == made


def test_vectors_beyond_the_limit_go_to_files_and_shared_ones_once():
    spill, shared = SpillFile(), np.ones(100)
    kept = {k: np.full(100, float(k)) for k in range(4)} | {9: shared, 8: shared}
    spill.settle(kept, ram=1600)
    assert [k for k, v in kept.items() if mapping_of(v) is None] == [0, 1]
    assert kept[9] is kept[8]
    assert all((kept[k] == k).all() for k in range(4))
    assert len(spill._free[800]) == 8 - 3
    with pytest.raises(ValueError, match="read-only"):
        kept[3][0] = 0


def test_a_shelf_can_be_copied_and_outlived():
    spill = SpillFile()
    kept = spill.put(np.arange(10.0))
    assert copy.deepcopy(spill)._free == {}
    assert not copy.deepcopy(kept).base
    del spill
    gc.collect()
    assert kept.sum() == 45
    assert SpillFile().put(np.empty(0)).shape == (0,)


def test_letting_go_loses_nothing():
    spill = SpillFile()
    matrix = np.random.default_rng(0).normal(size=(5, 70_001)).astype(np.float32)
    mapped = [spill.put(row) for row in matrix]
    weights = np.array([1.0, -2.0, 0.0, 0.5, 3.0])
    assert combine(weights, mapped, 70_001).tobytes() == combine(weights, matrix, 70_001).tobytes()
    assert gram(mapped).tobytes() == gram(matrix).tobytes()
    let_go([*mapped, np.ones(3)])
    assert all(a.tobytes() == b.tobytes() for a, b in zip(mapped, matrix, strict=True))


def test_a_full_disk_is_one_error_with_its_fix(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OutputError, match=r"cannot hold 80 bytes more \(No space left on device\).*TMPDIR"):
        SpillFile().put(np.arange(10.0))


def test_no_named_file_is_left_in_the_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kept = SpillFile().put(np.ones(1000))
    assert list(tmp_path.iterdir()) == []
    assert kept.sum() == 1000


@pytest.mark.parametrize(
    "text", ["last_updates:max_age=-1", "last_updates:ram=-1", "decayed:eta0=0", "prototype:rate=0", "echo:ram=-1"]
)
def test_values_that_make_no_sense_are_refused(text):
    with pytest.raises(ConfigError, match=text.partition(":")[2]):
        MEMORIES.build(text)


def test_a_schedule_in_which_nobody_comes_leaves_the_model_until_somebody_did():
    method = Coordinator(
        2, scheduler=Fixed([np.array([], int), np.array([0, 1]), np.array([], int)]), min_reports=0,
        weighting=WEIGHTINGS.build("memory_mean"), memory=MEMORIES.build("last_updates:own=replace"),
    )  # fmt: skip
    state, seen = method.init(2, np.zeros(1)), []
    for reports in ([], [ClientReport(0, np.array([1.0])), ClientReport(1, np.array([3.0]))], []):
        plan, state = method.plan(state, np.arange(2))
        record, state = method.absorb(state, plan, reports)
        seen.append((float(state.params[0]), record.row_clients.tolist(), record.row_ages.tolist()))
    assert seen == [(0.0, [], []), (2.0, [0, 1], [0, 0]), (4.0, [0, 1], [1, 1])]
