"""Rules on numbers and names, each with one error that names the value, the rule and the fix."""

from __future__ import annotations

import math

from fedparity.core.errors import ConfigError


def _refuse(name: str, value: object, rule: str) -> ConfigError:
    return ConfigError(f"{name}={value} must be {rule}")


def _finite(value: float) -> bool:
    """Whether a float can hold it."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


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
    if not low <= value <= high:
        raise _refuse(name, value, f"between {low:g} and {high:g}")


def at_least(name: str, value: int, low: int) -> None:
    """Refuse a whole number below `low`."""
    if not (_finite(value) and value >= low and value == int(value)):
        raise _refuse(name, value, f"a whole number of at least {low}")


def is_encodable(text: str) -> bool:
    """Whether a file can hold a text: half of a surrogate pair is not a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
