"""What fedparity itself costs on Flower's grid, in processor time: per message, and per round of large updates.

python benchmarks/flower_grid.py

The grid is the one in this process, and clients answer with an update that is ready, so that Flower's transport and
training are left out: what remains is who is there, plan, encode, decode, gate, sum, commit.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from fedparity import Coordinator
from fedparity.engines.flower import LocalGrid, codec, serve

MEGABYTE = 1 << 18
"""float32 numbers."""


class Timed(LocalGrid):
    """Keeps the clients' processor time apart."""

    clients = 0.0

    def _answer(self, message: Message) -> Message:
        start = time.process_time()
        reply = super()._answer(message)
        self.clients += time.process_time() - start
        return reply


def ready_app(update: Array) -> ClientApp:
    """Clients that answer with the same update, whatever they are asked."""
    app, arrays = ClientApp(), ArrayRecord({codec.W: update})

    @app.train()
    def train(message: Message, _: Any) -> Message:
        nonce = message.content.config_records[codec.JOB]["nonce"]
        said: dict[str, Any] = dict.fromkeys(codec.NUMBERS, 1.0) | {"num_samples": 10, "failure": "", "nonce": nonce}
        return Message(RecordDict({codec.DELTA: arrays, codec.REPORT: ConfigRecord(said)}), reply_to=message)

    return app


def copies(count: int, size: int) -> float:
    """Processor time of copying so many updates once."""
    source, target = np.ones(size, np.float32), np.empty((count, size), np.float32)
    target.fill(0)  # pages are there before the clock starts
    start = time.process_time()
    for row in target:
        row[:] = source
    return time.process_time() - start


def per_round(clients: int, size: int, rounds: int) -> float:
    """Our processor time per round, the clients' left out; every round is committed to a store."""
    grid = Timed(ready_app(Array(np.full(size, 1e-3, np.float32))), clients)
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        serve(
            grid, Coordinator(clients), np.zeros(size, np.float32), rounds, identity="node", store=Path(folder) / "run"
        )
        return (time.process_time() - start - grid.clients) / rounds


def per_message(clients: int, rounds: int) -> float:
    """Processor time of the grid itself per message and reply, under Flower's own FedAvg."""
    app, arrays = ClientApp(), ArrayRecord({"w": Array(np.zeros(10, np.float32))})

    @app.train()
    def train(message: Message, _: Any) -> Message:
        metrics = MetricRecord({"num-examples": 1})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    grid = LocalGrid(app, clients)
    spent = 0.0
    strategy = FedAvg(fraction_evaluate=0.0)
    for number in range(rounds):
        messages = list(strategy.configure_train(number + 1, arrays, ConfigRecord(), grid))
        start = time.process_time()
        found = list(grid.send_and_receive(messages))
        spent += time.process_time() - start
        strategy.aggregate_train(number + 1, found)
    return spent / (clients * rounds)


def main() -> None:
    """Print the figures of benchmarks/README.md."""
    print(f"in-process grid: {1000 * per_message(100, 20):.3f} ms of processor time per message and reply")
    small, large = per_round(100, 10, 5), per_round(100, MEGABYTE, 5)
    copied = copies(100, MEGABYTE)
    print(f"100 clients x 40 bytes: {1000 * small:.0f} ms of our processor time per round")
    print(f"100 clients x 1 MB: {1000 * large:.0f} ms, of which one copy of the bytes is {1000 * copied:.0f} ms")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
