"""Flower, as its users write it: a ServerApp with FedAvg and a ClientApp on the Ray backend, two actors of one CPU.

Flower owns the loop, so its strategy waits for our `go` before it samples clients. `run_simulation` starts the same
engine as `flwr run` does, in this process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

# Read when flwr and ray are imported: a benchmark reports to nobody.
os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0")

import flwr
import torch
from flower_client import client_app, model_of
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from protocol import Turns, arguments
from workloads import WORKLOADS, Workload, accuracies_in_one_pass, build

FOREVER = 10**9
RESOURCES: Any = {"init_args": {"num_cpus": 2}, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}}


class TakingTurns(FedAvg):  # type: ignore[misc,unused-ignore]
    """FedAvg that waits for its turn before a round, and says when the round is over."""

    def __init__(self, workload: Workload, turns: Turns, *, one_pass: bool) -> None:
        self.workload, self.turns = workload, turns
        self.federated = workload.tested and not one_pass
        self.one_pass = workload.tested and one_pass
        self.accuracies: dict[int, float] = {}
        super().__init__(
            fraction_train=workload.cohort / workload.clients,
            min_train_nodes=workload.cohort,
            fraction_evaluate=float(self.federated),
            min_available_nodes=workload.clients,
        )

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Wait for `go`, then sample."""
        if not self.turns.begin():
            raise SystemExit  # ends the server's thread, and with it the simulation
        return super().configure_train(server_round, arrays, config, grid)  # type: ignore[no-any-return,unused-ignore]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The weighted mean; without tests the round ends here."""
        found = complete(replies, self.workload.cohort)
        result = super().aggregate_train(server_round, found)
        if not self.workload.tested:
            self.turns.end()
        return result  # type: ignore[no-any-return,unused-ignore]

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Everybody's accuracy; the round ends here where clients test."""
        if not self.federated:
            return None
        found = complete(replies, self.workload.clients)
        result = super().aggregate_evaluate(server_round, found)
        metrics: list[Any] = [reply.content["metrics"] for reply in found]
        self.accuracies = {int(m["client"]): float(m["accuracy"]) for m in metrics}
        self.turns.end()
        return result

    def test_centrally(self, server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        """Everybody's accuracy from one pass on the server; Flower also calls this before the first round."""
        if server_round:
            model = model_of("e")
            model.load_state_dict(arrays.to_torch_state_dict())
            self.accuracies = dict(enumerate(accuracies_in_one_pass(self.workload, model)))
            self.turns.end()
        return None


def complete(replies: Iterable[Message], expected: int) -> list[Message]:
    """All replies: Flower goes on without clients that failed, and a round without them would look fast."""
    found = list(replies)
    failed = [reply.error.reason for reply in found if reply.has_error()]
    if failed or len(found) != expected:
        raise RuntimeError(f"{len(found)} of {expected} clients replied, {len(failed)} with an error: {failed[:1]}")
    return found


def server_app_of(name: str, turns: Turns, *, one_pass: bool) -> ServerApp:
    """Flower's FedAvg on a workload, taking turns."""
    workload, server_app = WORKLOADS[name], ServerApp()

    @server_app.main()  # type: ignore[untyped-decorator,unused-ignore]
    def run(grid: Grid, _context: Context) -> None:
        strategy = TakingTurns(workload, turns, one_pass=one_pass)
        strategy.start(
            grid,
            initial_arrays=ArrayRecord(build(workload).state_dict()),
            num_rounds=FOREVER,
            train_config=ConfigRecord({"workload": name}),
            evaluate_config=ConfigRecord({"workload": name}),
            evaluate_fn=strategy.test_centrally if strategy.one_pass else None,
        )

    return server_app


def main() -> None:
    """Serve rounds."""
    name, one_pass = arguments()
    turns = Turns(contender="flower", flwr=flwr.__version__, torch=torch.__version__)
    server_app = server_app_of(name, turns, one_pass=one_pass)
    run_simulation(server_app, client_app, WORKLOADS[name].clients, backend_config=RESOURCES)


if __name__ == "__main__":
    main()
