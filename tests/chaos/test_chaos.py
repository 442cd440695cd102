"""Real processes on loopback, with TLS and registered keys, in which everything goes wrong that can."""

import json
import os
import shutil
import signal
import time

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedparity[flower]')")

import parity
from cluster import LOOPBACK, Cluster, until

from fedparity import Coordinator, InProcess, Ledger, Run, run
from fedparity.core.gate import Gate
from fedparity.core.journal import Journal, from_json
from fedparity.core.tree import classes_in
from fedparity.core.types import ClientReport
from fedparity.metrics import gini
from fedparity.store import Store, verify
from fedparity.tasks import Quadratic

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (shutil.which("openssl") and shutil.which("ssh-keygen")), reason="no openssl or ssh-keygen"),
]
FOUNDERS = [f"c{k}" for k in range(5)]
FORGED = "the nonce is not of this run, round and client"
WHEN = {("c1", 1), ("c2", 1), ("c3", 2)}
"""Who lies in which round: a made-up nonce, another's reply, its own of the round before (`chaosapp.client.LIES`)."""
DEADLINE = 40
"""Seconds: a round takes 6 to 20, as busy as the machine is."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("chaos"))
    try:
        made.superlink()
        for name in FOUNDERS[:4]:
            made.key(name)
            made.supernode(name)
        yield made
    finally:
        made.end()


def events(cluster, name):
    path = cluster.folder / f"{name}.events"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def rounds_done(cluster, name, count, seconds=400, keep=()):
    def reached():
        for node in keep:
            cluster.keep_up(node)
        return len({e["round"] for e in events(cluster, name)}) >= count

    until(reached, seconds, f"round {count} of {name}")


def records_of(folder):
    with Store.read(folder) as store:
        return [from_json(done.line) for done in store.rounds(0, "parity")], store.trace()


def finished(cluster, name, rounds):
    """The records of a run, once its server has let go of the folder."""
    rounds_done(cluster, name, rounds)
    until((cluster.folder / name / "manifest.json").exists, 60, f"the end of {name}")
    return records_of(cluster.folder / name)


def test_real_processes_give_the_bits_of_this_one(cluster):
    cluster.run(**parity.CONFIG)
    finished(cluster, "calm", parity.ROUNDS)
    expected = parity.in_process()
    assert parity.on_a_grid() == expected
    assert parity.in_a_store(cluster.folder / "calm") == expected


class Refusing(InProcess):
    """The reports of some clients in some rounds are refused."""

    def train(self, plan):
        for report in super().train(plan):
            lied = (f"c{report.client}", plan.round) in WHEN
            yield ClientReport(report.client, failure=FORGED) if lied else report


def test_forged_and_replayed_replies_are_refused(cluster):
    """Over TLS, from nodes with registered keys: the run is the one in which the liars failed, to the bit."""
    cluster.run(run="hostile", rounds=4, founders=4, deadline=300.0)
    records, _ = finished(cluster, "hostile", 4)
    failed = {(f"c{client}", record.round): why for record in records for client, why in record.failed}
    assert failed == dict.fromkeys(WHEN, FORGED)
    journal, task = Journal(), Quadratic.random(8)
    coordinator = Coordinator(4, scheduler="parity", min_reports=0, gate=Gate(deadline=300.0, max_age=3))
    engine = Refusing(Quadratic(task.centres[:4], task.curvature[:4]))
    run(coordinator, engine, 4, params=np.zeros(4), observers=[journal])
    with Store.read(cluster.folder / "hostile") as store:
        assert [done.line for done in store.rounds(0, "parity")] == journal.lines()


def test_a_node_that_is_not_registered_is_refused(cluster):
    cluster.key("stranger", register=False)
    process = cluster.supernode("stranger")
    assert process.wait(timeout=60) != 0
    assert "stranger" not in str(events(cluster, "calm"))


def test_nothing_listens_beyond_loopback(cluster):
    assert cluster.listening()
    assert cluster.listening() <= LOOPBACK


def test_a_run_survives_everything(cluster):  # noqa: PLR0915 - one story
    folder = cluster.folder
    wrongs = {"c0": {"raise": 2}, "c1": {"hang1": 1}, "c2": {"hang2": 3}, "c3": {"slow": 1}, "c4": {"nan": 1}}
    for name, what in wrongs.items():
        (folder / f"{name}.json").write_text(json.dumps(what))
    (folder / "c3.seconds").write_text(str(DEADLINE + 15))
    cluster.key("c4")
    cluster.supernode("c4")
    config = {"run": "chaos", "rounds": 12, "founders": 5, "deadline": float(DEADLINE)}
    cluster.run(**config)
    # A node is killed in the middle of its work, and stays away.
    until((folder / "c1.hang1").exists, 300, "the first hang")
    cluster.kill("c1")
    gone = int((folder / "c1.hang1").read_text())
    # One joins late.
    rounds_done(cluster, "chaos", gone + 2)
    cluster.key("c5")
    cluster.supernode("c5")
    # One is killed in the middle of its work and started again at once, until it is taken back.
    until((folder / "c2.hang2").exists, 300, "the second hang")
    restarted = int((folder / "c2.hang2").read_text())
    cluster.kill("c2")
    cluster.supernode("c2")
    # The first returns after it missed three rounds.
    rounds_done(cluster, "chaos", gone + 4, keep=("c2",))
    cluster.supernode("c1")
    up = ("c1", "c2", "c5")
    # The coordinator is killed.
    rounds_done(cluster, "chaos", 7, keep=up)
    os.kill(int((folder / "server.pid").read_text()), signal.SIGKILL)
    time.sleep(2)
    cluster.run(**config)
    # So is the SuperLink, with its database.
    rounds_done(cluster, "chaos", 9, keep=up)
    cluster.kill("superlink")
    cluster.superlink()
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for name in (*FOUNDERS, "c5"):
            cluster.keep_up(name)
        time.sleep(1)
    cluster.run(**config)
    rounds_done(cluster, "chaos", 12, keep=(*FOUNDERS, "c5"))
    records, trace = finished(cluster, "chaos", 12)

    assert [record.round for record in records] == list(range(12))
    failed = {(record.round, client): why for record in records for client, why in record.failed}
    assert failed[gone, 1] == "no reply"
    assert failed[restarted, 2] == "no reply"
    slow = int((folder / "c3.slow").read_text())
    assert failed[slow, 3] == "no reply"
    late = [(int(c), int(o)) for r in records for c, o in zip(r.late.clients, r.late.origins, strict=True)]
    assert (3, slow) in late
    stale = [(int(c), r.round - int(a)) for r in records for c, a in zip(r.row_clients, r.row_ages, strict=True) if a]
    assert (3, slow) in stale
    assert failed[int((folder / "c4.nan").read_text()), 4] == "update is not finite"
    assert "no memory left" in failed[int((folder / "c0.raise").read_text()), 0]
    joined = [(record.round, client) for record in records for client in record.joined.tolist()]
    assert [client for _, client in joined] == [5]
    away = [record.round for record in records if 1 not in record.available]
    assert len(away) >= 3
    assert any(1 in record.completed for record in records[max(away) + 1 :])
    assert any(5 in record.completed for record in records)
    assert trace.names == tuple(f"c{k}" for k in range(6))
    fresh = Coordinator(5, scheduler="parity", min_reports=0).init(5, np.zeros(4))
    verdict = verify(folder / "chaos", lambda *_: classes_in(fresh))
    assert not verdict.problems, verdict
    with Store.read(folder / "chaos") as store:
        assert store.trace().num_rounds == 12
    ledger = Ledger.replay(5, records)
    assert ledger.late[3] == 1
    assert (ledger.selected == ledger.completed + ledger.failed).all()
    opened = Run.open(folder / "chaos")
    assert opened.of("parity")[0].ledger == ledger
    asked = [client for record in records for client in record.selected.tolist()]
    assert opened.table.row("parity")["gini"] == pytest.approx(gini(np.bincount(asked, minlength=6)))


def test_no_process_is_left(cluster):
    """Asked to end after all of the above, everybody does, with whatever they have started."""
    assert cluster.pids()
    assert cluster.end() == {}
