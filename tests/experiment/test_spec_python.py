"""A spec made in Python: the same keys, errors of one line, components built once, and a task of one's own."""

import collections
from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedparity import (
    AVAILABILITY,
    METHODS,
    SCHEDULERS,
    SERVERS,
    UTILITIES,
    ClientReport,
    Cohort,
    ConfigError,
    Evals,
    Run,
    Scheduler,
    Spec,
    Task,
    Trace,
    execute,
    write_report,
)
from fedparity.core.errors import FedparityError
from fedparity.core.registry import Registry, text_of
from fedparity.experiment.runner import Callbacks
from fedparity.experiment.spec import MethodSpec
from fedparity.experiment.spec_file import load, parse, to_toml
from fedparity.experiment.spec_parts import TABLES, DataSpec, Population
from fedparity.schedulers import Fixed, Parity, WithFloor, WithQuota
from fedparity.servers.rate_schedules import Cosine
from fedparity.tasks import Quadratic

PEOPLE = {"clients": 8, "availability": "bernoulli:low=.3,high=.9"}


def small(*methods, **more):
    return Spec(methods=methods or ["uniform", "parity"], **({"rounds": 4, "cohort": 3, "population": PEOPLE} | more))


# --- as Python writes it


def test_names_dictionaries_and_no_version():
    spec = Spec(
        methods=["uniform", {"name": "own", "scheduler": "inverse"}],
        population={"clients": 20},
        data={"set": "logistic"},
    )
    assert spec == parse(
        'version = 2\nmethods = ["uniform", {name = "own", scheduler = "inverse"}]\n'
        '[population]\nclients = 20\n[data]\nset = "logistic"\n',
        "file",
    )
    assert (spec.version, spec.methods[0], spec.population) == (2, MethodSpec(name="uniform"), Population(clients=20))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Spec(methods=["paritee"]), "methods.0: unknown method 'paritee'; did you mean 'parity'?"),
        (lambda: Spec(methods=["parity"], round=3), "unknown key 'round'; did you mean 'rounds'?"),
        (lambda: Spec(methods=["parity"], data={"sett": "x"}), "unknown key 'data.sett'; did you mean 'data.set'?"),
        (lambda: Spec(rounds=3), "key 'methods' is missing; add it"),
        (lambda: Population(clients="many"), "key 'clients' is 'many': input should be a valid integer"),
        (lambda: DataSpec(set="mnits"), "unknown data set 'mnits'; did you mean 'mnist'?"),
    ],
)
def test_what_is_wrong_is_a_config_error_of_one_line(make, says):
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


# --- what is no more


OLD = {
    "version": ({"version": 1}, "version 1 is of fedparity 0.1; write version = 2"),
    "a whole spec": (
        {"version": 1, "task": {"dataset": "logistic", "rate": 0.1}, "workers": 2},
        (
            'version 1 is of fedparity 0.1; write version = 2, data.set = "logistic" for task.dataset, '
            "training.rate = 0.1 for task.rate, execution.workers = 2 for workers"
        ),
    ),
    "one key": ({"task": {"model": "cnn"}}, "key 'task.model' is no more; write model.name = \"cnn\""),
    "path": ({"task": {"path": "plain"}}, "key 'task.path' is no more; write execution.path = \"sequential\""),
    "unknown": ({"task": {"epoch": 3}}, "key 'task.epoch' is no more; write it in [data], [model], [training] or"),
    "no table": ({"task": 3}, "key 'task' is no more; write [data], [model], [training] and [execution]"),
    "word": (
        {"execution": {"path": "plain"}},
        'execution: path "plain" is called sequential; write path = "sequential"',
    ),
}


@pytest.mark.parametrize("name", OLD)
def test_old_keys_say_what_to_write(name):
    values, says = OLD[name]
    with pytest.raises(ConfigError) as caught:
        Spec(methods=["parity"], **values)
    assert str(caught.value).startswith(says)


