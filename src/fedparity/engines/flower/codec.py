"""What travels: a job to a client, its report back. Everything received is measured before it is read.

    train     params: ArrayRecord {"w"}      job: ConfigRecord      (one ArrayRecord for all who are asked)
    reply     delta:  ArrayRecord {"w"}      report: ConfigRecord
    evaluate  params, job                    reply: report
    query     nothing                        reply: identity {"name"}

An `Array` only claims its type and shape; the bytes in it are a `.npy` file, whose header is matched against one
pattern, and whose size must be that of the model, before anything is allocated. Numbers and texts in a report are taken
if they are of the type they should be, and short.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray

from fedparity.core.errors import ConfigError, FedparityError, RefusedError
from fedparity.core.gate import nonce, printable
from fedparity.core.protocols import Local
from fedparity.core.types import ClientReport, Job, ReportField, RoundPlan, Vector
from fedparity.data.npy import read_npy
from fedparity.local import LOCALS, Plain

PARAMS, JOB, DELTA, REPORT, IDENTITY, NAME, W = "params", "job", "delta", "report", "identity", "name", "w"
HEADER = 4200
"""Bytes that the header of a `.npy` file may take."""
MAX_NAME = 200
NUMPY = "numpy.ndarray"
FIELDS: frozenset[ReportField] = frozenset({"loss_before", "loss_after", "accuracy_before", "loss_rms"})
"""What reports can hold on the wire."""
NUMBERS = ("loss_before", "loss_after", "accuracy_before", "loss_rms", "duration")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Offer:
    """A job as it arrived, and the nonce to echo."""

    job: Job
    nonce: str


def rule_text(local: Local | None) -> str:
    """A local rule as text; those that keep something from round to round are refused."""
    if local is None:
        return "plain"
    name = next((name for name, made in LOCALS.items() if made is type(local)), None)
    if name is None or type(local).keep is not Local.keep:
        raise ConfigError(
            f"local rule {type(local).__name__} keeps something from round to round, which cannot travel; use plain or"
            " prox"
        )
    fields = [f for f in getattr(local, "__dataclass_fields__", {}) if f != "reference"]
    settings = ",".join(f"{field}={getattr(local, field)!r}" for field in fields)
    return f"{name}:{settings}" if settings else name


def config_of(content: RecordDict, name: str) -> ConfigRecord:
    """The settings under a name; Flower's own `config_records` makes a table of all of them first, for each message."""
    found = content[name]
    if not isinstance(found, ConfigRecord):
        raise RefusedError(f"{name!r} is no ConfigRecord")
    return found


def arrays_of(content: RecordDict, name: str) -> ArrayRecord:
    """The arrays under a name."""
    found = content[name]
    if not isinstance(found, ArrayRecord):
        raise RefusedError(f"{name!r} is no ArrayRecord")
    return found


def params_record(params: Vector) -> ArrayRecord:
    """The model, once for all who are asked."""
    return ArrayRecord({W: array_of(params)})


def array_of(vector: Vector) -> Array:
    """A vector as Flower carries it: a `.npy` file, whose header is the same for all vectors of one kind."""
    head = _head(vector.dtype.str, vector.shape)
    return Array(str(vector.dtype), vector.shape, NUMPY, head + vector.tobytes())


@cache
def _head(descr: str, shape: tuple[int, ...]) -> bytes:
    written = io.BytesIO()
    np.lib.format.write_array_header_1_0(written, {"descr": descr, "fortran_order": False, "shape": shape})
    return written.getvalue()


def job_record(plan: RoundPlan, client: int, rule: str | None = None) -> ConfigRecord:
    """What one client is to do; its number is the server's, its nonce this round's, `rule` its local rule as text."""
    return ConfigRecord(
        {
            "round": plan.round,
            "seed": plan.seed,
            "client": client,
            "rate": float(plan.rate),
            "local": rule_text(plan.local) if rule is None else rule,
            "fields": [str(name) for name in sorted(plan.report_fields)],
            "nonce": nonce(plan, client),
        }
    )


def read_offer(content: RecordDict) -> Offer:
    """What the server asks for."""
    said = config_of(content, JOB)
    return _offer(said, read_array(arrays_of(content, PARAMS)[W]), LOCALS.of(str(said["local"])))


def read_offers(contents: Sequence[RecordDict]) -> list[Offer]:
    """The offers of a round to clients of one process: model and local rule are those of all, and read once."""
    models: dict[int, NDArray[Any]] = {}
    rules: dict[str, Local] = {}
    found = []
    for content in contents:
        said, sent = config_of(content, JOB), arrays_of(content, PARAMS)[W]
        text = str(said["local"])
        if id(sent) not in models:
            models[id(sent)] = read_array(sent)
        if text not in rules:
            rules[text] = LOCALS.of(text)
        found.append(_offer(said, models[id(sent)], rules[text]))
    return found


