"""The client: its own data alone; what it is to do wrong stands in a file of the test's folder, each thing once."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import fedparity  # isort: skip  # noqa: F401  # first: in a simulation both sides are loaded at once

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord
from flwr.clientapp import ClientApp

from fedparity.engines.flower import client_app, codec
from fedparity.tasks import Logistic, Quadratic

FOLDER = Path(os.environ["FEDPARITY_CHAOS"])
EVERYBODY = Quadratic.random(8)
LIES = {"c1": ("forge", 1), "c2": ("steal", 1), "c3": ("again", 2)}
"""What each does in which round of the run `hostile`: a made-up nonce, another's reply, its own of a round before."""


class Misbehaving(Quadratic):
    def train(self, job):
        report = super().train(job)
        wrongs = FOLDER / f"c{job_name(self)}.json"
        for what, first in json.loads(wrongs.read_text()).items() if wrongs.exists() else ():
            done = FOLDER / f"c{job_name(self)}.{what}"
            if job.round < first or done.exists():
                continue
            done.write_text(str(job.round))
            if what == "nan":
                return replace(report, delta=np.full_like(report.delta, np.nan))
            if what == "raise":
                raise RuntimeError("no memory left")
            time.sleep(600 if what.startswith("hang") else float(wrongs.with_suffix(".seconds").read_text()))
            return report
        return report


def job_name(task):
    """Which client this is: that of its data."""
    return int(np.flatnonzero((EVERYBODY.centres == task.centres[0]).all(axis=1))[0])


def made(context):
    config = context.node_config
    k = int(str(config.get("client-id", config.get("partition-id"))).removeprefix("c"))
    if context.run_config["task"] == "logistic":
        task = Logistic.synthetic(int(context.run_config["founders"]))
        return Logistic(task.x[k : k + 1], task.y[k : k + 1], task.classes)
    return Misbehaving(EVERYBODY.centres[k : k + 1], EVERYBODY.curvature[k : k + 1])


class Lying(ClientApp):
    """The app, whose clients send what they heard from each other in the run `hostile`."""

    def __init__(self, inner):
        super().__init__()
        self._inner = inner

    def __call__(self, message, context):
        reply = self._inner(message, context)
        if context.run_config["run"] == "hostile" and message.metadata.message_type == "train":
            self._lie(str(context.node_config["client-id"]), int(message.content[codec.JOB]["round"]), reply.content)
        return reply

    def _lie(self, name, now, content):
        said, delta = dict(content[codec.REPORT]), content[codec.DELTA][codec.W].numpy()
        mine = heard(name, now)
        mine.with_suffix(".part").write_text(json.dumps([said["nonce"], delta.tolist()]))
        mine.with_suffix(".part").rename(mine)
        lie, when = LIES.get(name, ("", -1))
        if when != now:
            return
        if lie == "forge":
            said["nonce"] = "0" * 32
        else:
            source = heard("c0", now) if lie == "steal" else heard(name, now - 1)
            while not source.exists():
                time.sleep(0.1)
            said["nonce"], stolen = json.loads(source.read_text())
            content[codec.DELTA] = ArrayRecord({codec.W: Array(np.array(stolen))})
        content[codec.REPORT] = ConfigRecord(said)


def heard(name, now):
    return FOLDER / f"{name}-{now}.heard"


app = Lying(client_app(made))