def test_every_old_key_has_its_place():
    keys = [
        "dataset",
        "label",
        "client",
        "standardise",
        "partition",
        "validation",
        "scored_on",
        "model",
        "features",
        "weights",
        "head",
        "trains",
        "epochs",
        "steps",
        "batch",
        "rate",
        "schedule",
        "optimiser",
        "momentum",
        "weight_decay",
        "clip",
        "path",
        "threads",
        "channels_last",
        "device",
    ]
    for key in keys:
        with pytest.raises(ConfigError) as caught:
            Spec(methods=["parity"], task={key: 1})
        section, _, now = str(caught.value).partition("; write ")[2].partition(" = ")[0].partition(".")
        assert now in type(getattr(small(), section)).model_fields


# --- components


def test_components_are_tables_inside_tables_in_a_file():
    text = """version = 2
utility = {name = "loss_drop"}
[training]
schedule = {name = "cosine", every = 5}
[data]
partition = {name = "dirichlet", alpha = 0.3}
[model]
name = {name = "mlp", hidden = [8, 4]}
[population]
availability = {name = "bernoulli", low = 0.2}
[[methods]]
name = "capped"
scheduler = {name = "with_quota", inner = {name = "with_floor", inner = {name = "parity", target = 0.5}}, quota = 2}
server = {name = "sgd", schedule = {name = "cosine", every = 7}}
estimator = {name = "oracle"}
"""
    spec = parse(text, "file")
    parts = spec.methods[0].parts
    assert parts.scheduler == WithQuota(inner=WithFloor(inner=Parity(target=0.5)), quota=2.0)
    assert parts.server.schedule == Cosine(every=7)
    assert spec.training.course == Cosine(every=5)
    assert spec.model.architecture.hidden == (8, 4)
    assert spec.methods[0].hindsight
    assert parse(to_toml(spec), "again") == spec
    assert parse(to_toml(spec.resolved()), "again") == spec.resolved()


@pytest.mark.parametrize(("table", "name"), [(t, n) for t in TABLES for n in t if (t.kind, n) != ("speed", "given")])
def test_every_component_is_an_object_that_a_spec_can_write(table, name):
    made = table.build(name)
    assert table.of(text_of(made, TABLES)) == made


def test_objects_and_named_methods_do_where_texts_do():
    inner = SCHEDULERS.build("with_quota:inner=parity:target=opportunity;ratio=2,quota=1.5")
    own = {"name": "own", "scheduler": inner, "server": SERVERS.build("sgd:schedule=cosine:every=5,rate=.5")}
    people = {"clients": 8, "availability": AVAILABILITY.build("bernoulli:low=.3,high=.9")}
    spec = small(METHODS["cup"], own, population=people, utility=UTILITIES.build("loss_drop"))
    assert [m.name for m in spec.methods] == ["cup", "own"]
    assert (spec.methods[1].parts.scheduler, spec.worth) == (inner, UTILITIES.build("loss_drop"))
    assert spec.methods[1].scheduler == {
        "name": "with_quota",
        "inner": "parity:target=opportunity,ratio=2.0",
        "quota": 1.5,
    }
    assert spec.population.model == people["availability"]
    assert parse(to_toml(spec), "again") == spec


@dataclass(frozen=True)
class RemembersASet(Scheduler):
    """One whose state no file can hold."""

    def init(self, num_clients):
        return {"seen": {1, 2}}

    def select(self, state, view, rng):
        return Cohort(view.available[: view.cohort], np.ones(min(view.cohort, len(view.available))), "exact"), state


@pytest.mark.parametrize("stored", [False, True])
def test_a_state_that_cannot_be_stored_is_one_line_that_says_whose_it_is(tmp_path, stored):
    spec = small({"name": "own", "scheduler": f"{__name__}:RemembersASet"}, data={"set": "quadratic"})
    with pytest.raises(ConfigError, match=r"^the scheduler's state holds a set \(at /scheduler/seen\), which cannot"):
        execute(spec, out=tmp_path / "run" if stored else None)


