"""Who is asked: one file a policy, one line each in `SCHEDULERS`."""

from functools import partial
from typing import Any

from fedparity.protocols import Scheduler
from fedparity.schedulers.fixed import Fixed
from fedparity.schedulers.inverse import Inverse
from fedparity.schedulers.parity import Parity
from fedparity.schedulers.reactive import Reactive
from fedparity.schedulers.turns import LeastServed, RoundRobin
from fedparity.schedulers.uniform import Population, Uniform
from fedparity.table import Table

SCHEDULERS: Table[Scheduler[Any]] = Table(
    "scheduler",
    {
        "parity": Parity,
        "parity_deployment": partial(Parity, ratio=1.1, quota=1.3, window=100, spare="fill"),
        "uniform": Uniform,
        "population": Population,
        "inverse": Inverse,
        "reactive": Reactive,
        "round_robin": RoundRobin,
        "least_served": LeastServed,
        "fixed": Fixed,
    },
)

__all__ = [
    "SCHEDULERS",
    "Fixed",
    "Inverse",
    "LeastServed",
    "Parity",
    "Population",
    "Reactive",
    "RoundRobin",
    "Uniform",
]
