"""The spec: everything a run depends on. Version 2; unknown keys are refused.

The models here and in `spec_parts` are the documentation: `fedparity init` writes a starter file from their
descriptions, and a test holds docs/formats.md to them. A spec is checked when it is made, and its components are built
then, once (`MethodSpec.parts`). From Python what is wrong is a `ConfigError`; `spec_file` reads and writes TOML.

    Spec(methods=["uniform", "parity"], rounds=10, cohort=5, population={"clients": 20, "availability": "bernoulli"})
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from fedparity.core.errors import FedparityError, unknown
from fedparity.core.ledger import Normaliser
from fedparity.core.protocols import Estimator, Local, Memory, Scheduler, Server, Surrogate, Utility, Weighting
from fedparity.core.reprs import brief
from fedparity.core.types import slots_per_round
from fedparity.estimators import ORACLE, estimator_of
from fedparity.experiment.methods import METHODS, Method, method, unknown_method
from fedparity.experiment.spec_errors import VERSION, outdated
from fedparity.experiment.spec_parts import (
    NUMPY,
    Component,
    DataSpec,
    ExecutionSpec,
    ModelSpec,
    Name,
    Part,
    Population,
    TrainingSpec,
    built,
)
from fedparity.local import LOCALS
from fedparity.memory import MEMORIES
from fedparity.schedulers import SCHEDULERS, Fixed
from fedparity.servers import SERVERS
from fedparity.servers.rate_schedules import RATE_SCHEDULES, RateSchedule
from fedparity.surrogates import SURROGATES
from fedparity.utility import UTILITIES
from fedparity.weightings import WEIGHTINGS


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """What a method is made of, as objects."""

    scheduler: Scheduler[Any]
    weighting: Weighting[Any]
    memory: Memory[Any]
    surrogate: Surrogate[Any]
    estimator: Estimator[Any] | Literal["oracle"]
    local: Local
    server: Server[Any]
    schedule: RateSchedule | None
    """Of the local rate; None: the run's."""

    __repr__ = brief


class MethodSpec(Part):
    """One contender: a named method, changed where a key is given, or a custom combination."""

    name: Name = Field(description="a name from `fedparity list methods`, or any other name with a scheduler below")
    scheduler: Component | None = Field(default=None, description="who is asked")
    weighting: Component | None = Field(default=None, description="how much each update counts")
    memory: Component | None = Field(default=None, description="what earlier updates of the absent add to the step")
    surrogate: Component | None = Field(default=None, description="what is credited to the absent")
    estimator: Component | None = Field(default=None, description="how availability is estimated")
    local: Component | None = Field(default=None, description="how clients train (fedparity list locals)")
    server: Component | None = Field(default=None, description="how the server steps (fedparity list servers)")
    rate: float | None = Field(default=None, gt=0, le=10, description="local learning rate of this method alone")
    schedule: Component | None = Field(default=None, description="its course over rounds, instead of training.schedule")

    @model_validator(mode="before")
    @classmethod
    def _is_of_today(cls, given: Any) -> Any:
        if isinstance(given, str):
            if ":" in given:
                raise ValueError(str(unknown_method(given, ())))
            return {"name": given}
        if isinstance(given, Method):
            name = next((name for name, one in METHODS.items() if one is given), None)
            if name is None:
                raise ValueError("a Method of your own has no name; write {'name': ..., 'scheduler': ...}")
            return {"name": name}
        if not isinstance(given, dict):
            return given
        if "mixing" in given:
            raise ValueError(f'mixing is a local rule; write local = "mixed:a={given["mixing"]}"')
        name, colon, rest = str(given.get("surrogate")).partition(":")
        name = "last_updates" if name.strip() == "memory" else name.strip()
        if name in MEMORIES and name not in SURROGATES:
            raise ValueError(f'surrogate {name!r} is a memory; write memory = "{name}{colon}{rest}"')
        return given

    @model_validator(mode="after")
    def _builds(self) -> Self:
        if self.name not in METHODS and self.scheduler is None:
            known = unknown("method", self.name, METHODS)
            raise ValueError(f"{known}; or give it a scheduler")
        _ = self.parts
        return self

    @cached_property
    def _filled(self) -> dict[str, Any]:
        """What is given, over what the named method has."""
        base = method(self.name if self.name in METHODS else "uniform")
        keys = ("scheduler", "weighting", "memory", "surrogate", "local", "server", "estimator", "schedule")
        filled = {key: getattr(base, key) for key in keys if getattr(base, key) is not None}
        return filled | self.model_dump(exclude_none=True)

    @cached_property
    def parts(self) -> Parts:
        """Its components, built once."""
        found = self._filled
        scheduler = built("scheduler", SCHEDULERS, found["scheduler"])
        try:
            estimator = estimator_of(found.get("estimator") or _default_estimator(scheduler))
        except FedparityError as error:
            raise ValueError(f"estimator: {error}") from error
        return Parts(
            scheduler=scheduler,
            weighting=built("weighting", WEIGHTINGS, found["weighting"]),
            memory=built("memory", MEMORIES, found["memory"]),
            surrogate=built("surrogate", SURROGATES, found["surrogate"]),
            estimator=estimator,
            local=built("local", LOCALS, found["local"]),
            server=built("server", SERVERS, found["server"]),
            schedule=built("schedule", RATE_SCHEDULES, found["schedule"]) if "schedule" in found else None,
        )

    @property
    def hindsight(self) -> bool:
        """Whether it knows what no server can: an oracle is a yardstick and wins no comparison."""
        return self.parts.estimator == ORACLE or isinstance(self.parts.scheduler, Fixed)

    @cached_property
    def _resolved(self) -> MethodSpec:
        parts = self.parts
        full = self.model_copy(update={"estimator": _default_estimator(parts.scheduler)} | self._filled)
        full.__dict__["parts"] = parts  # the same components, by their full names
        return full

    def resolved(self) -> MethodSpec:
        """Every key filled in; computed once."""
        return self._resolved