@dataclass(frozen=True)
class Unlisted(Scheduler):
    most: int = 3

    def select(self, state, view, rng):
        ids = view.available[: min(self.most, view.cohort)]
        return Cohort(ids, np.ones(len(ids)), "deterministic"), state


def test_an_object_of_a_module_is_named_by_it(tmp_path):
    """No need to register what can be imported."""
    inner = WithQuota(Unlisted(2))
    spec = small(
        {"name": "own", "scheduler": Unlisted(1)}, {"name": "capped", "scheduler": inner}, data={"set": "quadratic"}
    )
    assert spec.methods[0].scheduler == f"{__name__}:Unlisted:most=1"
    assert spec.methods[1].parts.scheduler == inner
    heads = [one.head for one in execute(spec, out=tmp_path / "run").runs]
    again = execute(load(tmp_path / "run" / "spec.toml"), out=tmp_path / "run", resume=True)
    assert [one.head for one in again.runs] == heads


def local():
    @dataclass(frozen=True)
    class Local(Unlisted):
        """Nobody can import it."""

    return Local()


@pytest.mark.parametrize(
    ("method", "says"),
    [
        (
            {"name": "own", "scheduler": Trace.from_matrix([[1]])},
            "methods.0.scheduler: a Trace goes into a file: save_",
        ),
        ({"name": "own", "scheduler": local()}, "methods.0.scheduler: Local is no object that a file"),
        ({"name": "own", "scheduler": Fixed([np.arange(2)])}, "methods.0.scheduler: Fixed is no object that a file"),
        (
            replace(METHODS["cup"], summary="mine"),
            "methods.0: a Method of your own has no name; write",
        ),
    ],
)
def test_an_object_that_no_file_can_name_is_one_line(method, says):
    with pytest.raises(ConfigError) as caught:
        small(method)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_text_and_table_run_alike():
    text = small(
        {"name": "own", "scheduler": "with_quota:inner=parity:target=share;ratio=2,quota=1.5"},
        data={"set": "quadratic"},
    )
    inner = {"name": "parity", "target": "share", "ratio": 2}
    table = small(
        {"name": "own", "scheduler": {"name": "with_quota", "inner": inner, "quota": 1.5}}, data={"set": "quadratic"}
    )
    assert execute(text).runs[0].head == execute(table).runs[0].head


@pytest.mark.parametrize("rounds", [2, 10])
def test_each_component_is_built_once_however_long_the_run(monkeypatch, rounds):
    built, make = collections.Counter(), Registry._make

    def counting(self, name, *rest):
        built[self.kind] += 1
        return make(self, name, *rest)

    monkeypatch.setattr(Registry, "_make", counting)
    server = "sgd:schedule=cosine:every=5"
    methods = [{"name": "uniform", "server": server}, {"name": "parity", "server": server}, "cup_paper"]
    execute(small(*methods, rounds=rounds, data={"set": "quadratic"}))
    seven = ("scheduler", "weighting", "surrogate", "memory", "estimator", "local rule", "server optimiser")
    assert {kind: built.pop(kind) for kind in seven} == dict.fromkeys(seven, 3)
    assert built == {"utility": 1, "availability": 1, "schedule": 4}  # one of training, one of each server


def test_a_copy_forgets_what_was_computed():
    spec = small()
    assert spec.resolved() is spec.resolved()
    other = spec.model_copy(update={"methods": (MethodSpec(name="inverse"),)})
    assert [m.name for m in other.resolved().methods] == ["inverse"]
    changed = spec.methods[0].model_copy(update={"scheduler": "inverse"})
    assert repr(changed.parts.scheduler) == "inverse()"
    assert changed.resolved().parts is changed.parts


# --- a task of one's own


