"""Both apps on the same outages, in this process: who was asked, how that compares with the limit, who is served worst.

python examples/flower_app/compare.py
"""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from flwr.app import Context, Message, RecordDict
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))

from quickstart import client_app, fair_server_app, server_app, task

from fedparity import AVAILABILITY, Trace, frontier
from fedparity.engines.flower import LocalGrid
from fedparity.metrics import gini, selection_gap

CLIENTS, ROUNDS, ASKED, SEEDS = 30, 40, 4, 5
CONFIG: dict[str, Any] = {"num-server-rounds": ROUNDS, "clients-per-round": ASKED, "learning-rate": 0.5}
OUTAGES = "outages:groups=5,rate=.08,length=8,low=.1"


class Counting(LocalGrid):
    """Counts how often each client is asked, from outside: the app knows nothing of it."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.counts = np.zeros(CLIENTS, np.int64)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Count, and pass on."""
        pushed = list(messages)
        for message in pushed:
            self.counts[message.metadata.dst_node_id - 1000] += message.metadata.message_type == "train"
        return super().push_messages(pushed)


def a_trace(seed: int) -> Trace:
    """Who is there: groups of clients vanish together, some are seldom there at all.

    FedAvg waits while fewer are online than it wants to ask; so nobody's rounds are made of such times.
    """
    drawn = AVAILABILITY.build(OUTAGES).draw(CLIENTS, 4 * ROUNDS, seed)
    return Trace.from_rounds(CLIENTS, [ids for ids in drawn if len(ids) >= ASKED][:ROUNDS])


def carried_out(app: ModuleType, seed: int) -> list[float]:
    """The figures of one run."""
    random.seed(seed)  # which FedAvg draws from
    grid = Counting(client_app.app, CLIENTS, trace=a_trace(seed), run_config=CONFIG)
    context = Context(1, 1, {}, RecordDict(), dict(CONFIG))
    app.app(grid, context)
    w = context.state.array_records["model"]["w"].numpy()
    accuracy = np.sort([task.test(w, task.load_data(k, CLIENTS))[1] for k in range(CLIENTS)])
    return [*figures(grid.counts), float(accuracy[: CLIENTS // 10].mean()), float(accuracy.mean())]


def figures(counts: NDArray[np.int64]) -> list[float]:
    """How unequal the counts are."""
    return [float((counts == 0).sum()), float(counts.max()), selection_gap(counts, ASKED, ROUNDS), gini(counts)]


def main() -> None:
    """Print the table of the README."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    print("| | never asked | most asked | selection gap | Gini | worst tenth's accuracy | mean accuracy |")
    print("|---|---|---|---|---|---|---|")
    for name, app in (("`FedAvg`", server_app), ("`FairStrategy`", fair_server_app)):
        print(row(name, [carried_out(app, seed) for seed in range(SEEDS)]))
    best = [frontier(a_trace(seed), cohort=ASKED).counts for seed in range(SEEDS)]
    print(row("the limit on these outages", [figures(counts) for counts in best]))


def row(name: str, runs: list[list[float]]) -> str:
    """Means over the draws."""
    found = [f"{value:.{1 if at < 2 else 3}f}" for at, value in enumerate(np.mean(runs, axis=0).tolist())]
    return f"| {' | '.join([name, *found, *['–'] * (6 - len(found))])} |"


if __name__ == "__main__":
    main()
