"""The app of `flower_peer.py`, unchanged, on our grid: FedAvg and all clients in this process, without Ray."""

from __future__ import annotations

import flwr
import torch
from flower_client import client_app
from flower_peer import server_app_of
from protocol import Turns, arguments
from workloads import WORKLOADS

from fedparity.engines.flower import simulate


def main() -> None:
    """Serve rounds."""
    name, one_pass = arguments()
    torch.set_num_threads(1)  # as Ray's actors have
    turns = Turns(contender="grid", flwr=flwr.__version__, torch=torch.__version__)
    simulate(server_app_of(name, turns, one_pass=one_pass), client_app, WORKLOADS[name].clients)


if __name__ == "__main__":
    main()
