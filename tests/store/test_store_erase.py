"""Erasing a client: nothing the run knows about it is left, and the chain can still be verified."""

import contextlib
import json
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from fedparity import ESTIMATORS, SCHEDULERS, UTILITIES, WEIGHTINGS, Ledger, Trace, save_trace
from fedparity.core.errors import ConfigError, FedparityError, InputError
from fedparity.core.journal import from_json
from fedparity.experiment.erasing import relogged
from fedparity.experiment.run import Run
from fedparity.experiment.runner import fresh_state, state_classes
from fedparity.report.export import export
from fedparity.store import DamagedError, Disk, Store, checkpoints, erase, verify
from fedparity.store.database import Database
from fedparity.store.erase import redact, speaks_of
from fitting import partners
from stored_runs import THREE, contents, heads, run_into, sha256, spec_of, unclose, unpacked

CLIENTS = 8
"""As many as a forecast has bins: an array of that length need not have an entry for each client."""


def names_of(line):
    """Every client a journal line speaks of."""
    f = json.loads(line)
    ids = [*f["available"], *f["selected"], *f["completed"], *f["rows"]["client"], *f["surrogate"]["client"]]
    return set(ids) | {client for client, _ in f["failed"]}


def lines_of(folder):
    with Store.read(folder) as store:
        return {key: [c.line for c in store.rounds(*key)] for key in store.contenders()}


def states_of(folder):
    with Store.read(folder) as store:
        return {key: store.load(*key, state_classes(store, key[1])) for key in store.contenders()}


def keep_some_in_files(monkeypatch):
    for name, value in (("LARGE", 24), ("SMALL_STATE", 0), ("SNAPSHOT_EVERY", 4)):
        monkeypatch.setattr(checkpoints, name, value)


@pytest.fixture
def files_for_some(monkeypatch):
    keep_some_in_files(monkeypatch)


@pytest.fixture(scope="module")
def spec():
    return spec_of("rounds=12", f"population.clients={CLIENTS}", "population.availability=bernoulli:low=.5,high=.9")


