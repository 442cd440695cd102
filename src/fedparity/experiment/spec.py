"""The spec: one TOML file that says everything a run depends on. Version 1; unknown keys are refused.

The models below are the documentation: `fedparity init` writes a starter file from their descriptions, and a test holds
docs/formats.md to them.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fedparity.availability import AVAILABILITY, looks_like_a_path
from fedparity.core.errors import ConfigError, FedparityError, InputError, unknown
from fedparity.core.protocols import Scheduler
from fedparity.core.types import slots_per_round
from fedparity.data import KNOWN
from fedparity.data.partitions import PARTITIONS
from fedparity.data.table import SUFFIXES
from fedparity.estimators import ORACLE, estimator_of
from fedparity.experiment.methods import METHODS, method
from fedparity.local import LOCALS
from fedparity.memory import MEMORIES
from fedparity.models import MODELS
from fedparity.models.features import EXTRACTORS
from fedparity.schedulers import SCHEDULERS
from fedparity.servers import SERVERS
from fedparity.servers.rate_schedules import RATE_SCHEDULES
from fedparity.surrogates import SURROGATES
from fedparity.utility import UTILITIES
from fedparity.weightings import WEIGHTINGS

VERSION = 1
"""The estimator that knows the trace; with the scheduler `fixed`, the schedule that could not have been fairer."""
NUMPY = ("quadratic", "logistic")
"""Tasks that need no PyTorch."""
SERVER_SHARE = 0.02
"""Of the training data, held by the server itself when a method tries models out on it."""
PATHS = {
    "logistic": ("batched", 1, False),
    "mlp": ("batched", 1, False),
    "cnn": ("plain", 1, True),
    "resnet18": ("plain", 2, False),
    "resnet34": ("plain", 2, False),
}
"""How each family of models is trained unless the spec says so: path, threads of a product, channels last."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class Population(_Part):
    """Who the clients are and when they are there."""

    clients: int = Field(default=100, ge=1, le=10_000_000, description="registered clients (N)")
    availability: str = Field(
        default="phones",
        description="who is there: NAME[:key=value,...] (fedparity list availability) or the path of a trace file",
    )
    rule: str | None = Field(default=None, description="trace files of events: when a device is ready")
    round_seconds: float | None = Field(default=None, gt=0, description="trace files: seconds between rounds")
    start: float | None = Field(default=None, ge=0, description="trace files: seconds after the earliest first_seen")
    work_seconds: float | None = Field(
        default=None, ge=0, description="trace files: a round's work; leave before: drop"
    )
    watch: int | None = Field(
        default=None, ge=0, le=1_000_000, description="trace files: rounds before start that the server has seen"
    )
    dropout: float = Field(default=0.0, ge=0, le=1, description="chance of an online client to leave mid-round")
    trace_seed: int | None = Field(
        default=None, ge=0, le=2**62, description="seed of availability; the run's if left out"
    )