def _offer(said: ConfigRecord, params: NDArray[Any], local: Local) -> Offer:
    fields: Any = frozenset(said["fields"])  # type: ignore[arg-type]
    job = Job(
        int(said["round"]),  # type: ignore[arg-type]
        int(said["seed"]),  # type: ignore[arg-type]
        int(said["client"]),  # type: ignore[arg-type]
        params,
        None if isinstance(local, Plain) else local,
        None,
        float(said["rate"]),  # type: ignore[arg-type]
        fields,
    )
    return Offer(job, str(said["nonce"]))


def reply_content(report: ClientReport, nonce: str) -> RecordDict:
    """A report on its way to the server."""
    said: dict[str, Any] = {name: float(getattr(report, name)) for name in NUMBERS}
    said |= {"nonce": nonce, "num_samples": int(report.num_samples), "failure": report.failure or ""}
    found = RecordDict({REPORT: ConfigRecord(said)})
    if report.delta is not None:
        found[DELTA] = ArrayRecord({W: array_of(report.delta)})
    return found


def read_reply(content: RecordDict, client: int, like: Vector) -> ClientReport:
    """The report of a client that the server knows by the message it answers; what cannot be read is a failure."""
    try:
        said = config_of(content, REPORT)
        numbers: dict[str, Any] = {name: _told(said, name, float, "number") for name in NUMBERS}
        failure = _text(said, "failure", 10_000)
        delta = None
        if not failure:
            arrays = arrays_of(content, DELTA)
            if list(arrays) != [W]:
                raise RefusedError(f"the update holds {len(arrays)} arrays; it must hold one")
            delta = checked_array(arrays[W], like.shape, like.dtype)
        return ClientReport(
            client,
            delta,
            num_samples=_told(said, "num_samples", int, "whole number"),
            failure=printable(failure) or None,
            nonce=_text(said, "nonce", 100),
            **numbers,
        )
    except (FedparityError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        return unreadable(client, error)


def unreadable(client: int, error: Exception) -> ClientReport:
    """What a reply that is none is worth."""
    why = str(error) if isinstance(error, FedparityError) else f"{type(error).__name__}: {error}"
    return ClientReport(client, failure=printable(f"the reply cannot be read ({why})"))


def checked_array(array: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The numbers of an array that must have this shape and type; RefusedError otherwise, before they are read."""
    size = math.prod(shape) * dtype.itemsize
    if len(array.data) > size + HEADER:
        raise RefusedError(f"an array has {len(array.data)} bytes; {size} and a header are expected")
    found = read_array(array)
    if found.shape != shape or found.dtype != dtype:
        raise RefusedError(f"an array is {found.dtype} {found.shape}, not {dtype} {shape}")
    return found


def read_array(array: Array) -> NDArray[Any]:
    """The numbers of an array, by our own reader of `.npy`."""
    if array.stype != NUMPY:
        raise RefusedError(f"an array is {printable(str(array.stype))!r}, not {NUMPY!r}")
    return read_npy(io.BytesIO(array.data), len(array.data), "an array")


def read_name(content: RecordDict) -> str | None:
    """The stable name of a client; None: it has none."""
    said = content.config_records.get(IDENTITY)
    name = None if said is None else said.get(NAME)
    return name if isinstance(name, str) and 0 < len(name) <= MAX_NAME and name.isprintable() else None


def _told(said: Mapping[str, Any], key: str, kind: type[T], what: str) -> T:
    value = said[key]
    if type(value) is not kind:
        raise RefusedError(f"{key} is no {what}")
    return value


def _text(said: Mapping[str, Any], key: str, longest: int) -> str:
    value = _told(said, key, str, what := f"text of at most {longest} characters")
    if len(value) > longest:
        raise RefusedError(f"{key} is no {what}")
    return value


def scores_content(loss: float, accuracy: float) -> RecordDict:
    """How well a model does on a client's data."""
    return RecordDict({REPORT: ConfigRecord({"loss": float(loss), "accuracy": float(accuracy)})})


def read_scores(content: RecordDict) -> tuple[float, float]:
    """Loss and accuracy as a client says; NaN for what cannot be read."""
    said = content.config_records.get(REPORT)
    found = [math.nan if said is None else said.get(key, math.nan) for key in ("loss", "accuracy")]
    loss, accuracy = (float(v) if isinstance(v, float) and math.isfinite(v) else math.nan for v in found)
    return loss, accuracy
