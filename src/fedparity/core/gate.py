"""The one validator before every aggregator: what cannot be used drops its client, never the round.

Two doors. `decode` turns bytes from a network into an update: a safetensors file whose header is checked against what
the model is made of (names, types, shapes, offsets, total size) before a single number is allocated. `Gate.admit` then
builds a clean report out of the one that came: Python's own numbers and texts, each within its bounds, arrays of known
length, finite and of bounded length, the nonce of this run, round and client. Nothing behind it meets anything else,
and whatever goes wrong in building is a refusal.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedparity.core import checks
from fedparity.core.errors import ConfigError, RefusedError
from fedparity.core.rows import squared_lengths
from fedparity.core.types import ClientReport, FloatArray, Prototypes, RoundPlan, Rows, Vector

MAX_SAMPLES = 10**9
MAX_NUMBER = 1e12
"""Largest loss, accuracy or duration that is believed."""
MAX_HEADER = 1 << 20
MAX_REASON = 200
MIN_KEY = 16
DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One named part of a model's vector."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "F64"

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return self.size * DTYPES[self.dtype].itemsize


def nonce(plan: RoundPlan, client: int) -> str:
    """What a remote client must echo: it fits one run, one round and one client; keyed, nobody else can know it."""
    if plan.key:
        return hmac.new(plan.key, f"{plan.run}/{plan.round}/{client}".encode(), "sha256").hexdigest()[:32]
    return hashlib.blake2b(f"{plan.run}/{plan.round}/{client}".encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Gate:
    """What a report must satisfy to be used, and how much one may count: an argument of `Coordinator`."""

    max_norm: float = 1e9
    """Largest Euclidean length of an update; longer ones are refused."""
    max_samples: int = MAX_SAMPLES
    """Most samples that a report may claim; larger claims are refused."""
    run: str = ""
    """Which run this is: nonces of another run are refused."""
    remote: bool = False
    """Whether clients are beyond a network: then every report needs its nonce, and nonces are keyed."""
    key: bytes = field(default=b"", repr=False)
    """What nonces are keyed with: random, secret, and kept with the run."""
    deadline: float | None = None
    """Seconds after which an engine with a clock waits no longer for reports; None: it waits."""
    max_age: int = 0
    """By how many rounds a report may be late and still be used, as a stale row; 0: late ones are not."""
    max_weight: float | None = None
    """Most that one row counts in a step, in shares 1/m of a cohort of m; None: as much as the weighting says."""
    most_samples: float | None = None
    """Most samples that a row counts for, as a multiple of the median of its round; None: as many as it claims."""

    def __post_init__(self) -> None:
        for name, kind in (("run", str), ("key", bytes), ("remote", bool)):
            checks.instance(name, getattr(self, name), kind)
        checks.positive("max_norm", self.max_norm)
        checks.at_least("max_samples", self.max_samples, 1)
        checks.at_least("max_age", self.max_age, 0)
        for name in ("max_weight", "most_samples"):
            if (most := getattr(self, name)) is not None:
                checks.between(name, most, 1, 1e9)
        if self.deadline is not None:
            checks.positive("deadline", self.deadline)
        if self.remote and len(self.key) < MIN_KEY:
            raise ConfigError(f"key has {len(self.key)} bytes; a remote gate needs {MIN_KEY}: secrets.token_bytes(32)")

    def admit(self, report: ClientReport, plan: RoundPlan) -> ClientReport | str:
        """The report as it may be used, or why it cannot be."""
        try:
            return self._clean(report, plan)
        except RefusedError as error:
            return printable(str(error))
        except Exception as error:  # noqa: BLE001 - whatever a stranger's object does, it is that client's failure
            return printable(f"the report cannot be read ({type(error).__name__})")

    def _clean(self, report: ClientReport, plan: RoundPlan) -> ClientReport:
        client = whole(report.client)
        if client is None:
            raise RefusedError("there is no client")
        if report.nonce is None and self.remote and report.failure is None:  # a failure may be the engine's own word
            raise RefusedError("there is no nonce")
        if report.nonce is not None and not _same_text(report.nonce, nonce(plan, client)):
            raise RefusedError("the nonce is not of this run, round and client")
        if report.failure is not None:
            said: object = report.failure
            raise RefusedError(said if isinstance(said, str) else "failed, and did not say why")
        samples = whole(report.num_samples)
        if samples is None or not 0 < samples <= self.max_samples:
            raise RefusedError(f"num_samples must be between 1 and {self.max_samples}")
        duration = _number(report.duration)
        if duration < 0:
            raise RefusedError("a reported duration is below 0")
        size = len(plan.params)
        keeps = None if plan.local is None or report.kept is None else plan.local.keeps(size)
        delta = self._vector(report.delta, plan.params.dtype, size, "update")
        kept = None if keeps is None else self._vector(report.kept, plan.params.dtype, keeps, "kept model")
        prototypes = None if report.prototypes is None else self._prototypes(report.prototypes, size)
        origin = None if report.origin is None else whole(report.origin)
        before, after = _number(report.loss_before), _number(report.loss_after)
        accuracy, rms = _number(report.accuracy_before), _number(report.loss_rms)
        # Building a report takes as long as all checks together; nearly all are clean as they come, and frozen.
        if (
            type(report) is ClientReport
            and client is report.client
            and delta is report.delta
            and samples is report.num_samples
            and before is report.loss_before
            and after is report.loss_after
            and accuracy is report.accuracy_before
            and rms is report.loss_rms
            and duration is report.duration
            and kept is report.kept
            and prototypes is report.prototypes
            and origin is report.origin
            and type(report.seconds) is float
        ):
            return report
        return ClientReport(
            client,
            delta,
            samples,
            loss_before=before,
            loss_after=after,
            accuracy_before=accuracy,
            loss_rms=rms,
            duration=duration,
            nonce=report.nonce,
            kept=kept,
            prototypes=prototypes,
            origin=origin,
        )

    def _vector(self, given: object, dtype: np.dtype[Any], size: int, what: str) -> Vector:
        if not isinstance(given, np.ndarray):
            raise RefusedError(f"no {what}")
        if given.dtype != dtype:
            raise RefusedError(f"{what} is {given.dtype}, not {dtype}")
        if given.shape != (size,):
            raise RefusedError(f"{what} has shape {given.shape}, not {(size,)}")
        vector: Vector = given if type(given) is np.ndarray else np.asarray(given)
        # One quick pass, in the update's own precision, clears nearly all; what it does not is looked at closely. vdot,
        # since dot warns where it overflows.
        if not float(np.vdot(vector, vector)) <= 0.5 * self.max_norm**2:
            if not np.isfinite(vector).all():
                raise RefusedError(f"{what} is not finite")
            if _length(vector) > self.max_norm:
                raise RefusedError(f"{what} is longer than {self.max_norm:g}")
        return vector

    def _prototypes(self, given: Prototypes, size: int) -> Prototypes:
        features, counts = np.array(given.features, dtype=np.float64), np.asarray(given.counts)
        head = None if given.head is None else whole(given.head)
        if features.ndim != 2 or counts.shape != features.shape[:1] or (given.head is not None and head is None):
            raise RefusedError(f"prototypes have shapes {features.shape} and {counts.shape}")
        last = len(features) * (features.shape[1] + 1)
        if not (last > 0 and 0 <= (size - last if head is None else head) <= size - last):
            raise RefusedError(f"prototypes of shape {features.shape} do not fit a model of {size}")
        self._vector(features.ravel(), features.dtype, features.size, "prototype")
        fine = np.isfinite(counts) & (counts >= 0) & (counts <= self.max_samples)
        if not fine.all() or (counts != np.floor(counts)).any():
            raise RefusedError(f"counts of prototypes must be whole, between 0 and {self.max_samples}")
        return Prototypes(features, counts.astype(np.int64), head)

    def rows(self, rows: Rows) -> Rows:
        """The rows of a step without those of earlier rounds that would not be let in today; sizes within bounds."""
        old = rows.ages > 0
        if old.any():
            # A memory may have made them out of what was kept, under a model that has changed since.
            fine = ~old
            with np.errstate(over="ignore", invalid="ignore"):
                fine[old] = (
                    squared_lengths([rows.deltas[at] for at in np.flatnonzero(old).tolist()]) <= self.max_norm**2
                )
            rows = rows if fine.all() else rows.only(fine)
        if self.most_samples is None or not len(rows.clients):
            return rows
        return replace(rows, sizes=np.minimum(rows.sizes, self.most_samples * float(np.median(rows.sizes))))

    def capped(self, weights: FloatArray, cohort: int) -> tuple[FloatArray, tuple[str, ...]]:
        """The weights, none above `max_weight` / cohort, and what is to be said of it."""
        if self.max_weight is None:
            return weights, ()
        most = self.max_weight / cohort
        over = int(np.count_nonzero(np.abs(weights) > most))
        said = f"{over} of {len(weights)} weights capped at {self.max_weight:g}/{cohort}"
        return np.clip(weights, -most, most), (said,) if over else ()


def _same_text(given: object, wanted: str) -> bool:
    """Whether they are equal, found out in a time that does not tell how much of it is."""
    return isinstance(given, str) and hmac.compare_digest(given.encode(errors="replace"), wanted.encode())


def whole(value: object) -> int | None:
    """The whole number that this is, as Python's own; None: it is none."""
    if type(value) is int:
        return value
    if isinstance(value, np.integer):
        return int(value)
    return int(value) if isinstance(value, (float, np.floating)) and float(value).is_integer() else None


