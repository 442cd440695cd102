"""The parts of a spec: who is there, what they hold, what they train and how.

Each part is checked when it is made, and the components that its texts and tables name are built then, once: `course`,
`dealing` and the like hold the objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, model_validator

from fedparity.availability import AVAILABILITY, looks_like_a_path
from fedparity.availability.speeds import SPEEDS, Speed
from fedparity.core.errors import ConfigError, FedparityError, unknown
from fedparity.core.protocols import Availability
from fedparity.core.registry import Registry, text_of
from fedparity.core.reprs import described
from fedparity.core.trace import Trace
from fedparity.data import KNOWN
from fedparity.data.partitions import PARTITIONS, Scheme
from fedparity.data.table import SUFFIXES
from fedparity.estimators import ESTIMATORS
from fedparity.experiment.spec_errors import one_line
from fedparity.local import LOCALS
from fedparity.memory import MEMORIES
from fedparity.models import MODELS, Model
from fedparity.models.features import EXTRACTORS, Features
from fedparity.schedulers import SCHEDULERS
from fedparity.servers import SERVERS
from fedparity.servers.rate_schedules import RATE_SCHEDULES, RateSchedule
from fedparity.surrogates import SURROGATES
from fedparity.utility import UTILITIES
from fedparity.weightings import WEIGHTINGS

T = TypeVar("T")
OWN = "own"
"""The data set of a run whose task was passed to `execute`."""
NUMPY = ("quadratic", "logistic")
"""Tasks that need no PyTorch."""
SERVER_SHARE = 0.02
"""Of the training data, held by the server itself when a method tries models out on it."""
PATHS = {
    "logistic": ("batched", 1, False),
    "mlp": ("batched", 1, False),
    "cnn": ("sequential", 1, True),
    "resnet18": ("sequential", 2, False),
    "resnet34": ("sequential", 2, False),
}
"""How each family of models is trained unless the spec says so: path, threads of a product, channels last."""
TABLES: tuple[Registry[Any], ...] = (
    AVAILABILITY, ESTIMATORS, EXTRACTORS, LOCALS, MEMORIES, MODELS, PARTITIONS, RATE_SCHEDULES, SCHEDULERS, SERVERS,
    SPEEDS, SURROGATES, UTILITIES, WEIGHTINGS,
)  # fmt: skip
"""What components of a spec are found in."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}$")]


