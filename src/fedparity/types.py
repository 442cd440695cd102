"""The nouns: what passes between a scheduler, a coordinator and an engine.

Clients are numbered 0..N-1. An array of ids is sorted and free of repeats; an array aligned with it has an entry an id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fedparity.ledger import Ledger

Ids: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
Vector: TypeAlias = NDArray[np.float64]

Design: TypeAlias = Literal["exact", "deterministic", "unknown"]
"""What a cohort's `probs` are: exact inclusion probabilities of a draw, 1 since nothing was random, or unknown."""

NO_IDS: Ids = np.empty(0, dtype=np.int64)
NO_FLOATS: FloatArray = np.empty(0, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Cohort:
    """Who is asked, and with what probability each of them had been going to be."""

    clients: Ids
    probs: FloatArray
    design: Design
    wasted: int = 0
    """Slots spent on clients that were not there (only a scheduler that ignores availability has any)."""


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


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """What an engine is to carry out."""

    round: int
    seed: int
    available: Ids
    cohort: Cohort
    params: Vector
    starts: Mapping[int, Vector] = field(default_factory=dict)
    """Clients that start training from another model than `params`; their updates are still relative to `params`."""
    run: str = ""
    """Which run this is: part of the nonces that remote clients echo."""


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


@dataclass(frozen=True, slots=True)
class Evals:
    """How well one model does on the data of some clients."""

    clients: Ids
    loss: FloatArray
    accuracy: FloatArray


@dataclass(frozen=True, slots=True)
class Rows:
    """Updates to be weighted, one a row, in client order; a client may own a fresh and a stale row."""

    clients: Ids
    deltas: NDArray[np.float64]
    ages: NDArray[np.int64]
    """Rounds since the update was made: 0 is fresh."""
    sizes: FloatArray
    losses: FloatArray
    """Loss of the model that each client received."""
    probs: FloatArray
    """Inclusion probability given availability."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """What surrogates added for clients that were not there."""

    clients: Ids = field(default_factory=lambda: NO_IDS)
    utility: FloatArray = field(default_factory=lambda: NO_FLOATS)
    eta_sum: float = 0.0
    bias_bound: float = 0.0


@dataclass(frozen=True, slots=True)
class RoundRecord:
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
    surrogate: StandIn
    model_sha256: str