class Task(_Part):
    """What the clients learn."""

    dataset: str = Field(
        default="digits",
        min_length=1,
        description="digits, cifar10, mnist, or the path of an .npz, .csv or .parquet (PyTorch); "
        "quadratic, logistic (NumPy alone)",
    )
    label: str = Field(default="label", min_length=1, description="tables: the column of labels")
    client: str = Field(default="", description="tables: the column that says whose each row is; empty: nobody's yet")
    standardise: bool = Field(
        default=False, description="float features: less their mean, over their deviation, in all training samples"
    )
    partition: str | None = Field(
        default=None, description="how samples are dealt, NAME[:key=value,...] (fedparity list partitions)"
    )
    validation: float | None = Field(default=None, ge=0, le=0.5, description="share of the data the server holds")
    scored_on: Literal["validation"] | None = Field(
        default=None, description="images, validation: accuracy on a fifth of the training data, held back"
    )
    model: str | None = Field(default=None, description="what is trained (fedparity list models)")
    features: str | None = Field(
        default=None, description="images: frozen features instead, efficientnet_lite0[:size=96]"
    )
    weights: str | None = Field(default=None, description="initial weights, the path of a safetensors file")
    head: Literal["strict", "skip"] = Field(default="strict", description="skip: the last layer is not in weights")
    trains: str = Field(default="", description="parts of the model that are trained, a,b; empty: all")
    epochs: int = Field(default=2, ge=1, le=1000, description="passes over the client's own data a round (E)")
    steps: int | None = Field(default=None, ge=1, le=1_000_000, description="mini-batches a round, instead of epochs")
    batch: int = Field(default=16, ge=1, le=4096, description="mini-batch size")
    rate: float = Field(default=0.3, gt=0, le=10, description="local learning rate")
    schedule: str = Field(default="constant", description="its course over rounds (fedparity list schedules)")
    optimiser: Literal["sgd", "adam"] = Field(default="sgd", description="local optimiser")
    momentum: float = Field(default=0.0, ge=0, le=0.999, description="of local SGD, within a round")
    weight_decay: float = Field(default=0.0, ge=0, le=10, description="local weight decay")
    clip: float | None = Field(default=None, gt=0, description="longest local gradient")
    path: Literal["auto", "plain", "batched", "compiled"] = Field(
        default="auto", description="how clients are trained: one by one, or together (docs/architecture.md)"
    )
    threads: int | None = Field(default=None, ge=1, le=256, description="threads of one matrix product")
    channels_last: bool | None = Field(default=None, description="memory format of images")
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:[0-9]{1,2})?)$", description="cpu or cuda[:number]")

    @model_validator(mode="after")
    def _fits(self) -> Task:
        self._check_data()
        _build("schedule", RATE_SCHEDULES.build, self.schedule)
        if self.model is not None:
            _build("model", MODELS.build, self.model)
        if self.partition is not None:
            _build("partition", PARTITIONS.build, self.partition)
        if self.features is not None:
            _build("features", EXTRACTORS.build, self.features)
            if self.weights is not None or self.trains:
                raise ValueError("features are of a network of their own: leave out weights and trains")
        if self.trains and self.weights is None:
            raise ValueError(f"trains={self.trains!r} leaves the rest of the model at random values; give weights, too")
        if self.device != "cpu" and self.path in {"batched", "compiled"}:
            raise ValueError(f"path={self.path!r} is for the CPU, but device={self.device!r}; use path='plain'")
        if self.dataset in NUMPY:
            keys = ("standardise", "partition", "scored_on", "model", "features", "weights", "trains", "clip")
            given = [k for k in keys if getattr(self, k)]
            if given or self.optimiser != "sgd" or self.momentum or self.weight_decay:
                key = given[0] if given else "optimiser, momentum or weight_decay"
                raise ValueError(f"{key} is for tasks with PyTorch, but dataset={self.dataset!r} is not; leave it out")
        return self

    def _check_data(self) -> None:
        if self.dataset not in (*NUMPY, *KNOWN) and not self.dataset.endswith((".npz", *SUFFIXES)):
            known = unknown("data set", self.dataset, [*KNOWN, *NUMPY])
            raise ValueError(f"{known}; or give the path of an .npz, .csv or .parquet")
        if self.client and not self.dataset.endswith(SUFFIXES):
            raise ValueError(f"client names a column of a table, but dataset={self.dataset!r} is none; leave it out")

    def resolved(self, *, validates: bool) -> Task:
        """Every key filled in by what the others say: the table of docs/architecture.md."""
        found: dict[str, Any] = {}
        if self.validation is None:
            found["validation"] = SERVER_SHARE if validates else 0.0
        if self.dataset in NUMPY:
            return self.model_copy(update=found | {"path": "plain"})
        if self.partition is None:
            found["partition"] = "groups" if self.client else "labels:k=2"
        if self.model is None:
            numbers = self.features is not None or self.dataset.endswith(SUFFIXES)
            found["model"] = "logistic" if numbers else "mlp:hidden=32" if self.dataset == "digits" else "cnn"
        family = str(found.get("model", self.model)).partition(":")[0]
        path, threads, channels_last = PATHS.get(family, ("plain", 1, False))
        if path == "batched" and (self.trains or self.device != "cpu"):
            path = "plain"
        if self.path == "auto":
            found["path"] = path
        if self.threads is None:
            found["threads"] = threads
        if self.channels_last is None:
            found["channels_last"] = channels_last
        return self.model_copy(update=found)


class MethodSpec(_Part):
    """One contender: a named method, changed where a key is given, or an own combination."""

    name: Name = Field(description="a name from `fedparity list methods`, or any other name with a scheduler below")
    scheduler: str | None = Field(default=None, description="who is asked")
    weighting: str | None = Field(default=None, description="how much each update counts")
    memory: str | None = Field(default=None, description="what earlier updates of the absent add to the step")
    surrogate: str | None = Field(default=None, description="what is credited to the absent")
    estimator: str | None = Field(default=None, description="how availability is estimated")
    local: str | None = Field(default=None, description="how clients train (fedparity list locals)")
    server: str | None = Field(default=None, description="how the server steps (fedparity list servers)")
    rate: float | None = Field(default=None, gt=0, le=10, description="local learning rate of this method alone")

    @model_validator(mode="before")
    @classmethod
    def _is_of_today(cls, given: Any) -> Any:
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
    def _builds(self) -> MethodSpec:
        if self.name not in METHODS and self.scheduler is None:
            known = unknown("method", self.name, METHODS)
            raise ValueError(f"{known}; or give it a scheduler")
        resolved = self.resolved()
        _build("weighting", WEIGHTINGS.build, str(resolved.weighting))
        _build("surrogate", SURROGATES.build, str(resolved.surrogate))
        _build("memory", MEMORIES.build, str(resolved.memory))
        _build("estimator", estimator_of, str(resolved.estimator))
        _build("local", LOCALS.build, str(resolved.local))
        _build("server", SERVERS.build, str(resolved.server))
        return self

    @property
    def hindsight(self) -> bool:
        """Whether it knows what no server can: an oracle is a yardstick and wins no comparison."""
        full = self.resolved()
        return full.estimator == ORACLE or str(full.scheduler).startswith("fixed")

    def resolved(self) -> MethodSpec:
        """Every key filled in."""
        base = method(self.name if self.name in METHODS else "uniform")
        given = self.model_dump(exclude_none=True)
        filled = {
            "scheduler": base.scheduler,
            "weighting": base.weighting,
            "memory": base.memory,
            "surrogate": base.surrogate,
            "local": base.local,
            "server": base.server,
        }
        if base.estimator is not None:
            filled["estimator"] = base.estimator
        filled |= given
        scheduler: Scheduler[Any] = _build("scheduler", SCHEDULERS.build, str(filled["scheduler"]))
        return self.model_copy(update={"estimator": "forecast" if scheduler.forecasts else "mean"} | filled)


