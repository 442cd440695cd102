"""The server: our loop over Flower's grid, with a store in the folder of the test."""

import dataclasses
import json
import os
from pathlib import Path

import fedparity  # isort: skip  # noqa: F401  # first: in a simulation both sides are loaded at once

import numpy as np
from flwr.serverapp import ServerApp

from fedparity import Coordinator
from fedparity.core.gate import Gate
from fedparity.engines.flower import serve

app = ServerApp()
FOLDER = Path(os.environ["FEDPARITY_CHAOS"])


@app.main()
def main(grid, context):
    config = context.run_config
    name, founders, cohort = str(config["run"]), int(config["founders"]), int(config["cohort"])
    (FOLDER / "server.pid").write_text(str(os.getpid()))

    def told(events):
        with (FOLDER / f"{name}.events").open("a") as file:
            file.write(json.dumps(dataclasses.asdict(events)) + "\n")

    coordinator = Coordinator(
        cohort or founders,
        scheduler="parity",
        min_reports=0,
        gate=Gate(deadline=float(config["deadline"]), max_age=3),
    )
    serve(
        grid, coordinator, np.zeros(int(config["size"])), int(config["rounds"]), store=FOLDER / name,
        min_clients=founders, told=told, poll=0.2, patience=240.0,
    )  # fmt: skip
