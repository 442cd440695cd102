"""How much each row counts: one file a rule, one line each in `WEIGHTINGS`."""

from typing import Any

from fedparity.protocols import Weighting
from fedparity.table import Table
from fedparity.weightings.fedavg import BySize, Mean, OverAll

WEIGHTINGS: Table[Weighting[Any]] = Table("weighting", {"mean": Mean, "by_size": BySize, "all": OverAll})

__all__ = ["WEIGHTINGS", "BySize", "Mean", "OverAll"]