def _build(key: str, make: Callable[[str], Any], text: str) -> Any:
    try:
        return make(text)
    except FedparityError as error:
        raise ValueError(f"{key}: {error}") from error


class Spec(_Part):
    """Everything a run depends on."""

    version: Literal[1] = Field(description="format of this file")
    name: Name = Field(default="run", description="what the run is called in its report")
    seed: int = Field(default=0, ge=0, le=2**62, description="root of all random numbers")
    seeds: int = Field(default=1, ge=1, le=1000, description="repetitions; number i uses seed + i on the same trace")
    rounds: int = Field(default=100, ge=1, le=1_000_000, description="rounds (T)")
    cohort: int = Field(default=5, ge=1, description="clients asked a round (m)")
    over_select: float = Field(default=0.0, ge=0, le=10, description="share asked beyond the cohort")
    min_reports: int = Field(default=1, ge=0, description="fewer usable reports: the round is abandoned")
    utility: str = Field(
        default="global_loss_drop", description="what taking part was worth: one rule for all methods of a run"
    )
    workers: int | None = Field(
        default=None, ge=1, le=256, description="clients trained at a time; the results are the same with any number"
    )
    population: Population = Field(default_factory=Population, description="who the clients are")
    task: Task = Field(default_factory=Task, description="what they learn")
    methods: tuple[MethodSpec, ...] = Field(strict=False, description="the contenders, on the same availability")

    @model_validator(mode="after")
    def _fits_together(self) -> Spec:
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
        _build("utility", UTILITIES.build, self.utility)
        text = self.population.availability
        if not looks_like_a_path(text):
            given = [
                k
                for k in ("rule", "round_seconds", "start", "work_seconds", "watch")
                if getattr(self.population, k) is not None
            ]
            if given:
                raise ValueError(f"population.{given[0]} is for trace files, but {text!r} is a model; leave it out")
            _build("population.availability", AVAILABILITY.build, text)
        return self

    @property
    def asked(self) -> int:
        """How many slots a round has, over-selection included."""
        return slots_per_round(self.cohort, self.over_select)

    def resolved(self) -> Spec:
        """The same run with nothing left to defaults."""
        population = self.population
        if population.trace_seed is None:
            population = population.model_copy(update={"trace_seed": self.seed})
        methods = tuple(m.resolved() for m in self.methods)
        schedulers = [_build("scheduler", SCHEDULERS.build, str(m.scheduler)) for m in methods]
        task = self.task.resolved(validates=any("validation" in s.requires for s in schedulers))
        # How many clients train at a time decides nothing: a run may be resumed with another number.
        return self.model_copy(update={"population": population, "methods": methods, "task": task, "workers": None})


