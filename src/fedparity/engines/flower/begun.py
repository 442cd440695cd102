"""How a deployment was set up, as its store keeps it: one line, in which only what differs from the defaults stands.

    # deployment {"cohort": "4", "gate": "Gate(deadline=60.0, max_age=3)", "scheduler": "Parity()"}

A setting that came later is at its default in an older line, since it is not in it. Nothing of it is evaluated.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from fedparity.core.coordinator import Coordinator
from fedparity.core.errors import ConfigError, InputError
from fedparity.core.reprs import is_default
from fedparity.core.tree import Classes, classes_in
from fedparity.schedulers import SCHEDULERS

MARK = "# deployment "
STATE = "state"
"""The key of the dataclasses that the state may hold, by name: what a check of the store needs."""
OLD = re.compile(r"^(?:# )?Coordinator\(", re.MULTILINE)
GATE = re.compile(r"gate=Gate\([^)]*\)(, )?")
"""In older lines, cut in the middle and with all of its defaults: no ground for a refusal."""


def line_of(coordinator: Coordinator) -> str:
    """The line of a coordinator."""
    told = {f.name: _text(getattr(coordinator, f.name)) for f in _shown(coordinator)}
    told |= {"cohort": _text(coordinator.cohort), "seed": _text(coordinator.seed)}
    told["scheduler"] = _text(coordinator.scheduler)
    told[STATE] = " ".join(sorted(classes_in(coordinator.init(coordinator.cohort))))
    return f"{MARK}{json.dumps(told, sort_keys=True)}\n"


def _shown(value: Any) -> list[dataclasses.Field[Any]]:
    return [f for f in dataclasses.fields(value) if f.repr and not is_default(f, getattr(value, f.name))]


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inside = ", ".join(f"{f.name}={_text(getattr(value, f.name))}" for f in _shown(value))
        return f"{type(value).__name__}({inside})"
    return repr(value)


def settings_of(spec: str) -> dict[str, str] | None:
    """What a stored text says of a deployment; None: it is of none, or of one from before such lines."""
    line = next((line for line in spec.splitlines() if line.startswith(MARK)), None)
    if line is None:
        return None
    try:
        found = json.loads(line.removeprefix(MARK))
        return {str(key): str(value) for key, value in found.items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise InputError("the line of a deployment in its store cannot be read; restore run.db") from error


def check_same(root: object, old: str, coordinator: Coordinator) -> None:
    """Refuse to go on with other rules than a run was begun with."""
    then, now = settings_of(old), settings_of(line_of(coordinator)) or {}
    fix = "give the same, or another store"
    if then is None:
        before = OLD.search(old)
        if before is None or GATE.sub("", old[before.end() :].strip()) != GATE.sub("", repr(coordinator)[12:]):
            raise ConfigError(f"{root} was begun with other rules; {fix}")
        return
    for key in sorted((then.keys() | now.keys()) - {STATE}):
        if then.get(key) != now.get(key):
            was, given = (told.get(key, "its default") for told in (then, now))
            raise ConfigError(f"{root} was begun with {key}={was}, now it is {given}; {fix}")


def state_classes(settings: dict[str, str]) -> Classes:
    """The dataclasses that the state may hold, as far as they are ours; of others nobody is made to run code."""
    found = Classes()
    for name in settings.get(STATE, "").split():
        module, _, kind = name.partition(":")
        made = None
        if module.partition(".")[0] == "fedparity":
            with suppress(ImportError):
                made = getattr(import_module(module), kind, None)
        if isinstance(made, type) and dataclasses.is_dataclass(made):
            found[name] = made
        else:
            found.open = True
    return found


def scheduler_name(settings: dict[str, str]) -> str:
    """The scheduler's name in its table."""
    made = settings.get("scheduler", "").partition("(")[0]
    found = next((name for name, kind in SCHEDULERS.items() if getattr(kind, "__name__", "") == made), None)
    if found is None:
        raise InputError(f"its scheduler {made!r} is not one of ours; look at it with fedparity audit")
    return found
