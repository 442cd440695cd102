"""One fair round: whom to ask, and what to make of the answers. It does no input or output of its own.

    plan(state, available)        -> RoundPlan, State      estimator -> scheduler
    absorb(state, plan, reports)  -> RoundRecord, State    gate -> memory -> weighting -> step -> utility -> surrogate

`plan` and `absorb` consume the state you pass; continue with the one they return (`State.copy()` keeps one). Reports
may come in any order, twice, or not at all; sums run in client order, so the result is the same to the bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from fedparity.core import checks
from fedparity.core.credit import credit, credit_late
from fedparity.core.errors import ConfigError
from fedparity.core.fit import check_fit
from fedparity.core.gate import Gate
from fedparity.core.grow import Grows, grown
from fedparity.core.intake import Intake, Stepped, clients_of, rows_of, sort_out
from fedparity.core.ledger import Ledger, read_only
from fedparity.core.protocols import (
    Component,
    Estimator,
    Evaluate,
    Feedback,
    Learner,
    Local,
    Memory,
    Scheduler,
    Server,
    Surrogate,
    Utility,
    Weighting,
)
from fedparity.core.registry import Registry
from fedparity.core.reprs import one_line, short
from fedparity.core.rng import stream
from fedparity.core.rows import Step, combine
from fedparity.core.selection import both, ids_of, label_counts, learn, select, weigh, with_unlabelled
from fedparity.core.spill import SpillFile
from fedparity.core.state import State, check_answers
from fedparity.core.trace import Trace
from fedparity.core.types import (
    NO_IDS,
    ClientReport,
    Evals,
    FloatArray,
    Ids,
    LateCredit,
    ReportField,
    RoundPlan,
    RoundRecord,
    RoundView,
    SurrogateCredit,
    Vector,
    slots_per_round,
)
from fedparity.estimators import ESTIMATORS, Forecast, RunningMean
from fedparity.local import LOCALS, Plain
from fedparity.memory import MEMORIES, NoMemory
from fedparity.schedulers import SCHEDULERS, Parity
from fedparity.servers import SERVERS, Sgd
from fedparity.servers.rate_schedules import RATE_SCHEDULES, Constant, RateSchedule
from fedparity.surrogates import SURROGATES, NoSurrogate
from fedparity.utility import UTILITIES, LossDrop
from fedparity.weightings import WEIGHTINGS, Mean

COMPONENTS: dict[str, Registry[Any]] = {
    "scheduler": SCHEDULERS,
    "estimator": ESTIMATORS,
    "weighting": WEIGHTINGS,
    "utility": UTILITIES,
    "surrogate": SURROGATES,
    "memory": MEMORIES,
    "server": SERVERS,
    "local": LOCALS,
    "local_rate": RATE_SCHEDULES,
}
"""Fields of a `Coordinator` that may be given by name, and the table that each is looked up in."""
Text: TypeAlias = Any
"""A component's text. `Any` to type checkers: after `__post_init__` every field is an object."""


