"""Our app on Flower: `client_app` over the task of `fedparity_rounds.py`, and `serve`, taking turns.

A module of its own, as `flower_client.py` is, so that Ray's actors import it and keep its cache.
"""

from __future__ import annotations

from functools import cache

from fedparity_rounds import task_of
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from protocol import Turns
from workloads import WORKLOADS

from fedparity import Coordinator, Ledger, stream
from fedparity.core.loop import Stopped
from fedparity.core.protocols import Observer, Task
from fedparity.core.types import RoundRecord, Vector
from fedparity.engines.flower import client_app, serve
from fedparity.schedulers import Uniform
from fedparity.utility import NoUtility
from fedparity.weightings import BySize

POLL = 0.1
"""Seconds between looks for answers, as Flower's own simulation has."""
FOREVER = 10**9


@cache
def task(name: str) -> Task:
    """Everybody's data, once per process."""
    return task_of(name, WORKLOADS[name])


def client_app_of(name: str) -> ClientApp:
    """The clients of a workload."""
    return client_app(lambda _: task(name))


class TakingTurns(Observer):
    """Says when a round is over, and waits for the next turn."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        """A round without everybody's update would look fast."""
        if len(record.completed) != len(record.selected):
            raise RuntimeError(f"{len(record.completed)} of {len(record.selected)} replied: {record.failed[:1]}")
        self.turns.end()
        if not self.turns.begin():
            raise Stopped


def server_app_of(name: str, turns: Turns) -> ServerApp:
    """Our loop on a workload; as many are asked, and as they are in `flower_peer.py`."""
    workload, server_app = WORKLOADS[name], ServerApp()

    @server_app.main()
    def run(grid: Grid, _context: Context) -> None:
        coordinator = Coordinator(workload.cohort, scheduler=Uniform(), weighting=BySize(), utility=NoUtility())
        first = task(name).init(stream(0, "init"))
        watch = TakingTurns(turns)
        turns.begin()
        try:
            serve(grid, coordinator, first, FOREVER, identity="node", min_clients=workload.clients, poll=POLL,
                  observers=[watch])  # fmt: skip
        except Stopped:
            raise SystemExit from None

    return server_app
