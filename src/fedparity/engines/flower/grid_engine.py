"""Plans carried out over a Flower `Grid`: offers are pushed, answers pulled until the round ends, late ones kept.

`Strategy.start` and `send_and_receive` wait for everybody and forget who was asked; so the loop is our own, by `push`
and `pull`. A reply is told by the message it answers, never by what it says of itself: an error that the SuperLink
makes up for a node that is gone carries the SuperLink's own id.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.gate import printable
from fedparity.core.protocols import Engine, Measure
from fedparity.core.types import ClientReport, Evals, Ids, RoundPlan, Vector
from fedparity.engines.flower import codec
from fedparity.engines.flower.roster import NAMED, NO_ID, Identity, Roster, node_name

GONE = 2
"""Offers in a row without an answer after which a client counts as not online."""
LONGEST_PAUSE = 64
"""Rounds after which a client that does not answer is tried again, at the latest."""
MADE_UP = frozenset({3, 5})
"""Codes of errors that a SuperLink makes up for a node that does not answer any more."""
RESTARTED = "its node was restarted"
SPARE = 60.0
"""Seconds that a message lives beyond the last round in which its answer could be used."""


@dataclass(frozen=True, slots=True)
class RoundEvents:
    """What happened in a round, by stable names."""

    round: int
    online: list[str]
    busy: list[str]
    asked: list[str] = field(default_factory=list)
    replied: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Who answered that it could not, or whose node is gone, and why."""
    timed_out: list[str] = field(default_factory=list)
    late: list[tuple[str, int]] = field(default_factory=list)
    """Whose answer to an earlier round came since the last one, and which round that was."""
    seconds: float = 0.0
    unnamed: int = 0
    """Nodes that are online and have no stable name: they are never asked."""
    scores: list[tuple[str, float, float]] = field(default_factory=list)
    """Loss and accuracy of the new model at those who were asked for them and answered; empty: nobody was asked."""


@dataclass(slots=True)
class Waiting:
    """An offer that is not answered yet."""

    client: int
    round: int
    node: int
    activated: str
    """When its node had last been activated, as Flower says: compared, not computed with, so that clocks may jump."""