@dataclass(frozen=True, slots=True)
class Coordinator:
    """A method: independent choices that make up a round, each an object or the text of one (`parity:target=.5`)."""

    cohort: int = cast("int", None)
    """How many clients to ask per round (m); to be given."""
    seed: int = 0
    """Start of all random numbers; the same seed gives the same bits."""
    scheduler: Scheduler[Any] | Text = field(default_factory=Parity)
    """Who is asked."""
    estimator: Estimator[Any] | Text | None = None
    """How availability is estimated; None: a forecast for a scheduler that looks ahead, else the running mean."""
    weighting: Weighting[Any] | Text = field(default_factory=Mean)
    """How much each update counts in the step."""
    utility: Utility[Any] | Text = field(default_factory=LossDrop)
    """What a participation was worth to a client."""
    surrogate: Surrogate[Any] | Text = field(default_factory=NoSurrogate)
    """What is credited to the absent."""
    memory: Memory[Any] | Text = field(default_factory=NoMemory)
    """What earlier updates of the absent add to the step."""
    server: Server[Any] | Text = field(default_factory=Sgd)
    """How the model moves along weights @ updates."""
    local: Local | Text = field(default_factory=Plain)
    """How clients train, and what they keep."""
    local_rate: RateSchedule | Text = field(default_factory=Constant)
    """What clients' learning rates are multiplied by, round by round."""
    gate: Gate = field(default_factory=Gate)
    """What a report must satisfy to be used."""
    over_select: float | Literal["observed"] = 0.0
    """Ask this share more than `cohort`, for the dropouts, or as many as dropped out so far (observed)."""
    min_reports: int = 1
    """With fewer usable reports the round is abandoned: the model stays and nobody is credited."""
    labels: NDArray[np.int64] | None = None
    """Clients x labels: samples of each label that every client has said it holds, for rules that cover labels."""
    spill: SpillFile = field(default_factory=SpillFile, repr=False, compare=False)
    """Where what clients keep lies beyond a gigabyte, or the `ram` that it is given."""

    def __post_init__(self) -> None:
        for name, table in COMPONENTS.items():
            if (given := getattr(self, name)) is not None or name != "estimator":
                object.__setattr__(self, name, table.of(given))
        object.__setattr__(self, "labels", label_counts(self.labels))
        checks.instance("gate", self.gate, Gate, "Gate(max_norm=10) makes one")
        checks.instance("spill", self.spill, SpillFile)
        checks.at_least("cohort", self.cohort, 1, fix="Coordinator(5) asks five clients per round")
        checks.at_least("seed", self.seed, 0)
        check_fit({name: getattr(self, name) for name in COMPONENTS}, late=self.gate.max_age > 0)
        if self.over_select != "observed":
            checks.between("over_select", self.over_select, 0, 10)
        checks.at_least("min_reports", self.min_reports, 0)
        if self.min_reports > self.asked:
            few = f"min_reports={self.min_reports} but only {self.asked} are asked"
            raise ConfigError(f"{few}; lower it or raise cohort")

    def __repr__(self) -> str:
        return short(self)

    @property
    def estimator_in_use(self) -> Estimator[Any]:
        """The estimator in use."""
        if self.estimator is not None:
            return self.estimator
        return Forecast() if self.scheduler.forecasts else RunningMean()

    @property
    def report_fields(self) -> frozenset[ReportField]:
        """What the rules in use need to know from a client beside its update."""
        parts: tuple[Component, ...] = (
            self.scheduler, self.weighting, self.utility, self.surrogate, self.memory, self.local,
        )  # fmt: skip
        return frozenset(field for part in parts for field in part.report_fields)

    @property
    def asked(self) -> int:
        """How many clients are asked, over-selection included, before anybody dropped out."""
        return slots_per_round(self.cohort, 0.0 if self.over_select == "observed" else self.over_select)

    def _slots(self, ledger: Ledger) -> int:
        """How many are asked in a round, given what is recorded: with p failing, m / (1 - p) give m updates."""
        if self.over_select != "observed":
            return self.asked
        # A cohort of answers is assumed before the first, so that one failure does not double the next round.
        share = float(ledger.failed.sum()) / (float(ledger.selected.sum()) + self.cohort)
        return slots_per_round(self.cohort, min(share / (1 - share), 1.0))

    def init(self, num_clients: int, params: Vector | None = None, watched: Trace | None = None) -> State:
        """The state before the first round; without `params` there is no model, only bookkeeping.

        `watched` is who was online in rounds before the first: the estimator has seen them, the ledger begins empty.
        """
        checks.at_least("clients", num_clients, 1)
        if self.cohort > num_clients:
            raise ConfigError(
                f"cohort={self.cohort} but there are only {num_clients} clients; lower it to {num_clients}"
            )
        if watched is not None and watched.num_clients != num_clients:
            raise ConfigError(f"clients={num_clients} but {watched.num_clients} were watched; give the same number")
        if self.labels is not None and (self.labels.ndim != 2 or len(self.labels) != num_clients):
            raise ConfigError(f"labels has shape {self.labels.shape}; give one row per client, {num_clients} in all")
        model = np.zeros(0) if params is None else np.array(params)
        if model.ndim != 1 or model.dtype.kind not in "fiu" or not np.isfinite(model).all():
            raise ConfigError(f"params={one_line(params)} must be one flat array of finite numbers")
        if model.dtype not in (np.float32, np.float64):
            model = model.astype(np.float64)
        estimator = self.estimator_in_use.init(num_clients)
        if watched is not None and not self.estimator_in_use.hindsight:
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
            memory=self.memory.init(num_clients),
            kept={},
            server=self.server.init(len(model)),
            first=model if self.local.begins_with_first else None,
        )

    def grow(self, state: State, num_clients: int) -> State:
        """The state with clients added that registered since; what is known of the others stays."""
        checks.at_least("clients", num_clients, 0)
        if num_clients <= state.ledger.num_clients:
            return state
        larger: State = grown(state, replace(self, labels=None).init(num_clients, state.params))
        for name in ("scheduler", "weighting", "utility", "surrogate", "memory"):
            if isinstance(component := getattr(self, name), Grows):
                setattr(larger, name, component.grow(getattr(state, name), num_clients))
        larger.ledger = state.ledger.grown(num_clients)
        return larger

    def plan(
        self,
        state: State,
        available: Ids,
        rounds_left: int | None = None,
        losses: Callable[[Vector, Ids, int], FloatArray] | None = None,
        busy: Ids = NO_IDS,
    ) -> tuple[RoundPlan, State]:
        """Whom to ask in this round, given who is there.

        `losses(params, clients, samples)` is asked only by schedulers that choose by the loss of the model as it is.
        Who is `busy` is online, too, but cannot be asked.
        """
        checks.instance("state", state, State, "Coordinator.init makes the first")
        estimator = self.estimator_in_use
        available = ids_of(available, f"round {state.round}: available", state.ledger.num_clients)
        busy = ids_of(busy, f"round {state.round}: busy", state.ledger.num_clients)
        state.estimator = estimator.observe(state.estimator, both(available, busy))
        remaining = None
        if rounds_left is not None:
            checks.at_least("rounds_left", rounds_left, 0)
            remaining = estimator.remaining(state.estimator, available, rounds_left)
        view = RoundView(
            state.round,
            rounds_left,
            self._slots(state.ledger),
            read_only(available),
            estimator.estimate(state.estimator, available),
            remaining,
            state.ledger.read_only(),
            losses=None if losses is None else lambda ids, samples: losses(state.params, ids, samples),
            expected=lambda rounds: estimator.remaining(state.estimator, available, rounds),
            futures=lambda *how: estimator.futures(
                state.estimator, np.bincount(available, minlength=state.ledger.num_clients) > 0, *how
            ),
            labels=with_unlabelled(self.labels, state.ledger.num_clients),
        )
        rng = stream(self.seed, "select", state.round)
        cohort, state.scheduler = select(self.scheduler, state.scheduler, view, rng)
        asked, rate = cohort.clients.tolist(), self.local_rate.scale(state.round)
        plan = RoundPlan(
            round=state.round,
            seed=self.seed,
            available=available,
            cohort=cohort,
            params=state.params,
            run=self.gate.run,
            local=self.local.at_rate(rate),
            kept=state.kept_by(asked),
            rate=rate,
            report_fields=self.report_fields,
            busy=busy,
            key=self.gate.key,
            deadline=self.gate.deadline,
            enough=self.cohort if self.over_select else None,
            min_reports=self.min_reports,
        )
        return plan, state

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
        stepped, state = self.step(state, plan, reports)
        return self.settle(state, plan, stepped, evaluate, validate)

    def step(self, state: State, plan: RoundPlan, reports: Iterable[ClientReport]) -> tuple[Stepped, State]:
        """The first half of `absorb`: the model moves. For frameworks that evaluate it before clients are credited."""
        check_answers(state, plan, reports)
        intake = sort_out(self.gate, plan, reports, state.offers)
        few = len(intake.used) + len(intake.late) < self.min_reports
        step = self._step(state, plan, intake.nothing if few else intake)
        usable = step.usable and not few
        return Stepped(intake if usable else intake.nothing, step, not usable), state

    def settle(
        self,
        state: State,
        plan: RoundPlan,
        stepped: Stepped,
        evaluate: Evaluate | None = None,
        validate: Callable[[Vector], float] | None = None,
    ) -> tuple[RoundRecord, State]:
        """The second half of `absorb`: clients are credited, and the round is written down."""
        intake, (rows, weights, notes, _), abandoned = stepped
        used = intake.used
        utility, loss, others = credit(self.utility, state, used, plan.params, evaluate)
        late_utility, late_loss = credit_late(self.utility, state, intake.late, evaluate)
        origins = np.array([report.origin for report in intake.late], dtype=np.int64)
        stand_in = self._stand_in(state, plan, evaluate, old_updates=bool(weights[rows.ages > 0].any()))
        if used:
            state.surrogate = self.surrogate.remember(state.surrogate, used, utility)
            state.memory = self.memory.remember(state.memory, used)
        record = RoundRecord(
            round=plan.round,
            available=plan.available,
            selected=plan.cohort.clients,
            probs=plan.cohort.probs,
            design=plan.cohort.design,
            wasted=plan.cohort.wasted,
            completed=clients_of(used),
            utility=utility,
            loss=loss,
            failed=intake.failed,
            abandoned=abandoned and len(plan.cohort.clients) > 0,
            row_clients=rows.clients,
            row_ages=rows.ages,
            row_weights=weights,
            surrogate=stand_in,
            model_sha256=hashlib.sha256(state.params.tobytes()).hexdigest(),
            duration=intake.durations,
            others=others,
            joined=NO_IDS if state.ledger.since is None else np.flatnonzero(state.ledger.since == plan.round),
            busy=plan.busy,
            late=LateCredit(clients_of(intake.late), origins, late_utility, late_loss),
            notes=notes,
        )
        state.ledger.record(record)
        state.offers = intake.offers(plan, state.offers, self.gate.max_age)
        if isinstance(self.scheduler, Learner):
            feedback = Feedback(plan.round, plan.params, intake.newest, state.ledger, validate)
            state.scheduler = learn(self.scheduler, state.scheduler, feedback)
        state.round += 1
        return record, state

    def _step(self, state: State, plan: RoundPlan, intake: Intake) -> Step:
        """Move the model, unless what would come of it is no model."""
        came = rows_of(plan, intake, state.offers, with_unlabelled(self.labels, state.ledger.num_clients))
        rows, state.memory = self.memory.complete(state.memory, plan.round, came, plan.params, state.ledger)
        rows = self.gate.rows(rows)
        said, told, weighting = weigh(self.weighting, state.weighting, rows, state.ledger, plan.round)
        if not np.isfinite(said).all():
            return Step.none(rows, f"abandoned: {one_line(self.weighting)} gave weights that are not finite")
        weights, notes = self.gate.capped(said, self.cohort)
        if len(rows.clients):
            with np.errstate(over="ignore", invalid="ignore"):
                update = combine(weights, rows.deltas, len(state.params))
                params, server = self.server.step(state.server, state.params, update, plan.round)
            if not np.isfinite(params).all():
                return Step.none(rows, "abandoned: the step led to a model that is not finite")
            state.params, state.server = params, server
        state.weighting = weighting
        for report in intake.used:
            kept = self.local.keep(plan.params, report, state.params)
            if kept is not None:
                state.kept[report.client] = kept
        if state.kept:
            self.spill.settle(state.kept, self.spill.ram)
        return Step(rows, weights, (*notes, *told))

    def _stand_in(
        self, state: State, plan: RoundPlan, evaluate: Evaluate | None, *, old_updates: bool
    ) -> SurrogateCredit:
        score = None if evaluate is None else lambda clients: self._score(state, clients, evaluate)
        everybody = np.arange(state.ledger.num_clients)  # nobody is absent where the rule credits all
        there = everybody if self.utility.credits_all else both(plan.available, plan.busy)
        stand_in, state.surrogate = self.surrogate.stand_in(state.surrogate, plan.round, there, state.ledger, score)
        eta_sum, bound = self.memory.bias(state.memory)
        if old_updates and not eta_sum:  # without an eta Lemma 3 says nothing of old updates
            bound = np.nan
        return replace(stand_in, eta_sum=stand_in.eta_sum + eta_sum, bias_bound=stand_in.bias_bound + bound)

    def _score(self, state: State, clients: Ids, evaluate: Evaluate) -> Evals:
        """The new model on the data of clients that are not here, and what they would be credited with for it."""
        evals = evaluate(state.params, clients)
        return replace(evals, credit=self.utility.would_credit(state.utility, clients, state.ledger, evals))
