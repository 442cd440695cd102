"""Utility credited to those that are not there: one file per rule, one line each in `SURROGATES`."""

from typing import Any

from fedparity.core.protocols import Surrogate
from fedparity.core.registry import Registry
from fedparity.surrogates.none import NoSurrogate
from fedparity.surrogates.utility import UtilitySurrogate

SURROGATES: Registry[Surrogate[Any]] = Registry(
    "surrogate", {"none": NoSurrogate, "utility": UtilitySurrogate}, needs=Surrogate
)

__all__ = ["SURROGATES", "NoSurrogate", "UtilitySurrogate"]
