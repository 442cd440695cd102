"""Who stands in for those that are not there: one file a rule, one line each in `SURROGATES`."""

from typing import Any

from fedparity.protocols import Surrogate
from fedparity.surrogates.none import NoSurrogate
from fedparity.surrogates.utility import UtilitySurrogate
from fedparity.table import Table

SURROGATES: Table[Surrogate[Any]] = Table("surrogate", {"none": NoSurrogate, "utility": UtilitySurrogate})

__all__ = ["SURROGATES", "NoSurrogate", "UtilitySurrogate"]
