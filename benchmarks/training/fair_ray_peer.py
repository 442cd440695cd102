"""Our app of `fair_apps.py` on Flower's Ray simulation: the same two actors as `flower_peer.py` has."""

from __future__ import annotations

import fedparity  # isort: skip  # noqa: F401  # first, before Flower's own imports: both sides load at once

import flwr
import torch
from fair_apps import client_app_of, server_app_of
from flower_peer import RESOURCES  # with Ray's and Flower's reports switched off
from flwr.simulation import run_simulation
from protocol import Turns, arguments
from workloads import WORKLOADS


def main() -> None:
    """Serve rounds."""
    name, _ = arguments()
    turns = Turns(contender="fair_ray", flwr=flwr.__version__, torch=torch.__version__)
    run_simulation(server_app_of(name, turns), client_app_of(name), WORKLOADS[name].clients, backend_config=RESOURCES)


if __name__ == "__main__":
    main()
