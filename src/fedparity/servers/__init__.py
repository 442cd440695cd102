"""How the server moves the model: one line each in `SERVERS`."""

from typing import Any

from fedparity.protocols import Server
from fedparity.servers.adaptive import Adam, Yogi
from fedparity.servers.sgd import Sgd
from fedparity.table import Table

SERVERS: Table[Server[Any]] = Table("server optimiser", {"sgd": Sgd, "adam": Adam, "yogi": Yogi})

__all__ = ["SERVERS", "Adam", "Sgd", "Yogi"]
