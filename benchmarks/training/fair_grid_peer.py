"""Our app of `fair_apps.py` on our grid: both sides in this process, without Ray."""

from __future__ import annotations

import flwr
import torch
from fair_apps import client_app_of, server_app_of
from protocol import Turns, arguments
from workloads import WORKLOADS

from fedparity.engines.flower import simulate


def main() -> None:
    """Serve rounds."""
    name, _ = arguments()
    turns = Turns(contender="fair_grid", flwr=flwr.__version__, torch=torch.__version__)
    simulate(server_app_of(name, turns), client_app_of(name), WORKLOADS[name].clients)


if __name__ == "__main__":
    main()
