"""The nouns: what passes between a scheduler, a coordinator and an engine.

Clients are numbered 0..N-1. An array of ids is sorted and free of repeats; one aligned with it has one entry per id.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedparity.core.reprs import brief
from fedparity.core.rng import stream

if TYPE_CHECKING:
    from fedparity.core.ledger import Ledger
    from fedparity.core.protocols import Local

Ids: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
Vector: TypeAlias = NDArray[np.floating[Any]]
"""A model or an update, flat: float32 or float64, whichever the task works in."""

Design: TypeAlias = Literal["exact", "deterministic", "unknown"]
"""What a cohort's `probs` are: exact inclusion probabilities of a draw, 1 since nothing was random, or unknown."""

ReportField: TypeAlias = Literal["loss_before", "loss_after", "accuracy_before", "loss_rms", "prototypes"]
"""What a report may hold beside the update: each costs the client a pass over its data, so it is computed if asked."""

NO_IDS: Ids = np.empty(0, dtype=np.int64)
NO_FLOATS: FloatArray = np.empty(0, dtype=np.float64)


def slots_per_round(cohort: int, over_select: float) -> int:
    """How many clients a round asks: the cohort, and the share beyond it that makes up for dropouts."""
    return cohort + math.ceil(cohort * over_select)


@dataclass(frozen=True, slots=True)
class Cohort:
    """The clients selected for a round, with their inclusion probabilities."""

    clients: Ids
    probs: FloatArray
    design: Design
    wasted: int = 0
    """Slots spent on clients that were not there (only a scheduler that ignores availability has any)."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class RoundView:
    """All that a scheduler may look at: what the server itself has seen."""

    round: int
    rounds_left: int | None
    """Rounds after this one, if the run's length is known."""
    cohort: int
    """How many clients to ask."""
    available: Ids
    pi: FloatArray
    """Estimated availability of the available clients, this round included."""
    remaining: FloatArray | None
    """Rounds after this one in which each available client is expected online, if the run's length is known."""
    ledger: Ledger
    """Everything recorded before this round."""
    losses: Callable[[Ids, int], FloatArray] | None = None
    """Loss of the model as it is now on clients' own data, or on so many random samples of it (0: all)."""
    expected: Callable[[int], FloatArray] | None = None
    """In how many of the next so many rounds each available client is expected online."""
    futures: Callable[[int, int, np.random.Generator], BoolArray] | None = None
    """Who might be online in the next so many rounds, so many samples of it: rounds x samples x all clients."""
    labels: NDArray[np.int64] | None = None
    """Clients x labels: how many samples of each label every client has said it holds, if that is known."""
    whole: RoundView | None = None
    """The view before a wrapper hid clients or slots from the scheduler inside; None: nothing is hidden."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """What an engine is to carry out."""

    round: int
    seed: int
    available: Ids
    cohort: Cohort
    params: Vector
    """The model that is sent out: updates are relative to it, wherever training starts."""
    run: str = ""
    """Which run this is: part of the nonces that remote clients echo."""
    local: Local | None = None
    """How clients train; None: plainly."""
    kept: Mapping[int, Vector] = field(default_factory=dict)
    """What each asked client kept from its last round, for rules that keep something."""
    rate: float = 1.0
    """What the task's learning rate is multiplied by in this round."""
    report_fields: frozenset[ReportField] = frozenset({"loss_before", "loss_after", "accuracy_before"})
    """What reports are to hold beside the update."""
    busy: Ids = field(default_factory=lambda: NO_IDS)
    """Who is online but still at work for an earlier round, and so cannot be asked."""
    key: bytes = field(default=b"", repr=False)
    """What nonces are keyed with (`gate.nonce`); empty: anybody can compute them."""
    deadline: float | None = None
    """Seconds that an engine with a clock waits for reports; None: until all are there."""
    enough: int | None = None
    """With so many updates an engine with a clock waits no longer; None: it waits for all that were asked."""
    min_reports: int = 1
    """With fewer usable reports the round is abandoned."""

    __repr__ = brief

    def job(self, client: int) -> Job:
        """What one of the asked clients is to do."""
        kept = self.kept.get(client)
        return Job(self.round, self.seed, client, self.params, self.local, kept, self.rate, self.report_fields)


