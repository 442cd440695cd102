"""Laws that every named method keeps, run over METHODS on a small task with an empty round and clients that leave."""

import functools
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fedparity import AVAILABILITY, State, Trace, stream
from fedparity.cli.main import app
from fedparity.core.journal import from_json
from fedparity.experiment.methods import METHODS
from fedparity.experiment.results import open_store
from fedparity.experiment.runner import Callbacks, build_coordinator, execute, state_classes
from fedparity.experiment.spec import MethodSpec, Spec
from stored_runs import same

N, ROUNDS, EMPTY = 12, 4, 1
STEPS_ON_MEMORY = ("mifa", "mifa_seen", "fedlaavg", "fedvarp", "fedstale", "parity_memory", "parity_prototype")
STEPS_ON_MEMORY += ("cup", "cup_opportunity", "cup_utility")
"""Their equations move the model also when nobody came."""


@functools.cache
def a_trace() -> Trace:
    """Independent clients, nobody in one round, and some that leave in the middle."""
    drawn = AVAILABILITY.build("bernoulli:low=.3,high=.9").draw(N, ROUNDS, 0)
    online = [ids if t != EMPTY else ids[:0] for t, ids in enumerate(drawn)]
    return Trace.from_rounds(N, online).with_dropout(0.3, stream(0, "dropout"))


def spec_of(methods, path="auto", workers=1):
    return Spec(
        methods=methods,
        cohort=3,
        rounds=ROUNDS,
        population={"clients": N, "availability": "bernoulli"},
        data={"validation": 0.02},
        training={"epochs": 1, "rate": 0.1},
        execution={"path": path, "workers": workers},
    )


ALL = [MethodSpec(name=name) for name in METHODS]


@functools.cache
def done(path: str = "auto", workers: int = 1):
    """All methods side by side."""
    spec = spec_of(ALL, path, workers)
    return {run.method: run for run in execute(spec, trace=a_trace()).runs}


@functools.cache
def changed(kind: str):
    """All methods that the change applies to, changed in a way that must change nothing."""
    found = [m for m in map(CHANGES[kind], METHODS) if m is not None]
    return {run.method: run for run in execute(spec_of(found), trace=a_trace()).runs}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The same run in a store, ended after two rounds, then gone on with: its rounds, and the last states."""
    folder, spec, asked = tmp_path_factory.mktemp("methods") / "run", spec_of(ALL), []

    def stop():
        asked.append(True)
        return len(asked) == 2

    with open_store(folder, spec) as store:
        part = execute(spec, store=store, trace=a_trace(), callbacks=Callbacks(stop=stop))
        assert {run.ledger.rounds for run in part.runs} == {2}
    with open_store(folder, spec, resume=True) as store:
        runs = execute(spec, store=store, trace=a_trace()).runs
        states = {name: store.load(spec.seed, name, state_classes(store, name)) for name in METHODS}
    return {run.method: run for run in runs}, states


def records(run):
    return [from_json(line) for line in run.journal]


# --- it runs


@pytest.mark.parametrize("name", METHODS)
def test_a_method_runs_through_empty_rounds_and_failures(name, stored):
    run, state = done()[name], stored[1][name]
    assert run.ledger.rounds == ROUNDS
    assert run.ledger.completed.sum() > 0
    assert np.isfinite(state.params).all()
    assert np.isfinite(run.accuracy).all()
    assert np.isfinite(run.own_accuracy).all()
    for record in records(run):
        assert np.isfinite(record.row_weights).all()
        assert np.isfinite(record.utility).all()
        assert len(record.row_weights) == len(record.row_clients)
    models = [record.model_sha256 for record in records(run)]
    assert (models[EMPTY] == models[EMPTY - 1]) == (name not in STEPS_ON_MEMORY)
    assert models[-1] != models[0]


def test_clients_leave_in_this_trace():
    failed = {name: sum(len(r.failed) for r in records(run)) for name, run in done().items()}
    assert min(failed.values()) > 0, failed


def test_only_who_is_there_is_asked():
    for run in done().values():
        for t, record in enumerate(records(run)):
            assert np.isin(record.selected, a_trace().online(t)).all()


def test_own_models_are_scored_where_clients_keep_one():
    """FedLaAvg's clients keep an update, which is no model."""
    differs = {name for name, run in done().items() if run.own_accuracy.tolist() != run.accuracy.tolist()}
    assert differs == {"cup_authors", "ditto", "fedawe", "php_fl"}


# --- the same bits


