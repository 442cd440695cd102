"""Marks on the fields of states: which of them speak of single clients, for whoever has to take a client out.

A component's state says so where it is declared, `online: NDArray = field(metadata=PER_CLIENT)`, so that nobody has to
guess from the length of an array whether it has one entry per client.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

MARK: Final = "clients"
ENTRIES: Final = "entries"
NUMBERS: Final = "numbers"

PER_CLIENT: Final[Mapping[str, Any]] = MappingProxyType({MARK: ENTRIES})
"""One entry per client: an array (along its first axis), or a dict with clients as its keys; a tuple is as below."""
CLIENT_NUMBERS: Final[Mapping[str, Any]] = MappingProxyType({MARK: NUMBERS})
"""A list of clients: an array of their numbers, or a tuple of such arrays."""