class Wishes(Task):
    """Client k wants the model, one number, to be k."""

    num_clients = 8

    def __init__(self, seed=0):
        self.wishes = np.arange(8.0) + seed

    def init(self, rng):
        return np.zeros(1)

    def train(self, job):
        step = 0.1 * (self.wishes[job.client] - job.params)
        return ClientReport(job.client, step, loss_before=1.0, loss_after=0.5)

    def evaluate(self, params, clients, measure="both"):
        return Evals(clients, (params[0] - self.wishes[clients]) ** 2, np.full(len(clients), np.nan))


def test_an_own_task_leaves_a_run_like_any_other(tmp_path, fedparity):
    pytest.importorskip("jinja2")
    run = execute(small(seeds=2, name="mine"), task=Wishes, out=tmp_path / "run")
    assert run.spec.data == DataSpec(set="own")
    opened = Run.open(tmp_path / "run")
    assert opened.spec == run.spec.resolved()
    assert opened.summary() == run.summary()
    assert {(one.method, one.seed) for one in opened.runs} == {(m, s) for m in ("uniform", "parity") for s in (0, 1)}
    assert (tmp_path / "run" / "clients.csv").exists()
    assert fedparity("verify", tmp_path / "run")[0] == 0
    assert fedparity("export", tmp_path / "run", "--out", tmp_path / "tables")[0] == 0
    assert fedparity("compare", tmp_path / "run", "--out", tmp_path / "compared")[0] == 0
    write_report(opened, tmp_path / "page.html")
    assert "own" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert execute(small(seeds=2, name="mine"), task=Wishes).runs[-1].head == run.runs[-1].head


def test_it_goes_on_with_its_task_alone(tmp_path, fedparity):
    spec, folder, rounds = small(), tmp_path / "run", []
    cut = Callbacks(stop=lambda: bool(rounds.append(1)) or len(rounds) == 2)
    assert not execute(spec, task=Wishes(), out=folder, callbacks=cut).complete
    with pytest.raises(ConfigError, match="already holds a run; go on with --resume"):
        execute(spec, task=Wishes(), out=folder)
    code, out, err = fedparity("run", folder / "spec.toml", "--out", folder, "--resume")
    assert (code, out) == (2, "")
    assert "data.set='own' is a task of Python's: pass it, execute(spec, task=...)" in err
    with pytest.raises(ConfigError, match="own task changed since this run began"):
        execute(spec, task=Quadratic.random(8), out=folder, resume=True)
    whole = execute(load(folder / "spec.toml"), task=Wishes(), out=folder, resume=True)
    assert whole.complete
    assert [one.head for one in whole.runs] == [one.head for one in execute(spec, task=Wishes()).runs]
    assert execute(spec, task=Wishes(1), out=folder, overwrite=True).complete


RETURNED = {
    "no report": ("train", lambda _: None, "what Task.train returned=None must be a ClientReport"),
    "another's": ("train", lambda _: ClientReport(99, np.zeros(1)), "Task.train reported client 99 for client 0; give"),
    "no scores": ("evaluate", lambda *_: None, "what Task.evaluate returned=None must be an Evals"),
    "one score": (
        "evaluate",
        lambda _, who, __: Evals(who, np.ones(1), who * 0.5),
        "gave loss of shape (1,) for 3 clients",
    ),
    "percent": (
        "evaluate",
        lambda _, who, __: Evals(who, who * 1.0, who + 7.0),
        "gave an accuracy of 7.0; give it from",
    ),
}


@pytest.mark.parametrize(("method", "wrong", "says"), RETURNED.values(), ids=RETURNED)
def test_what_a_task_returns_is_held_to_its_rules(monkeypatch, method, wrong, says):
    task = Wishes()
    monkeypatch.setattr(task, method, wrong)
    with pytest.raises(FedparityError) as caught:
        execute(small(), task=task)
    assert says in str(caught.value)


def test_a_run_that_learnt_nothing_says_so_in_python(monkeypatch, caplog, tmp_path):
    """Its table looks like any other."""
    task = Wishes()
    monkeypatch.setattr(task, "train", lambda job: ClientReport(job.client, [0.5], loss_before=1.0, loss_after=0.5))
    for where in ({}, {"out": tmp_path / "run"}):
        caplog.clear()
        execute(small(utility="loss_drop"), task=task, **where)
        (said,) = caplog.messages
        assert said.startswith("Nothing was learnt: no update of any client was used (client ")
        assert said.endswith(", round 0: no update).")


