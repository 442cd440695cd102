"""`FakeGrid`: a Flower grid in this process whose clients misbehave as told (needs the extra `flower`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

from flwr.app import Error, Message
from flwr.clientapp import ClientApp

from fedparity.engines.flower import LocalGrid

FIRST_NODE = 1000
"""The node of client 0."""
Deed: TypeAlias = int | Literal["lost", "gone"] | Callable[[Message, Message], Message | None]
"""Rounds that a reply is late, that it is lost, that its node is gone, or what changes or replaces it."""


class FakeGrid(LocalGrid):
    """Does to the replies of each (round, client) what `script` says: a number of rounds late, lost, or changed."""

    def __init__(
        self, app: ClientApp, nodes: int, script: Mapping[tuple[int, int], Deed] | None = None, **more: Any
    ) -> None:
        super().__init__(app, nodes, **more)
        self.script = dict(script or {})
        self.held: list[tuple[int, str, Message]] = []
        self.away: dict[int, Iterable[int]] = {}
        """In which rounds a client's node is not connected."""
        self.asked: list[tuple[int, int]] = []
        """Rounds and clients that were asked to train."""

    def get_node_ids(self) -> Iterable[int]:
        """The nodes that are connected in this round."""
        gone = {FIRST_NODE + k for k, rounds in self.away.items() if self._round in rounds}
        return [node for node in super().get_node_ids() if node not in gone]

    def begin_round(self, round: int) -> None:
        """Hand over what was held back until now."""
        super().begin_round(round)
        for due, message_id, reply in [h for h in self.held if h[0] <= round]:
            self._replies[message_id] = reply
            self.held.remove((due, message_id, reply))

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Answer each message, then do to the answers what the script says."""
        sent = list(messages)
        ids = list(super().push_messages(sent))
        for message, message_id in zip(sent, ids, strict=True):
            if message.metadata.message_type == "train":
                self._act(message, message_id)
        return ids

    def _act(self, message: Message, message_id: str) -> None:
        client = message.metadata.dst_node_id - FIRST_NODE
        self.asked.append((self._round, client))
        done = self.script.get((self._round, client))
        reply = self._replies[message_id]
        if isinstance(done, int):
            self.held.append((self._round + done, message_id, self._replies.pop(message_id)))
        elif done == "lost":
            del self._replies[message_id]
        elif done == "gone":
            error = Message(Error(5, "Node Unavailable"), reply_to=message)
            error.metadata.__dict__["_src_node_id"] = 1
            self._replies[message_id] = error
        elif callable(done):
            self._replies[message_id] = done(message, reply) or reply
