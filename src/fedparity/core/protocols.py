"""The verbs: the small questions that a method answers, and one seam to the outside world.

A component inherits from its protocol, which has a default for everything that most components do not need.
Hyper-parameters live in frozen dataclasses; memory is a returned state. A state is a tree of arrays, numbers, strings,
tuples and dataclasses, consumed by the call it is passed to; continue with the one returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedparity.core.errors import RoundError
from fedparity.core.ledger import Ledger
from fedparity.core.reprs import brief
from fedparity.core.trace import Trace
from fedparity.core.types import (
    NO_IDS,
    BoolArray,
    ClientReport,
    Cohort,
    Descent,
    Evals,
    FloatArray,
    Ids,
    Job,
    JointLoss,
    ReportField,
    RoundPlan,
    RoundRecord,
    RoundView,
    Rows,
    SurrogateCredit,
    Vector,
)

CUP = "Behfar and Mortier, Cumulative Utility Parity for Fair Federated Learning, arXiv 2602.13651"
"""The paper that this package began with: the reference of components that are its own."""
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)

Evaluate: TypeAlias = Callable[[Vector, Ids], Evals]
Measure: TypeAlias = Literal["both", "loss", "accuracy"]
"""What an evaluation is for: what nobody asks for is not computed, and comes back as NaN."""


class Component(Protocol):
    """What every component of a method may say of itself."""

    __slots__ = ()

    @property
    def report_fields(self) -> tuple[ReportField, ...]:
        """What it needs to know from a client beside its update; each costs a pass over the client's data."""
        return ()

    @property
    def goes_with(self) -> Mapping[str, str]:
        """What it works on: of other choices of a `Coordinator`, the one it needs, `NAME[:key=value,...]`.

        Of several that do, joined by ` or `, the first is what an error proposes; `any` is all but `none`.
        """
        return {}


class Remembering(Component, Protocol[S_co]):
    """A component that may have a memory of its own."""

    __slots__ = ()

    def init(self, num_clients: int) -> S_co:
        """The state before the first round; None: it has no memory, or the ledger is enough."""
        return cast("S_co", None)


class Availability(Protocol):
    """Who is there: a model that draws a trace."""

    def draw(self, num_clients: int, rounds: int, seed: int) -> Trace:
        """One realisation for `num_clients` clients over `rounds` rounds."""


class Estimator(Protocol[S]):
    """How available each client is, from what the server saw."""

    __slots__ = ()

    @property
    def hindsight(self) -> bool:
        """Whether it knows the trace, and learns nothing from what was seen before it."""
        return False

    def init(self, num_clients: int) -> S:
        """The state before the first round."""

    def observe(self, state: S, available: Ids) -> S:
        """Take in who was online in one more round."""

    def estimate(self, state: S, clients: Ids) -> FloatArray:
        """Estimated availability of `clients`, in (0, 1] for a client seen online."""

    def remaining(self, state: S, clients: Ids, rounds_left: int) -> FloatArray:
        """In how many of the next `rounds_left` rounds each of `clients` is expected online; as often as so far."""
        return self.estimate(state, clients) * rounds_left

    def futures(self, state: S, online: BoolArray, rounds: int, samples: int, rng: np.random.Generator) -> BoolArray:
        """Who might be online in the next rounds, given who is now: rounds x samples x clients.

        The default draws every round by itself, at the estimated rates.
        """
        rates = self.estimate(state, np.arange(len(online), dtype=np.int64))
        return np.asarray(rng.random((rounds, samples, len(online))) < rates)


@runtime_checkable
class Scheduler(Remembering[S], Protocol[S]):
    """Who is asked."""

    __slots__ = ()

    @property
    def requires(self) -> tuple[str, ...]:
        """What it needs of a run: `labels`, `losses`, `validation` or `utility` (that participations are credited)."""
        return ()

    @property
    def forecasts(self) -> bool:
        """Whether it looks ahead, and so wants the forecast as its estimator."""
        return False

    def select(self, state: S, view: RoundView, rng: np.random.Generator) -> tuple[Cohort, S]:
        """At most `view.cohort` of `view.available`, with their inclusion probabilities."""


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

    __repr__ = brief


@runtime_checkable
class Learner(Protocol[S]):
    """A scheduler that also looks at what came back."""

    def learn(self, state: S, feedback: Feedback) -> S:
        """Take in one finished round."""


class Local(Component, Protocol):
    """How a client trains, and what it keeps from round to round; inherited from, all defaults are plain training."""

    __slots__ = ()

    @property
    def joint(self) -> JointLoss | None:
        """One loss that all descents learn from together, for tasks that can (PyTorch); None: each the task's own."""
        return None

    @property
    def begins_with_first(self) -> bool:
        """Whether a client that has kept nothing yet is given the run's first model as what it kept."""
        return False

    def at_rate(self, rate: float) -> Local:
        """The rule in a round in which learning rates are multiplied by `rate`."""
        return self

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

    def keeps(self, size: int) -> int:
        """How many numbers a client that trains a model of `size` numbers may want kept."""
        return size

    def personal(self, kept: Vector, size: int) -> Vector | None:
        """The client's own model of `size` numbers in what it kept, if there is one."""
        return kept[:size]


class Server(Protocol[S]):
    """How the server moves the model along the aggregated update."""

    def init(self, size: int) -> S:
        """The state before the first step of a model of `size` numbers."""

    def step(self, state: S, params: Vector, update: Vector, round: int) -> tuple[Vector, S]:
        """The next model; `update` points towards the clients."""


