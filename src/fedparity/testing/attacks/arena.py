"""Attackers among honest clients: share of slots and of weight, worst window, rounds in which they hold a third.

Nothing is trained; every participation is worth about 1 to whoever takes part. Attackers are the first clients of the
population and whoever they register as later. A slot that is lost to a failure counts as taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from fedparity.availability import AVAILABILITY
from fedparity.core import checks
from fedparity.core.coordinator import Coordinator
from fedparity.core.errors import ConfigError
from fedparity.core.ledger import Ledger
from fedparity.core.loop import run
from fedparity.core.protocols import Engine, Measure
from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import BoolArray, ClientReport, Evals, Ids, RoundPlan, RoundRecord, Vector
from fedparity.testing.attacks.kinds import ATTACKS, Attack, Presence

NOISE = 0.3


@dataclass(frozen=True, slots=True)
class Arena:
    """Who plays: everything but the scheduler and the attack."""

    availability: str = "bernoulli"
    """When honest clients are there."""
    clients: int = 100
    """How many clients there are, attackers among them (N)."""
    cohort: int = 10
    """How many are asked per round (m)."""
    rounds: int = 1000
    """How many rounds there are (T)."""
    attackers: int = 10
    """How many clients are attackers."""
    seeds: int = 8
    """Over how many seeds figures are means."""
    first_seed: int = 0
    """The first of these seeds; the others follow."""
    window: int = 100
    """Rounds of the window whose worst share is looked for."""

    def __post_init__(self) -> None:
        for name in ("clients", "cohort", "rounds", "attackers", "seeds", "window"):
            checks.at_least(name, getattr(self, name), 1)
        checks.at_least("first_seed", self.first_seed, 0)
        if self.attackers >= self.clients:
            raise ConfigError(f"attackers={self.attackers} but there are {self.clients} clients; lower it")

    @property
    def fair_share(self) -> float:
        """What attackers would get if slots were dealt evenly."""
        return self.attackers / self.clients


@dataclass(frozen=True, slots=True)
class Result:
    """What attackers gained, in shares: means over seeds, the worst of several ways to attack.

    Where rounds are thin, those who are there hold much of what is filled, whoever they are. So each figure is given
    twice: of what was filled, and of what was offered (m slots, and a step of weight 1, in each round).
    """

    attack: str
    share: float
    """Of all slots that were filled."""
    share_sd: float
    worst_window_share: float
    """Of the filled slots of the window that was worst."""
    weight_share: float
    """Of all weight in the model's steps."""
    largest_weight: float
    """Of one row in one step."""
    rounds_with_a_third: float
    """Share of the rounds in which attackers were at least a third of those asked."""
    offered_share: float
    """Of all slots that were offered."""
    offered_window_share: float
    """Of the offered slots of the window that was worst."""
    step_share: float
    """Of all weight if every step had weight 1."""
    captured: float
    """Share of the rounds in which attackers had at least a third of a step of weight 1."""
    thin: float
    """Share of the rounds whose step counted for less than 1, as fewer clients were asked than there are slots."""
    fill: float
    """Share of the offered slots that were filled."""
    fair_share: float


@dataclass(slots=True)
class _Register(Engine):
    """Clients that come and go as the population says, attackers as they please."""

    trace: Trace
    present: BoolArray | None
    attack: Attack
    arena: Arena
    num_clients: int
    mine: list[list[int]] = field(default_factory=list)
    """Of each attacker, the clients that it is registered as."""

    @classmethod
    def of(cls, arena: Arena, attack: Attack, presence: Presence | None, seed: int) -> _Register:
        trace = AVAILABILITY.build(arena.availability).draw(arena.clients, arena.rounds, seed)
        rng = stream(seed, "attack")
        present = None if presence is None else presence(arena.rounds, arena.attackers, rng)
        more = iter(range(arena.clients, arena.clients + arena.attackers * (attack.identities - 1)))
        mine = [[k, *(next(more) for _ in range(attack.identities - 1))] for k in range(arena.attackers)]
        return cls(trace, present, attack, arena, arena.clients + arena.attackers * (attack.identities - 1), mine)

    def is_attacker(self, clients: Ids) -> BoolArray:
        return np.asarray((clients < self.arena.attackers) | (clients >= self.arena.clients))

    def available(self, round: int) -> Ids:
        online = self.trace.online(round)
        if self.present is None:
            return online.astype(np.int64)
        honest = online[online >= self.arena.attackers]
        there = [
            ids[round % len(ids)] for ids, is_there in zip(self.mine, self.present[round], strict=True) if is_there
        ]
        return np.sort(np.concatenate([honest, np.array(there, dtype=np.int64)]).astype(np.int64))

    def train(self, plan: RoundPlan) -> Iterable[ClientReport]:
        asked = plan.cohort.clients
        gains = np.maximum(0.0, 1 + NOISE * stream(plan.seed, "gain", plan.round).standard_normal(len(asked)))
        nothing = np.zeros_like(plan.params)
        for client, gain, mine in zip(asked.tolist(), gains.tolist(), self.is_attacker(asked).tolist(), strict=True):
            report = ClientReport(client, nothing, 10, loss_before=gain, loss_after=0.0, loss_rms=gain, duration=1.0)
            yield self.attack.says(report) if mine else report
        if self.attack.renews:
            for ids in self.mine:
                if ids[0] in asked:
                    ids[0] = self.num_clients
                    self.num_clients += 1

    def evaluate(self, params: Vector, clients: Ids, measure: Measure = "both") -> Evals:
        known = np.ones(len(clients))
        return Evals(clients, known, known)