@pytest.mark.parametrize("name", METHODS)
def test_resuming_from_the_store_is_never_having_stopped(name, stored):
    whole, resumed = done()[name], stored[0][name]
    assert resumed.head == whole.head
    assert resumed.ledger == whole.ledger
    assert resumed.own_accuracy.tobytes() == whole.own_accuracy.tobytes()
    assert repr([row[:-1] for row in resumed.log]) == repr([row[:-1] for row in whole.log])  # all but the seconds


@pytest.mark.parametrize("name", METHODS)
def test_workers_change_no_bit(name):
    """One by one, so that two clients really train at a time."""
    one, two = done("sequential", 1)[name], done("sequential", 2)[name]
    assert two.head == one.head
    assert two.accuracy.tobytes() == one.accuracy.tobytes()
    assert two.own_accuracy.tobytes() == one.own_accuracy.tobytes()


def made(name, **changes):
    return MethodSpec(name=name).resolved().model_copy(update=changes)


def with_prox(name):
    return made(name, local="prox:mu=0") if METHODS[name].local == "plain" else None


def with_server(name):
    return made(name, server="sgd:momentum=0,rate=1") if METHODS[name].server == "sgd" else None


def with_quota(name):
    inner = METHODS[name].scheduler.replace(",", ";")
    return None if inner == "fixed" else made(name, scheduler=f"with_quota:inner={inner},quota=1000000")


CHANGES = {"prox": with_prox, "server": with_server, "quota": with_quota}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", CHANGES)
def test_what_does_nothing_changes_no_bit(name, kind):
    if CHANGES[kind](name) is None:
        assert name not in changed(kind)
        return
    assert changed(kind)[name].head == done()[name].head


# --- it says what it is


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_listed_with_its_components(name):
    shown = CliRunner().invoke(app, ["list", name, "--json"])
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    entries = [e for e in (found if isinstance(found, list) else [found]) if e["table"] == "methods"]
    assert len(entries) == 1
    parts, method = entries[0]["parameters"], METHODS[name]
    for part in ("scheduler", "weighting", "memory", "surrogate", "local", "server"):
        assert parts[part] == getattr(method, part)
    assert entries[0]["summary"] == method.summary
    assert entries[0]["reference"] == method.reference


@pytest.mark.parametrize("name", METHODS)
def test_a_saved_state_is_read_back_to_the_bit(name, stored, tmp_path):
    spec, state = spec_of(ALL), stored[1][name]
    state.save(tmp_path / "state.safetensors")
    coordinator = build_coordinator(spec, MethodSpec(name=name), spec.seed, trace=a_trace())
    found = State.load(tmp_path / "state.safetensors", coordinator)
    assert found is not state
    assert same(found, state)
    found.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "state.safetensors").read_bytes()


# --- no method is another one under a new name


ALIKE = {
    (
        "uniform",
        "fedavg",
        "ditto",
    ): "clients hold equally many samples here; Ditto's personal models lie beside FedAvg's",
    ("parity_opportunity", "parity_utility"): "what few rounds tell of gains leaves utility's choice at opportunity's",
    ("cup_opportunity", "cup_utility"): "the same",
    ("parity", "parity_surrogate"): "a utility surrogate credits the absent and never touches the model",
}
"""Methods that choose, weigh and step alike by design, and why."""
NETWORKS = ("php_fl", "parity_prototype")
"""They need PyTorch, and are compared in the run that all others have had."""


def fingerprint(run):
    told = records(run)
    weights = [np.round(r.row_weights, 9).tolist() for r in told]
    return repr(([r.selected.tolist() for r in told], weights, [r.model_sha256 for r in told]))


def test_no_method_is_another_one_under_a_new_name():
    """Whom it asks, how it weighs them and where the model goes: at least one differs, but for those listed."""
    spec = Spec(
        methods=[name for name in METHODS if name not in NETWORKS],
        cohort=3,
        rounds=15,
        population={"clients": N, "availability": "bernoulli:low=.2,high=.9"},
        data={"set": "logistic"},
    )
    same_as: dict[str, list[str]] = {}
    for run in execute(spec).runs:
        same_as.setdefault(fingerprint(run), []).append(run.method)
    groups = [names for names in same_as.values() if len(names) > 1]
    assert [names for names in groups if not any(set(names) <= set(listed) for listed in ALIKE)] == []
    for name in NETWORKS:
        assert all(fingerprint(run) != fingerprint(done()[name]) for run in done().values() if run.method != name)
