"""Rules on numbers and names, each with one error that names the value, the rule and the fix."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from fedparity.core.errors import ConfigError
from fedparity.core.reprs import one_line

BOOLEAN = (bool, np.bool_)
"""No numbers: whoever says `alpha=True` means something else than 1."""


def _refuse(name: str, value: object, rule: str) -> ConfigError:
    shown = value if isinstance(value, (float, np.generic)) else one_line(value)  # whole numbers may be endless
    return ConfigError(f"{name}={shown} must be {rule}")


def _finite(value: Any) -> bool:
    """Whether it is a number that a float can hold."""
    try:
        return not isinstance(value, BOOLEAN) and math.isfinite(value)
    except (OverflowError, TypeError, ValueError):
        return False


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, BOOLEAN)


def _whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def positive(name: str, value: float) -> None:
    """Refuse anything but a finite number above 0."""
    if not (_finite(value) and value > 0):
        raise _refuse(name, value, "a finite number above 0")


def not_negative(name: str, value: float) -> None:
    """Refuse anything but a finite number of at least 0."""
    if not (_finite(value) and value >= 0):
        raise _refuse(name, value, "a finite number of at least 0")


def between(name: str, value: float, low: float, high: float) -> None:
    """Refuse anything outside [low, high]."""
    if not (_is_number(value) and low <= value <= high):
        raise _refuse(name, value, f"between {low:g} and {high:g}")


def at_least(name: str, value: int, low: int, high: int | None = None, fix: str = "") -> None:
    """Refuse anything but a whole number of at least `low` and, if it is given, at most `high`."""
    if not (_whole(value) and value >= low):
        raise _refuse(name, value, f"a whole number of at least {low}{fix and '; '}{fix}")
    if high is not None and value > high:
        raise _refuse(name, value, f"a whole number of at most {high}")


def instance(name: str, value: object, kind: type, fix: str = "") -> None:
    """Refuse anything but an object of a class; `fix` says how to get one."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIO" else "a"
        raise ConfigError(f"{name}={one_line(value)} must be {article} {kind.__name__}{fix and '; '}{fix}")


def path(name: str, value: object) -> None:
    """Refuse anything that is not the path of a file or folder."""
    if not isinstance(value, (str, os.PathLike)):
        raise ConfigError(f"{name}={one_line(value)} must be a path; write it as text")


def is_encodable(text: str) -> bool:
    """Whether a file can hold a text: half of a surrogate pair is not a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def one_of(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse anything but one of a few words."""
    if value not in choices:
        raise _refuse(name, value, f"one of {', '.join(choices)}")
