"""How a client trains, and what it keeps from round to round: one file per rule, one line each in `LOCALS`.

A rule states its descents (where each starts, and what pulls it), what the client sends and what is kept of it; tasks
only know how to descend, so a new rule changes no task.
"""

from fedparity.core.protocols import Local
from fedparity.core.registry import Registry
from fedparity.local.difference import Difference
from fedparity.local.ditto import Ditto
from fedparity.local.mixed import Mixed
from fedparity.local.php_fl import PhpFl
from fedparity.local.plain import Plain
from fedparity.local.prox import Prox
from fedparity.local.received import Received

LOCALS: Registry[Local] = Registry(
    "local rule",
    {
        "plain": Plain,
        "prox": Prox,
        "ditto": Ditto,
        "mixed": Mixed,
        "received": Received,
        "difference": Difference,
        "php_fl": PhpFl,
    },
    group="local",
    needs=Local,
)

__all__ = ["LOCALS", "Mixed", "Plain"]
