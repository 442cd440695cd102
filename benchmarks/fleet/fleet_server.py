"""Our loop with a store, and the processor time of each round: that inside Flower's grid apart from all the rest."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp

from fedparity import Coordinator, Ledger
from fedparity.core.protocols import Observer
from fedparity.core.types import RoundRecord, Vector
from fedparity.engines.flower import serve

app = ServerApp()


class Metered:
    """A grid that knows how long it was busy."""

    def __init__(self, grid: Grid) -> None:
        self.grid, self.spent = grid, 0.0

    def _timed(self, call: Any, *given: Any) -> Any:
        start = time.process_time()
        try:
            return call(*given)
        finally:
            self.spent += time.process_time() - start

    def get_node_ids(self) -> Iterable[int]:
        """Who is online."""
        return list(self._timed(self.grid.get_node_ids))

    def get_nodes(self) -> Iterable[Any]:
        """The same, with when they came."""
        return list(self._timed(self.grid.get_nodes))

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send."""
        return list(self._timed(self.grid.push_messages, messages))

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Receive."""
        return list(self._timed(self.grid.pull_messages, message_ids))


class Meter(Observer):
    """One line per round; the commit that follows it is in the next."""

    def __init__(self, grid: Metered, out: Path) -> None:
        self.grid, self.out, self.last = grid, out, (time.process_time(), 0.0, time.monotonic())

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        """A round is done."""
        self.note(len(record.completed))

    def note(self, completed: int) -> None:
        """What was spent since the last line."""
        now = time.process_time(), self.grid.spent, time.monotonic()
        all_of_it, flower, wall = (b - a for a, b in zip(self.last, now, strict=True))
        self.last = now
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        told = {"own": all_of_it - flower, "flower": flower, "wall": wall, "completed": completed, "peak_mb": peak}
        with self.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Carry the run out."""
    config = context.run_config
    nodes, out = int(config["nodes"]), Path(str(config["out"]))
    metered: Any = Metered(grid)
    meter = Meter(metered, out / "rounds.jsonl")
    first = np.zeros(int(config["size"]), np.float32)
    serve(metered, Coordinator(nodes), first, int(config["rounds"]), identity="node", store=out / "run",
          observers=[meter])  # fmt: skip
    meter.note(0)
    (out / "done").touch()
