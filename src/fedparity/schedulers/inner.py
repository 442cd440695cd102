"""What wrappers share: the scheduler inside, a view of fewer clients, and who was asked lately.

A wrapper changes whom a scheduler may choose, never how it chooses: what is wanted from reports and needed in a view,
forecast and learnt is that of the scheduler inside. In a spec the inner scheduler is a table:
`{name = "with_quota", inner = {name = "parity", target = "share", ratio = 2}, quota = 1.5}`. In text its parameters are
separated by `;`, those of one further in by `;;`, and so on: `with_quota:inner=parity:target=share;ratio=2,quota=1.5`.
The outermost wrapper has the last word: put the one whose promise must hold outside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from fedparity.core.errors import ConfigError
from fedparity.core.ledger import Ledger
from fedparity.core.marks import CLIENT_NUMBERS, PER_CLIENT
from fedparity.core.protocols import Feedback, Learner, Scheduler
from fedparity.core.types import BoolArray, Ids, ReportField, RoundView

Recent: TypeAlias = tuple[Ids, ...]
"""Whom the last rounds asked, oldest first."""


@dataclass(slots=True)
class Watched:
    """The inner scheduler's memory, and whom the last rounds asked."""

    inner: Any = field(metadata=PER_CLIENT)
    recent: Recent = field(default=(), metadata=CLIENT_NUMBERS)

    def times(self, num_clients: int) -> NDArray[np.int64]:
        """How often each client was asked in those rounds."""
        return np.bincount(np.concatenate([*self.recent, np.empty(0, np.int64)]), minlength=num_clients)

    def add(self, clients: Ids, window: int) -> None:
        """Take in one more round and keep the last `window`."""
        self.recent = (*self.recent, clients)[-window:] if window else ()


@dataclass(frozen=True, slots=True)
class Wrapper(Scheduler[Any]):
    """A scheduler around another, given as text, as a table or as an object."""

    inner: str | Mapping[str, Any] | Scheduler[Any] = "uniform"
    """The scheduler inside: an object, a table, or text whose parameters are separated by `;` instead of commas."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "inner", _built(self.inner))

    @property
    def policy(self) -> Scheduler[Any]:
        """The scheduler inside."""
        return cast("Scheduler[Any]", self.inner)

    @property
    def report_fields(self) -> tuple[ReportField, ...]:
        """What reports must hold for the scheduler inside."""
        return self.policy.report_fields

    @property
    def requires(self) -> tuple[str, ...]:
        """What a view must hold for the scheduler inside."""
        return self.policy.requires

    @property
    def forecasts(self) -> bool:
        """Whether the scheduler inside looks ahead."""
        return self.policy.forecasts

    def learn(self, state: Any, feedback: Feedback) -> Any:
        """As the inner scheduler does."""
        state.inner = self.taught(state.inner, feedback)
        return state

    def taught(self, state: Any, feedback: Feedback) -> Any:
        """The inner state after a round, if the scheduler inside learns."""
        return self.policy.learn(state, feedback) if isinstance(self.policy, Learner) else state


def _built(inner: str | Mapping[str, Any] | Scheduler[Any]) -> Scheduler[Any]:
    if isinstance(inner, (str, Mapping)):
        from fedparity.schedulers import SCHEDULERS

        return SCHEDULERS.of(re.sub(r";+", lambda run: run[0][1:] or ",", inner) if isinstance(inner, str) else inner)
    if not isinstance(inner, Scheduler):
        raise ConfigError(f"inner={inner!r} must be a scheduler, or the text of one such as 'parity:target=share'")
    return inner


def counted(ledger: Ledger, window: int) -> BoolArray:
    """Who is of the population; who registered during the run is if it stayed a window and was seen in the last."""
    if ledger.since is None:
        return np.ones(ledger.num_clients, dtype=np.bool_)
    lately = ledger.rounds - window
    stayed = (ledger.last_online >= lately) & (ledger.last_online - ledger.since >= window)
    return np.asarray((ledger.since == 0) | stayed)  # names alone dilute nothing


def only(view: RoundView, kept: BoolArray, cohort: int) -> RoundView:
    """The view with only those of the available that are `kept`; itself, if nothing changes."""
    if kept.all() and cohort == view.cohort:
        return view
    expected = view.expected
    return replace(
        view,
        cohort=cohort,
        available=view.available[kept],
        pi=view.pi[kept],
        remaining=None if view.remaining is None else view.remaining[kept],
        expected=None if expected is None else lambda rounds: expected(rounds)[kept],
    )