@pytest.fixture(scope="module")
def finished(tmp_path_factory, spec):
    """A run that every test has a copy of."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    with pytest.MonkeyPatch.context() as patch:
        keep_some_in_files(patch)
        run_into(folder, spec, save=True)
    return folder


@pytest.fixture
def folder(tmp_path, finished, files_for_some):  # noqa: ARG001 - a fixture for what it does
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def client_of(folder):
    """One that took part in every method, has models and is stood in for."""
    states = states_of(folder).values()
    served = np.all([s.ledger.completed > 0 for s in states], axis=0)
    stood_in = np.any([s.ledger.surrogate_utility > 0 for s in states], axis=0)
    return int(np.flatnonzero(served & stood_in)[0])


def test_nothing_of_the_client_is_left(folder):
    client = client_of(folder)
    before, files = states_of(folder), contents(folder)
    held = [s.kept[client] for (_, m), s in before.items() if m == "cup_authors"]
    assert len(held) == 1
    mine = [name for name, data in files.items() if name.startswith("arrays/") and held[0].tobytes() in data]
    assert len(mine) == 1
    spoke = sum(client in names_of(line) for lines in lines_of(folder).values() for line in lines)
    assert spoke > 20

    assert erase(folder, client, fresh_state) == spoke

    assert not any(client in names_of(line) for lines in lines_of(folder).values() for line in lines)
    fresh = Ledger.empty(1)
    for (_, method), state in states_of(folder).items():
        for name in ("online", "selected", "completed", "failed", "utility", "surrogate_utility", "loss"):
            assert getattr(state.ledger, name)[client].tobytes() == getattr(fresh, name)[0].tobytes(), name
        for name in ("last_online", "last_selected", "last_completed"):
            assert getattr(state.ledger, name)[client] == -1
        assert client not in state.kept
        if method == "parity_surrogate":
            assert state.surrogate[client] == 0
            assert state.estimator.online[client] == 0
            assert state.estimator.last[client] == -2
            assert not state.estimator.day[client].any()
    now = contents(folder)
    assert not any(held[0].tobytes() in data for data in now.values())
    assert mine[0] not in now
    assert not any(name.endswith("-wal") for name in now)
    with Store.read(folder) as store:
        assert [*store.db.rows("SELECT client, lines FROM erasures")] == [(client, "")]  # its number, and nothing more


def test_what_others_have_stays(folder):
    client = client_of(folder)
    before = states_of(folder)
    erase(folder, client, fresh_state)
    others = np.arange(CLIENTS) != client
    for key, after in states_of(folder).items():
        old = before[key]
        assert after.params.tobytes() == old.params.tobytes()
        assert after.round == old.round
        for name in ("online", "selected", "utility", "surrogate_utility", "loss"):
            assert getattr(after.ledger, name)[others].tobytes() == getattr(old.ledger, name)[others].tobytes()
        assert {k: m.tobytes() for k, m in after.kept.items()} == {
            k: m.tobytes() for k, m in old.kept.items() if k != client
        }
        if key[1] == "parity_surrogate":
            assert after.estimator.visits.tobytes() == old.estimator.visits.tobytes()
            assert after.estimator.exposure.tobytes() == old.estimator.exposure.tobytes()
            assert after.estimator.day[others].tobytes() == old.estimator.day[others].tobytes()


def test_the_chain_is_made_anew_and_verifies(folder, spec):
    client = client_of(folder)
    with Store.read(folder) as store:
        before = heads(Run.stored(store))
    erase(folder, client, fresh_state)
    verdict = verify(folder, state_classes)
    assert (verdict.ok, verdict.closed, verdict.rounds) == (True, True, 12 * len(THREE))
    with Store.read(folder) as store:
        after = heads(Run.stored(store))
        assert store.erased() == {client}
    assert not set(after.values()) & set(before.values())
    run_into(folder, spec, resume=True)  # there is nothing to do, and nothing to complain about
    assert verify(folder, state_classes).ok


def digests_of(folder):
    """Every digest that stands for rounds as they were: of lines, chains and seals."""
    with contextlib.closing(sqlite3.connect(folder / "run.db")) as db:
        return {d for row in db.execute("SELECT line_sha256, chain, digest FROM rounds") for d in row}


@pytest.fixture
def scored(tmp_path):
    """A run whose log has accuracies, too."""
    spec = spec_of("rounds=12", f"population.clients={CLIENTS}", "population.availability=bernoulli:low=.5,high=.9",
                   "data.set=logistic")  # fmt: skip
    run_into(tmp_path / "run", spec, save=True)
    return tmp_path / "run", spec


@pytest.mark.parametrize("totals", [False, True])
def test_nothing_of_the_client_follows_by_arithmetic(scored, totals):
    """Sums over everybody less the others' numbers, and digests that confirm a guess."""
    folder, _ = scored
    client = client_of(folder)
    old, old_digests, before = lines_of(folder), digests_of(folder), Run.open(folder)
    steps = {key: [sum(json.loads(line)["rows"]["weight"]) for line in lines] for key, lines in old.items()}
    erase(folder, client, fresh_state, relogged, totals=totals)
    Run.open(folder).save(folder)

    everything = b"".join(contents(folder).values()).decode("latin-1")
    same = {sha256(line.encode()) for lines in lines_of(folder).values() for line in lines}  # of what is there to see
    assert len(old_digests - same) > 80
    assert not any(d in everything for d in old_digests - same)
    after = Run.open(folder)
    for one in after.runs:
        assert np.isnan(one.accuracy[client])
        mean = one.column("avg_client_accuracy")[-1]
        assert mean == pytest.approx(np.nanmean(one.accuracy), abs=1e-12)
        was = next(o for o in before.runs if o.method == one.method)
        assert mean != was.column("avg_client_accuracy")[-1]
        assert one.column("avg_client_accuracy")[:-1].tolist() == was.column("avg_client_accuracy")[:-1].tolist()
        assert one.column("fairness_variance")[-1] == pytest.approx(one.ledger.fairness_variance())
        ledger = Ledger.empty(CLIENTS)
        for n, record in enumerate(one.records):
            ledger = ledger.then(record)
            if totals:
                told = [record.available, record.selected, record.completed, record.row_clients, record.failed]
                assert not any(map(len, told))
                assert np.isnan([one.column(name)[n] for name in ("available", "selected", "completed")]).all()
                continue
            assert one.column("available")[n] == len(record.available)
            assert one.column("selected")[n] == len(record.selected)
            assert one.column("completed")[n] == len(record.completed)
            assert one.column("fairness_variance")[n] == pytest.approx(ledger.fairness_variance(), nan_ok=True)
            assert record.row_weights.sum() == pytest.approx(
                steps[one.seed, one.method][n] if len(record.row_weights) else 0
            )
            assert record.design == "deterministic" or np.isnan(record.probs).all()
            assert record.surrogate.eta_sum == 0


