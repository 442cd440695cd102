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
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedparity import checks
from fedparity.availability import Forecast, RunningMean
from fedparity.errors import ConfigError, RoundError
from fedparity.gate import Gate
from fedparity.ledger import Ledger
from fedparity.protocols import Estimator, Evaluate, Scheduler, Surrogate, Utility, Weighting
from fedparity.rng import stream
from fedparity.schedulers import Parity
from fedparity.surrogates import NoSurrogate
from fedparity.types import (
    NO_FLOATS,
    NO_IDS,
    ClientReport,
    Cohort,
    Evals,
    FloatArray,
    Ids,
    RoundPlan,
    RoundRecord,
    RoundView,
    Rows,
    StandIn,
    Vector,
)
from fedparity.utility import LossDrop
from fedparity.weightings import Mean

NO_REPLY = "no reply"
AT_ODDS = "two updates that differ"


@dataclass(slots=True)
class State:
    """All memory of a run between two rounds: a checkpoint is a saved State."""

    round: int
    params: Vector
    ledger: Ledger
    estimator: Any
    scheduler: Any
    weighting: Any
    utility: Any
    surrogate: Any
    client_models: dict[int, Vector]
    """Each client's own last model; kept only when models are mixed."""

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
    server_rate: float = 1.0
    """Server step size: params + server_rate * (weights @ updates)."""
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

    def __post_init__(self) -> None:
        checks.at_least("cohort", self.cohort, 1)
        checks.positive("server_rate", self.server_rate)
        checks.between("mixing", self.mixing, 0, 1)
        checks.between("over_select", self.over_select, 0, 10)
        checks.at_least("min_reports", self.min_reports, 0)
        if self.min_reports > self.asked:
            raise ConfigError(
                f"min_reports={self.min_reports} but only {self.asked} are asked; lower it or raise cohort"
            )

    @property
    def availability(self) -> Estimator[Any]:
        """The estimator in use."""
        if self.estimator is not None:
            return self.estimator
        return Forecast() if getattr(self.scheduler, "forecasts", False) else RunningMean()

    @property
    def asked(self) -> int:
        """How many clients are asked, over-selection included."""
        return self.cohort + math.ceil(self.cohort * self.over_select)

    def init(self, num_clients: int, params: Vector | None = None) -> State:
        """The state before the first round; without `params` there is no model, only bookkeeping."""
        checks.at_least("clients", num_clients, 1)
        if self.cohort > num_clients:
            raise ConfigError(
                f"cohort={self.cohort} but there are only {num_clients} clients; lower it to {num_clients}"
            )
        return State(
            round=0,
            params=np.zeros(0) if params is None else np.array(params, dtype=np.float64),
            ledger=Ledger.empty(num_clients),
            estimator=self.availability.init(num_clients),
            scheduler=self.scheduler.init(num_clients),
            weighting=self.weighting.init(num_clients),
            utility=self.utility.init(num_clients),
            surrogate=self.surrogate.init(num_clients),
            client_models={},
        )

    def plan(self, state: State, available: Ids, rounds_left: int | None = None) -> tuple[RoundPlan, State]:
        """Whom to ask in this round, given who is there."""
        estimator = self.availability
        state.estimator = estimator.observe(state.estimator, available)
        remaining = None
        if rounds_left is not None:
            remaining = estimator.remaining(state.estimator, available, rounds_left)
        pi = estimator.estimate(state.estimator, available)
        view = RoundView(state.round, rounds_left, self.asked, available, pi, remaining, state.ledger)
        rng = stream(self.seed, "select", state.round)
        cohort, state.scheduler = self.scheduler.select(state.scheduler, view, rng)
        starts = self._starts(state, cohort)
        return RoundPlan(state.round, self.seed, available, cohort, state.params, starts, self.run), state

    def _starts(self, state: State, cohort: Cohort) -> dict[int, Vector]:
        own = {client: state.client_models.get(client) for client in cohort.clients.tolist()}
        a = self.mixing
        return {client: (1 - a) * model + a * state.params for client, model in own.items() if model is not None}

    def absorb(
        self, state: State, plan: RoundPlan, reports: Iterable[ClientReport], evaluate: Evaluate | None = None
    ) -> tuple[RoundRecord, State]:
        """Take in what came back, step the model, credit the clients and write it all down.

        `evaluate(params, clients)` is asked only by rules that need the new model's loss on clients' data.
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
        state.round += 1
        return record, state

    def _step(self, state: State, plan: RoundPlan, used: list[ClientReport]) -> tuple[Rows, FloatArray]:
        rows = _rows(plan, used)
        if self.mixing < 1:
            state.client_models.update({r.client: plan.params + r.delta for r in used if r.delta is not None})
        weights, state.weighting = self.weighting.weigh(state.weighting, rows, state.ledger)
        if not len(rows.clients):
            return rows, NO_FLOATS
        # Row by row in client order rather than BLAS: the same bits with any number of threads.
        step = np.zeros_like(state.params)
        for weight, delta in zip(weights, rows.deltas, strict=True):
            step += weight * delta
        state.params = state.params + self.server_rate * step
        return rows, weights

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

    def _stand_in(self, state: State, plan: RoundPlan, evaluate: Evaluate | None) -> StandIn:
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
        return Rows(NO_IDS, np.empty((0, len(plan.params))), NO_IDS, NO_FLOATS, NO_FLOATS, NO_FLOATS)
    clients = np.array([r.client for r in used], dtype=np.int64)
    cohort: Cohort = plan.cohort
    return Rows(
        clients=clients,
        deltas=np.stack([np.asarray(r.delta) for r in used]),
        ages=np.zeros(len(used), dtype=np.int64),
        sizes=np.array([r.num_samples for r in used], dtype=np.float64),
        losses=np.array([r.loss_before for r in used], dtype=np.float64),
        probs=cohort.probs[np.searchsorted(cohort.clients, clients)],
    )