JointLoss: TypeAlias = Callable[[Sequence[Any], Any], Any]
"""joint(logits of each model, labels): one loss that several models learn from together."""


class Descent(NamedTuple):
    """One local training: where it starts, and what it is pulled towards."""

    start: Vector
    pull: float = 0.0
    """pull/2 |w - centre|^2 is added to the loss."""
    centre: Vector | None = None
    """None: the model received."""

    def __repr__(self) -> str:
        return brief(self)


@dataclass(frozen=True, slots=True)
class Job:
    """What one client is to do: train as its rule says, and say how far it came from `params`, the model it received.

    A task trains `descents()` in their order, with the random numbers of one `rng()`, or all at once if there is a
    `joint` loss, and answers with `report`.
    """

    round: int
    seed: int
    client: int
    params: Vector
    local: Local | None = None
    kept: Vector | None = None
    rate: float = 1.0
    report_fields: frozenset[ReportField] = frozenset({"loss_before", "loss_after", "accuracy_before"})
    place: int | None = None
    """Where the client's data lies in the task; None: at the client's number, as where one task holds everybody's."""

    __repr__ = brief

    @property
    def row(self) -> int:
        """Where the client's data lies in the task; its random numbers are keyed by `client` all the same."""
        return self.client if self.place is None else self.place

    def rng(self) -> np.random.Generator:
        """The random numbers of this client in this round: the same whoever else trains, in whatever order."""
        return stream(self.seed, "train", self.round, self.client)

    def descents(self) -> Sequence[Descent]:
        """The trainings of this round: the first makes the update, the others what lies beside it."""
        return (Descent(self.params),) if self.local is None else self.local.descents(self.kept, self.params)

    @property
    def joint(self) -> JointLoss | None:
        """The loss that all descents share; None: each has the task's own."""
        return None if self.local is None else self.local.joint

    def report(self, delta: Vector, beside: Sequence[tuple[Vector, Vector]], **told: Any) -> ClientReport:
        """What the client sends.

        `delta` is where the first descent ended less `params`, `beside` is where each other one started and ended.
        """
        kept = None
        if self.local is not None:
            delta, kept = self.local.outcome(self.kept, delta, beside)
        return ClientReport(self.client, delta, kept=kept, **told)


@dataclass(frozen=True, slots=True)
class Prototypes:
    """What a client's data looks like to the last layer: the mean of each label's features, and how many there are."""

    features: NDArray[np.float64]
    """Labels x features; zeros for a label the client does not hold."""
    counts: Ids
    head: int | None = None
    """Where the last layer begins in the model's vector, weights row by row and then biases; None: it ends it."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class ClientReport:
    """What one asked client sent back: an update, or the reason why there is none."""

    client: int
    delta: Vector | None = None
    num_samples: int = 1
    loss_before: float = float("nan")
    """Loss on the client's own data of the model it received."""
    loss_after: float = float("nan")
    accuracy_before: float = float("nan")
    failure: str | None = None
    seconds: float = 0.0
    """Telemetry: never part of a result."""
    nonce: str | None = None
    """What a remote client echoes of its plan (`gate.nonce`); None: the report never left this process."""
    loss_rms: float = float("nan")
    """Root mean square over the client's samples of their losses under the model it received."""
    duration: float = float("nan")
    """Seconds that the client says it took: unlike `seconds` an input to schedulers, so it is journalled."""
    kept: Vector | None = None
    """What a simulated client wants kept for its next round."""
    prototypes: Prototypes | None = None
    origin: int | None = None
    """The round it was asked in, if that is an earlier one; None: this round."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Evals:
    """How well one model does on the data of some clients."""

    clients: Ids
    loss: FloatArray
    accuracy: FloatArray
    credit: FloatArray | None = None
    """What the utility rule would credit each of them with; None if it does not say or cannot know."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Rows:
    """Updates to be weighted, one per row, in client order; a client may own a fresh and a stale row."""

    clients: Ids
    deltas: Sequence[Vector]
    """One update per row: a matrix, or vectors that may lie on disk; `fedparity.core.rows` computes with them."""
    ages: NDArray[np.int64]
    """Rounds since the update was made: 0 is fresh."""
    sizes: FloatArray
    losses: FloatArray
    """Loss of the model that each client received."""
    probs: FloatArray
    """Inclusion probability given availability."""
    rate: float = 1.0
    """What clients' learning rates are multiplied by in this round."""
    rates: FloatArray | None = None
    """What they were multiplied by when each update was made; None: as in this round."""
    shares: FloatArray | None = None
    """Share of all samples that each client of the population holds; None: clients have not said what they hold."""

    __repr__ = brief

    def only(self, kept: BoolArray) -> Rows:
        """Some of the rows."""
        columns = {name: getattr(self, name)[kept] for name in ("clients", "ages", "sizes", "losses", "probs")}
        deltas = [self.deltas[at] for at in np.flatnonzero(kept).tolist()]
        return replace(self, deltas=deltas, rates=None if self.rates is None else self.rates[kept], **columns)


