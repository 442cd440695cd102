"""What a run began with, so that its folder says everything: spec, trace, digests of its inputs, versions, one seal."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib import metadata

import numpy as np

from fedparity.core.errors import ConfigError, InputError
from fedparity.core.trace import Trace
from fedparity.core.tree import Arrays
from fedparity.store.arrays import packed, unpacked
from fedparity.store.database import DamagedError, Database, decoding, digest, names_of

PARTS = ("spec", "trace", "inputs", "versions")
SEAL = "seal"
SHOWN = 12
"""Digits of a digest that an error shows."""


class Origin:
    """The table of that name."""

    def __init__(self, db: Database, root: str) -> None:
        self.db = db
        self._root = root

    @property
    def begun(self) -> bool:
        """Whether it was written."""
        return self.db.one("SELECT 1 FROM origin") is not None

    def part(self, name: str) -> bytes:
        """One of its parts, or an error if the run never began."""
        row = self.db.one("SELECT value FROM origin WHERE name = ?", (name,))
        if row is None:
            raise InputError(f"{self._root}: the run never began; start it with fedparity run SPEC --out {self._root}")
        return bytes(row[0])

    @property
    def spec(self) -> str:
        """The resolved spec."""
        with decoding(f"{self._root}: its spec"):
            return self.part("spec").decode()

    @property
    def trace(self) -> Trace:
        """Who is there in which round."""
        return trace_of(self.part("trace"), f"{self._root}: its trace")

    def names(self, part: str) -> dict[str, str]:
        """The digests of the inputs, or the versions."""
        return names_of(self.part(part).decode(errors="replace"), f"{self._root}: its {part}")

    def begin(self, spec: str, trace: bytes, inputs: Mapping[str, str]) -> None:
        """Write it once; what is there already must be the same."""
        if self.begun:
            self._compare(spec, trace, inputs)
            return
        listed = [json.dumps(dict(what), sort_keys=True).encode() for what in (inputs, versions())]
        with self.db.transaction():
            self._write(dict(zip(PARTS, (spec.encode(), trace, *listed), strict=True)))

    def replace_trace(self, trace: bytes) -> None:
        """Another trace after an erasure, in its transaction."""
        self._write({name: self.part(name) for name in PARTS} | {"trace": trace})

    def _write(self, parts: Mapping[str, bytes]) -> None:
        for name, value in (*parts.items(), (SEAL, digest(*(parts[name] for name in PARTS)).encode())):
            self.db.run(
                "INSERT INTO origin VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (name, value),
            )

    def check(self) -> None:
        """Refuse parts that are not those that were written."""
        if self.part(SEAL) != digest(*(self.part(name) for name in PARTS)).encode():
            raise DamagedError(f"{self._root}: its spec, trace, inputs or versions were changed; restore run.db")

    def same_spec(self, new: str) -> None:
        """Refuse a spec that the run was not started with."""
        old = self.spec
        if old != new:
            pairs = zip(old.splitlines(), new.splitlines(), strict=False)
            how = next((f"{a!r}, now {b!r}" for a, b in pairs if a != b), "it had other methods")
            raise ConfigError(f"{self._root} was started with another spec ({how}); give another --out")

    def _compare(self, spec: str, trace: bytes, inputs: Mapping[str, str]) -> None:
        self.check()
        self.same_spec(spec)
        self.same_inputs(inputs)
        self._same({"the trace": digest(self.part("trace"))}, {"the trace": digest(trace)})

    def same_inputs(self, inputs: Mapping[str, str]) -> None:
        """Refuse inputs that changed since the run began."""
        self._same(self.names("inputs"), inputs)

    def _same(self, then: Mapping[str, str], now: Mapping[str, str]) -> None:
        for name in sorted(then.keys() | now.keys()):
            old, new = (kept.get(name, "none")[:SHOWN] for kept in (then, now))
            if then.get(name) != now.get(name):
                raise ConfigError(
                    f"{self._root}: {name} changed since this run began (sha256 {old}.. then, {new}.. now);"
                    " restore it or start anew with --out"
                )


def versions() -> dict[str, str]:
    """What the numbers are made with."""
    found = {"python": platform.python_version()}
    for package in ("fedparity", "numpy", "scipy", "torch"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def trace_bytes(trace: Trace) -> bytes:
    """A trace as it is stored: the same bytes for the same content."""
    return packed(_trace_arrays(trace, ""))


def _trace_arrays(trace: Trace, prefix: str) -> Arrays:
    arrays: Arrays = {
        "num_clients": np.array([trace.num_clients], np.int64),
        "starts": np.asarray(trace.starts, np.int64),
        "clients": np.asarray(trace.clients, np.int32),
    }
    if trace.stays is not None:
        arrays["stays"] = np.asarray(trace.stays, np.bool_)
    if trace.names is not None:
        arrays["names"] = np.frombuffer(json.dumps(trace.names).encode(), np.uint8)
    found = {prefix + name: array for name, array in arrays.items()}
    return found if trace.before is None else found | _trace_arrays(trace.before, f"{prefix}before.")


def trace_of(data: bytes, where: str) -> Trace:
    """The trace that was stored."""
    with decoding(where):
        arrays = unpacked(data, where)
        try:
            return _trace_from(arrays, "")
        except ConfigError as error:
            raise DamagedError(f"{where}: makes no sense ({error})") from error


def _trace_from(arrays: Arrays, prefix: str) -> Trace:
    names = arrays.get(f"{prefix}names")
    deeper = f"{prefix}before."
    return Trace(
        int(arrays[f"{prefix}num_clients"][0]),
        arrays[f"{prefix}starts"],
        arrays[f"{prefix}clients"],
        arrays.get(f"{prefix}stays"),
        None if names is None else tuple(map(str, json.loads(names.tobytes()))),
        _trace_from(arrays, deeper) if f"{deeper}starts" in arrays else None,
    )
