"""Who is who: a client keeps its number, and so its row in the ledger, however often its node comes and goes.

A node id is 64 bits without a sign, beyond what a config value holds: it travels, and is kept, as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from fedparity.core.errors import RoundError

Identity: TypeAlias = Literal["query", "node"]
"""How a client is told: by the name its app answers with, or by its node id."""
NAMED = "--node-config 'client-id=\"NAME\"', a name of its own for each node"
"""What gives a SuperNode a stable name."""
NO_ID = "this node has no stable id"
"""What the app of one that was started without says."""


class Roster:
    """Clients by number, in the order in which they registered."""

    def __init__(self, names: Mapping[int, str] | None = None) -> None:
        """`names` are those of a run that is gone on with (`State.names`)."""
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        for number, name in sorted((names or {}).items()):
            # A client that was erased leaves a gap: its number is not given again.
            self._names += [""] * (number - len(self._names)) + [name]
            self._numbers[name] = number
        self.node: dict[int, int] = {}
        """The node that each client is online with, or was last."""

    def __len__(self) -> int:
        return len(self._names)

    @property
    def names(self) -> dict[int, str]:
        """What is kept with the state."""
        return {number: name for number, name in enumerate(self._names) if name}

    def name(self, client: int) -> str:
        """What a client is called outside."""
        return self._names[client]

    def number(self, name: str) -> int | None:
        """A client's number; None: it is not registered."""
        return self._numbers.get(name)

    def register(self, nodes: Mapping[int, str]) -> list[int]:
        """Take note of which node each name is online with; new names get the next numbers, in order of name.

        Of two nodes with one name the one that was known stays, so that nobody takes another's place.
        """
        taken: dict[str, int] = {}
        for node, name in sorted(nodes.items()):
            known = self._numbers.get(name)
            if name in taken and (known is None or self.node.get(known) != node):
                continue
            taken[name] = node
        new = sorted(set(taken) - self._numbers.keys())
        for name in new:
            self._numbers[name] = len(self._names)
            self._names.append(name)
        for name, node in taken.items():
            self.node[self._numbers[name]] = node
        return [self._numbers[name] for name in new]

    def clients(self, nodes: Iterable[int]) -> list[int]:
        """The clients whose nodes these are, ascending."""
        there = set(nodes)
        return sorted(client for client, node in self.node.items() if node in there)


def node_name(node: int) -> str:
    """A node id as a name that sorts as the number does."""
    if not 0 <= node < 2**64:
        raise RoundError(f"node id {node} is not one of Flower's: it must be between 0 and 2^64")
    return f"{node:020d}"
