"""Numbers as words: one way to print each kind, with a dash for what is not defined."""

from __future__ import annotations

import math

from fedparity.metrics import listed, printed

__all__ = ["brief", "fixed", "listed", "of", "percent", "plural", "shortened", "tick"]
DASH = "–"
NARROW = "\u202f"
"""A thin space that does not break: between a number and its unit."""


def fixed(value: float | None, places: int = 3) -> str:
    """`0.513`; never `-0.000`."""
    if value is None or math.isnan(value):
        return DASH
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    shown = f"{value:.{places}f}"
    return shown.replace("-", "", 1) if float(shown) == 0 else shown.replace("-", "−")


def percent(value: float | None, places: int = 1) -> str:
    """`88.9 %`."""
    shown = fixed(None if value is None else value * 100, places)
    return shown if shown == DASH else f"{shown}{NARROW}%"


def brief(value: float | None, like: float | None = None) -> str:
    """Three digits that count: `535`, `0.0123`, `1.2e-07`; with as many decimals as `like` would have, if given."""
    if value is None or not math.isfinite(value):
        return fixed(value)
    size = abs(value if like is None or not math.isfinite(like) else like)
    if value == 0 and size == 0:
        return "0"
    if not 1e-4 <= size < 1e6:
        return f"{value:.2g}".replace("-", "−")
    places = max(0, 2 - math.floor(math.log10(size)))
    return f"{value:,.{places}f}".replace("-", "−")


def of(key: str, value: float | None) -> str:
    """A measure, or a part of one, as all tables print it."""
    return printed(key, value).replace(" %", f"{NARROW}%").replace("-", "−")


def tick(value: float) -> str:
    """A number on an axis."""
    if value and not 1e-4 <= abs(value) < 1e5:
        return f"{value:.0e}".replace("e-0", "e−").replace("e+0", "e").replace("-", "−")
    return f"{value:,.10g}".replace("-", "−")


def plural(number: int, noun: str) -> str:
    """`1 client`, `2 clients`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def shortened(name: str, most: int = 18) -> str:
    """A name that fits beside a line."""
    return name if len(name) <= most else f"{name[: most - 1]}…"
