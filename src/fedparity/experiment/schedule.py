"""Scheduling without training: which scheduler is fairest on a population, and how much fairer any could have been.

Draw d uses seed + d for the availability and for the scheduler, so two schedulers with one seed meet the same traces,
and their difference is paired. The limit of each draw is taken at the scheduler's own number of filled slots.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from fedparity.availability import AVAILABILITY
from fedparity.core import checks
from fedparity.core.coordinator import Coordinator, Text
from fedparity.core.errors import ConfigError
from fedparity.core.journal import Journal
from fedparity.core.ledger import Ledger
from fedparity.core.loop import run
from fedparity.core.protocols import Availability, Estimator, Scheduler
from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import FloatArray, RoundRecord, Vector
from fedparity.engines import Intermittent, NoTraining
from fedparity.estimators import ORACLE, Oracle
from fedparity.metrics import (
    CountSummary,
    Frontier,
    cv,
    frontier,
    per_opportunity,
    split,
    summarise_counts,
    weighted_frontier,
)
from fedparity.schedulers import SCHEDULERS
from fedparity.utility import LossDrop

Target: TypeAlias = Literal["share", "opportunity", "utility"]


@dataclass(frozen=True, slots=True)
class Gains:
    """What a participation is worth in a simulation without training: mu_k log-uniform between 1 and `spread`."""

    spread: float = 1.0
    noise: float = 0.3

    def __post_init__(self) -> None:
        checks.between("spread", self.spread, 1, 1e6)
        checks.not_negative("noise", self.noise)

    def draw(self, num_clients: int, seed: int) -> FloatArray:
        """mu_k of each client."""
        return np.asarray(np.exp(stream(seed, "gains").uniform(0, np.log(self.spread), num_clients)))


@dataclass(frozen=True, slots=True)
class Setting:
    """Everything but the scheduler: two results with one setting are comparable draw by draw."""

    availability: Availability | Trace | Text
    clients: int
    rounds: int
    cohort: int
    seed: int = 0
    draws: int = 1
    dropout: float = 0.0
    """Chance of an online client to leave before a round's end."""
    over_select: float = 0.0
    gains: Gains = field(default_factory=Gains)
    estimator: Estimator[Any] | Literal["oracle"] | None = None
    """None: what each scheduler asks for; `oracle` knows each draw's trace."""

    def __post_init__(self) -> None:
        if not isinstance(self.availability, Trace):
            object.__setattr__(self, "availability", AVAILABILITY.of(self.availability))
        for name in ("clients", "rounds", "cohort", "draws"):
            checks.at_least(name, getattr(self, name), 1)
        checks.not_negative("seed", self.seed)
        checks.between("dropout", self.dropout, 0, 1)
        if self.cohort > self.clients:
            raise ConfigError(
                f"cohort={self.cohort} but there are only {self.clients} clients; lower it to {self.clients}"
            )

    @property
    def watched(self) -> int:
        """Rounds that the server has seen before the first."""
        before = self.availability.before if isinstance(self.availability, Trace) else None
        return 0 if before is None else before.num_rounds

    def trace(self, draw: int) -> Trace:
        """Who is there in one draw."""
        if isinstance(self.availability, Trace):
            trace = self.availability
        else:
            trace = self.availability.draw(self.clients, self.rounds, self.seed + draw)
        if trace.num_clients != self.clients:
            raise ConfigError(f"clients={self.clients} but the trace has {trace.num_clients}; set it to that")
        if trace.num_rounds < self.rounds:
            raise ConfigError(f"rounds={self.rounds} but the trace has {trace.num_rounds}; lower it to that")
        trace = trace.head(self.rounds)
        return trace.with_dropout(self.dropout, stream(self.seed + draw, "dropout")) if self.dropout else trace


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """One realisation: what was given, what could not have been fairer."""

    served: CountSummary
    completed: CountSummary
    limit: CountSummary
    fill_limit: float
    opportunity_limit: float | None
    """Lowest CV of counts per round online, if it was asked for."""
    utility_cv: float
    """CV of u_k / pi_k over clients seen online."""
    counts: NDArray[np.int32]
    journal_sha256: str
    seconds_per_round: float


class _TimedJournal:
    """A journal that knows how long it took, so that it is not counted as scheduling."""

    def __init__(self) -> None:
        self.journal = Journal(keep=False)
        self.seconds = 0.0

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        start = time.perf_counter()
        self.journal.on_round(method, record, ledger, params)
        self.seconds += time.perf_counter() - start


def _limit(setting: Setting, trace: Trace, best: Frontier, total: int) -> CountSummary:
    counts = best.at_total(min(total, best.total)).counts
    return summarise_counts(counts, trace.counts(), setting.cohort, setting.rounds)


def _opportunity_limit(trace: Trace, cohort: int) -> float:
    if not len(trace.clients):
        return 0.0
    best = weighted_frontier(trace, cohort, trace.rates(), "cv")
    return cv(per_opportunity(best.counts, trace.counts()))


