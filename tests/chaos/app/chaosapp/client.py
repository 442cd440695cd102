"""The client: its own data alone; what it is to do wrong stands in a file of the test's folder, each thing once."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedparity.engines.flower import client_app
from fedparity.tasks import Quadratic

FOLDER = Path(os.environ["FEDPARITY_CHAOS"])
EVERYBODY = Quadratic.random(8)


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
    k = int(str(context.node_config["client-id"]).removeprefix("c"))
    return Misbehaving(EVERYBODY.centres[k : k + 1], EVERYBODY.curvature[k : k + 1])


app = client_app(made)