@pytest.mark.parametrize("rounds", [12, 24])
def test_accuracies_are_those_of_the_clients_that_remain(tmp_path, rounds):
    people = [f"population.clients={CLIENTS}", "population.availability=bernoulli:low=.5,high=.9"]
    run_into(tmp_path / "run", spec_of(f"rounds={rounds}", *people, "data.set=logistic"))
    before = Run.open(tmp_path / "run")
    erase(tmp_path / "run", 3, fresh_state, relogged)
    after = Run.open(tmp_path / "run")
    others = np.arange(CLIENTS) != 3
    for old, new in zip(before.runs, after.runs, strict=True):
        row, left = after.table.row(new.method), old.accuracy[others]
        assert row["avg_client_accuracy"] == pytest.approx(left.mean())
        assert row["own_accuracy"] == pytest.approx(old.own_accuracy[others].mean())
        assert row["worst_accuracy"] == left.min()  # a tenth of seven is one
        assert row["jain_accuracy"] == pytest.approx(left.sum() ** 2 / (len(left) * (left**2).sum()))
        assert row["accuracy_variance"] == pytest.approx(left.var())
        assert row["variance_percent2"] == pytest.approx(10**4 * left.var())
        measured = old.column("avg_client_accuracy")[-max(1, rounds // 10) :]
        assert row["late_accuracy"] == pytest.approx(np.mean([*measured[:-1], left.mean()]))


def test_totals_are_what_the_rounds_came_to(folder, spec):
    client = client_of(folder)
    shutil.copytree(folder, folder.with_name("rounds"))
    erase(folder.with_name("rounds"), client, fresh_state, relogged)
    assert erase(folder, client, fresh_state, relogged, totals=True) > 20
    assert verify(folder, state_classes).problems == ()
    for one, other in zip(Run.open(folder).runs, Run.open(folder.with_name("rounds")).runs, strict=True):
        assert one.ledger == other.ledger
        assert [r.model_sha256 for r in one.records] == [r.model_sha256 for r in other.records]
    run, usual = Run.open(folder).table, Run.open(folder.with_name("rounds")).table
    for method in THREE:
        for name in ("selection_gap", "gini", "utility_cv", "fill"):
            assert run.row(method)[name] == usual.row(method)[name]
        assert run.row(method).get("span_gap") is None
    run_into(folder, spec, resume=True)
    assert verify(folder, state_classes).problems == ()


def test_rounds_go_on_after_totals(tmp_path, spec):
    folder = tmp_path / "run"
    run_into(folder, spec, rounds=5)
    for client, totals in ((2, True), (4, False), (5, True), (4, True)):
        erase(folder, client, fresh_state, relogged, totals=totals)
        assert verify(folder, state_classes).problems == ()
    done = run_into(folder, spec, resume=True)
    assert done.complete
    for one in done.runs:
        assert [r.told for r in one.records] == [False] * 5 + [True] * 7
        assert not one.ledger.online[[2, 4, 5]].any()
    assert verify(folder, state_classes).problems == ()
    erase(folder, 4, fresh_state, relogged)
    erase(folder, 6, fresh_state, relogged)  # its column in the totals, too
    assert not any(one.ledger.online[6] for one in Run.open(folder).runs)
    assert verify(folder, state_classes).problems == ()


def test_who_was_erased_is_not_evaluated_when_rounds_go_on(scored):
    folder, spec = scored
    more = spec.model_copy(update={"rounds": 14})
    run_into(folder.with_name("more"), more, rounds=7)
    erase(folder.with_name("more"), 3, fresh_state, relogged)
    done = run_into(folder.with_name("more"), more, resume=True)
    for one in done.runs:
        assert np.isnan(one.accuracy[3])
        assert one.column("avg_client_accuracy")[-1] == pytest.approx(np.nanmean(one.accuracy), abs=1e-12)


def test_exports_do_not_contain_it(tmp_path, spec, files_for_some):  # noqa: ARG001 - a fixture for what it does
    names = tuple(f"phone-{c}" for c in "abcdefgh")
    rng = np.random.default_rng(3)
    rounds = [np.flatnonzero(rng.random(CLIENTS) < 0.7) for _ in range(12)]
    save_trace(Trace.from_rounds(CLIENTS, rounds, names=names), tmp_path / "trace.csv")
    named = spec.model_copy(
        update={"population": spec.population.model_copy(update={"availability": str(tmp_path / "trace.csv")})}
    )
    folder = tmp_path / "run"
    run_into(folder, named)
    for gone in (False, True):
        if gone:
            erase(folder, 3, fresh_state)
        with Store.read(folder) as store:
            results = Run.stored(store)
        (tmp_path / f"saved{gone}").mkdir()
        results.save(tmp_path / f"saved{gone}")
        for form in ("csv", "jsonl", "parquet"):
            export(results, tmp_path / f"{form}{gone}", form)
            found = unpacked(tmp_path / f"{form}{gone}")
            assert (b"phone-d" in found) != gone, form
            assert b"phone-c" in found
        assert (b"phone-d" in unpacked(tmp_path / f"saved{gone}")) != gone


def test_a_line_edited_after_an_erasure_is_found(folder):
    client = client_of(folder)
    old = lines_of(folder)[0, "uniform"]
    erase(folder, client, fresh_state)
    unclose(folder)
    intact = (folder / "run.db").read_bytes()
    at = next(n for n, line in enumerate(old) if client in names_of(line))
    for line in (old[at], redact(old[at], client).replace('"wasted":0', '"wasted":1'), "{}"):
        with contextlib.closing(sqlite3.connect(folder / "run.db")) as db, db:
            db.execute("UPDATE rounds SET line = ? WHERE method = 'uniform' AND round = ?", (line, at))
        verdict = verify(folder, state_classes)
        assert any("the journal line was changed" in problem for problem in verdict.problems)
        (folder / "run.db").write_bytes(intact)
    assert verify(folder, state_classes).ok


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE erasures SET client = client + 1",
        "UPDATE erasures SET lines = '{}'",
        "UPDATE erasures SET chain = upper(chain)",
        "DELETE FROM erasures",
    ],
)
def test_an_edited_list_of_erasures_is_found(folder, statement):
    erase(folder, client_of(folder), fresh_state)
    unclose(folder)
    with contextlib.closing(sqlite3.connect(folder / "run.db")) as db, db:
        db.execute(statement)
    assert not verify(folder, state_classes).ok


