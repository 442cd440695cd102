"""The client's side (Algorithm 2 of the paper): a Flower `ClientApp` from any fedparity `Task`.

The same app runs in this process, under Flower's simulation and on a SuperNode. A task that holds the data of one
client alone trains it at place 0; its random numbers are keyed by the number that the server gave it all the same, so
that the bits are those of a task that holds everybody's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedparity.core.errors import ConfigError, FedparityError
from fedparity.core.protocols import Task, TrainsMany
from fedparity.core.trace import Trace
from fedparity.core.types import ClientReport
from fedparity.engines.flower import codec
from fedparity.engines.flower.roster import NAMED, NO_ID

Factory: TypeAlias = Callable[[Context], Task]
"""Makes the task of a node: with the data of this client alone, or with everybody's in a simulation."""
Ready: TypeAlias = Callable[[Context, int], str | None]
"""ready(context, round): why this device must not work now (on battery, on a metered network); None: it may."""


@dataclass(frozen=True, slots=True)
class TraceGate:
    """Readiness as a trace says, for tests and demos: a device that goes away and comes back."""

    trace: Trace
    client: int

    def __call__(self, context: Context, round: int) -> str | None:
        """Why the device is not ready in a round."""
        there = round < self.trace.num_rounds and self.client in self.trace.online(round)
        return None if there else "not ready: away"


def stable_name(context: Context) -> str:
    """What a node is called in its config: `client-id`, else `partition-id`."""
    for key in ("client-id", "partition-id"):
        if key in context.node_config:
            return str(context.node_config[key])
    raise ConfigError(f"{NO_ID}; start it with {NAMED}")


class TaskApp(ClientApp):
    """A `ClientApp` over tasks; clients that share one task in this process are trained at once, if it can."""

    def __init__(self, factory: Factory, ready: Ready | None) -> None:
        super().__init__()
        self._factory, self._ready = factory, ready
        self._tasks: dict[int, Task] = {}

    def task_of(self, context: Context) -> Task:
        """The task of a node, made once."""
        if context.node_id not in self._tasks:
            self._tasks[context.node_id] = self._factory(context)
        return self._tasks[context.node_id]

    def train_one(self, message: Message, context: Context) -> Message:
        """The answer to a job."""
        offer = codec.read_offer(message.content)
        job = offer.job
        refused = None if self._ready is None else self._ready(context, job.round)
        if refused is not None:
            return _answer(message, ClientReport(job.client, failure=refused), offer.nonce)
        task = self.task_of(context)
        try:
            report = task.train(replace(job, place=_place(task)))
        except FedparityError as error:
            report = ClientReport(job.client, failure=str(error))
        return _answer(message, report, offer.nonce)

    def train_together(self, messages: Sequence[Message], contexts: Sequence[Context]) -> list[Message] | None:
        """The answers to the jobs of a round, with the bits of `InProcess`; None: they must be done one by one."""
        if self._ready is not None or len(messages) < 2:
            return None
        with suppress(Exception):  # whose fault it was shows one by one
            task = self.task_of(contexts[0])
            if not isinstance(task, TrainsMany) or any(self.task_of(context) is not task for context in contexts):
                return None
            offers = codec.read_offers([message.content for message in messages])
            reports = task.train_many([offer.job for offer in offers])
            return [
                _answer(message, report, offer.nonce)
                for message, report, offer in zip(messages, reports, offers, strict=True)
            ]
        return None


def client_app(
    factory: Factory, *, name: Callable[[Context], str] = stable_name, ready: Ready | None = None
) -> ClientApp:
    """A `ClientApp` that trains and scores by the task that `factory` makes, once for each node of a process."""
    app = TaskApp(factory, ready)

    @app.query()
    def who(message: Message, context: Context) -> Message:
        found = RecordDict({codec.IDENTITY: ConfigRecord({codec.NAME: name(context)})})
        return Message(found, reply_to=message)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return app.train_one(message, context)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        said = codec.config_of(message.content, codec.JOB)
        params = codec.read_array(codec.arrays_of(message.content, codec.PARAMS)[codec.W])
        task, client = app.task_of(context), int(said["client"])  # type: ignore[arg-type]
        place = _place(task)
        found = task.evaluate(params, np.array([client if place is None else place]))
        loss, accuracy = (float(values[0]) if len(values) else math.nan for values in (found.loss, found.accuracy))
        return Message(codec.scores_content(loss, accuracy), reply_to=message)

    return app


def _answer(message: Message, report: ClientReport, nonce: str) -> Message:
    return Message(codec.reply_content(report, nonce), reply_to=message)


def _place(task: Task) -> int | None:
    """Where the client's data lies: at its number, if the task holds everybody's."""
    return 0 if task.num_clients == 1 else None
