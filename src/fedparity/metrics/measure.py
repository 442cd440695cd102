"""What a measure is, and what it measures: the outcome of one method with one seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray

from fedparity.core.ledger import Ledger, Normaliser
from fedparity.core.reprs import brief
from fedparity.core.types import NO_FLOATS, FloatArray

NAN = float("nan")
Form: TypeAlias = Literal["fixed", "percent", "count", "brief"]
Scope: TypeAlias = Literal["counts", "utility", "model", "round", "cost", "time"]
Direction: TypeAlias = Literal["lower", "higher"]
LIMIT, AVOIDABLE = "_limit", "_avoidable"
SUFFIXES = {
    LIMIT: "the measure of the least unequal schedule that availability and the same filled slots allow",
    AVOIDABLE: "how much worse than that: measure - limit, or limit - measure where higher is better",
    "_sd": "standard deviation over seeds or draws",
}
"""What may stand behind a measure's name."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What one method left behind with one seed, as measures see it; also in the middle of a run."""

    ledger: Ledger
    cohort: int
    """Slots per round (m) that shares are compared with."""
    counts: NDArray[Any]
    """How often each client was served: those of the ledger, or of the limit."""
    limit: NDArray[Any] | None = None
    """The same for the least unequal schedule with as many slots filled."""
    online: NDArray[Any] | None = None
    """The same for the fairest schedule known that does not know the future; None: it was not computed."""
    fill_limit: float = NAN
    """Share of slots that any schedule could have filled."""
    opportunity_limit: float | None = None
    """Lowest CV of counts per round online; None: it was not computed."""
    test_accuracy: float = NAN
    """Of the global model on shared test data."""
    accuracy: FloatArray = field(default_factory=lambda: NO_FLOATS)
    """Of the global model on each client's test data; empty where the task has none."""
    kept_accuracy: FloatArray = field(default_factory=lambda: NO_FLOATS)
    """The same of the model that each client keeps, else of the global one."""
    influence: FloatArray = field(default_factory=lambda: NO_FLOATS)
    seconds_per_round: float = NAN
    late: tuple[float, float, float] = (NAN, NAN, NAN)
    """Mean and worst-tenth accuracy of clients and worst recall, averaged over the last tenth of the rounds."""
    recall: FloatArray = field(default_factory=lambda: NO_FLOATS)
    """Share of each label's test samples that the global model recognises; empty where the task does not say."""
    span_gap: float = NAN
    """Mean selection gap of spans in which everybody could be asked once."""
    round_seconds: float = NAN
    """How long a round waits for its slowest participant, on average; where devices are timed."""

    __repr__ = brief

    @classmethod
    def of(cls, ledger: Ledger, cohort: int, **more: Any) -> Outcome:
        """The outcome that a ledger tells."""
        return cls(ledger, cohort, ledger.selected, **more)

    @property
    def rounds(self) -> int:
        """Rounds done, at least 1: nothing was shared in none."""
        return max(1, self.ledger.rounds)

    def at_limit(self) -> Outcome | None:
        """The same availability, shared as evenly as it can be."""
        return None if self.limit is None else replace(self, counts=self.limit)


Of: TypeAlias = Callable[[Any], float]
"""From what is measured to the number: an `Outcome`, a `RoundRecord`, or what a run cost."""


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """One number: what it says, how it is computed and how it is shown."""

    name: str
    says: str
    """Definition in plain words, with its formula."""
    of: Of
    head: str
    """Heading of a narrow column."""
    title: str = ""
    """Heading where there is room; empty: `head`."""
    better: Direction | None = None
    form: Form = "fixed"
    digits: int = 3
    scope: Scope = "counts"
    limit: Callable[[Outcome], float | None] | None = None
    """Its value at the limit; None: it does not split."""
    normaliser: Normaliser | None = None
    """What cumulative utility is compared by."""

    def __repr__(self) -> str:
        return f"Measure({self.name!r}: {self.says})"

    @property
    def heading(self) -> str:
        """The long heading."""
        return self.title or self.head

    def parts(self, outcome: Outcome) -> Iterator[tuple[str, float]]:
        """Its value and, where it splits, limit and avoidable part, by name."""
        value = self.of(outcome)
        yield self.name, value
        best = None if self.limit is None else self.limit(outcome)
        if best is not None:
            yield f"{self.name}{LIMIT}", best
            yield f"{self.name}{AVOIDABLE}", best - value if self.better == "higher" else value - best
