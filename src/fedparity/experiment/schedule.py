"""Scheduling without training: which scheduler is fairest on a population, and how much fairer any could have been.

Draw d uses seed + d for the availability and for the scheduler, so two schedulers with one seed meet the same traces,
and their difference is paired. The limit of each draw is taken at the scheduler's own number of filled slots.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from fedparity.availability import AVAILABILITY
from fedparity.core import checks
from fedparity.core.coordinator import Coordinator, Text
from fedparity.core.errors import ConfigError
from fedparity.core.journal import Journal
from fedparity.core.ledger import Ledger
from fedparity.core.loop import run
from fedparity.core.protocols import Availability, Estimator, Scheduler
from fedparity.core.reprs import brief
from fedparity.core.rng import stream
from fedparity.core.trace import Trace
from fedparity.core.types import FloatArray, RoundRecord, Vector
from fedparity.engines import Intermittent, NoTraining
from fedparity.estimators import ORACLE, Oracle
from fedparity.metrics import MEASURES, Outcome, Table, cv, frontier, per_opportunity, weighted_frontier
from fedparity.metrics.measures import SCHEDULED
from fedparity.schedulers import SCHEDULERS, Fixed
from fedparity.schedulers.rollout import MOST_CLIENTS
from fedparity.utility import LossDrop

ONLINE = ("least_served", "parity", "rollout")
"""Schedulers without hindsight of which the fairest is the online limit, cheapest first."""
Target: TypeAlias = Literal["share", "opportunity", "utility"]
Progress: TypeAlias = Callable[[int], None]
"""Told how many rounds are done."""
EVERY = 0.1
"""Seconds after which progress within a draw is told again."""


@dataclass(frozen=True, slots=True)
class Gains:
    """What a participation is worth in a simulation without training: mu_k log-uniform between 1 and `spread`."""

    spread: float = 1.0
    """Ratio of the largest to the smallest expected utility gain per participation; 1: all alike."""
    noise: float = 0.3
    """Standard deviation of a gain around its client's mean, relative to it; higher makes gains harder to learn."""

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
    """Who is there: a model that draws one trace per draw, or one trace for all draws."""
    clients: int
    """How many clients there are (N)."""
    rounds: int
    """How many rounds a draw has (T)."""
    cohort: int
    """How many clients to ask per round (m)."""
    seed: int = 0
    """Start of the random numbers: draw d uses seed + d."""
    draws: int = 1
    """Repetitions with other random numbers; more give steadier means."""
    dropout: float = 0.0
    """Chance of an online client to leave before a round's end."""
    over_select: float = 0.0
    """Share of clients asked in addition, to make up for dropouts."""
    gains: Gains = field(default_factory=Gains)
    """What a participation is worth to each client, since nothing is trained."""
    estimator: Estimator[Any] | Literal["oracle"] | None = None
    """None: what each scheduler asks for; `oracle` knows each draw's trace."""

    __repr__ = brief

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
    """One realisation: what came of it, and the digest of everything that was decided."""

    outcome: Outcome
    journal_sha256: str

    __repr__ = brief


class _TimedJournal:
    """A journal that knows how long it took, so that it is not counted as scheduling; it tells progress, too."""

    def __init__(self, tell: Progress | None) -> None:
        self.journal = Journal(keep=False)
        self.seconds = 0.0
        self._tell, self._told = tell, time.perf_counter()

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        start = time.perf_counter()
        self.journal.on_round(method, record, ledger, params)
        if self._tell is not None and start - self._told >= EVERY:
            self._tell(ledger.rounds)
            self._told = start
        self.seconds += time.perf_counter() - start


def _opportunity_limit(trace: Trace, cohort: int) -> float:
    if not len(trace.clients):
        return 0.0
    best = weighted_frontier(trace, cohort, trace.rates(), "cv")
    return cv(per_opportunity(best.counts, trace.counts()))


