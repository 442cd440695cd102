"""What a claim is: the statement as printed, what is assumed, an experiment that can refute it, and what came out.

holds              true under what is printed
needs-assumption   the same conclusion is true once something is assumed that is not printed
fails              the conclusion is false although everything printed is assumed; `corrected` says what is true

A claim is a frozen dataclass whose fields are the sizes and settings of its experiment, so that a test can break a rule
and see the verdict change. Its class constants are the texts.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from fedparity.core.types import FloatArray
from fedparity.metrics.paired import t_interval
from fedparity.paper.claims.plot import Picture

Verdict: TypeAlias = Literal["holds", "fails", "needs-assumption"]
DIGITS = 6
"""Significant digits of a figure in JSON: more would differ from one build of NumPy to the next."""
Z95 = 1.959964
"""Half the width of a 95 % interval, in standard errors, where draws are many."""
SEED = 20260213
"""Start of all random numbers of all claims."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What an experiment found."""

    as_stated: Verdict | None
    """None: the data that it takes are not there."""
    corrected_holds: bool | None
    """Whether the corrected statement held; None: there is none."""
    reason: str
    """Why, in one or two sentences with the figures."""
    evidence: Mapping[str, Any]
    """Every figure by name."""
    picture: Picture | None = None

    def __post_init__(self) -> None:
        if self.corrected_holds is not None:  # NumPy's False is not False
            object.__setattr__(self, "corrected_holds", bool(self.corrected_holds))


class Claim(ABC):
    """One statement of the paper."""

    id: ClassVar[str]
    where: ClassVar[str]
    """Where the paper says it."""
    statement: ClassVar[str]
    """As printed, in short."""
    assumptions: ClassVar[str]
    """What is printed as assumed."""
    corrected: ClassVar[str | None]
    """What is true instead, or what has to be assumed too."""
    method: ClassVar[str]
    """How it is examined: by enumeration, or by so many draws."""
    expected: ClassVar[Verdict]
    options: ClassVar[str] = ""
    """What its command needs besides its id."""

    @abstractmethod
    def examine(self) -> Finding:
        """Do the experiment."""

    def result(self) -> Result:
        """Do the experiment, and say how long it took."""
        start = time.perf_counter()
        found = self.examine()
        return Result(type(self), found, time.perf_counter() - start)


@dataclass(frozen=True, slots=True)
class Result:
    """A claim, what was found, and how long that took."""

    claim: type[Claim]
    found: Finding
    seconds: float

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the expected one; data that are not there refute nothing."""
        skipped = self.found.as_stated is None
        return skipped or (self.found.as_stated == self.claim.expected and self.found.corrected_holds is not False)

    def to_json(self, *, telemetry: bool = True) -> dict[str, Any]:
        """Plain values; without `telemetry` the same bytes every time."""
        claim, found = self.claim, self.found
        made = {
            "id": claim.id,
            "where": claim.where,
            "statement": claim.statement,
            "assumptions": claim.assumptions,
            "method": claim.method,
            "as_stated": found.as_stated,
            "expected": claim.expected,
            "corrected": claim.corrected,
            "corrected_holds": found.corrected_holds,
            "reason": found.reason,
            "command": f"fedparity claims {claim.id}{claim.options}",
            "evidence": plain(found.evidence),
        }
        return made | ({"seconds": round(self.seconds, 3)} if telemetry else {})


def plain(value: Any) -> Any:
    """Numbers of NumPy as Python's, floats to so many digits."""
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(part) for part in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
    return value


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over independent draws with its 95 % interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: FloatArray) -> Estimate:
        """Mean and Student's interval; of one draw nothing is known."""
        found = np.asarray(values, dtype=np.float64)
        low, high = t_interval(found) if len(found) > 1 else (-np.inf, np.inf)
        return cls(float(found.mean()), low, high)

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def to_json(self) -> dict[str, Any]:
        """Mean and interval."""
        return {"mean": self.mean, "ci95": [self.low, self.high]}
