"""The journal: one line of JSON per round, chained by SHA-256, from which the ledger can be rebuilt.

Only what the spec determines is written here, simulated durations among it; measured times are telemetry and live
elsewhere. The chain is
sha256(chain so far + sha256 of the line), so one digest stands for the whole history, anyone can recompute it with a
few lines of any language, and a line whose client was erased can be replaced without breaking it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from fedparity.core import checks
from fedparity.core.ledger import COUNTS, FLOATS, Ledger
from fedparity.core.types import NO_IDS, Credit, FloatArray, LateCredit, RoundRecord, SurrogateCredit, Vector

FORMAT = 1
GENESIS = hashlib.sha256(b"fedparity-journal 1").hexdigest()


def link(chain: str, line_sha256: str) -> str:
    """The chain with one more line."""
    return hashlib.sha256((chain + line_sha256).encode()).hexdigest()


def _numbers(values: Any) -> list[float | None]:
    return [None if math.isnan(v) else v for v in values.tolist()]


def _known(values: Any) -> FloatArray:
    return np.array([math.nan if v is None else v for v in values], dtype=np.float64)


def to_json(record: RoundRecord) -> str:
    """The canonical line of one round: keys sorted, floats that read back exactly, NaN as null."""
    bound = record.surrogate.bias_bound
    fields: dict[str, Any] = {
        "round": record.round,
        "available": record.available.tolist(),
        "selected": record.selected.tolist(),
        "probs": _numbers(record.probs),
        "design": record.design,
        "wasted": record.wasted,
        "completed": record.completed.tolist(),
        "utility": record.utility.tolist(),
        "loss": _numbers(record.loss),
        "failed": [list(pair) for pair in record.failed],
        "abandoned": record.abandoned,
        "rows": {
            "client": record.row_clients.tolist(),
            "age": record.row_ages.tolist(),
            "weight": record.row_weights.tolist(),
        },
        "surrogate": {
            "client": record.surrogate.clients.tolist(),
            "utility": record.surrogate.utility.tolist(),
            "eta_sum": record.surrogate.eta_sum,
            "bias_bound": None if math.isnan(bound) else bound,
        },
        "model_sha256": record.model_sha256,
    }
    if len(record.duration):  # keys that older lines lack: rounds without them keep their bytes
        fields["duration"] = _numbers(record.duration)
    if len(record.others.clients):
        fields["others"] = {"client": record.others.clients.tolist(), "utility": record.others.utility.tolist()}
    if len(record.joined):
        fields["joined"] = record.joined.tolist()
    if len(record.busy):
        fields["busy"] = record.busy.tolist()
    if len(record.late.clients):
        fields["late"] = {
            "client": record.late.clients.tolist(),
            "round": record.late.origins.tolist(),
            "utility": record.late.utility.tolist(),
            "loss": _numbers(record.late.loss),
        }
    if record.notes:
        fields["notes"] = list(record.notes)
    if record.totals is not None:
        fields["totals"] = record.totals
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)


def from_json(line: str) -> RoundRecord:
    """The record of one line; KeyError, OverflowError, TypeError or ValueError if it is not one."""
    f = json.loads(line)
    ids = {key: np.array(f[key], dtype=np.int64) for key in ("available", "selected", "completed")}
    bound = f["surrogate"]["bias_bound"]
    others = f.get("others", {"client": [], "utility": []})
    return RoundRecord(
        round=int(f["round"]),
        **ids,
        probs=_known(f["probs"]),
        design=f["design"],
        wasted=int(f["wasted"]),
        utility=np.array(f["utility"], dtype=np.float64),
        loss=_known(f["loss"]),
        failed=tuple((int(client), str(reason)) for client, reason in f["failed"]),
        abandoned=bool(f["abandoned"]),
        row_clients=np.array(f["rows"]["client"], dtype=np.int64),
        row_ages=np.array(f["rows"]["age"], dtype=np.int64),
        row_weights=np.array(f["rows"]["weight"], dtype=np.float64),
        surrogate=SurrogateCredit(
            np.array(f["surrogate"]["client"], dtype=np.int64),
            np.array(f["surrogate"]["utility"], dtype=np.float64),
            float(f["surrogate"]["eta_sum"]),
            math.nan if bound is None else float(bound),
        ),
        model_sha256=str(f["model_sha256"]),
        duration=_known(f.get("duration", [])),
        others=Credit(np.array(others["client"], dtype=np.int64), np.array(others["utility"], dtype=np.float64)),
        joined=np.array(f["joined"], dtype=np.int64) if "joined" in f else NO_IDS,
        busy=np.array(f["busy"], dtype=np.int64) if "busy" in f else NO_IDS,
        late=_late(f["late"]) if "late" in f else LateCredit(),
        notes=tuple(map(str, f.get("notes", ()))),
        totals=_totals(f["totals"]) if "totals" in f else None,
    )


def _totals(f: Any) -> dict[str, list[Any]]:
    """What an erasure left of rounds: nothing in their lines, but in the last one columns for a ledger."""
    found = {str(name): list(column) for name, column in dict(f).items()}
    if found and (set(found) - {"since", "late"} != {*COUNTS, *FLOATS} or len({*map(len, found.values())}) != 1):
        raise ValueError("totals are not columns of a ledger")
    return found


def _late(f: Any) -> LateCredit:
    return LateCredit(
        np.array(f["client"], dtype=np.int64),
        np.array(f["round"], dtype=np.int64),
        np.array(f["utility"], dtype=np.float64),
        _known(f["loss"]),
    )


class Journal:
    """An observer that chains the rounds of each method; `keep` also holds their lines in memory."""

    def __init__(self, keep: bool = True) -> None:  # noqa: FBT001, FBT002 - what else is given is refused in one line
        checks.instance("keep", keep, bool, "Journal(keep=False) keeps no lines")
        self._keep = keep
        self._heads: dict[str, str] = {}
        self._lines: dict[str, list[str]] = {}

    def __repr__(self) -> str:
        return f"Journal({', '.join(f'{method!r}: {len(lines)} lines' for method, lines in self._lines.items())})"

    def on_round(self, method: str, record: RoundRecord, ledger: Ledger, params: Vector) -> None:
        """Append one line to the chain of `method`."""
        self.add(method, to_json(record))

    def add(self, method: str, line: str) -> None:
        """Append a line that is already written."""
        head = self._heads.get(method, GENESIS)
        self._heads[method] = link(head, hashlib.sha256(line.encode()).hexdigest())
        if self._keep:
            self._lines.setdefault(method, []).append(line)

    def head(self, method: str = "") -> str:
        """The digest that stands for all rounds of `method` so far."""
        return self._heads.get(method, GENESIS)

    def lines(self, method: str = "") -> list[str]:
        """The lines of `method`, oldest first."""
        return list(self._lines.get(method, []))

    def records(self, method: str = "") -> Iterator[RoundRecord]:
        """The rounds of `method`, oldest first."""
        return (from_json(line) for line in self._lines.get(method, []))
