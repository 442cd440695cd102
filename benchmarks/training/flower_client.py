"""The clients of `flower_peer.py`: a module of its own, as in Flower's projects, so that actors import it and keep its caches."""

from __future__ import annotations

from functools import cache

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn
from workloads import WORKLOADS, Workload, accuracy_of, build, train, training_data

client_app = ClientApp()


@cache
def model_of(name: str) -> nn.Module:
    """One model an actor, its weights replaced by every message."""
    return build(WORKLOADS[name])


def received(message: Message) -> tuple[Workload, nn.Module]:
    """What to train or test, and the global model."""
    name = str(message.content["config"]["workload"])
    model = model_of(name)
    model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    return WORKLOADS[name], model


@client_app.train()  # type: ignore[untyped-decorator,unused-ignore]
def train_client(message: Message, context: Context) -> Message:
    """One local epoch."""
    workload, model = received(message)
    images, labels = training_data(workload)
    rows = workload.rows(int(context.node_config["partition-id"]))
    train(model, images[rows], labels[rows])
    metrics = MetricRecord({"num-examples": workload.samples})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)


@client_app.evaluate()  # type: ignore[untyped-decorator,unused-ignore]
def test_client(message: Message, context: Context) -> Message:
    """The global model on this client's test images."""
    workload, model = received(message)
    client = int(context.node_config["partition-id"])
    metrics = MetricRecord({"num-examples": 1, "client": client, "accuracy": accuracy_of(workload, model, client)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