def test_twice_and_two_clients(folder):
    client = client_of(folder)
    assert erase(folder, client, fresh_state) > 0
    assert erase(folder, client, fresh_state) == 0
    assert verify(folder, state_classes).ok
    other = (client + 1) % CLIENTS
    assert erase(folder, other, fresh_state) > 0
    assert verify(folder, state_classes).ok
    spoken = set().union(*(names_of(line) for lines in lines_of(folder).values() for line in lines))
    assert not spoken & {client, other}
    assert len(spoken) == CLIENTS - 2


@pytest.mark.parametrize("client", [-1, CLIENTS, 10**9])
def test_an_unknown_client_is_refused_and_nothing_changes(folder, client):
    before = contents(folder)
    with pytest.raises(ConfigError, match=f"client={client} must be between 0 and {CLIENTS - 1}"):
        erase(folder, client, fresh_state)
    assert contents(folder) == before


def test_no_run_and_a_damaged_run_are_refused(folder, tmp_path):
    with pytest.raises(InputError, match="no run here"):
        erase(tmp_path / "nothing", 0, fresh_state)
    name = next(name for name in contents(folder) if name.startswith("arrays/"))
    (folder / name).write_text("changed")
    before = contents(folder)
    with pytest.raises(DamagedError, match=r"arrays/.*: differs from what was written"):
        erase(folder, 0, fresh_state)
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("key", "text"),
    [("estimator", name) for name in ESTIMATORS]
    + [
        ("estimator", "window:window=4"),
        ("scheduler", "with_quota:inner=parity,quota=1.5,window=4"),
        ("scheduler", "reactive"),
    ]
    + [("scheduler", f"reactive:alpha={'/'.join(['1'] * CLIENTS)}")]
    + [("scheduler", name) for name in SCHEDULERS if name not in {"fixed", "reactive", "fedgs", "with_label_coverage"}]
    + [("scheduler", "fedgs:alpha=0"), ("scheduler", "with_quota:inner=oort,window=4")]
    + [("weighting", name) for name in WEIGHTINGS],
)
def test_every_component_forgets_and_goes_on(tmp_path, files_for_some, key, text):  # noqa: ARG001 - for what it does
    entry = {"scheduler": "uniform", "local": "mixed"} | partners(key, text)
    given = ", ".join(f'{k}="{v}"' for k, v in entry.items())
    spec = spec_of(
        "rounds=14",
        f"population.clients={CLIENTS}",
        "population.availability=bernoulli:low=.5,high=.9",
        f'methods=[{{name="mine", {given}}}]',
    )
    run_into(tmp_path / "run", spec, rounds=7)
    erase(tmp_path / "run", 2, fresh_state)
    (state,) = states_of(tmp_path / "run").values()
    lists = [state.scheduler, getattr(state.estimator, "recent", ())]
    assert not any(2 in ids for recent in lists if isinstance(recent, tuple) for ids in recent)
    done = run_into(tmp_path / "run", spec, resume=True)
    assert done.complete
    assert not any(2 in names_of(line) for line in done.runs[0].journal)
    assert verify(tmp_path / "run", state_classes).ok
    (after,) = states_of(tmp_path / "run").values()
    assert getattr(after.estimator, "online", np.zeros(1)).min() >= 0


