"""A trace laid over any engine: clients come and go as it says, and some leave in the middle of a round."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.loop import clients_of
from fedparity.core.protocols import Engine, Measure
from fedparity.core.reprs import brief
from fedparity.core.trace import Trace
from fedparity.core.types import ClientReport, Cohort, Evals, FloatArray, Ids, RoundPlan, Vector

LEFT = "left before the round's end"


@dataclass(frozen=True, slots=True)
class Intermittent(Engine):
    """`engine`, seen through `trace`: only who is online can be asked, only who stays can report."""

    engine: Engine
    trace: Trace

    __repr__ = brief

    def __post_init__(self) -> None:
        there = clients_of(self.engine)
        checks.instance("trace", self.trace, Trace, "Trace.from_matrix(online) makes one")
        if there is not None and there != self.num_clients:
            raise ConfigError(f"the trace has {self.num_clients} clients but the engine {there}; give the same number")

    @property
    def num_clients(self) -> int:
        """Those of the trace."""
        return self.trace.num_clients

    def available(self, round: int) -> Ids:
        """Who is online in both the trace and the engine."""
        if round >= self.trace.num_rounds:
            raise ConfigError(f"round {round} is beyond this trace of {self.trace.num_rounds} rounds; lower rounds")
        return np.intersect1d(self.trace.online(round), self.engine.available(round), assume_unique=True)

    def train(self, plan: RoundPlan) -> Iterable[ClientReport]:
        """Train those who stay; the others send a failure signal."""
        asked = plan.cohort
        stays = np.isin(asked.clients, self.trace.staying(plan.round), assume_unique=True)
        yield from (ClientReport(int(client), failure=LEFT) for client in asked.clients[~stays])
        kept = Cohort(asked.clients[stays], asked.probs[stays], asked.design, asked.wasted)
        yield from self.engine.train(replace(plan, cohort=kept))

    def evaluate(self, params: Vector, clients: Ids, measure: Measure = "both") -> Evals:
        """As the engine does."""
        return self.engine.evaluate(params, clients, measure)

    @property
    def validate(self) -> Callable[[Vector], float] | None:
        """As the engine does."""
        return self.engine.validate

    def probe(self, params: Vector, clients: Ids, samples: int, rng: np.random.Generator) -> FloatArray:
        """As the engine does."""
        return self.engine.probe(params, clients, samples, rng)
