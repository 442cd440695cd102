"""A stock client that also says what its training was worth: its loss before and after, by its own evaluation.

    app = WithLosses(app)

The app's `evaluate` function is called with the model received and with the one that came of it; the loss it reports
(`eval_loss`, else `loss`) is added to the reply as `loss_before` and `loss_after`. Mods of the inner app run as before.
"""

from __future__ import annotations

import copy

from flwr.app import Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp

LOSSES = ("eval_loss", "eval-loss", "loss")


class WithLosses(ClientApp):
    """The same app; train replies hold two losses more."""

    def __init__(self, app: ClientApp, loss: str | None = None) -> None:
        """`loss`: the key of the loss in an evaluate reply; None: the usual ones are tried."""
        super().__init__()
        self._inner = app
        self._keys = LOSSES if loss is None else (loss,)

    def __call__(self, message: Message, context: Context) -> Message:
        """Handle a message."""
        if message.metadata.message_type.partition(".")[0] != MessageType.TRAIN:
            return self._inner(message, context)
        received = message.content
        before = self._loss(message, received, context)
        reply = self._inner(message, context)
        if reply.has_error() or not reply.content.metric_records or not reply.content.array_records:
            return reply
        name = next(iter(received.array_records))
        trained = RecordDict({**received, name: next(iter(reply.content.array_records.values()))})
        told = next(iter(reply.content.metric_records.values()))
        told["loss_before"] = before
        told["loss_after"] = self._loss(message, trained, context)
        return reply

    def _loss(self, message: Message, content: RecordDict, context: Context) -> float:
        metadata = copy.copy(message.metadata)
        metadata.message_type = MessageType.EVALUATE
        found = self._inner(Message(content=copy.deepcopy(content), metadata=metadata), context)  # type: ignore[call-overload]
        if found.has_error():
            return float("nan")
        for said in found.content.metric_records.values():
            for key in self._keys:
                if isinstance(value := said.get(key), (int, float)):
                    return float(value)
        return float("nan")
