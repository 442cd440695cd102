"""The verbs: five small questions a method answers, and one seam to the outside world.

Hyper-parameters live in frozen dataclasses; memory is a returned state. A state is a tree of arrays, numbers, strings,
tuples and dataclasses, handed from call to call: whoever passes one in gives it up and goes on with the one returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from fedparity.core.ledger import Ledger
from fedparity.core.trace import Trace
from fedparity.core.types import (
    ClientReport,
    Cohort,
    Descent,
    Evals,
    FloatArray,
    Ids,
    Job,
    JointLoss,
    RoundPlan,
    RoundRecord,
    RoundView,
    Rows,
    SurrogateCredit,
    Vector,
)

S = TypeVar("S")

Evaluate: TypeAlias = Callable[[Vector, Ids], Evals]
Measure: TypeAlias = Literal["both", "loss", "accuracy"]
"""What an evaluation is for: what nobody asks for is not computed, and comes back as NaN."""


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


@dataclass(frozen=True, slots=True)
class Feedback:
    """What came of a round, for schedulers that learn from it."""

    round: int
    params: Vector
    """The model that was sent out."""
    reports: Sequence[ClientReport]
    """Those that were used, in client order."""
    ledger: Ledger
    """Everything recorded, this round included."""
    validate: Callable[[Vector], float] | None
    """Loss of a model on data that the server itself holds, if it holds any."""


@runtime_checkable
class Learner(Protocol[S]):
    """A scheduler that also looks at what came back."""

    def learn(self, state: S, feedback: Feedback) -> S:
        """Take in one finished round."""
        ...


class Local(Protocol):
    """How a client trains, and what it keeps from round to round; inherited from, all defaults are plain training."""

    __slots__ = ()

    @property
    def joint(self) -> JointLoss | None:
        """One loss that all descents learn from together, for tasks that can (PyTorch); None: each the task's own."""
        return None

    def descents(self, kept: Vector | None, params: Vector) -> tuple[Descent, ...]:
        """The trainings of a round, given what the client kept and the model it received; the first is the update's."""
        return (Descent(params),)

    def outcome(
        self, kept: Vector | None, delta: Vector, beside: Sequence[tuple[Vector, Vector]]
    ) -> tuple[Vector, Vector | None]:
        """The update that is sent and what the client wants kept.

        `delta` is what the first descent made, `beside` is where each further one started and ended.
        """
        return delta, None

    def keep(self, params: Vector, report: ClientReport, result: Vector) -> Vector | None:
        """What a participant keeps: it received `params`, and the round ended with the model `result`."""
        return None

    def personal(self, kept: Vector, size: int) -> Vector | None:
        """The client's own model of `size` numbers in what it kept, if there is one."""
        return kept[:size]


class Server(Protocol[S]):
    """How the server moves the model along the aggregated update."""

    def init(self, size: int) -> S:
        """The state before the first step of a model of `size` numbers."""
        ...

    def step(self, state: S, params: Vector, update: Vector, round: int) -> tuple[Vector, S]:
        """The next model; `update` points towards the clients."""
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
    ) -> tuple[SurrogateCredit, S]:
        """What is added this round for clients that are offline; `evaluate` scores the new model."""
        ...

    def complete(self, state: S, round: int, rows: Rows, params: Vector, ledger: Ledger) -> tuple[Rows, S]:
        """The rows of this round with those that stand in for earlier ones added; most rules add none."""
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

    def train(self, job: Job) -> ClientReport:
        """Local training by `job.descents()`; the report's `delta` and `loss_before` are relative to `job.params`."""
        ...

    def evaluate(self, params: Vector, clients: Ids, measure: Measure = "both") -> Evals:
        """Loss and accuracy of `params` on each client's own data."""
        ...


@runtime_checkable
class TrainsMany(Protocol):
    """A task that trains a whole cohort as one computation."""

    def train_many(self, jobs: Sequence[Job]) -> list[ClientReport]:
        """The reports of all jobs, in their order."""
        ...


class Engine(Protocol):
    """How a plan is carried out: in this process, over a network, or by a test double.

    An engine, and likewise a task, may also have `validate(params)`, the loss on data that the server holds itself, and
    `probe(params, clients, samples, rng)`, losses on a few random samples of each client; None if it cannot.
    """

    def available(self, round: int) -> Ids:
        """Who is online at the start of `round`."""
        ...

    def train(self, plan: RoundPlan) -> Iterable[ClientReport]:
        """Ask `plan.cohort`; reports may come in any order, and may be missing."""
        ...

    def evaluate(self, params: Vector, clients: Ids, measure: Measure = "both") -> Evals:
        """Loss and accuracy of `params` on the data of `clients`."""
        ...


class Observer(Protocol):
    """Told about every round after it is recorded."""

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        """One more round of `method` is done."""
        ...