def _written(value: Any) -> Any:
    """A component as a file holds it: an object of a table by its name and settings."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _setting(inner) for key, inner in value.items()}
    if (text := text_of(value, TABLES)) is not None:
        return text
    no_object = (
        f"{type(value).__name__} is no object that a file can name; import its class from a module or register it"
        " (TABLE.register), let its settings be numbers and texts, or give text, NAME[:key=value,...]"
    )
    no_text = f'{value} must be text, NAME[:key=value,...], or a table, {{name = "NAME", key = value}}'
    no_trace = 'a Trace goes into a file: save_trace(trace, "t.csv"), then availability="t.csv"'
    raise ValueError(no_text if isinstance(value, (int, float)) else no_trace if type(value) is Trace else no_object)


def _setting(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_setting(inner) for inner in value]
    return value if isinstance(value, (bool, int, float)) else _written(value)


Component: TypeAlias = Annotated[str | dict[str, Any], PlainValidator(_written)]
"""A component by name: `NAME[:key=value,...]`, or a table with the key `name`."""


def written(value: Any) -> str:
    """One value of a spec as TOML; components that are tables in one line."""
    if isinstance(value, Mapping):
        pairs = (f"{k if re.fullmatch(r'[A-Za-z0-9_-]+', k) else written(k)} = {written(v)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML wants that one escaped


def component_text(given: Any) -> str:
    """A component as a reader is shown it: its text, or its table in one line."""
    return given if isinstance(given, str) else written(given)


class Part(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    def __init__(self, **values: Any) -> None:
        """What is wrong is a ConfigError of one line."""
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(one_line(error, type(self))) from error

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined] # only Python calls it: files keep their keys

    def __repr__(self) -> str:
        usual = {name: f.get_default(call_default_factory=True) for name, f in type(self).model_fields.items()}
        given = {name: getattr(self, name) for name in usual}
        return described(self, ((name, value) for name, value in given.items() if value != usual[name]))

    __str__ = __repr__

    def __copy__(self) -> Self:
        """Without what was computed: a copy is made to change something."""
        copied = super().__copy__()
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied


def built(key: str, table: Registry[T], given: Any) -> T:
    """The component that a key names."""
    try:
        return table.of(given)
    except FedparityError as error:
        raise ValueError(f"{key}: {error}") from error


class Population(Part):
    """Who the clients are and when they are there."""

    clients: int = Field(default=100, ge=1, le=10_000_000, description="registered clients (N)")
    availability: Component = Field(
        default="phones",
        description="who is there: NAME[:key=value,...] (fedparity list availability) or the path of a trace file",
    )
    rule: str | None = Field(default=None, description="trace files of events: when a device is ready")
    open_end: bool | None = Field(
        default=None, description="trace files of events: false drops what is open at a device's end, as FLASH does"
    )
    round_seconds: float | None = Field(default=None, gt=0, description="trace files: seconds between rounds")
    start: float | None = Field(default=None, ge=0, description="trace files: seconds after the earliest first_seen")
    work_seconds: float | None = Field(
        default=None,
        ge=0,
        description="trace files: seconds a client must stay to finish a round; leaving earlier is a dropout",
    )
    watch: int | None = Field(
        default=None, ge=0, le=1_000_000, description="trace files: rounds before start that the server has seen"
    )
    dropout: float = Field(default=0.0, ge=0, le=1, description="chance of an online client to leave mid-round")
    speed: Component | None = Field(
        default=None, description="how fast devices are (fedparity list speeds); left out: nobody is timed"
    )
    trace_seed: int | None = Field(
        default=None, ge=0, le=2**62, description="seed of availability and speed; the run's if left out"
    )

    @property
    def path(self) -> str | None:
        """The trace file; None: availability is drawn from a model."""
        text = self.availability
        return text if isinstance(text, str) and looks_like_a_path(text) else None

    @property
    def shown(self) -> str:
        """Who is there, in one line."""
        return component_text(self.availability)

    @cached_property
    def model(self) -> Availability:
        """What draws availability, where there is no trace file."""
        return built("availability", AVAILABILITY, self.availability)

    @cached_property
    def devices(self) -> Speed | None:
        """How fast devices are; None if left out."""
        return None if self.speed is None else built("speed", SPEEDS, self.speed)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.devices is not None:
            try:
                self.devices.seconds_per_step(self.clients, 0)
            except FedparityError as error:
                raise ValueError(f"speed: {error}") from error
        if self.path is not None:
            return self
        for key in ("rule", "open_end", "round_seconds", "start", "work_seconds", "watch"):
            if getattr(self, key) is not None:
                raise ValueError(f"{key} is for trace files, but {self.availability!r} is a model; leave it out")
        _ = self.model
        return self


class DataSpec(Part):
    """What the clients hold."""

    set: str = Field(
        default="digits",
        min_length=1,
        description="digits, cifar10, mnist, or the path of an .npz, .csv or .parquet (PyTorch); "
        "quadratic, logistic (NumPy alone); own: a task of Python's",
    )
    partition: Component | None = Field(
        default=None, description="how samples are dealt, NAME[:key=value,...] (fedparity list partitions)"
    )
    label: str = Field(default="label", min_length=1, description="tables: the column of labels")
    client: str = Field(default="", description="tables: the column that says whose each row is; empty: nobody's yet")
    standardise: bool = Field(
        default=False, description="float features: less their mean, over their deviation, in all training samples"
    )
    validation: float | None = Field(default=None, ge=0, le=0.5, description="share of the data the server holds")
    scored_on: Literal["validation"] | None = Field(
        default=None, description="images, validation: accuracy on a fifth of the training data, held back"
    )
    features: Component | None = Field(
        default=None, description="images: frozen features instead, efficientnet_lite0[:size=96]"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.set not in (OWN, *NUMPY, *KNOWN) and not self.set.endswith((".npz", *SUFFIXES)):
            known = unknown("data set", self.set, [*KNOWN, *NUMPY])
            raise ValueError(f"{known}; or give the path of an .npz, .csv or .parquet")
        if self.client and not self.set.endswith(SUFFIXES):
            raise ValueError(f"client names a column of a table, but set={self.set!r} is none; leave it out")
        _ = self.dealing, self.extractor
        return self

    @cached_property
    def dealing(self) -> Scheme | None:
        """How samples are dealt; None if left out."""
        return None if self.partition is None else built("partition", PARTITIONS, self.partition)

    @cached_property
    def extractor(self) -> Features | None:
        """What makes features of images; None if left out."""
        return None if self.features is None else built("features", EXTRACTORS, self.features)

    def resolved(self, *, validates: bool) -> DataSpec:
        """Every key filled in."""
        found: dict[str, Any] = {}
        if self.validation is None and self.set != OWN:
            found["validation"] = SERVER_SHARE if validates else 0.0
        if self.partition is None and self.set not in (OWN, *NUMPY):
            found["partition"] = "groups" if self.client else "labels:k=2"
        return self.model_copy(update=found)


class ModelSpec(Part):
    """What the clients train."""

    name: Component | None = Field(default=None, description="what is trained (fedparity list models)")
    weights: str | None = Field(default=None, description="initial weights, the path of a safetensors file")
    head: Literal["strict", "skip"] = Field(default="strict", description="skip: the last layer is not in weights")
    trains: str = Field(default="", description="parts of the model that are trained, a,b; empty: all")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _ = self.architecture
        if self.trains and self.weights is None:
            raise ValueError(f"trains={self.trains!r} leaves the rest of the model at random values; give weights, too")
        return self

    @cached_property
    def architecture(self) -> Model | None:
        """What builds the module; None if left out."""
        return None if self.name is None else built("name", MODELS, self.name)

    def resolved(self, data: DataSpec) -> ModelSpec:
        """Every key filled in."""
        if self.name is not None or data.set in (OWN, *NUMPY):
            return self
        numbers = data.features is not None or data.set.endswith(SUFFIXES)
        name = "logistic" if numbers else "mlp:hidden=32" if data.set == "digits" else "cnn"
        return self.model_copy(update={"name": name})


class TrainingSpec(Part):
    """How a client trains in a round."""

    epochs: int = Field(default=2, ge=1, le=1000, description="passes over the client's own data per round (E)")
    steps: int | None = Field(default=None, ge=1, le=1_000_000, description="mini-batches per round, instead of epochs")
    batch: int = Field(default=16, ge=1, le=1_000_000, description="mini-batch size")
    rate: float = Field(default=0.3, gt=0, le=10, description="local learning rate")
    schedule: Component = Field(default="constant", description="its course over rounds (fedparity list schedules)")
    optimiser: Literal["sgd", "adam"] = Field(default="sgd", description="local optimiser")
    momentum: float = Field(default=0.0, ge=0, le=0.999, description="of local SGD, within a round")
    weight_decay: float = Field(default=0.0, ge=0, le=10, description="local weight decay")
    clip: float | None = Field(default=None, gt=0, description="longest local gradient")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _ = self.course
        return self

    @cached_property
    def course(self) -> RateSchedule:
        """What the rate is multiplied by in each round."""
        return built("schedule", RATE_SCHEDULES, self.schedule)


class ExecutionSpec(Part):
    """How the machine carries it out."""

    path: Literal["auto", "sequential", "batched", "compiled"] = Field(
        default="auto", description="how clients are trained: one by one, or together (docs/architecture.md)"
    )
    threads: int | None = Field(default=None, ge=1, le=256, description="threads of one matrix product")
    channels_last: bool | None = Field(default=None, description="memory format of images")
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:[0-9]{1,2})?)$", description="cpu or cuda[:number]")
    workers: int | None = Field(
        default=None, ge=1, le=256, description="clients trained at a time; the results are the same with any number"
    )
    score_every: int = Field(
        default=1, ge=1, description="rounds between scores on test data; the last tenth of the rounds has them all"
    )

    @model_validator(mode="before")
    @classmethod
    def _is_of_today(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("path") == "plain":
            raise ValueError('path "plain" is called sequential; write path = "sequential"')
        return given

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.device != "cpu" and self.path in {"batched", "compiled"}:
            raise ValueError(f"path={self.path!r} is for the CPU, but device={self.device!r}; use path='sequential'")
        return self

    def resolved(self, data: DataSpec, model: ModelSpec) -> ExecutionSpec:
        """Every key filled in by what the others say: the table of docs/architecture.md.

        How many clients train at a time decides nothing: a run may be resumed with another number.
        """
        found: dict[str, Any] = {"workers": None}
        if data.set in NUMPY:
            return self.model_copy(update=found | {"path": "sequential"})
        if model.name is None:
            return self.model_copy(update=found)
        path, threads, channels_last = PATHS.get(MODELS.name_in(model.name), ("sequential", 1, False))
        if path == "batched" and (model.trains or self.device != "cpu"):
            path = "sequential"
        if self.path == "auto":
            found["path"] = path
        if self.threads is None:
            found["threads"] = threads
        if self.channels_last is None:
            found["channels_last"] = channels_last
        return self.model_copy(update=found)
