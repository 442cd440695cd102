"""What was computed of a block, kept as it is done: one line of JSON per cell, so that nothing is done twice.

    {"setting": {...}}                                               what all cells below depend on
    {"run": "parity", "seed": 0, "rate": 0.03, "method": "9f3a...", "numbers": {...}}

A cell counts only while its method has the components that it was computed with (`method`, a digest of them). The file
is written whole after each cell: a full disk leaves the one before.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from fedparity.core.errors import InputError
from fedparity.core.files import make_folder, write_text
from fedparity.experiment.spec import MethodSpec

Key = tuple[str, int, float | None]
"""Run, seed and rate."""


def digest_of(method: MethodSpec) -> str:
    """What a method is made of, in twelve digits; its rate and name are the cell's own."""
    parts = method.resolved().model_dump(exclude={"name", "rate"}, exclude_none=True)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def brief(value: float) -> float | None:
    """Six digits that count; None for what is undefined."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


class Cells:
    """The cells of one file."""

    def __init__(self, path: Path, setting: dict[str, Any]) -> None:
        self.path = path
        self._setting = setting
        self._found: dict[Key, dict[str, Any]] = {}
        if path.exists():
            self._read()

    def _read(self) -> None:
        try:
            first, *lines = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
            self._found = {(one["run"], one["seed"], one["rate"]): one for one in lines}
            setting = first["setting"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.path}: not what was stored ({error}); remove it to compute it again") from error
        if setting != self._setting:
            raise InputError(f"{self.path} holds another set-up; give another --out, or remove it to compute it again")

    def get(self, run: str, seed: int, rate: float | None, digest: str) -> dict[str, Any] | None:
        """A cell, if it is there and was computed with these components."""
        found = self._found.get((run, seed, rate))
        return found if found is not None and found["method"] == digest else None

    def put(self, run: str, seed: int, rate: float | None, digest: str, **values: Any) -> None:
        """Keep a cell."""
        self._found[run, seed, rate] = {"run": run, "seed": seed, "rate": rate, "method": digest, **values}
        order = sorted(self._found, key=lambda key: (key[0], key[1], key[2] or 0.0))
        lines = [{"setting": self._setting}, *(self._found[key] for key in order)]
        make_folder(self.path.parent)
        write_text(self.path, "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
