"""A result that can be checked by anyone who has the log: canonical JSON, signed by HMAC-SHA256 with a shared key.

Canonical: keys sorted, no spaces, ASCII, floats as Python's repr (they read back exactly). The signature covers all but
itself. A key is 16 secret bytes or more; who has it can check and sign, so it shows that a holder of the key signed,
not which one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedparity.core.errors import ConfigError, InputError

ALGORITHM = "HMAC-SHA256"
SIGNATURE = "signature"
SHORTEST_KEY = 16
MOST_BYTES = 1 << 28
CLOSE = 1e-9
NOT_COMPARED = ("command", "version", SIGNATURE)
"""What may differ between an audit and the same one done again elsewhere."""


def canonical(found: Mapping[str, Any]) -> bytes:
    """The bytes that are signed."""
    rest = {key: value for key, value in found.items() if key != SIGNATURE}
    return json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def read_key(path: Path) -> bytes:
    """A secret from a file, as it is."""
    try:
        key = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give a file with a secret") from error
    if len(key) < SHORTEST_KEY:
        raise ConfigError(
            f"{path}: has {len(key)} bytes but a key must have at least {SHORTEST_KEY}; make a longer one"
        )
    return key


def signed(found: Mapping[str, Any], key: bytes) -> dict[str, Any]:
    """The same with its signature."""
    value = hmac.new(key, canonical(found), hashlib.sha256).hexdigest()
    return {**found, SIGNATURE: {"algorithm": ALGORITHM, "value": value}}


def read_result(path: Path) -> dict[str, Any]:
    """A result that an earlier audit wrote."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: more than {MOST_BYTES >> 20} MiB; this is no result of an audit")
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}); give what fedparity audit --json printed") from None
    if not isinstance(found, dict) or not isinstance(found.get("logs"), list) or "options" not in found:
        raise InputError(f"{path}: not the result of an audit; give what fedparity audit --json printed")
    return found


def problems(told: Mapping[str, Any], again: Mapping[str, Any], key: bytes | None) -> list[str]:
    """What is wrong with a result, given the same audit done again; empty: nothing."""
    found = []
    if key is not None:
        signature = told.get(SIGNATURE)
        value = signature.get("value") if isinstance(signature, dict) else None
        if value is None:
            found.append("it is not signed")
        elif not hmac.compare_digest(str(value), signed(told, key)[SIGNATURE]["value"]):
            found.append("its signature does not fit: it was changed, or signed with another key")
    digests = [entry.get("sha256") for entry in told["logs"] if isinstance(entry, dict)]
    if digests != [entry["sha256"] for entry in again["logs"]]:
        found.append("it was made from another log")
    names = [
        k for k in {**told, **again} if k not in NOT_COMPARED and k != "logs" and not same(told.get(k), again.get(k))
    ]
    if names:
        shown = ", ".join(f"{k} is {_short(told.get(k))}, not {_short(again.get(k))}" for k in names[:3])
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        found.append(f"the audit done again differs: {shown}{more}")
    return found


def same(told: object, again: object) -> bool:
    """Equal, but for the last digits in which processors differ."""
    if isinstance(told, float) or isinstance(again, float):
        numbers = isinstance(told, (int, float)) and isinstance(again, (int, float))
        return numbers and math.isclose(told, again, rel_tol=CLOSE, abs_tol=CLOSE)  # type: ignore[arg-type]
    if isinstance(told, dict) and isinstance(again, dict):
        return told.keys() == again.keys() and all(same(told[key], again[key]) for key in told)
    if isinstance(told, list) and isinstance(again, list):
        return len(told) == len(again) and all(map(same, told, again))
    return told == again


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