def _default_estimator(scheduler: Scheduler[Any]) -> str:
    return "forecast" if scheduler.forecasts else "mean"


class Spec(Part):
    """Everything a run depends on."""

    version: Literal[2] = Field(default=VERSION, description="format of this file")
    name: Name = Field(default="run", description="what the run is called in its report")
    seed: int = Field(default=0, ge=0, le=2**62, description="root of all random numbers")
    seeds: int = Field(default=1, ge=1, le=1000, description="repetitions; number i uses seed + i on the same trace")
    rounds: int = Field(default=100, ge=1, le=1_000_000, description="rounds (T)")
    cohort: int = Field(default=5, ge=1, description="clients asked per round (m)")
    over_select: float = Field(default=0.0, ge=0, le=10, description="share asked beyond the cohort")
    min_reports: int = Field(default=1, ge=0, description="fewer usable reports: the round is abandoned")
    utility: Component = Field(
        default="global_loss_drop", description="what taking part was worth: one rule for all methods of a run"
    )
    normaliser: Normaliser | None = Field(
        default=None, description="what utilities are compared by: availability (if left out), participation, imputed"
    )
    population: Population = Field(default_factory=Population, description="who the clients are")
    data: DataSpec = Field(default_factory=DataSpec, description="what they hold")
    model: ModelSpec = Field(default_factory=ModelSpec, description="what they train")
    training: TrainingSpec = Field(default_factory=TrainingSpec, description="how they train")
    execution: ExecutionSpec = Field(default_factory=ExecutionSpec, description="how it is carried out")
    methods: tuple[MethodSpec, ...] = Field(strict=False, description="the contenders, on the same availability")

    if TYPE_CHECKING:

        def __init__(self, **values: Any) -> None: ...  # sections as dictionaries and methods as names are fine

    @model_validator(mode="before")
    @classmethod
    def _is_of_today(cls, given: Any) -> Any:
        if isinstance(given, dict) and (instead := outdated(given)) is not None:
            raise ValueError(instead)
        return given

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.cohort > self.population.clients:
            n = self.population.clients
            raise ValueError(f"cohort={self.cohort} but population.clients={n}; lower cohort to {n}")
        if not self.methods:
            raise ValueError('methods is empty; list at least one, for example [[methods]] name = "parity"')
        if self.min_reports > self.asked:
            raise ValueError(
                f"min_reports={self.min_reports} but only {self.asked} are asked; lower it or raise cohort"
            )
        names = [m.name for m in self.methods]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice is not None:
            raise ValueError(f"methods: {twice!r} is listed twice; give each its own name")
        self._check_task()
        _ = self.worth
        return self

    def _check_task(self) -> None:
        data, model, training = self.data, self.model, self.training
        if data.features is not None and (model.weights is not None or model.trains):
            raise ValueError("data.features are of a network of their own: leave out model.weights and model.trains")
        if data.set in NUMPY:
            of_torch = {
                "data": (data, ("standardise", "partition", "scored_on", "features")),
                "model": (model, ("name", "weights", "trains")),
                "training": (training, ("clip", "momentum", "weight_decay")),
            }
            given = [f"{name}.{k}" for name, (part, keys) in of_torch.items() for k in keys if getattr(part, k)]
            given += ["training.optimiser"] if training.optimiser != "sgd" else []
            if given:
                raise ValueError(
                    f"{given[0]} is for tasks with PyTorch, but data.set={data.set!r} is not; leave it out"
                )

    @property
    def asked(self) -> int:
        """How many slots a round has, over-selection included."""
        return slots_per_round(self.cohort, self.over_select)

    def scored(self, round: int) -> bool:
        """Whether the model is scored on test data after that round."""
        late = self.rounds - max(1, self.rounds // 10)
        return round >= late or (round + 1) % self.execution.score_every == 0

    @property
    def reading(self) -> Normaliser:
        """What utilities are compared by."""
        return self.normaliser or "availability"

    @cached_property
    def worth(self) -> Utility[Any]:
        """What taking part was worth."""
        return built("utility", UTILITIES, self.utility)

    @cached_property
    def _resolved(self) -> Spec:
        methods = tuple(m.resolved() for m in self.methods)
        data = self.data.resolved(validates=any("validation" in m.parts.scheduler.requires for m in methods))
        model = self.model.resolved(data)
        found = {"data": data, "model": model, "execution": self.execution.resolved(data, model), "methods": methods}
        if self.population.trace_seed is None:
            found["population"] = self.population.model_copy(update={"trace_seed": self.seed})
        return self.model_copy(update=found)

    def resolved(self) -> Spec:
        """The same run with nothing left to defaults; computed once."""
        return self._resolved