@dataclass(frozen=True, slots=True)
class SurrogateCredit:
    """What surrogates added for clients that were not there."""

    clients: Ids = field(default_factory=lambda: NO_IDS)
    utility: FloatArray = field(default_factory=lambda: NO_FLOATS)
    eta_sum: float = 0.0
    bias_bound: float = 0.0
    """Lemma 3: eps * sum of eta; NaN where eps is not known."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class LateCredit:
    """Updates that were asked for in earlier rounds and came in time for this one: they are stale rows of its step."""

    clients: Ids = field(default_factory=lambda: NO_IDS)
    origins: Ids = field(default_factory=lambda: NO_IDS)
    """The round in which each was asked."""
    utility: FloatArray = field(default_factory=lambda: NO_FLOATS)
    loss: FloatArray = field(default_factory=lambda: NO_FLOATS)

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Credit:
    """Utility by client, those with none left out."""

    clients: Ids = field(default_factory=lambda: NO_IDS)
    utility: FloatArray = field(default_factory=lambda: NO_FLOATS)

    __repr__ = brief


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What the record of a round holds only where a run has it: journal lines without it keep their bytes."""

    duration: FloatArray = field(default_factory=lambda: NO_FLOATS)
    """Seconds that each of `completed` took; NaN: that client did not say; empty: nobody did."""
    others: Credit = field(default_factory=Credit)
    """Utility of clients that did not take part, by rules that credit all."""
    joined: Ids = field(default_factory=lambda: NO_IDS)
    """Who registered since the round before; in a closed population everybody did before the first."""
    busy: Ids = field(default_factory=lambda: NO_IDS)
    """Who was online, but still at work for an earlier round."""
    late: LateCredit = field(default_factory=LateCredit)
    notes: tuple[str, ...] = ()
    """What was done to the round to keep it safe: why it was abandoned, how many weights were capped."""
    totals: Mapping[str, list[Any]] | None = None
    """Not None: an erasure left of the rounds up to here only what each client had in all, columns of the ledger, which
    stand in the last of those rounds."""

    @property
    def told(self) -> bool:
        """Whether the record says who took part."""
        return self.totals is None


@dataclass(frozen=True, slots=True)
class RoundRecord(Extras):
    """One round as it is journalled: enough to rebuild the ledger, and to say whose data moved the model."""

    round: int
    available: Ids
    selected: Ids
    probs: FloatArray
    design: Design
    wasted: int
    completed: Ids
    utility: FloatArray
    """Credited utility, aligned with `completed`."""
    loss: FloatArray
    """Last known loss, aligned with `completed`."""
    failed: tuple[tuple[int, str], ...]
    abandoned: bool
    row_clients: Ids
    row_ages: NDArray[np.int64]
    row_weights: FloatArray
    surrogate: SurrogateCredit
    model_sha256: str

    __repr__ = brief