class Weighting(Remembering[S], Protocol[S]):
    """How much each row counts in the step."""

    __slots__ = ()

    def weigh(self, state: S, rows: Rows, ledger: Ledger) -> tuple[FloatArray, S]:
        """One weight per row."""

    def notes(self, state: S, rows: Rows) -> tuple[str, ...]:
        """What the record of a round is to say of how these rows are about to be weighed; the same words each time."""
        return ()


class Utility(Remembering[S], Protocol[S]):
    """What taking part was worth to a client."""

    __slots__ = ()

    @property
    def needs_evaluation(self) -> bool:
        """Whether `credit` needs the new model's loss or accuracy on the participants' data."""
        return False

    @property
    def evaluates(self) -> Measure:
        """Which of the two; what it does not name is not computed."""
        return "both"

    @property
    def credits_all(self) -> bool:
        """Whether everybody is credited in every round, by `credit_all` instead of `credit`."""
        return False

    @property
    def requires(self) -> tuple[str, ...]:
        """What it needs of a task: `accuracy`."""
        return ()

    def credit(
        self, state: S, reports: Sequence[ClientReport], ledger: Ledger, evals: Evals | None
    ) -> tuple[FloatArray, FloatArray, S]:
        """Credited utility and last known loss of each report, in its order."""

    def credit_all(
        self, state: S, evaluate: Callable[[Vector], Evals], before: Vector, after: Vector
    ) -> tuple[FloatArray, S]:
        """Credited utility of every client for a round between two models, which `evaluate` scores on all clients."""
        raise RoundError(f"utility {self!r} credits participants alone; ask credit")

    def would_credit(self, state: S, clients: Ids, ledger: Ledger, evals: Evals) -> FloatArray | None:
        """What clients that are not here would be credited with under the model as it is; None if that is unknown."""
        return None


class Surrogate(Remembering[S], Protocol[S]):
    """Utility credited to those that are not there; it never touches the model."""

    __slots__ = ()

    def stand_in(
        self, state: S, round: int, available: Ids, ledger: Ledger, evaluate: Callable[[Ids], Evals] | None
    ) -> tuple[SurrogateCredit, S]:
        """What is credited this round to clients that are offline; `evaluate` scores the new model."""
        return SurrogateCredit(), state

    def remember(self, state: S, reports: Sequence[ClientReport], utility: FloatArray) -> S:
        """Keep what is needed to stand in for this round's participants later."""
        return state


class Memory(Remembering[S], Protocol[S]):
    """Rows for those that are not there: what earlier updates add to the model's step."""

    __slots__ = ()

    def complete(self, state: S, round: int, rows: Rows, params: Vector, ledger: Ledger) -> tuple[Rows, S]:
        """The rows of this round with those of earlier ones added."""
        return rows, state

    def bias(self, state: S) -> tuple[float, float]:
        """The sum of eta over the rows added in this round, and Lemma 3's bound on what they bias the step by."""
        return 0.0, 0.0

    def remember(self, state: S, reports: Sequence[ClientReport]) -> S:
        """Keep what is needed of this round's participants."""
        return state


class Scorer(Protocol):
    """How well a model does: what tasks and engines must say, and what some of them can say."""

    __slots__ = ()

    def evaluate(self, params: Vector, clients: Ids, measure: Measure = "both") -> Evals:
        """Loss and accuracy of `params` on each client's own data."""

    def probe(self, params: Vector, clients: Ids, samples: int, rng: np.random.Generator) -> FloatArray:
        """Mean loss on so many random samples of each client; on all of them if a task cannot choose."""
        return self.evaluate(params, clients, "loss").loss

    @property
    def validate(self) -> Callable[[Vector], float] | None:
        """Loss of a model on data that the server holds itself; None: it holds none."""
        return None


class Task(Scorer, Protocol):
    """What a client does with a model."""

    __slots__ = ()

    @property
    def num_clients(self) -> int:
        """How many clients hold data."""

    def init(self, rng: np.random.Generator) -> Vector:
        """The first model."""

    def train(self, job: Job) -> ClientReport:
        """Local training by `job.descents()`; the report's `delta` and `loss_before` are relative to `job.params`."""

    def accuracy(self, params: Vector) -> float | None:
        """Accuracy on shared test data; None: there is none."""
        return None

    def kept_accuracy(self, client: int, model: Vector) -> float | None:
        """Accuracy of a client's own model on its own test data; None: the task cannot tell."""
        return None

    def label_counts(self) -> NDArray[np.int64] | None:
        """Clients x labels: training samples; None: there are no labels."""
        return None

    def local_steps(self) -> FloatArray | None:
        """Gradient steps that one participation of each client takes; None: not known."""
        return None

    def recall(self, params: Vector) -> FloatArray | None:
        """Share of each label's test samples that the model recognises; None: there are no labels."""
        return None


@runtime_checkable
class TrainsMany(Protocol):
    """A task that trains a whole cohort as one computation."""

    def train_many(self, jobs: Sequence[Job]) -> list[ClientReport]:
        """The reports of all jobs, in their order."""


class Engine(Scorer, Protocol):
    """How a plan is carried out: in this process, over a network, or by a test double."""

    __slots__ = ()

    def available(self, round: int) -> Ids:
        """Who is online at the start of `round`."""

    def busy(self, round: int) -> Ids:
        """Who is online at the start of `round`, but still at work for an earlier one."""
        return NO_IDS

    def train(self, plan: RoundPlan) -> Iterable[ClientReport]:
        """Ask `plan.cohort`; reports may come in any order, late ones with their `origin`, and may be missing."""


class Observer(Protocol):
    """Told about every round after it is recorded."""

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        """One more round of `method` is done."""