def run_draw(
    setting: Setting, scheduler: Scheduler[Any], draw: int, by: Target, progress: Progress | None = None
) -> Draw:
    """One draw of `schedule`; `progress` hears of it now and then."""
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
    journal = _TimedJournal(progress)
    start = time.perf_counter()
    state = coordinator.init(setting.clients, watched=trace.before)
    state = run(coordinator, engine, setting.rounds, state=state, observers=[journal])
    seconds = (time.perf_counter() - start - journal.seconds) / setting.rounds
    ledger = state.ledger
    best = frontier(trace, coordinator.asked)
    outcome = Outcome.of(
        ledger,
        setting.cohort,
        limit=best.at_total(min(int(ledger.selected.sum()), best.total)).counts,
        fill_limit=best.total / (setting.cohort * setting.rounds),
        opportunity_limit=_opportunity_limit(trace, coordinator.asked) if by == "opportunity" else None,
        seconds_per_round=seconds,
    )
    return Draw(outcome, journal.journal.head())


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """The draws of one scheduler in one setting."""

    name: str
    setting: Setting
    draws: tuple[Draw, ...]
    hindsight: bool = False
    """Whether the scheduler, or its estimator, knows the draw's trace."""

    @property
    def filled(self) -> list[int]:
        """Slots filled in each draw."""
        return [int(d.outcome.counts.sum()) for d in self.draws]

    __repr__ = brief

    @property
    def journal_sha256(self) -> str:
        """One digest for everything that was decided in all draws."""
        return hashlib.sha256("".join(d.journal_sha256 for d in self.draws).encode()).hexdigest()

    def table(self) -> Table:
        """Every measure that needs no training, one number per draw."""
        return schedule_table([self])

    def means(self) -> dict[str, float | None]:
        """Mean over draws of every number, and its standard deviation under `_sd`; None where undefined."""
        return self.table().row(self.name)


def schedule_table(results: Sequence[Schedule]) -> Table:
    """Schedulers by measures, one number per draw: what is computed without training, and how long it took."""
    outcomes = {r.name: {r.setting.seed + d: draw.outcome for d, draw in enumerate(r.draws)} for r in results}
    return Table.of(outcomes, (*SCHEDULED, MEASURES["seconds_per_round"]))


def schedule(
    scheduler: Scheduler[Any] | Text,
    setting: Setting,
    *,
    name: str | None = None,
    workers: int = 1,
    progress: Progress | None = None,
    by: Target = "share",
) -> Schedule:
    """Run a scheduler over every draw of a setting; `workers` processes give the same bits as one.

    by="opportunity" also computes how even counts per round online could have been, which takes longer. `progress` is
    told how many rounds of all draws are done; with several processes after each draw.
    """
    checks.instance("setting", setting, Setting)
    checks.at_least("workers", workers, 1)
    checks.one_of("by", by, get_args(Target))
    name = name or (scheduler if isinstance(scheduler, str) else type(scheduler).__name__)
    scheduler = SCHEDULERS.of(scheduler)
    draws: list[Draw] = []
    for draw in _map(setting, scheduler, workers, by, progress):
        draws.append(draw)
        if progress is not None:
            progress(len(draws) * setting.rounds)
    return Schedule(name, setting, tuple(draws), isinstance(scheduler, Fixed) or setting.estimator == ORACLE)


def with_online_limit(results: Sequence[Schedule], *, workers: int = 1) -> tuple[list[Schedule], str]:
    """The same results beside what the fairest scheduler known reaches without hindsight, and its name.

    `ONLINE` and every result that does not know the trace are candidates; of those that fill as many slots as any, the
    one with the lowest mean Gini is taken. Who leaves slots empty can share the rest more evenly, but that is another
    limit: a draw that filled fewer has none.
    Nothing says that nobody could do better: it is what can be had today, where `limit` is what nobody can beat.
    """
    setting = results[0].setting
    blind = replace(setting, estimator=None if setting.estimator == ORACLE else setting.estimator)
    names = [name for name in ONLINE if name != "rollout" or setting.clients <= MOST_CLIENTS]
    found = [r for r in results if not r.hindsight]
    found += [schedule(n, blind, workers=workers) for n in names if n not in [r.name for r in found]]
    full = max(r.filled for r in found)
    best = min((r for r in found if r.filled == full), key=lambda r: r.means()["gini"] or 0.0)
    return [
        replace(r, draws=tuple(_beside(a, b) for a, b in zip(r.draws, best.draws, strict=True))) for r in results
    ], best.name


def _beside(draw: Draw, online: Draw) -> Draw:
    counts = online.outcome.counts
    alike = draw.outcome.counts.sum() == counts.sum()
    return replace(draw, outcome=replace(draw.outcome, online=counts if alike else None))


def _map(
    setting: Setting, scheduler: Scheduler[Any], workers: int, by: Target, progress: Progress | None
) -> Iterable[Draw]:
    numbers: Sequence[int] = range(setting.draws)
    if min(workers, setting.draws) == 1:
        for d in numbers:
            tell = None if progress is None else lambda rounds, d=d: progress(d * setting.rounds + rounds)
            yield run_draw(setting, scheduler, d, by, tell)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(partial(run_draw, setting, scheduler, by=by), numbers)