def rows_of_labels(scale=1.0, moved=0):
    """A task of one's own module on 64 samples, with other data but the same first model and the same label counts."""
    pytest.importorskip("torch")
    from torch import nn

    from fedparity import torch_task

    y = np.arange(64) % 2
    x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32) * scale
    lists = [np.roll(np.arange(64), moved)[8 * k : 8 * k + 8] for k in range(8)]
    module = nn.Linear(3, 2)
    nn.init.zeros_(module.weight)
    nn.init.zeros_(module.bias)
    return torch_task(module, x, y, clients=lists)


@pytest.mark.parametrize(
    ("task", "other"),
    [
        (rows_of_labels, lambda: rows_of_labels(scale=5.0)),
        (rows_of_labels, lambda: rows_of_labels(moved=2)),
        (lambda: Quadratic.random(8, seed=0), lambda: Quadratic.random(8, seed=1)),
    ],
    ids=["other features", "other rows", "another quadratic"],
)
def test_it_does_not_go_on_with_other_data(tmp_path, task, other):
    spec, folder, rounds = small("uniform"), tmp_path / "run", []
    cut = Callbacks(stop=lambda: bool(rounds.append(1)) or len(rounds) == 2)
    assert not execute(spec, task=task(), out=folder, callbacks=cut).complete
    with pytest.raises(ConfigError, match="own task changed since this run began"):
        execute(spec, task=other(), out=folder, resume=True)
    assert execute(spec, task=task(), out=folder, resume=True).complete


@pytest.mark.parametrize(
    ("task", "methods", "says"),
    [
        (Wishes(), ["fedgs"], "method 'fedgs' needs labels, which the task does not have"),
        (Wishes(), ["fairfedcs"], "method 'fairfedcs' needs validation, which the task does not have"),
        (Quadratic.random(5), ["parity"], "population.clients=8 but the task has 5; set it to that"),
        (object(), ["parity"], "task: object has no 'num_clients'; inherit from fedparity.Task"),
    ],
)
def test_a_task_that_does_not_fit_is_refused(task, methods, says):
    with pytest.raises(ConfigError) as caught:
        execute(small(*methods), task=task)
    assert str(caught.value).startswith(says)


def test_training_asked_for_in_vain_is_refused():
    """The task trains as it was made; a spec that says otherwise would be believed."""
    task = rows_of_labels()
    with pytest.raises(ConfigError, match=r"training.rate=0.7 but the task was made with 0.1; leave it out, or make"):
        execute(small(training={"rate": 0.7}), task=task)
    assert execute(small(training={"rate": 0.1, "schedule": "sqrt:every=10"}), task=task).complete


def test_a_folder_is_written_and_two_ways_at_once_are_refused(tmp_path):
    spec = small(data={"set": "quadratic"})
    run = execute(spec, out=tmp_path / "run")
    assert load(tmp_path / "run" / "spec.toml") == spec
    assert Run.open(tmp_path / "run").summary() == run.summary()
    with pytest.raises(ConfigError, match="resume and overwrite, exclude each other"):
        execute(spec, out=tmp_path / "run", resume=True, overwrite=True)


# --- as it is printed


def test_a_run_and_its_table_are_readable():
    run = execute(small(data={"set": "quadratic"}))
    assert repr(run) == "Run('run': uniform, parity; 4 rounds, 1 seeds)"
    head, *rows = str(run.table).splitlines()
    assert head.split() == ["method", "never", "avoidable", "Gini", "limit"]
    assert [row.split()[0] for row in rows] == ["uniform", "parity"]
    assert float(rows[0].split()[3]) == pytest.approx(run.table.mean("gini", "uniform"), abs=5e-4)
    assert len({len(line) for line in (head, *rows)}) == 1
