"""The verbs: five small questions a method answers, and one seam to the outside world.

Hyper-parameters live in frozen dataclasses; memory is a returned state. A state is a tree of arrays, numbers, strings,
tuples and dataclasses, handed from call to call: whoever passes one in gives it up and goes on with the one returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias, TypeVar

import numpy as np

from fedparity.ledger import Ledger
from fedparity.trace import Trace
from fedparity.types import (
    ClientReport,
    Cohort,
    Evals,
    FloatArray,
    Ids,
    RoundPlan,
    RoundRecord,
    RoundView,
    Rows,
    StandIn,
    Vector,
)

S = TypeVar("S")

Evaluate: TypeAlias = Callable[[Vector, Ids], Evals]


class Availability(Protocol):
    """Who is there: a model that draws a trace."""

    def draw(self, num_clients: int, rounds: int, seed: int) -> Trace:
        """One realisation for `num_clients` clients over `rounds` rounds."""
        ...


class Estimator(Protocol[S]):
    """How available each client is, from what the server saw."""

    def init(self, num_clients: int) -> S:
        """The state before the first round."""
        ...

    def observe(self, state: S, available: Ids) -> S:
        """Take in who was online in one more round."""
        ...

    def estimate(self, state: S, clients: Ids) -> FloatArray:
        """Estimated availability of `clients`, in (0, 1] for a client seen online."""
        ...

    def remaining(self, state: S, clients: Ids, rounds_left: int) -> FloatArray:
        """In how many of the next `rounds_left` rounds each of `clients` is expected online."""
        ...


class Scheduler(Protocol[S]):
    """Who is asked."""

    def init(self, num_clients: int) -> S:
        """The state before the first round."""
        ...

    def select(self, state: S, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, S]:
        """At most `view.cohort` of `view.available`, with their inclusion probabilities."""
        ...


class Weighting(Protocol[S]):
    """How much each row counts in the step."""

    def init(self, num_clients: int) -> S:
        """The state before the first round."""
        ...

    def weigh(self, state: S, rows: Rows, ledger: Ledger) -> tuple[FloatArray, S]:
        """One weight a row."""
        ...


class Utility(Protocol[S]):
    """What taking part was worth to a client."""

    @property
    def needs_evaluation(self) -> bool:
        """Whether `credit` needs the new model's loss or accuracy on the participants' data."""
        ...

    def init(self, num_clients: int) -> S:
        """The state before the first round."""
        ...

    def credit(
        self, state: S, reports: Sequence[ClientReport], ledger: Ledger, evals: Evals | None
    ) -> tuple[FloatArray, FloatArray, S]:
        """Credited utility and last known loss of each report, in its order."""
        ...


class Surrogate(Protocol[S]):
    """Who stands in for those that are not there."""

    def init(self, num_clients: int) -> S:
        """The state before the first round."""
        ...

    def stand_in(
        self, state: S, round: int, available: Ids, ledger: Ledger, evaluate: Callable[[Ids], Evals] | None
    ) -> tuple[StandIn, S]:
        """What is added this round for clients that are offline; `evaluate` scores the new model."""
        ...

    def remember(self, state: S, reports: Sequence[ClientReport], utility: FloatArray) -> S:
        """Keep what is needed to stand in for this round's participants later."""
        ...


class Task(Protocol):
    """What a client does with a model."""

    @property
    def num_clients(self) -> int:
        """How many clients hold data."""
        ...

    def init(self, rng: np.random.Generator) -> Vector:
        """The first model."""
        ...

    def train(self, client: int, params: Vector, start: Vector, rng: np.random.Generator) -> ClientReport:
        """Local training from `start`; `delta` and `loss_before` are relative to `params`, the model received."""
        ...

    def evaluate(self, params: Vector, clients: Ids) -> Evals:
        """Loss and accuracy of `params` on each client's own data."""
        ...


class Engine(Protocol):
    """How a plan is carried out: in this process, over a network, or by a test double."""

    def available(self, round: int) -> Ids:
        """Who is online at the start of `round`."""
        ...

    def train(self, plan: RoundPlan) -> Iterable[ClientReport]:
        """Ask `plan.cohort`; reports may come in any order, and may be missing."""
        ...

    def evaluate(self, params: Vector, clients: Ids) -> Evals:
        """Loss and accuracy of `params` on the data of `clients`."""
        ...


class Observer(Protocol):
    """Told about every round after it is recorded."""

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        """One more round of `method` is done."""
        ...
