"""A Flower grid in this process: any Flower app runs on it unchanged, without Ray, SuperLink or SuperNodes.

Clients answer when they are asked, one after the other, so that bits and order are always the same. A trace makes them
come and go: a round passes with every batch of train messages, or as an engine says.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

from flwr.app import ArrayRecord, Context, Error, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.run import Run

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.trace import Trace
from fedparity.engines.flower import shim
from fedparity.engines.flower.client import TaskApp
from fedparity.engines.intermittent import LEFT

RAISED = 2
"""Flower's code for a client whose app raised."""
FIRST_NODE = 1000
"""Node ids of simulated clients begin here: 1 is the SuperLink's."""


class LocalGrid(Grid):
    """Nodes of one app in this process; `trace` says who is online in which round."""

    def __init__(
        self,
        app: ClientApp,
        nodes: int | Sequence[Mapping[str, Any]],
        *,
        trace: Trace | None = None,
        run_config: Mapping[str, Any] | None = None,
        run_id: int = 1,
        registered: bool = True,
    ) -> None:
        """`nodes`: how many, or the config of each; without one it has its `partition-id` and `num-partitions`.

        `registered`: everybody is there once before the first round, to register; else a client registers when the
        trace first has it online.
        """
        if isinstance(nodes, int):
            checks.at_least("nodes", nodes, 1)
            nodes = [{"partition-id": k, "num-partitions": nodes} for k in range(nodes)]
        if trace is not None and trace.num_clients != len(nodes):
            raise ConfigError(f"the trace has {trace.num_clients} clients but there are {len(nodes)} nodes")
        shim.require()
        self._app, self._trace, self._round, self._registered = app, trace, 0, registered
        self._follows = False
        """Whether an engine says which round it is."""
        self._run = Run.create_empty(run_id)
        self._contexts = {
            FIRST_NODE + k: Context(run_id, FIRST_NODE + k, dict(node), RecordDict(), dict(run_config or {}))
            for k, node in enumerate(nodes)
        }
        self._ids = itertools.count(1)
        self._replies: dict[str, Message] = {}
        shim.identify_process(run_id)

    def set_run(self, run: Run) -> None:
        """Take over a run."""
        self._run = run

    @property
    def run(self) -> Run:
        """The run."""
        return self._run

    def begin_round(self, round: int) -> None:
        """It is this round now: who is online follows from the trace; -1 is before the first."""
        self._round, self._follows = round, True

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """A message of this run."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Who is online now."""
        if self._trace is None or (self._round < 0 and self._registered):
            return list(self._contexts)
        return [FIRST_NODE + k for k in self._trace.online(self._now()).tolist()]

    def _now(self) -> int:
        return self._round if self._trace is None else max(0, min(self._round, self._trace.num_rounds - 1))

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Every message is answered at once."""
        pushed = list(messages)
        for message in pushed:
            shim.give_id(message, str(next(self._ids)))
        replies = self._answer_together(pushed) or [self._answer(message) for message in pushed]
        self._replies |= {m.metadata.message_id: reply for m, reply in zip(pushed, replies, strict=True)}
        if not self._follows and any(m.metadata.message_type.startswith(MessageType.TRAIN) for m in pushed):
            self._round += 1
        return [message.metadata.message_id for message in pushed]

    def _answer_together(self, messages: list[Message]) -> list[Message] | None:
        """The answers of an app of ours to a round's jobs, if all of them can be had at once."""
        if not isinstance(self._app, TaskApp) or any(m.metadata.message_type != MessageType.TRAIN for m in messages):
            return None
        nodes = [message.metadata.dst_node_id for message in messages]
        if not all(map(self._stays, nodes)):
            return None
        return self._app.train_together(messages, [self._contexts[node] for node in nodes])

    def _answer(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        if not self._stays(node) and message.metadata.message_type.startswith(MessageType.TRAIN):
            return Message(Error(RAISED, LEFT), reply_to=message)
        try:
            return self._app(message if isinstance(self._app, TaskApp) else _sent(message), self._contexts[node])
        except Exception as error:  # noqa: BLE001 - whatever a client does is its own failure
            return Message(Error(RAISED, f"{type(error).__name__}: {error}"), reply_to=message)

    def _stays(self, node: int) -> bool:
        return self._trace is None or node - FIRST_NODE in self._trace.staying(self._now())

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Answers that are there, each once."""
        return [self._replies.pop(message_id) for message_id in message_ids if message_id in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Push, and pull until all are there or the time is over."""
        ids, found = list(self.push_messages(messages)), list[Message]()
        end = None if timeout is None else time.monotonic() + timeout
        while len(found) < len(ids):
            found += self.pull_messages(ids)
            if end is not None and time.monotonic() >= end:
                break
        return found


def _sent(message: Message) -> Message:
    """A message as it would arrive: what its receiver changes in it nobody else sees; numbers of arrays are shared."""
    content = RecordDict()
    for name, record in message.content.items():
        if isinstance(record, ArrayRecord):
            content[name] = ArrayRecord(dict(record))
        else:
            values: dict[str, Any] = {key: copy(value) for key, value in record.items()}
            content[name] = type(record)(values)
    made: Message = Message(content=content, metadata=message.metadata)  # type: ignore[call-overload]
    return made


def simulate(
    server_app: ServerApp,
    client_app: ClientApp,
    nodes: int | Sequence[Mapping[str, Any]],
    *,
    trace: Trace | None = None,
    run_config: Mapping[str, Any] | None = None,
) -> LocalGrid:
    """Run a Flower app in this process; `trace` makes its clients come and go."""
    grid = LocalGrid(client_app, nodes, trace=trace, run_config=run_config)
    server_app(grid, Context(grid.run.run_id, shim.SERVER_NODE, {}, RecordDict(), dict(run_config or {})))
    return grid