def load(path: str | Path, overrides: Sequence[str] = ()) -> Spec:
    """A spec file, with `key=value` overrides (`population.clients=50`) laid over it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; `fedparity init {path}` writes a starter") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read as text ({reason}); give a spec file in UTF-8") from error
    return parse(text, str(path), overrides)


def parse(text: str, source: str, overrides: Sequence[str] = ()) -> Spec:
    """A spec from TOML text; `source` stands in messages."""
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}: not valid TOML: {error}") from error
    for override in overrides:
        _lay_over(values, override)
    try:
        return Spec.model_validate(values)
    except ValidationError as error:
        raise InputError(f"{source}: {_one_line(error)}") from error


def _lay_over(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {override!r} must be written key=value, for example population.clients=50")
    try:
        value = tomllib.loads(f"v = {text}")["v"]
    except (ValueError, RecursionError):
        value = text
    *parents, last = key.strip().split(".")
    for parent in parents:
        inner = values.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {override!r}: {parent!r} is not a table")
        values = inner
    values[last] = value


def _one_line(error: ValidationError) -> str:
    """The first thing that is wrong: the key, the value, the rule and the fix."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    value = first["input"]
    long = isinstance(value, int) and abs(value) > 10**100  # some are too long to be written at all
    shown = f"{value!r}" if isinstance(value, (str, int, float, bool)) and not long else type(value).__name__
    kind = first["type"]
    if where in GONE:
        return f"key {where!r} is no more; write {GONE[where].format(shown)}"
    if kind == "extra_forbidden":
        return str(unknown("key", where, _keys_beside(first["loc"])))
    if kind == "missing":
        return f"key {where!r} is missing; add it{' (version = 1)' if where == 'version' else ''}"
    if kind == "value_error":
        text = str(first["ctx"]["error"])
        return f"{where}: {text}" if where else text
    rule = _RULES.get(kind) or first["msg"][0].lower() + first["msg"][1:]
    return f"key {where!r} is {shown}: {rule}"


GONE = {
    "task.labels_per_client": 'task.partition = "labels:k={}"',
    "task.hidden": 'task.model = "mlp:hidden={}"',
}
"""Keys of older specs, and what says the same now."""
_RULES = {
    "string_pattern_mismatch": "it must be 1 to 64 letters, digits and _ . + -, with a letter or digit first",
    "tuple_type": "it must be a list of tables, each written [[methods]]",
    "model_type": "it must be a table of keys, as `fedparity init` shows it",
}
"""Where pydantic speaks of its own types, what a reader of TOML can act on."""


def _keys_beside(loc: tuple[int | str, ...]) -> list[str]:
    """The keys that may stand where an unknown one was found, written as a user writes them."""
    parents = [str(part) for part in loc[:-1]]
    models: dict[str, type[BaseModel]] = {"population": Population, "task": Task, "methods": MethodSpec}
    model = models.get(parents[0] if parents else "", Spec)
    prefix = ".".join(parents) + "." if parents else ""
    return [prefix + name for name in model.model_fields]


def to_toml(spec: Spec) -> str:
    """The spec as TOML; reading it back gives the same spec."""
    return "\n".join(_toml_lines(spec, comments=False)) + "\n"


def starter() -> str:
    """A commented spec in which every key is shown with its default."""
    spec = Spec(version=1, name="first", methods=(MethodSpec(name="uniform"), MethodSpec(name="parity")))
    head = "# A fedparity run: start it with `fedparity run FILE`. Every key is shown with its default."
    own = [
        "",
        "# An own combination needs a name and a scheduler (fedparity list schedulers); the other keys are optional.",
        "# [[methods]]",
        '# name = "halfway"',
        '# scheduler = "parity:target=0.5"    # who is asked',
        '# weighting = "mean"                 # how much each update counts',
        '# memory = "none"                    # what earlier updates of the absent add to the step',
        '# surrogate = "none"                 # what is credited to the absent',
        '# estimator = "forecast"             # how availability is estimated',
        '# local = "prox:mu=0.01"             # how clients train (fedparity list locals)',
        '# server = "sgd"                     # how the server steps (fedparity list servers)',
        "# rate = 0.1                         # local learning rate of this method alone",
    ]
    return "\n".join([head, *_toml_lines(spec, comments=True), *own]) + "\n"


EXAMPLES = {
    "workers": 2,
    "rule": '"charging & wifi"',
    "round_seconds": 1800.0,
    "start": 0,
    "work_seconds": 0,
    "watch": 0,
    "trace_seed": 0,
    "partition": '"dirichlet:alpha=0.5"',
    "validation": 0.02,
    "scored_on": '"validation"',
    "model": '"cnn"',
    "features": '"efficientnet_lite0:size=96"',
    "weights": '"first.safetensors"',
    "steps": 10,
    "clip": 5.0,
    "threads": 1,
    "channels_last": "true",
}
"""What a starter shows for keys that are left out."""


def _toml_lines(spec: Spec, *, comments: bool) -> Iterator[str]:
    def lines(part: BaseModel) -> Iterator[str]:
        for name, field in type(part).model_fields.items():
            value = getattr(part, name)
            if isinstance(value, (BaseModel, tuple)):
                continue
            note = f"  # {field.description}" if comments else ""
            if value is not None:
                text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML wants that one escaped
                yield f"{name} = {text}{note}"
            elif comments and not isinstance(part, MethodSpec):
                yield f"# {name} = {EXAMPLES[name]}{note}"

    yield from lines(spec)
    for name, part in (("population", spec.population), ("task", spec.task)):
        yield ""
        yield f"[{name}]"
        yield from lines(part)
    for contender in spec.methods:
        yield ""
        yield "[[methods]]"
        yield from lines(contender)
