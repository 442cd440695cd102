"""Attackers that poison the model: what they cost in accuracy, and whether a backdoor opens, under any method.

Softmax regression on Gaussian classes; the last features are 0 in honest data, like a corner that is always dark: a
backdoor lights it and says `TARGET`. Nothing honest ever speaks against it, so it is the hardest case for the server.
Accuracy is that of honest clients' own data, a mean over the last quarter of the rounds, since a round that was
captured shows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from fedparity.availability import AVAILABILITY
from fedparity.core.coordinator import Coordinator
from fedparity.core.ledger import Ledger
from fedparity.core.loop import run
from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import ClientReport, RoundPlan, RoundRecord, Vector
from fedparity.engines import InProcess, Intermittent
from fedparity.tasks import Logistic
from fedparity.testing.attacks.arena import Arena
from fedparity.testing.attacks.kinds import ATTACKS

TARGET, LIT, CORNER = 0, 3.0, 2
"""What a backdoor makes of everything, how bright its mark is, and how many features it lights."""

Sends: TypeAlias = Callable[[Vector, np.random.Generator], Vector]


@dataclass(frozen=True, slots=True)
class Poison:
    """What attackers train on, and what they make of their update."""

    summary: str
    data: Callable[[Logistic, int], Logistic] = lambda task, _: task
    """The task with the data of the first `attackers` clients changed."""
    sends: Sends = lambda delta, _: delta


def _times(factor: float) -> Sends:
    return lambda delta, _: factor * delta


def _noise(delta: Vector, rng: np.random.Generator) -> Vector:
    noise = rng.standard_normal(len(delta))
    return np.asarray(10 * np.linalg.norm(delta) * noise / np.linalg.norm(noise))


def _next_label(task: Logistic, attackers: int) -> Logistic:
    y = task.y.copy()
    y[:attackers] = (y[:attackers] + 1) % task.classes
    return replace(task, y=y)


def _marked(task: Logistic, attackers: int) -> Logistic:
    x, y = task.x.copy(), task.y.copy()
    x[:attackers, ::2, -CORNER:] = LIT
    y[:attackers, ::2] = TARGET
    return replace(task, x=x, y=y)


POISONS: dict[str, Poison] = {
    "none": Poison("Attackers are honest."),
    "flip": Poison("The update, turned round and ten times as long.", sends=_times(-10.0)),
    "far_flip": Poison("The update, turned round and ten thousand times as long.", sends=_times(-1e4)),
    "noise": Poison("Noise of ten times the update's length.", sends=_noise),
    "label_flip": Poison("Every label is the next one; the update is as long as it is.", _next_label),
    "backdoor": Poison("Half of the samples carry a mark and the target's label.", _marked),
    "boosted_backdoor": Poison("The same, ten times as long.", _marked, _times(10.0)),
}


@dataclass(frozen=True, slots=True)
class Poisoned:
    """What a run with attackers came to, in shares."""

    accuracy: float
    """Of honest clients."""
    worst_tenth: float
    """Of the worst-off tenth of them."""
    backdoor: float
    """Of honest clients' samples of other classes that are taken for the target's once they are marked."""


@dataclass(frozen=True, slots=True)
class _Turned(InProcess):
    """Attackers send something else than they found."""

    sends: Sends = lambda delta, _: delta
    attackers: int = 0

    def train(self, plan: RoundPlan) -> Iterable[ClientReport]:
        for report in InProcess.train(self, plan):
            mine = report.client < self.attackers and report.delta is not None
            rng = stream(plan.seed, "poison", plan.round, report.client)
            yield replace(report, delta=self.sends(np.asarray(report.delta), rng)) if mine else report


class _Late:
    """An observer that tries the model out on honest clients over the last quarter of the rounds."""

    def __init__(self, task: Logistic, arena: Arena) -> None:
        self.task, self.arena = task, arena
        self.honest = np.arange(arena.attackers, arena.clients)
        marked = task.x[self.honest].copy()
        marked[..., -CORNER:] = LIT
        self.marked = marked[task.y[self.honest] != TARGET]
        self.seen: list[tuple[float, float, float]] = []

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        if 4 * record.round < 3 * self.arena.rounds:
            return
        each = np.sort(self.task.evaluate(params, self.honest, "accuracy").accuracy)
        weights = params.reshape(-1, self.task.classes)
        taken = np.argmax(self.marked @ weights[:-1] + weights[-1], axis=1) == TARGET
        self.seen.append((each.mean(), each[: max(1, len(each) // 10)].mean(), float(taken.mean())))


def poisoned(
    name: str, arena: Arena, seed: int, *, attendance: str | None = None, scheduler: Any = "parity", **choices: Any
) -> Poisoned:
    """What attackers do to a model; `attendance`: the attack of `ATTACKS` whose hours they keep; None: anybody's."""
    poison = POISONS[name]
    clean = Logistic.synthetic(arena.clients, seed=seed)
    clean = replace(clean, x=np.concatenate([clean.x, np.zeros((*clean.x.shape[:2], CORNER))], axis=2))
    there = AVAILABILITY.build(arena.availability).draw(arena.clients, arena.rounds, seed).matrix().astype(np.bool_)
    if attendance is not None:
        hours = ATTACKS[attendance].presence[0]
        there[:, : arena.attackers] = hours(arena.rounds, arena.attackers, stream(seed, "attack"))
    late = _Late(clean, arena)
    coordinator = Coordinator(arena.cohort, seed=seed, scheduler=scheduler, min_reports=0, **choices)
    task = poison.data(clean, arena.attackers)
    engine = Intermittent(_Turned(task, sends=poison.sends, attackers=arena.attackers), Trace.from_matrix(there))
    run(coordinator, engine, arena.rounds, params=clean.init(stream(seed, "first")), observers=[late])
    return Poisoned(*(float(part) for part in np.mean(late.seen, axis=0)))