@pytest.mark.parametrize("rule", list(UTILITIES))
def test_every_utility_forgets(tmp_path, rule):
    spec = spec_of(
        "data.set=logistic", f"population.clients={CLIENTS}", f"utility={rule}", methods=("parity_surrogate",)
    )
    run_into(tmp_path / "run", spec)
    (state,) = states_of(tmp_path / "run").values()
    client = int(np.flatnonzero(state.ledger.completed)[0])
    erase(tmp_path / "run", client, fresh_state)
    (state,) = states_of(tmp_path / "run").values()
    if rule == "accuracy_gain":
        assert np.isnan(state.utility[client])
    assert np.isnan(state.ledger.loss[client])
    assert state.surrogate[client] == 0


def test_redacting_changes_only_what_speaks_of_the_client():
    spec = spec_of()
    from fedparity.experiment.runner import execute

    for run in execute(spec).runs:
        for line in run.journal:
            for client in range(14):
                new = redact(line, client)
                assert speaks_of(line, client) == (client in names_of(line))
                assert names_of(new) == names_of(line) - {client}
                one, other = from_json(line), from_json(new)
                assert one.model_sha256 == other.model_sha256
                assert other.selected.tolist() == one.selected[one.selected != client].tolist()
                assert len(other.probs) == len(other.selected)
                assert np.isnan(other.probs).all() == (other.design != "deterministic" or not len(other.probs))
                assert redact(new, client) == new
                assert other.utility.tolist() == one.utility[one.completed != client].tolist()


def test_the_command(fedparity, folder):
    client = client_of(folder)
    names = {"metrics_log.csv", "clients.csv", "journal.jsonl", "summary.json", "report.html", "spec.toml"}
    assert fedparity("export", folder)[0] == 0
    (folder / "NOTES.txt").write_text("about somebody")
    code, out, err = fedparity("erase", folder, client)
    assert (code, err) == (0, "")
    assert out.startswith(f"Erased client {client} from ")
    said = "".join(out.split("\n")[1:])
    assert "Not looked into" in said
    assert all(name in said.replace(" ", "") for name in ("NOTES.txt", "clients.csv", "participation.csv"))
    assert "run.db" not in said
    assert names <= contents(folder).keys()
    rows = (folder / "clients.csv").read_text().splitlines()[1:]
    assert {row.split(",")[2] for row in rows} == {str(k) for k in range(CLIENTS) if k != client}
    for line in (folder / "journal.jsonl").read_text().splitlines():
        assert client not in names_of(json.dumps(json.loads(line)["record"]))
    assert fedparity("verify", folder)[0] == 0

    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    code, out, err = fedparity("erase", copy, CLIENTS)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert contents(copy) == contents(folder)
    assert fedparity("erase", folder, client)[0] == 0
    assert fedparity("verify", folder)[0] == 0


POINTS = {
    "the intent": (Store, "intend_erasure", 2),
    "reading": (Store, "load", 2),
    "the transaction": (Database, "transaction", 1),
    "the log": (Database, "settle", 1),
    "files": (Store, "sweep", 1),
    "results": (Disk, "remove", 7),
}
"""Where an erasure can be interrupted: the call of a method, counted from the first after the run is opened."""