class GridEngine(Engine):
    """Clients beyond a network. What it knows beside the roster is lost with the process: offers are made again."""

    def __init__(
        self,
        grid: Grid,
        roster: Roster | None = None,
        *,
        identity: Identity = "query",
        min_clients: int = 1,
        patience: float = 600.0,
        poll: float = 0.5,
        max_age: int = 0,
    ) -> None:
        """`patience`: seconds to wait for `min_clients`, or an answer to a query."""
        checks.one_of("identity", identity, ("query", "node"))
        checks.at_least("min_clients", min_clients, 1)
        checks.positive("patience", patience)
        checks.positive("poll", poll)
        self.grid, self.roster = grid, roster or Roster()
        self._identity, self._min = identity, min_clients
        self._patience, self._poll, self._max_age = patience, poll, max_age
        self._waiting: dict[str, Waiting] = {}
        self._missed: dict[int, int] = {}
        """Offers in a row that each client left without an answer."""
        self._until: dict[int, int] = {}
        """The round in which a client that does not answer is tried again."""
        self._late: list[tuple[Waiting, Message]] = []
        self._activated: dict[int, str] = {}
        self._nodes: dict[int, str | None] = {}
        """The name of every node that was asked for it; None: it has none."""
        self._refusal = ""
        """Why a node could not say its name, as its app said last."""
        self._deadline = math.inf
        """Seconds of the last round, beyond which nobody is waited for."""
        self.events: RoundEvents | None = None
        """What happened in the last round."""

    # -- who is there -------------------------------------------------------------------------------------------------

    @property
    def num_clients(self) -> int:
        """How many are registered; the first question waits for `min_clients`."""
        if len(self.roster) < self._min:
            self._wait_for_founders()
        return len(self.roster)

    def available(self, round: int) -> Ids:
        """Who is online, at no work, and has not left the last offers without an answer."""
        if len(self.roster) < self._min:
            self._wait_for_founders()
        self._begin(round)
        online = self._look()
        self._collect(online)
        busy = self._busy(online)
        pausing = {client for client, end in self._until.items() if round < end}
        free = [client for client in self.roster.clients(online) if client not in busy and client not in pausing]
        shown = [*free, *sorted(busy)]
        self.events = RoundEvents(
            round,
            [self.roster.name(client) for client in sorted(shown)],
            [self.roster.name(client) for client in sorted(busy)],
            unnamed=sum(1 for node in online if self._nodes.get(node, "") is None),
        )
        return np.array(free, dtype=np.int64)

    def busy(self, round: int) -> Ids:
        """Who is online and has an offer of an earlier round, whose answer could still be used."""
        named = [] if self.events is None else [self.roster.number(name) for name in self.events.busy]
        return np.array(sorted(client for client in named if client is not None), dtype=np.int64)

    def _busy(self, online: Collection[int]) -> set[int]:
        return {w.client for w in self._waiting.values() if w.node in online and self._missed.get(w.client, 0) < GONE}

    def _begin(self, round: int) -> None:
        begin = getattr(self.grid, "begin_round", None)  # a grid of ours follows a trace
        if begin is not None:
            begin(round)

    def _look(self) -> list[int]:
        """Nodes that are online; new ones are asked who they are."""
        self._activated |= {int(node.node_id): node.last_activated_at for node in self.grid.get_nodes()}
        online = self._online()
        new = [node for node in online if node not in self._nodes]
        if self._identity == "node":
            self._nodes |= {node: node_name(node) for node in new}
        elif new:
            self._nodes |= self._names(new)
        self.roster.register({node: name for node in online if (name := self._nodes.get(node)) is not None})
        return online

    def _online(self) -> list[int]:
        return sorted(int(node) for node in self.grid.get_node_ids())

    def _names(self, nodes: list[int]) -> dict[int, str | None]:
        """What new nodes are called; one that does not answer is asked again in the next round."""
        messages = [Message(RecordDict(), node, MessageType.QUERY) for node in nodes]
        replies = self._exchange(messages, min(self._patience, 60.0))
        self._refusal = next((reason_of(reply) for reply in replies.values() if reply.has_error()), self._refusal)
        return {node: None if reply.has_error() else codec.read_name(reply.content) for node, reply in replies.items()}

    def _exchange(self, messages: list[Message], seconds: float) -> dict[int, Message]:
        """Replies by node, as far as they come in time."""
        ids = dict(zip(self.grid.push_messages(messages), (m.metadata.dst_node_id for m in messages), strict=True))
        found: dict[int, Message] = {}
        end = time.monotonic() + seconds
        while ids:
            for reply in self.grid.pull_messages(list(ids)):
                node = ids.pop(reply.metadata.reply_to_message_id, None)
                if node is not None:
                    found[node] = reply
            if not ids or time.monotonic() >= end:
                break
            time.sleep(self._poll)
        return found

    def _wait_for_founders(self) -> None:
        """Nobody is numbered before enough are there: founders are numbered by name, whoever came first."""
        end = time.monotonic() + self._patience
        self._begin(-1)
        while True:
            mine = self.roster
            self.roster = Roster(mine.names)
            self._look()
            if (count := len(self.roster)) >= self._min:
                return
            self.roster = mine
            if time.monotonic() >= end:
                raise ConfigError(
                    f"min_clients={self._min} but only {count} registered within {self._patience:g} s"
                    f"{self._why_unnamed() or '; start more SuperNodes or lower it'}"
                )
            time.sleep(self._poll)

    def _why_unnamed(self) -> str:
        """What is wrong with nodes that are online and have no name, and the fix; nothing: there are none."""
        unnamed = sum(name is None for name in self._nodes.values())
        if not unnamed:
            return ""
        if self._refusal and NO_ID not in self._refusal:
            return f", and the app of {unnamed} failed ({self._refusal}); mend it: the logs of SuperNodes say more"
        return f", and {unnamed} without a stable id; start these with {NAMED}"

    # -- a round ------------------------------------------------------------------------------------------------------

    def train(self, plan: RoundPlan) -> Iterable[ClientReport]:
        """Offer the job to everybody asked, and take in answers until the round ends; late ones come first."""
        start = time.monotonic()
        self._deadline = math.inf if plan.deadline is None else plan.deadline
        events = self.events or RoundEvents(plan.round, [], [])
        reports = [self._read(waiting, reply, plan) for waiting, reply in self._late]
        events.late.extend((self.roster.name(w.client), w.round) for w, _ in self._late)
        self._late = []
        asked = plan.cohort.clients.tolist()
        events.asked.extend(self.roster.name(client) for client in asked)
        mine = self._push(plan, asked)
        came = 0
        wanted = len(mine) if plan.enough is None else min(plan.enough, len(mine))
        while mine and came < wanted:
            for waiting, reply in self._pull(mine):
                mine.pop(reply.metadata.reply_to_message_id, None)
                report = self._read(waiting, reply, plan)
                reports.append(report)
                name = self.roster.name(report.client)
                if report.failure is None:
                    came += 1
                    events.replied.append(name)
                else:
                    events.failed.append((name, report.failure))
            wanted = min(wanted, came + len(mine))
            if not mine or came >= wanted or time.monotonic() - start >= self._deadline:
                break
            self._look()
            events.failed.extend((self.roster.name(client), RESTARTED) for client in self._drop_lost(mine))
            time.sleep(self._poll)
        self._leave(plan, mine, events)
        self.events = replace(events, seconds=time.monotonic() - start)
        return reports

    def _push(self, plan: RoundPlan, asked: list[int]) -> dict[str, Waiting]:
        params = codec.params_record(plan.params)
        rule = codec.rule_text(plan.local)
        ttl = None if plan.deadline is None else plan.deadline * (1 + self._max_age) + SPARE
        messages = [
            Message(
                RecordDict({codec.PARAMS: params, codec.JOB: codec.job_record(plan, client, rule)}),
                self.roster.node[client],
                MessageType.TRAIN,
                ttl=ttl,
                group_id=str(plan.round),
            )
            for client in asked
        ]
        # A list: a generator would arrive empty.
        ids = list(self.grid.push_messages(messages))
        # What the SuperLink did not take has no id: nobody was asked, and nobody answers.
        mine = {
            message_id: Waiting(client, plan.round, node := self.roster.node[client], self._activated.get(node, ""))
            for message_id, client in zip(ids, asked, strict=False)
            if message_id
        }
        self._waiting |= mine
        return mine

    def _pull(self, ids: Iterable[str]) -> Iterator[tuple[Waiting, Message]]:
        """Answers that have come, each once, by the offer that it answers."""
        for reply in self.grid.pull_messages(list(ids)):
            waiting = self._waiting.pop(reply.metadata.reply_to_message_id, None)
            if waiting is not None:
                if not (reply.has_error() and reply.error.code in MADE_UP):
                    self._missed.pop(waiting.client, None)
                    self._until.pop(waiting.client, None)
                yield waiting, reply

    def _read(self, waiting: Waiting, reply: Message, plan: RoundPlan) -> ClientReport:
        if reply.has_error():
            return ClientReport(waiting.client, failure=reason_of(reply), origin=waiting.round, nonce=None)
        report = codec.read_reply(reply.content, waiting.client, plan.params)
        return report if waiting.round == plan.round else replace(report, origin=waiting.round)

    def _drop_lost(self, mine: dict[str, Waiting]) -> list[int]:
        """A node that was activated after an offer was made to it has lost it: nothing will ever come."""
        lost = {i: w.client for i, w in mine.items() if self._activated.get(w.node, "") != w.activated}
        for message_id in lost:
            del mine[message_id]
            self._waiting.pop(message_id, None)
        return list(lost.values())

    def _collect(self, online: Collection[int]) -> None:
        """Answers to earlier rounds that have come since; offers that are lost or too old are given up."""
        pending = [message_id for message_id, w in self._waiting.items() if w.node in online]
        if pending:
            self._late += list(self._pull(pending))
        self._drop_lost(dict(self._waiting))

    def _leave(self, plan: RoundPlan, mine: dict[str, Waiting], events: RoundEvents) -> None:
        """The round is over: who has not answered is busy with it as long as its answer can be used."""
        for waiting in mine.values():
            client = waiting.client
            events.timed_out.append(self.roster.name(client))
            missed = self._missed[client] = self._missed.get(client, 0) + 1
            if missed >= GONE:
                self._until[client] = plan.round + 1 + min(2 ** (missed - 1), LONGEST_PAUSE)
        self._waiting = {key: w for key, w in self._waiting.items() if plan.round + 1 - w.round <= self._max_age}

    # -- scores -------------------------------------------------------------------------------------------------------

    def evaluate(self, params: Vector, clients: Ids, measure: Measure = "both") -> Evals:
        """Loss and accuracy on the data of those who are online and answer in time; of the others they are unknown."""
        online = set(self._online())
        nodes = {self.roster.node[c]: c for c in clients.tolist() if self.roster.node.get(c) in online}
        loss, accuracy = np.full(len(clients), np.nan), np.full(len(clients), np.nan)
        record = codec.params_record(params)
        messages = [
            Message(
                RecordDict({codec.PARAMS: record, codec.JOB: ConfigRecord({"measure": measure, "client": client})}),
                node,
                MessageType.EVALUATE,
            )
            for node, client in nodes.items()
        ]
        replies = self._exchange(messages, min(self._patience, self._deadline)) if messages else {}
        for node, reply in replies.items():
            if not reply.has_error():
                at = int(np.searchsorted(clients, nodes[node]))
                loss[at], accuracy[at] = codec.read_scores(reply.content)
        return Evals(clients, loss, accuracy)

    def score(self, params: Vector) -> list[tuple[str, float, float]]:
        """Name, loss and accuracy of those who are online and at no work, as far as they answer in time."""
        online = self._online()
        free = np.array(sorted(set(self.roster.clients(online)) - self._busy(online)), dtype=np.int64)
        found = self.evaluate(params, free)
        names = map(self.roster.name, free.tolist())
        told = zip(names, found.loss.tolist(), found.accuracy.tolist(), strict=True)
        return [one for one in told if not all(map(math.isnan, one[1:]))]


def reason_of(reply: Message) -> str:
    """Why a client has no update: the last line of what its error says."""
    lines = [line for line in (reply.error.reason or "").splitlines() if line.strip()]
    return printable(lines[-1].strip() if lines else f"error {reply.error.code}")
