"""The store of a deployment is opened, reported, verified and gone on with like any other."""

import dataclasses
import json

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedparity[flower]')")

from typer.testing import CliRunner

from fedparity import AVAILABILITY, Coordinator, Ledger, Run
from fedparity.cli.main import app
from fedparity.core.errors import ConfigError, InputError
from fedparity.core.gate import Gate
from fedparity.core.journal import from_json
from fedparity.engines.flower import LocalGrid, begun, client_app, serve
from fedparity.metrics import gini
from fedparity.report.live.clients import Query
from fedparity.report.live.follow import Follower
from fedparity.report.live.page import client_page, main_page
from fedparity.report.live.told import told
from fedparity.store import Store, erase
from fedparity.tasks import Quadratic

TASK = Quadratic.random(12, dim=3)


def deployed(folder, rounds=8, coordinator=None):
    """Clients arrive as the trace first has them online."""
    trace = AVAILABILITY.build("bernoulli:low=.2").draw(12, 8, 0)
    grid = LocalGrid(client_app(lambda _: TASK), 12, trace=trace, registered=False)
    coordinator = coordinator or Coordinator(3, gate=Gate(deadline=60, max_age=3), over_select="observed")
    return serve(grid, coordinator, np.zeros(3), rounds, store=folder, identity="node", min_clients=3)


def test_a_deployment_opens_as_a_run_with_measures_from_its_journal(tmp_path):
    state = deployed(tmp_path / "run")
    run = Run.open(tmp_path / "run")
    with Store.read(tmp_path / "run") as store:
        records = [from_json(done.line) for done in store.rounds(0, "parity")]
    assert run.rounds == 8
    assert run.trace.num_clients == state.ledger.num_clients
    counts = np.zeros(state.ledger.num_clients)
    for record in records:
        counts[record.selected] += 1
    assert run.table.row("parity")["gini"] == pytest.approx(gini(counts))
    assert run.of("parity")[0].ledger == state.ledger
    joined = sum(len(record.joined) for record in records)
    assert joined
    assert Ledger.replay(len(counts) - joined, records) == state.ledger


