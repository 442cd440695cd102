"""The server."""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from fedparity.engines.flower import FairStrategy
from quickstart.task import first_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train."""
    asked = int(context.run_config["clients-per-round"])
    strategy = FairStrategy(fraction_train=0.01, min_train_nodes=asked, fraction_evaluate=0.0)
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({"w": Array(first_model())}),
        num_rounds=int(context.run_config["num-server-rounds"]),
    )
    context.state["model"] = result.arrays
