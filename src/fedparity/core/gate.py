"""The one validator before every aggregator: what cannot be used drops its client, never the round.

Two doors. `decode` turns bytes from a network into an update: a safetensors file whose header is checked against what
the model is made of (names, types, shapes, offsets, total size) before a single number is allocated. `Gate.refusal`
then looks at the report itself: the nonce of this run, round and client, finite numbers, a bounded norm, a sane number
of samples.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedparity.core import checks
from fedparity.core.errors import ConfigError, RefusedError
from fedparity.core.types import ClientReport, RoundPlan, Vector

MAX_SAMPLES = 10**9
MAX_HEADER = 1 << 20
MAX_REASON = 200
MIN_KEY = 16
FLOAT, INFINITE = {float}, {math.inf, -math.inf}
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
    """Bounds on a report."""

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

    def __post_init__(self) -> None:
        checks.positive("max_norm", self.max_norm)
        checks.at_least("max_samples", self.max_samples, 1)
        checks.at_least("max_age", self.max_age, 0)
        if self.deadline is not None:
            checks.positive("deadline", self.deadline)
        if self.remote and len(self.key) < MIN_KEY:
            raise ConfigError(f"key has {len(self.key)} bytes; a remote gate needs {MIN_KEY}: secrets.token_bytes(32)")

    def refusal(self, report: ClientReport, plan: RoundPlan) -> str | None:
        """Why this report cannot be used, or None if it can."""
        if report.nonce is None and self.remote and report.failure is None:  # a failure may be the engine's own word
            return "there is no nonce"
        if report.nonce is not None and not _same_text(report.nonce, nonce(plan, report.client)):
            return "the nonce is not of this run, round and client"
        if report.failure is not None:
            return printable(report.failure)
        delta = report.delta
        if not isinstance(delta, np.ndarray):
            return "no update"
        if delta.dtype != plan.params.dtype:
            return f"update is {delta.dtype}, not {plan.params.dtype}"
        if delta.shape != plan.params.shape:
            return f"update has shape {delta.shape}, not {plan.params.shape}"
        if (reason := self._too_long(delta)) is not None:
            return reason
        if not (_is_number(report.num_samples) and 0 < report.num_samples <= self.max_samples):
            return f"num_samples must be between 1 and {self.max_samples}"
        said = (report.loss_before, report.loss_after, report.accuracy_before, report.loss_rms, report.duration)
        # Honest clients send floats, which are looked at together.
        if any(map(_infinite, said)) if {*map(type, said)} - FLOAT else not INFINITE.isdisjoint(said):
            return "a reported loss or accuracy is infinite"
        return None

    def _too_long(self, delta: Vector) -> str | None:
        # One quick pass, in the update's own precision, clears nearly all; what it does not is looked at closely.
        if float(np.vdot(delta, delta)) <= 0.5 * self.max_norm**2:
            return None
        if not np.isfinite(delta).all():
            return "update is not finite"
        return None if _length(delta) <= self.max_norm else f"update is longer than {self.max_norm:g}"


def _same_text(given: object, wanted: str) -> bool:
    """Whether they are equal, found out in a time that does not tell how much of it is."""
    return isinstance(given, str) and hmac.compare_digest(given.encode(errors="replace"), wanted.encode())


def _infinite(value: float) -> bool:
    """Whether this cannot be a loss; NaN can, it is one that is not known."""
    return not _is_number(value) or abs(value) > sys.float_info.max


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _length(delta: Vector) -> float:
    largest = float(np.abs(delta).max())
    return largest * float(np.linalg.norm(delta / largest)) if largest > 0 else 0.0


def printable(text: str) -> str:
    """A reason from outside, short and free of control characters."""
    return "".join(c if c.isprintable() else "?" for c in text[:MAX_REASON])


def encode(vector: Vector, layout: Sequence[Tensor]) -> bytes:
    """A vector as the safetensors file that `decode` takes."""
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    at = start = 0
    for tensor in layout:
        header[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [start, start + tensor.nbytes],
        }
        parts.append(vector[at : at + tensor.size].astype(DTYPES[tensor.dtype]).tobytes())
        at, start = at + tensor.size, start + tensor.nbytes
    text = json.dumps(header).encode()
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
    at = start = 0
    for tensor in layout:
        expected = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [start, start + tensor.nbytes],
        }
        if not _same(header[tensor.name], expected):
            raise RefusedError(f"{tensor.name!r} must be {tensor.dtype} {list(tensor.shape)} at byte {start}")
        first = 8 + length + start
        data = np.frombuffer(payload, DTYPES[tensor.dtype], tensor.size, first)
        out[at : at + tensor.size] = data
        at, start = at + tensor.size, start + tensor.nbytes
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
