"""A stock client: nothing in it knows of fairness."""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quickstart.task import Arrays, load_data, test, train

app = ClientApp()


def _data(context: Context) -> Arrays:
    return load_data(int(context.node_config["partition-id"]), int(context.node_config["num-partitions"]))


@app.train()
def train_model(message: Message, context: Context) -> Message:
    """Train the model received on this client's data."""
    data = _data(context)
    w = train(message.content.array_records["arrays"]["w"].numpy(), data, float(context.run_config["learning-rate"]))
    metrics = MetricRecord({"num-examples": len(data[1])})
    return Message(RecordDict({"arrays": ArrayRecord({"w": Array(w)}), "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate_model(message: Message, context: Context) -> Message:
    """Test the model received on this client's data."""
    data = _data(context)
    loss, accuracy = test(message.content.array_records["arrays"]["w"].numpy(), data)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(data[1])})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