class _Count:
    """An observer that counts what attackers hold of each round."""

    def __init__(self, register: _Register) -> None:
        self.register = register
        self.rounds: list[tuple[float, ...]] = []
        self.largest = 0.0

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        mine = self.register.is_attacker(record.selected)
        weights = np.abs(record.row_weights)
        held = weights[self.register.is_attacker(record.row_clients)].sum()
        self.rounds.append((float(mine.sum()), len(mine), float(held), float(weights.sum())))
        self.largest = max(self.largest, float(weights.max(initial=0.0)))

    def figures(self, arena: Arena) -> dict[str, float]:
        """All of a `Result` that one run has."""
        held, asked, weight, step = np.array(self.rounds).T
        past = np.concatenate([np.zeros((1, 4)), np.cumsum(self.rounds, axis=0)])
        some = past[arena.window :] - past[: -arena.window] if len(held) > arena.window else past[-1:]
        offered = arena.cohort * min(arena.window, len(held))
        return {
            "share": float(held.sum() / max(1, asked.sum())),
            "worst_window_share": float((some[:, 0] / np.maximum(1, some[:, 1])).max()),
            "weight_share": float(weight.sum() / max(step.sum(), 1e-300)),
            "largest_weight": self.largest,
            "rounds_with_a_third": float(((3 * held >= asked) & (held > 0)).mean()),
            "offered_share": float(held.sum() / (arena.cohort * len(held))),
            "offered_window_share": float(some[:, 0].max() / offered),
            "step_share": float(weight.mean()),
            "captured": float((3 * weight >= 1 - 1e-9).mean()),
            "thin": float(((asked < arena.cohort) & (step < 1 - 1e-9)).mean()),
            "fill": float(asked.sum() / (arena.cohort * len(held))),
        }


Figures: TypeAlias = dict[str, list[float]]
"""By name, one number per seed."""


def ways_of(name: str, arena: Arena, scheduler: Any = "parity", **choices: Any) -> list[Figures]:
    """The figures of each way to attack; `choices` are others of a `Coordinator`, as a weighting and a gate."""
    kind, found = ATTACKS[name], []
    coordinator = Coordinator(arena.cohort, scheduler=scheduler, min_reports=0, **choices)
    for presence in kind.presence or (None,):
        figures = []
        for seed in range(arena.first_seed, arena.first_seed + arena.seeds):
            register = _Register.of(arena, kind, presence, seed)
            count = _Count(register)
            run(replace(coordinator, seed=seed), register, arena.rounds, observers=[count])
            figures.append(count.figures(arena))
        found.append({key: [one[key] for one in figures] for key in figures[0]})
    return found


def result_of(name: str, arena: Arena, ways: Sequence[Figures]) -> Result:
    """Means over seeds, each of the way that gains most by it."""
    most = max(ways, key=lambda way: np.mean(way["share"]))
    worst = {key: float(max(np.mean(way[key]) for way in ways)) for key in most if key != "fill"}
    fill = float(min(np.mean(way["fill"]) for way in ways))
    return Result(name, **worst, share_sd=float(np.std(most["share"])), fill=fill, fair_share=arena.fair_share)


def attack(name: str, arena: Arena, scheduler: Any = "parity", **choices: Any) -> Result:
    """What attackers gain under a scheduler; `choices` are others of a `Coordinator`, as a weighting and a gate."""
    return result_of(name, arena, ways_of(name, arena, scheduler, **choices))
