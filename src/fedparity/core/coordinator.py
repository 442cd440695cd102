"""One fair round: whom to ask, and what to make of the answers. It does no input or output of its own.

    plan(state, available)        -> RoundPlan, State      estimator -> scheduler
    absorb(state, plan, reports)  -> RoundRecord, State    gate -> weighting -> step -> utility -> surrogate -> ledger

A state is handed over: whoever passes one in goes on with the one returned (`State.copy()` keeps one). Reports may come
in any order, twice, or not at all; sums run in client order, so the result is the same to the bit.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.errors import ConfigError, RoundError
from fedparity.core.gate import Gate
from fedparity.core.ledger import Ledger
from fedparity.core.marks import PER_CLIENT
from fedparity.core.protocols import (
    Estimator,
    Evaluate,
    Feedback,
    Learner,
    Local,
    Scheduler,
    Server,
    Surrogate,
    Utility,
    Weighting,
)
from fedparity.core.rng import stream
from fedparity.core.rows import combine
from fedparity.core.spill import GIGABYTE, SpillFile
from fedparity.core.trace import Trace
from fedparity.core.types import (
    NO_FLOATS,
    NO_IDS,
    ClientReport,
    Cohort,
    Evals,
    FloatArray,
    Ids,
    ReportField,
    RoundPlan,
    RoundRecord,
    RoundView,
    Rows,
    SurrogateCredit,
    Vector,
)
from fedparity.estimators import Forecast, RunningMean
from fedparity.local.rules import Plain
from fedparity.schedulers import Parity
from fedparity.servers import Sgd
from fedparity.servers.rate_schedules import Constant, RateSchedule
from fedparity.surrogates import NoSurrogate
from fedparity.utility import LossDrop
from fedparity.weightings import Mean

NO_REPLY = "no reply"
AT_ODDS = "two updates that differ"


@dataclass(slots=True)
class State:
    """All memory of a run between two rounds: a checkpoint is a saved State.

    A component whose memory is a bare array has one entry per client in it.
    """

    round: int
    params: Vector
    ledger: Ledger
    estimator: Any = field(metadata=PER_CLIENT)
    scheduler: Any = field(metadata=PER_CLIENT)
    weighting: Any = field(metadata=PER_CLIENT)
    utility: Any = field(metadata=PER_CLIENT)
    surrogate: Any = field(metadata=PER_CLIENT)
    client_models: dict[int, Vector] = field(metadata=PER_CLIENT)
    """What each client keeps of its own: its last model when models are mixed, or what the local rule keeps."""
    server: Any = None

    def copy(self) -> State:
        """An independent snapshot."""
        return copy.deepcopy(self)


@dataclass(frozen=True, slots=True)
class Coordinator:
    """A method: independent choices that make up a round."""

    cohort: int
    """How many clients to ask a round (m)."""
    seed: int = 0
    scheduler: Scheduler[Any] = field(default_factory=Parity)
    estimator: Estimator[Any] | None = None
    """How availability is estimated; None: a forecast for a scheduler that looks ahead, else the running mean."""
    weighting: Weighting[Any] = field(default_factory=Mean)
    utility: Utility[Any] = field(default_factory=LossDrop)
    surrogate: Surrogate[Any] = field(default_factory=NoSurrogate)
    server: Server[Any] = field(default_factory=Sgd)
    """How the model moves along weights @ updates."""
    local: Local = field(default_factory=Plain)
    """How clients train, and what they keep."""
    local_rate: RateSchedule = field(default_factory=Constant)
    """What clients' learning rates are multiplied by, round by round."""
    mixing: float = 1.0
    """Algorithm 2's a: a client starts from (1 - a) times its own last model plus a times the global one."""
    gate: Gate = field(default_factory=Gate)
    """What a report must satisfy to be used."""
    run: str = ""
    """Which run this is: nonces of another run are refused."""
    over_select: float = 0.0
    """Ask this share more than `cohort`, for the dropouts; every report that comes is used."""
    min_reports: int = 1
    """With fewer usable reports the round is abandoned: the model stays and nobody is credited."""
    client_ram: int = GIGABYTE
    """Bytes of what clients keep of their own that are held in memory; the rest lies in temporary files."""
    labels: NDArray[np.int64] | None = None
    """Clients x labels: samples of each label that every client has said it holds, for rules that cover labels."""
    spill: SpillFile = field(default_factory=SpillFile, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        checks.at_least("cohort", self.cohort, 1)
        checks.between("mixing", self.mixing, 0, 1)
        checks.at_least("client_ram", self.client_ram, 0)
        if self.mixing < 1 and self.local.keeps:
            raise ConfigError(
                f"mixing={self.mixing} but the local rule {type(self.local).__name__} keeps something of its own;"
                " leave mixing at 1"
            )
        checks.between("over_select", self.over_select, 0, 10)
        checks.at_least("min_reports", self.min_reports, 0)
        if self.min_reports > self.asked:
            raise ConfigError(
                f"min_reports={self.min_reports} but only {self.asked} are asked; lower it or raise cohort"
            )

    @property
    def estimator_in_use(self) -> Estimator[Any]:
        """The estimator in use."""
        if self.estimator is not None:
            return self.estimator
        return Forecast() if getattr(self.scheduler, "forecasts", False) else RunningMean()

    @property
    def report_fields(self) -> frozenset[ReportField]:
        """What the rules in use need to know from a client beside its update."""
        parts = (self.scheduler, self.weighting, self.utility, self.surrogate)
        return frozenset(want for part in parts for want in getattr(part, "report_fields", ()))

    @property
    def asked(self) -> int:
        """How many clients are asked, over-selection included."""
        return self.cohort + math.ceil(self.cohort * self.over_select)

    def init(self, num_clients: int, params: Vector | None = None, watched: Trace | None = None) -> State:
        """The state before the first round; without `params` there is no model, only bookkeeping.

        `watched` is who was online in rounds before the first: the estimator has seen them, the ledger begins empty.
        """
        checks.at_least("clients", num_clients, 1)
        if self.cohort > num_clients:
            raise ConfigError(
                f"cohort={self.cohort} but there are only {num_clients} clients; lower it to {num_clients}"
            )
        model = np.zeros(0) if params is None else np.array(params)
        if model.dtype not in (np.float32, np.float64):
            model = model.astype(np.float64)
        estimator = self.estimator_in_use.init(num_clients)
        if watched is not None and not getattr(self.estimator_in_use, "hindsight", False):
            for t in range(watched.num_rounds):
                estimator = self.estimator_in_use.observe(estimator, watched.online(t))
        return State(
            round=0,
            params=model,
            ledger=Ledger.empty(num_clients),
            estimator=estimator,
            scheduler=self.scheduler.init(num_clients),
            weighting=self.weighting.init(num_clients),
            utility=self.utility.init(num_clients),
            surrogate=self.surrogate.init(num_clients),
            client_models={},
            server=self.server.init(len(model)),
        )

    def plan(
        self,
        state: State,
        available: Ids,
        rounds_left: int | None = None,
        losses: Callable[[Vector, Ids, int], FloatArray] | None = None,
    ) -> tuple[RoundPlan, State]:
        """Whom to ask in this round, given who is there.

        `losses(params, clients, samples)` is asked only by schedulers that choose by the loss of the model as it is.
        """
        estimator = self.estimator_in_use
        state.estimator = estimator.observe(state.estimator, available)
        remaining = None
        if rounds_left is not None:
            remaining = estimator.remaining(state.estimator, available, rounds_left)
        view = RoundView(
            state.round,
            rounds_left,
            self.asked,
            available,
            estimator.estimate(state.estimator, available),
            remaining,
            state.ledger,
            losses=None if losses is None else lambda ids, samples: losses(state.params, ids, samples),
            expected=lambda rounds: estimator.remaining(state.estimator, available, rounds),
            labels=self.labels,
        )
        rng = stream(self.seed, "select", state.round)
        cohort, state.scheduler = self.scheduler.select(state.scheduler, view, rng)
        asked = cohort.clients.tolist()
        own = {client: state.client_models[client] for client in asked if client in state.client_models}
        plan = RoundPlan(
            round=state.round,
            seed=self.seed,
            available=available,
            cohort=cohort,
            params=state.params,
            starts={client: self._start(kept, state.params) for client, kept in own.items()},
            run=self.run,
            local=self.local,
            own=own if self.local.keeps else {},
            rate=self.local_rate.scale(state.round),
            report_fields=self.report_fields,
        )
        return plan, state

    def _start(self, own: Vector, params: Vector) -> Vector:
        if self.local.keeps:
            return self.local.start(own, params)
        return ((1 - self.mixing) * own + self.mixing * params).astype(params.dtype, copy=False)

    def absorb(
        self,
        state: State,
        plan: RoundPlan,
        reports: Iterable[ClientReport],
        evaluate: Evaluate | None = None,
        validate: Callable[[Vector], float] | None = None,
    ) -> tuple[RoundRecord, State]:
        """Take in what came back, step the model, credit the clients and write it all down.

        `evaluate(params, clients)` is asked only by rules that need the new model's loss on clients' data,
        `validate(params)` only by those that try models out on data of the server's own.
        """
        if plan.round != state.round:
            raise RoundError(
                f"plan is of round {plan.round} but the state is at round {state.round}; absorb plans in order"
            )
        used, failed = _sort_out(self.gate, plan, reports)
        abandoned = len(used) < self.min_reports
        if abandoned:
            used = []
        rows, weights = self._step(state, plan, used)
        completed = np.array([r.client for r in used], dtype=np.int64)
        utility, loss = self._credit(state, completed, used, evaluate)
        stand_in = self._stand_in(state, plan, evaluate)
        if used:
            state.surrogate = self.surrogate.remember(state.surrogate, used, utility)
        record = RoundRecord(
            round=plan.round,
            available=plan.available,
            selected=plan.cohort.clients,
            probs=plan.cohort.probs,
            design=plan.cohort.design,
            wasted=plan.cohort.wasted,
            completed=completed,
            utility=utility,
            loss=loss,
            failed=failed,
            abandoned=abandoned and len(plan.cohort.clients) > 0,
            row_clients=rows.clients,
            row_ages=rows.ages,
            row_weights=weights,
            surrogate=stand_in,
            model_sha256=hashlib.sha256(state.params.tobytes()).hexdigest(),
        )
        state.ledger.record(record)
        if isinstance(self.scheduler, Learner):
            feedback = Feedback(plan.round, plan.params, used, state.ledger, validate)
            state.scheduler = self.scheduler.learn(state.scheduler, feedback)
        state.round += 1
        return record, state

    def _step(self, state: State, plan: RoundPlan, used: list[ClientReport]) -> tuple[Rows, FloatArray]:
        rows, state.surrogate = self.surrogate.complete(
            state.surrogate, plan.round, _rows(plan, used), plan.params, state.ledger
        )
        weights, state.weighting = self.weighting.weigh(state.weighting, rows, state.ledger)
        if len(rows.clients):
            update = combine(weights, rows.deltas, len(state.params))
            state.params, state.server = self.server.step(state.server, state.params, update, plan.round)
        for report in used:
            kept = self._keep(plan, report, state.params)
            if kept is not None:
                state.client_models[report.client] = kept
        if state.client_models:
            self.spill.settle(state.client_models, self.client_ram)
        return rows, weights

    def _keep(self, plan: RoundPlan, report: ClientReport, result: Vector) -> Vector | None:
        if self.local.keeps:
            return self.local.keep(plan.params, report, result)
        return plan.params + report.delta if self.mixing < 1 and report.delta is not None else None

    def _credit(
        self, state: State, completed: Ids, used: list[ClientReport], evaluate: Evaluate | None
    ) -> tuple[FloatArray, FloatArray]:
        if not used:
            return NO_FLOATS, NO_FLOATS
        evals: Evals | None = None
        if self.utility.needs_evaluation and evaluate is not None:
            evals = evaluate(state.params, completed)
        utility, loss, state.utility = self.utility.credit(state.utility, used, state.ledger, evals)
        return utility, np.where(np.isfinite(loss), loss, np.nan)  # a diverged model has no known loss

    def _stand_in(self, state: State, plan: RoundPlan, evaluate: Evaluate | None) -> SurrogateCredit:
        score = None if evaluate is None else lambda clients: evaluate(state.params, clients)
        stand_in, state.surrogate = self.surrogate.stand_in(
            state.surrogate, plan.round, plan.available, state.ledger, score
        )
        return stand_in


def _sort_out(
    gate: Gate, plan: RoundPlan, reports: Iterable[ClientReport]
) -> tuple[list[ClientReport], tuple[tuple[int, str], ...]]:
    """Usable reports in client order, and why each other asked client has none.

    A report that comes twice counts once and an update outdoes a failure signal; of two updates that differ neither is
    used, since which of them came first would depend on the network.
    """
    reasons: dict[int, set[str]] = {int(client): set() for client in plan.cohort.clients}
    usable: dict[int, ClientReport] = {}
    at_odds: set[int] = set()
    for report in reports:
        if report.client not in reasons:
            continue
        reason = gate.refusal(report, plan)
        if reason is not None:
            reasons[report.client].add(reason)
        elif (first := usable.setdefault(report.client, report)) is not report and _content(first) != _content(report):
            at_odds.add(report.client)
    failed = {k: min(why, default=NO_REPLY) for k, why in reasons.items() if k not in usable}
    failed |= dict.fromkeys(at_odds, AT_ODDS)
    return [usable[k] for k in sorted(usable) if k not in at_odds], tuple(sorted(failed.items()))


def _content(report: ClientReport) -> tuple[object, ...]:
    """What a report says, bit by bit; how long it took is left out."""
    numbers = (report.num_samples, report.loss_before, report.loss_after, report.accuracy_before)
    return None if report.delta is None else report.delta.tobytes(), repr(numbers)


def _rows(plan: RoundPlan, used: list[ClientReport]) -> Rows:
    if not used:
        return Rows(NO_IDS, (), NO_IDS, NO_FLOATS, NO_FLOATS, NO_FLOATS)
    clients = np.array([r.client for r in used], dtype=np.int64)
    cohort: Cohort = plan.cohort
    return Rows(
        clients=clients,
        deltas=[np.asarray(r.delta) for r in used],
        ages=np.zeros(len(used), dtype=np.int64),
        sizes=np.array([r.num_samples for r in used], dtype=np.float64),
        losses=np.array([r.loss_before for r in used], dtype=np.float64),
        probs=cohort.probs[np.searchsorted(cohort.clients, clients)],
    )