@pytest.mark.parametrize(
    "command", [["report"], ["verify"], ["export", "--out", "tables"], ["watch", "--once"]], ids=str
)
def test_commands_open_a_deployment(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    deployed(tmp_path / "run")
    name, *more = command
    done = CliRunner().invoke(app, [name, "run", *more])
    assert done.exit_code == 0, done.output


def test_a_client_is_erased_by_who_can_build_the_state(tmp_path):
    state, folder = deployed(tmp_path / "run"), tmp_path / "run"
    clients = state.ledger.num_clients
    names = Run.open(folder).trace.names
    refused = CliRunner().invoke(app, ["erase", str(folder), "3"])
    assert "fedparity.store.erase" in str(refused.exception)
    for client in (3, 2):
        assert erase(folder, client, lambda *_: Coordinator(3).init(clients, np.zeros(3))) > 0
        held = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        assert names[client].encode() not in held
    assert names[4].encode() in held
    assert CliRunner().invoke(app, ["verify", str(folder)]).exit_code == 0
    assert deployed(folder, rounds=12).ledger.selected[[2, 3]].tolist() == [0, 0]
    assert CliRunner().invoke(app, ["verify", str(folder)]).exit_code == 0


def test_a_deployment_that_is_not_over_opens_as_far_as_it_came(tmp_path):
    class Cut(LocalGrid):
        def begin_round(self, round):
            if round == 5:
                raise KeyboardInterrupt
            super().begin_round(round)

    with pytest.raises(KeyboardInterrupt):
        serve(Cut(client_app(lambda _: TASK), 12), Coordinator(3), np.zeros(3), 8, store=tmp_path / "run")
    assert Run.open(tmp_path / "run").rounds == 5


def test_a_deployment_is_watched_while_it_runs_and_afterwards(tmp_path):
    seen, watched = [], None

    class Looked(LocalGrid):
        def begin_round(self, round):
            nonlocal watched
            watched = watched or Follower(tmp_path / "run")
            while watched.changed() and not watched.refresh():
                pass
            seen.append((watched.state, watched.rounds, told(watched)["sentence"].partition(".")[0]))
            super().begin_round(round)

    trace = AVAILABILITY.build("bernoulli:low=.2").draw(12, 8, 0)
    grid = Looked(client_app(lambda _: TASK), 12, trace=trace, registered=False)
    coordinator = Coordinator(3, gate=Gate(deadline=60, max_age=3))
    serve(grid, coordinator, np.zeros(3), 8, store=tmp_path / "run", identity="node", min_clients=3)
    first = ("running", 0, "No round of parity was read yet")
    assert list(dict.fromkeys(seen)) == [first, *(("running", t, f"Round {t}") for t in range(1, 8))]
    while not watched.refresh():
        pass
    watched.compute_limit()
    now, run = told(watched), Run.open(tmp_path / "run")
    assert (now["state"], now["rounds"], now["rounds_in_all"], now["eta_seconds"]) == ("stopped", 8, None, None)
    assert watched.methods["parity"].ledger == run.of("parity")[0].ledger
    row = run.table.row("parity")
    for key in ("gini", "gini_limit", "never_served"):
        assert now["methods"][0][key] == pytest.approx(row[key]), key
    assert {one["name"] for one in now["behind"]} <= set(run.trace.names)
    assert watched.trace.names == run.trace.names
    assert np.isfinite(watched.methods["parity"].column("gini")).all()
    query = Query("parity")
    for page in (main_page(watched, query, "key"), client_page(watched, query, "key", 0)):
        assert run.trace.names[0] in page
        assert "of 8" not in page.partition("</header>")[0]


def changed(folder, edit):
    """Rewrite what a store says of how it was begun, as another version of ours would have written it."""
    with Store.open(folder) as store, store.db.transaction():
        kept = {name: store.origin.part(name) for name in ("spec", "trace", "inputs", "versions")}
        store.origin._write(kept | {"spec": edit(kept["spec"].decode()).encode()})


def test_a_setting_that_came_later_is_at_its_default(tmp_path):
    coordinator = Coordinator(3, gate=Gate(deadline=60))
    line = begun.line_of(coordinator)
    assert json.loads(line.removeprefix(begun.MARK))["gate"] == "Gate(deadline=60)"
    deployed(tmp_path / "run", 4, coordinator)
    assert deployed(tmp_path / "run", 6, coordinator).round == 6
    later = dataclasses.replace(coordinator, gate=Gate(deadline=60, max_weight=3.0))
    with pytest.raises(ConfigError, match=r"was begun with gate=Gate\(deadline=60\), now it is Gate\(deadline=60, max"):
        deployed(tmp_path / "run", 8, later)
    with pytest.raises(ConfigError, match="was begun with over_select=its default, now it is 'observed'"):
        deployed(tmp_path / "run", 8, dataclasses.replace(coordinator, over_select="observed"))


@pytest.mark.parametrize("before", ["# ", ""])
def test_a_store_from_before_such_lines_is_gone_on_with(tmp_path, before):
    """It kept the text of the coordinator, cut in the middle of a gate with all of its fields."""
    deployed(tmp_path / "run", 4)
    gate = "Gate(max_norm=1000000000.0, max_sam...=0, old=None)"
    old = f"{before}Coordinator(cohort=3, gate={gate}, over_select='observed')\n"
    changed(tmp_path / "run", lambda _: old)
    assert deployed(tmp_path / "run", 6).round == 6
    with pytest.raises(ConfigError, match="was begun with other rules; give the same, or another store"):
        deployed(tmp_path / "run", 8, Coordinator(4, gate=Gate(deadline=60)))


@pytest.mark.parametrize("text", ['# deployment {"cohort"', "# deployment [1]"])
def test_a_line_that_cannot_be_read_is_said(tmp_path, text):
    deployed(tmp_path / "run", 2)
    changed(tmp_path / "run", lambda _: text)
    with pytest.raises(InputError, match="the line of a deployment in its store cannot be read"):
        Run.open(tmp_path / "run")


def test_a_scheduler_of_one_s_own_is_not_imported(tmp_path):
    deployed(tmp_path / "run", 2)
    changed(tmp_path / "run", lambda text: text.replace("Parity()", "Mine()"))
    with pytest.raises(InputError, match="its scheduler 'Mine' is not one of ours; look at it with fedparity audit"):
        Run.open(tmp_path / "run")


def test_classes_of_others_are_not_imported():
    found = begun.state_classes({"state": "os:path fedparity.core.state:State fedparity.nowhere:X"})
    assert list(found) == ["fedparity.core.state:State"]
    assert found.open