@pytest.fixture(scope="module")
def erased_at_once(finished, tmp_path_factory):
    """The digest of the run after an erasure that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    shutil.copytree(finished, folder)
    with pytest.MonkeyPatch.context() as patch:
        keep_some_in_files(patch)
        erase(folder, client_of(folder), fresh_state)
    return verify(folder, state_classes).digest


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("way", ["resume", "erase", "another"])
def test_an_interrupted_erasure_is_said_and_finished(folder, spec, erased_at_once, point, way):
    client = client_of(folder)
    (folder / "NOTES.txt").write_text("mine")
    cls, name, number = POINTS[point]
    calls, real = [], getattr(cls, name)

    def dies(self, *args, **given):
        calls.append(args)
        if len(calls) == number:
            raise KeyboardInterrupt
        return real(self, *args, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cls, name, dies)
        with pytest.raises(KeyboardInterrupt):
            erase(folder, client, fresh_state)
    (problem,) = verify(folder, state_classes).problems
    assert problem.startswith(f"the erasure of client {client} is unfinished; finish it with: fedparity erase")
    if way == "resume":
        run_into(folder, spec, resume=True)
    elif way == "erase":
        erase(folder, client, fresh_state)
    else:
        erase(folder, (client + 1) % CLIENTS, fresh_state)
    verdict = verify(folder, state_classes)
    assert verdict.problems == ()
    assert not any(client in names_of(line) for lines in lines_of(folder).values() for line in lines)
    assert not (folder / "clients.csv").exists()
    assert (folder / "NOTES.txt").read_text() == "mine"
    if way != "another":
        assert verdict.digest == erased_at_once


def test_the_stored_trace_and_facts_forget(folder, spec):
    client = client_of(folder)
    with Store.read(folder) as store:
        before, facts = store.trace(), store.facts(0, "uniform")
    assert client in before.clients
    erase(folder, client, fresh_state)
    run_into(folder, spec, resume=True)  # which draws the whole trace and asks the task again
    with Store.read(folder) as store:
        after, now = store.trace(), store.facts(0, "uniform")
    others = np.arange(CLIENTS) != client
    assert (after.matrix()[:, others] == before.matrix()[:, others]).all()
    assert client not in after.clients
    assert np.isnan(now.accuracy[client])
    assert now.local_steps[client] == 0
    assert (now.local_steps[others] == facts.local_steps[others]).all()


def test_names_leave_the_folder(tmp_path, spec):
    names = tuple(f"phone-{c}" for c in "abcdefgh")
    rng = np.random.default_rng(3)
    rounds = [np.flatnonzero(rng.random(CLIENTS) < 0.7) for _ in range(12)]
    save_trace(Trace.from_rounds(CLIENTS, rounds, names=names), tmp_path / "trace.csv")
    people = spec.population.model_copy(update={"availability": str(tmp_path / "trace.csv")})
    named = spec.model_copy(update={"population": people})
    run_into(tmp_path / "run", named, save=True)
    erase(tmp_path / "run", 3, fresh_state)
    found = b"".join(contents(tmp_path / "run").values())
    assert b"phone-c" in found
    assert b"phone-d" not in found
    run_into(tmp_path / "run", named, resume=True, save=True)
    assert b"phone-d" not in b"".join(contents(tmp_path / "run").values())
    erase(tmp_path / "run", 4, fresh_state, totals=True)  # one more that has no name then
    assert verify(tmp_path / "run", state_classes).ok
    Run.open(tmp_path / "run").save(tmp_path / "run")
    assert b"phone-e" not in b"".join(contents(tmp_path / "run").values())


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = sys.modules["sklearn"] = None
from fedparity.experiment.runner import fresh_state, state_classes
from fedparity.store import Store, erase, verify
assert sum(erase(sys.argv[1], client, fresh_state) for client in range(4)) > 0
found = verify(sys.argv[1], state_classes)
assert found.ok, found
with Store.read(sys.argv[1]) as store:
    assert store.trace().num_clients == 8
    assert list(store.rounds(0, "uniform"))
    assert store.facts(0, "uniform").parameters > 0
"""


def test_a_run_of_images_is_read_checked_and_erased_without_torch(tmp_path):
    spec = spec_of("rounds=2", f"population.clients={CLIENTS}", "data.set=digits", "model.name=mlp:hidden=4")
    run_into(tmp_path / "run", spec)
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH, str(tmp_path / "run")], check=True)


def test_an_erasure_while_the_run_is_open_is_refused(folder):
    before = sha256((folder / "run.db").read_bytes())
    with Store.open(folder), pytest.raises(FedparityError, match="another process is running this run"):
        erase(folder, 0, fresh_state)
    assert sha256((folder / "run.db").read_bytes()) == before
