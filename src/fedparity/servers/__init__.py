"""How the server moves the model: one line each in `SERVERS`."""

from functools import partial
from typing import Any

from fedparity.core.protocols import Server
from fedparity.core.registry import Registry
from fedparity.servers.adaptive import Adaptive
from fedparity.servers.sgd import Sgd

SERVERS: Registry[Server[Any]] = Registry(
    "server optimiser",
    {"sgd": Sgd, "adam": Adaptive, "yogi": partial(Adaptive, second="yogi")},
    group="servers",
    needs=Server,
)

__all__ = ["SERVERS", "Sgd"]