def run_draw(setting: Setting, scheduler: Scheduler[Any], draw: int, by: Target) -> Draw:
    """One draw of `schedule`."""
    trace = setting.trace(draw)
    coordinator = Coordinator(
        setting.cohort,
        seed=setting.seed + draw,
        scheduler=scheduler,
        estimator=Oracle(trace) if setting.estimator == ORACLE else setting.estimator,
        utility=LossDrop(bound=setting.gains.spread * (1 + 10 * setting.gains.noise)),
        over_select=setting.over_select,
        min_reports=0,
    )
    gains = setting.gains.draw(setting.clients, setting.seed + draw)
    engine = Intermittent(NoTraining(setting.clients, gains, setting.gains.noise), trace)
    journal = _TimedJournal()
    start = time.perf_counter()
    state = coordinator.init(setting.clients, watched=trace.before)
    state = run(coordinator, engine, setting.rounds, state=state, observers=[journal])
    seconds = (time.perf_counter() - start - journal.seconds) / setting.rounds
    ledger = state.ledger
    best = frontier(trace, coordinator.asked)
    return Draw(
        served=summarise_counts(ledger.selected, ledger.online, setting.cohort, setting.rounds),
        completed=summarise_counts(ledger.completed, ledger.online, setting.cohort, setting.rounds),
        limit=_limit(setting, trace, best, int(ledger.selected.sum())),
        fill_limit=best.total / (setting.cohort * setting.rounds),
        opportunity_limit=_opportunity_limit(trace, coordinator.asked) if by == "opportunity" else None,
        utility_cv=cv(ledger.normalised_utility()) if ledger.seen().any() else float("nan"),
        counts=ledger.selected,
        journal_sha256=journal.journal.head(),
        seconds_per_round=seconds,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """The draws of one scheduler in one setting."""

    name: str
    setting: Setting
    draws: tuple[Draw, ...]

    @property
    def journal_sha256(self) -> str:
        """One digest for everything that was decided in all draws."""
        return hashlib.sha256("".join(d.journal_sha256 for d in self.draws).encode()).hexdigest()

    def table(self) -> dict[str, list[float]]:
        """Every number, one entry a draw."""
        rows = [dict(_flat(draw)) for draw in self.draws]
        return {key: [row[key] for row in rows] for key in rows[0]}

    def means(self) -> dict[str, float | None]:
        """Mean over draws of every number, and its standard deviation under `_sd`; None where undefined."""
        out: dict[str, float | None] = {}
        for key, values in self.table().items():
            known = np.array([v for v in values if np.isfinite(v)])
            out[key] = float(known.mean()) if len(known) else None
            out[f"{key}_sd"] = float(known.std()) if len(known) else None
        return out


def _flat(draw: Draw) -> Iterator[tuple[str, float]]:
    yield "fill", draw.served.fill
    yield "fill_limit", draw.fill_limit
    for name, part in split(draw.served, draw.limit).items():
        yield name, part.value
        yield f"{name}_limit", part.unavoidable
        yield f"{name}_avoidable", part.avoidable
    for name, value in asdict(draw.served).items():
        if name in ("cv_per_opportunity", "never_available", "participation_std"):
            yield name, float(value)
    if draw.opportunity_limit is not None:
        yield "cv_per_opportunity_limit", draw.opportunity_limit
        yield "cv_per_opportunity_avoidable", draw.served.cv_per_opportunity - draw.opportunity_limit
    yield "utility_cv", draw.utility_cv
    yield "jain_utility", 1 / (1 + draw.utility_cv**2)
    yield "completed_selection_gap", draw.completed.selection_gap
    yield "completed_gini", draw.completed.gini
    yield "completed_never_served", float(draw.completed.never_served)
    yield "seconds_per_round", draw.seconds_per_round


def schedule(
    scheduler: Scheduler[Any] | Text,
    setting: Setting,
    *,
    name: str | None = None,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
    by: Target = "share",
) -> Schedule:
    """Run a scheduler over every draw of a setting; `workers` processes give the same bits as one.

    by="opportunity" also computes how even counts per round online could have been, which takes longer.
    """
    checks.at_least("workers", workers, 1)
    checks.one_of("by", by, get_args(Target))
    name = name or (scheduler if isinstance(scheduler, str) else type(scheduler).__name__)
    scheduler = SCHEDULERS.of(scheduler)
    draws: list[Draw] = []
    for draw in _map(setting, scheduler, workers, by):
        draws.append(draw)
        if progress is not None:
            progress(len(draws))
    return Schedule(name, setting, tuple(draws))


def _map(setting: Setting, scheduler: Scheduler[Any], workers: int, by: Target) -> Iterable[Draw]:
    numbers: Sequence[int] = range(setting.draws)
    if min(workers, setting.draws) == 1:
        yield from (run_draw(setting, scheduler, d, by) for d in numbers)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(partial(run_draw, setting, scheduler, by=by), numbers)
