"""Everything outside of the coordinator: clients that come, go, lie and join, and a network that loses and repeats.

All of it follows from one seed. The world keeps its own books (who was asked, who sent what), so that what the
coordinator writes down can be held against what happened.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedparity.core.gate import nonce
from fedparity.core.types import ClientReport, Ids, RoundPlan, Vector
from fedparity.tasks.quadratic import Quadratic

LATEST = 4
"""Rounds by which the network delays a reply at most."""


@dataclass(frozen=True, slots=True)
class Fates:
    """How likely things are, different from one system to the next."""

    online: float
    offline: float
    lost: float
    late: float
    twice: float
    hostile: float
    joins: float
    leaves: float

    @classmethod
    def draw(cls, rng: random.Random) -> Fates:
        """Calm and wild systems alike."""
        wild = rng.choice((0.3, 1.0, 2.0))
        return cls(
            online=rng.uniform(0.1, 0.9),
            offline=rng.uniform(0.05, 0.7),
            lost=0.1 * wild * rng.random(),
            late=0.2 * wild * rng.random(),
            twice=0.2 * wild * rng.random(),
            hostile=0.15 * wild * rng.random(),
            joins=0.04 * wild * rng.random(),
            leaves=0.004 * wild * rng.random(),
        )


@dataclass(frozen=True, slots=True)
class Letter:
    """A report on its way."""

    asked: int
    """The round that it answers."""
    due: int
    report: ClientReport


Lie = Callable[[ClientReport, random.Random], ClientReport]


def _with(**how: Any) -> Lie:
    return lambda report, _: replace(report, **how)


def _update(change: Callable[[Vector], Any]) -> Lie:
    return lambda report, _: replace(report, delta=change(np.array(report.delta)))


def _of_somebody_else(report: ClientReport, rng: random.Random) -> ClientReport:
    return replace(report, client=rng.choice((report.client + 1, report.client - 1, 10**9)))


LIES: dict[str, Lie] = {
    "not a number": _update(lambda delta: delta * np.nan),
    "infinite": _update(lambda delta: delta + np.inf),
    "too long": _update(lambda delta: delta + 1e8),
    "too short": _update(lambda delta: delta[:-1]),
    "another type": _update(lambda delta: delta.astype(np.float32)),
    "a text": _with(delta="update"),
    "no nonce": _with(nonce=None),
    "a forged nonce": _with(nonce="0" * 32),
    "of somebody else": _of_somebody_else,
    "no samples": _with(num_samples=0),
    "a huge sample": _with(num_samples=10**12),
    "a huge loss": _with(loss_before=1e300),
    "a failure that is no text": _with(failure=17),
    "a negative duration": _with(duration=-1.0),
}
"""Reports that must never count."""


class World:
    """Clients and their network."""

    def __init__(self, rng: random.Random, seed: int, clients: int, most: int, dim: int) -> None:
        self.rng = rng
        self.fates = Fates.draw(rng)
        self.task = Quadratic.random(most, dim=dim, seed=seed)
        self.most = most
        self.registered = clients
        self.gone: set[int] = set()
        self._online = [rng.random() < 0.5 for _ in range(most)]
        self._letters: list[Letter] = []
        self.sent: dict[tuple[int, int], list[Vector]] = {}
        """Updates by client and round that the coordinator may use."""
        self.counts: Counter[str] = Counter()

    def available(self) -> Ids:
        """Who is there now."""
        there = (k for k in range(self.registered) if self._online[k] and k not in self.gone)
        return np.array([*there], dtype=np.int64)

    def move_on(self) -> None:
        """Time passes: clients register, leave for good, come and go."""
        rng, fates = self.rng, self.fates
        while self.registered < self.most and rng.random() < fates.joins:
            self.registered += 1
            self.counts["joined"] += 1
        for client in range(self.registered):
            if rng.random() < (fates.offline if self._online[client] else fates.online):
                self._online[client] = not self._online[client]
            if rng.random() < fates.leaves and client not in self.gone:
                self.gone.add(client)
                self.counts["left"] += 1

    def answer(self, plan: RoundPlan) -> None:
        """Everybody who was asked does what it does; letters are on their way."""
        for client in plan.cohort.clients.tolist():
            report = replace(self.task.train(plan.job(client)), nonce=nonce(plan, client))
            if self.rng.random() < self.fates.hostile:
                self._lie(plan, report)
            elif self.rng.random() < self.fates.lost:
                self.counts["lost"] += 1
            else:
                self._send(plan, report)

    def _send(self, plan: RoundPlan, report: ClientReport) -> None:
        delta = np.array(report.delta)
        self.sent.setdefault((report.client, plan.round), []).append(delta)
        for _ in range(1 + (self.rng.random() < self.fates.twice)):
            late = self.rng.random() < self.fates.late
            self._post(plan.round, report, self.rng.randint(1, LATEST) if late else 0)

    def _lie(self, plan: RoundPlan, report: ClientReport) -> None:
        self.counts["lies"] += 1
        kind = self.rng.choice((*LIES, "two updates", "an old one", "silence"))
        if kind == "two updates":  # both are fit to be used, but not together
            self._send(plan, report)
            self._send(plan, replace(report, delta=np.array(report.delta) * -10))
        elif kind == "an old one" and self._letters:
            old = self.rng.choice(self._letters).report
            self._post(plan.round, replace(old, client=report.client, origin=None), 0)
        elif kind in LIES:
            self._post(plan.round, LIES[kind](report, self.rng), self.rng.choice((0, 0, 0, 1)))

    def _post(self, asked: int, report: ClientReport, delay: int) -> None:
        self._letters.append(Letter(asked, asked + delay, report))

    def arrivals(self, round: int) -> list[ClientReport]:
        """What the network brings in this round, in any order; some of it comes again later."""
        due = [letter for letter in self._letters if letter.due <= round]
        self._letters = [letter for letter in self._letters if letter.due > round]
        for letter in due:
            self.counts["letters"] += 1
            if letter.asked != round:
                self.counts["late"] += 1
            if self.rng.random() < self.fates.twice / 2:
                self.counts["repeated"] += 1
                self._letters.append(replace(letter, due=round + self.rng.randint(1, LATEST)))
        found = [_as_of(letter, round) for letter in due]
        self.rng.shuffle(found)
        return found

    def undo(self, round: int, reports: list[ClientReport]) -> None:
        """The coordinator died before the round was safe; half of what it had read comes again."""
        for report in reports:
            if self.rng.random() < 0.5:
                asked = round if report.origin is None else report.origin
                self._letters.append(Letter(asked, round, replace(report, origin=None)))


def _as_of(letter: Letter, round: int) -> ClientReport:
    return letter.report if letter.asked == round else replace(letter.report, origin=letter.asked)