def _number(value: object) -> float:
    """A loss, an accuracy or a time; NaN is one that is not known."""
    if type(value) is float and not (value > MAX_NUMBER or value < -MAX_NUMBER):  # nor is NaN
        return value
    if not _is_number(value) or abs(value) > MAX_NUMBER:  # type: ignore[arg-type]
        raise RefusedError(f"a loss, accuracy or time is no number within {MAX_NUMBER:g}")
    return float(value)  # type: ignore[arg-type]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _length(delta: Vector) -> float:
    largest = float(np.abs(delta).max())
    return largest * float(np.linalg.norm(delta / largest)) if largest > 0 else 0.0


def printable(text: str) -> str:
    """A reason from outside, short and free of control characters."""
    return "".join(c if c.isprintable() else "?" for c in text[:MAX_REASON])


def _entries(layout: Sequence[Tensor]) -> Iterator[tuple[Tensor, slice, dict[str, Any]]]:
    """Of each tensor, where its numbers stand in the vector, and its entry in the header of a file."""
    at = start = 0
    for tensor in layout:
        offsets = [start, start + tensor.nbytes]
        entry = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": offsets}
        yield tensor, slice(at, at + tensor.size), entry
        at, start = at + tensor.size, start + tensor.nbytes


def encode(vector: Vector, layout: Sequence[Tensor]) -> bytes:
    """A vector as the safetensors file that `decode` takes."""
    text = json.dumps({tensor.name: entry for tensor, _, entry in _entries(layout)}).encode()
    parts = (vector[here].astype(DTYPES[tensor.dtype]).tobytes() for tensor, here, _ in _entries(layout))
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def decode(payload: bytes, layout: Sequence[Tensor]) -> Vector:
    """The flat float64 vector in `payload`, or RefusedError; nothing is allocated before everything fits."""
    body = sum(tensor.nbytes for tensor in layout)
    if len(payload) < 8:
        raise RefusedError(f"update has {len(payload)} bytes; it must begin with the length of its header")
    length = int.from_bytes(payload[:8], "little")
    if length > MAX_HEADER or 8 + length + body != len(payload):
        raise RefusedError(f"update has {len(payload)} bytes, {length} of them header; this model needs {body} more")
    header = _header(payload[8 : 8 + length])
    if header.keys() != {tensor.name for tensor in layout}:
        odd = sorted(header.keys() ^ {tensor.name for tensor in layout})
        raise RefusedError(f"update and model differ in {printable(odd[0])!r}")
    out = np.empty(sum(tensor.size for tensor in layout))
    for tensor, here, expected in _entries(layout):
        start = expected["data_offsets"][0]
        if not _same(header[tensor.name], expected):
            raise RefusedError(f"{tensor.name!r} must be {tensor.dtype} {list(tensor.shape)} at byte {start}")
        out[here] = np.frombuffer(payload, DTYPES[tensor.dtype], tensor.size, 8 + length + start)
    return out


def _same(entry: Any, expected: dict[str, Any]) -> bool:
    """Equal, and whole numbers where those are expected: True and 1.0 equal 1."""
    return bool(entry == expected) and all(type(n) is int for n in (*entry["shape"], *entry["data_offsets"]))


def _header(data: bytes) -> dict[str, Any]:
    try:
        header = json.loads(data, object_pairs_hook=_no_repeats)
    except (ValueError, RecursionError) as error:
        raise RefusedError("the header of the update is not JSON") from error
    if not isinstance(header, dict):
        raise RefusedError("the header of the update is not an object")
    header.pop("__metadata__", None)
    return header


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found
