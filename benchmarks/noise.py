"""What noise on reported losses costs in fairness: a table of docs/security.md (part of `make attack`).

Participations of each client are worth the same to it every time, between .1 and 1 (log-uniform). The server hears of
that with noise, and equal utility per round online is what it aims at; measured is what clients truly got.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from attacks import PAGE, written

from fedparity.availability import AVAILABILITY
from fedparity.core.coordinator import Coordinator
from fedparity.core.loop import run
from fedparity.core.protocols import Measure, Task
from fedparity.core.rng import stream
from fedparity.core.types import ClientReport, Evals, FloatArray, Ids, Job, Vector
from fedparity.engines import InProcess, Intermittent
from fedparity.tasks import Noised

SEEDS = range(200, 205)
CLIENTS, COHORT, ROUNDS, LEAST = 100, 10, 400, 0.1
SCALES = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)
POLICIES = ("parity:target=utility", "parity:target=utility,ratio=1.1", "parity:target=opportunity", "uniform")


@dataclass(frozen=True, slots=True)
class Worth(Task):
    """What a participation is worth to each client, as a drop of its loss to 0."""

    gains: FloatArray

    @property
    def num_clients(self) -> int:
        """As many as there are gains."""
        return len(self.gains)

    def init(self, rng: np.random.Generator) -> Vector:
        """A model of one number."""
        return np.zeros(1)

    def train(self, job: Job) -> ClientReport:
        """The gain, as a loss that falls to 0."""
        gain = float(self.gains[job.row])
        return ClientReport(job.client, np.full(1, 1e-3), 1, loss_before=gain, loss_after=0.0)

    def evaluate(self, params: Vector, clients: Ids, measure: Measure = "both") -> Evals:
        """Their gains, as losses."""
        return Evals(clients, self.gains[clients], np.ones(len(clients)))


def unevenness(policy: str, scale: float, seed: int) -> float:
    """CV of true utility per round online."""
    task = Worth(LEAST ** stream(seed, "worth").random(CLIENTS))
    trace = AVAILABILITY.build("bernoulli").draw(CLIENTS, ROUNDS, seed)
    said: Task = Noised(task, scale, bound=1.0, seed=seed) if scale else task
    engine = Intermittent(InProcess(said), trace)
    ledger = run(Coordinator(COHORT, scheduler=policy, seed=seed), engine, ROUNDS, params=np.zeros(1)).ledger
    got = ledger.completed * task.gains / ledger.online
    return float(got.std() / got.mean())


def table() -> list[str]:
    """One row per policy, one column per scale of the noise."""
    heads = [f"ε = {1 / scale:g}" if scale else "no noise" for scale in SCALES]
    lines = [f"| policy | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for policy in POLICIES:
        scales = SCALES if "utility" in policy else SCALES[:1]
        cells = [f"{np.mean([unevenness(policy, scale, seed) for seed in SEEDS]):.3f}" for scale in scales]
        cells += ["the same"] * (len(SCALES) - len(scales))
        lines.append(f"| `{policy}` | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(), "noise", table()))
