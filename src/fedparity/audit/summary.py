"""An audit as plain values: what `--json` prints, the card shows and a signature covers."""

from __future__ import annotations

import hashlib
import math
import shlex
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from fedparity.audit.audit import ALWAYS, ENDS, ONLY, Audit
from fedparity.audit.fields import FLAGS, NUMBERS
from fedparity.audit.verdict import verdict
from fedparity.metrics import numbers
from fedparity.metrics.measures import SCHEDULED
from fedparity.store.origin import versions

FORMAT = 1
SINCE_1970 = (1e8, 1e10)
"""Seconds that are taken for a date: from 1973 to 2286."""
COUNTS = tuple(m for m in SCHEDULED if m.scope == "counts" and not m.name.startswith("completed_"))
"""What `parity` is compared by: nothing was trained, so nothing was lost on the way."""
LIMITS = (
    "who is online can depend on how clients are treated: a client that is never asked may stop coming",
    "a heartbeat can be stale: a client that looked online may not have been",
    "what clients report of themselves (loss, utility) was not checked",
    "the limit knows the whole log; no scheduler knew the future",
)
"""What an audit of a log cannot see."""


def command_of(audit: Audit) -> str:
    """The line that does it again, with files by name."""
    words = ["fedparity", "audit", *(origin.name for origin in audit.log.sources if origin.role == "log")]
    for key, value in audit.options.items():
        for one in value if isinstance(value, list) else [value]:
            words += [f"--{key.replace('_', '-')}", str(one)]
    return shlex.join(words)


def summary(audit: Audit) -> dict[str, Any]:
    """Everything that was found, by name; None where it is not known."""
    log, chance, groups = audit.log, audit.chance, audit.groups
    digests = [origin.sha256 for origin in log.sources if origin.role == "log"]
    found: dict[str, Any] = {
        "format": FORMAT,
        "version": versions().get("fedparity", "unknown"),
        "command": command_of(audit),
        "options": dict(audit.options),
        "logs": [asdict(origin) for origin in log.sources],
        "log_sha256": digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest(),
        "verdict": verdict(audit),
        "clients": log.num_clients,
        "erased": audit.erased or None,
        "rounds": log.num_rounds,
        "first_round": log.first,
        "period": None if log.period is None else [_when(at) for at in log.period],
        "cohort": log.cohort,
        "requests": audit.total,
        "availability_known": audit.online_known,
        **audit.measures,
        "p_value": None if chance is None else chance.p,
        "left_out": None if chance is None else len(audit.left_out),
        "favoured": None if chance is None else len(audit.favoured),
        "lowest_impact_ratio": None if groups is None else groups.lowest,
        "ends": _ends(audit),
        "chance": _chance(audit),
        "left_out_clients": [asdict(one) for one in audit.listed(audit.left_out, fewer=True)],
        "favoured_clients": [asdict(one) for one in audit.listed(audit.favoured, fewer=False)],
        "waits": _waits(audit),
        "funnel": [asdict(step) for step in audit.funnel],
        "groups": None if groups is None else [{**asdict(g), "flagged": g.flagged} for g in groups.shown],
        "groups_hidden": None if groups is None else {"groups": groups.hidden, "clients": groups.hidden_clients},
        "windows": [asdict(window) for window in audit.windows],
        "changes": [asdict(point) for point in audit.changes],
        "parity": None if audit.parity is None else numbers(audit.parity, COUNTS),
        "findings": [asdict(finding) for finding in log.findings],
        "missing": [name for name in ("available", *FLAGS[2:], *NUMBERS, "group", "time") if name not in log.known],
        "assumptions": list(log.assumptions) + _ends_said(audit),
        "limits": list(LIMITS),
    }
    return {key: _plain(value) for key, value in found.items()}


def _when(seconds: float) -> str:
    """A date, where seconds can be those since 1970; else as they are."""
    if SINCE_1970[0] <= seconds <= SINCE_1970[1]:
        return datetime.fromtimestamp(seconds, tz=UTC).isoformat(" ", "seconds").removesuffix("+00:00")
    return f"{seconds:g} s"


def _ends(audit: Audit) -> dict[str, Any] | None:
    return {name: audit.measures_of(one) for name, one in audit.ends.items()} or None


def _ends_said(audit: Audit) -> list[str]:
    if audit.online_known:
        return []
    return [f"who was online is not known; two ends: {ENDS[0]}: {ALWAYS}; {ENDS[1]}: {ONLY}"]


def _chance(audit: Audit) -> dict[str, Any] | None:
    chance = audit.chance
    if chance is None:
        return None
    low, high = chance.gini_range or (None, None)
    return {"statistic": chance.statistic, "method": chance.method, "gini": chance.gini, "low": low, "high": high}


def _waits(audit: Audit) -> dict[str, Any] | None:
    """The longest wait of all, and of the middle client."""
    waited = audit.waits
    if waited is None:
        return None
    k = int(waited.longest.argmax())
    middle = sorted(waited.longest.tolist())[len(waited.longest) // 2]
    begins = audit.log.first + int(waited.longest_from[k])
    return {"client": audit.log.names[k], "rounds": int(waited.longest[k]), "from_round": begins, "median": middle}


def _plain(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value
