"""When a device counts as ready: a small expression over its state, such as `charging & wifi & battery>=50`.

    rule   = term { "|" term }
    term   = factor { "&" factor }
    factor = "!" factor | "(" rule ")" | NAME | "battery" (">=" | ">" | "<=" | "<") NUMBER

`!` binds tighter than `&`, `&` tighter than `|`. A text becomes a tree of frozen nodes; the tree is evaluated on whole
columns of states. Nothing is ever handed to the interpreter. A battery level that is not known yet passes no threshold,
so `!(battery<50)` holds where `battery>=50` does not.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from fedparity.core.checks import instance
from fedparity.core.errors import ConfigError
from fedparity.core.types import BoolArray, FloatArray

NAMES = ("charging", "wifi", "locked", "unlocked", "screen_on", "screen_off")
BATTERY = "battery"
COMPARE: dict[str, Callable[[FloatArray, float], BoolArray]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
}
LONGEST = 1000
"""Characters of a rule."""
DEEPEST = 50
"""Brackets and negations around one another."""
TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<number>\d+(?:\.\d*)?|\.\d+)|(?P<sign>>=|<=|[<>&|!()]))", re.ASCII)

DEFAULT_RULE = "charging & wifi"
RULES = (
    "charging & wifi",
    "charging & wifi & locked",
    "charging & wifi & screen_off",
    "charging & wifi & battery>=50",
    "charging & wifi & battery>=80",
    "wifi",
    "wifi & locked",
    "charging",
)
"""The readings that `fedparity trace rules` compares."""


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """A device's state after each of its events, one column per state."""

    charging: BoolArray
    wifi: BoolArray
    locked: BoolArray
    screen_on: BoolArray
    battery: FloatArray
    """Per cent; NaN until it is known."""


@dataclass(frozen=True, slots=True)
class Is:
    """One of the named states."""

    name: str

    def holds(self, states: States) -> BoolArray:
        """Where it holds."""
        if self.name == "unlocked":
            return ~states.locked
        if self.name == "screen_off":
            return ~states.screen_on
        found: BoolArray = getattr(states, self.name)
        return found


@dataclass(frozen=True, slots=True)
class Battery:
    """A threshold on the battery's level, in per cent."""

    sign: str
    level: float

    def holds(self, states: States) -> BoolArray:
        """Where it holds; nowhere while the level is unknown."""
        return COMPARE[self.sign](states.battery, self.level)


@dataclass(frozen=True, slots=True)
class Not:
    """What does not hold."""

    part: Rule

    def holds(self, states: States) -> BoolArray:
        """Where it holds."""
        return ~self.part.holds(states)


@dataclass(frozen=True, slots=True)
class Every:
    """All of several."""

    parts: tuple[Rule, ...]
    join: ClassVar[np.ufunc] = np.logical_and

    def holds(self, states: States) -> BoolArray:
        """Where it holds."""
        return np.asarray(self.join.reduce([part.holds(states) for part in self.parts]), dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class Some(Every):
    """At least one of several."""

    join: ClassVar[np.ufunc] = np.logical_or


Rule: TypeAlias = Is | Battery | Not | Every


def parse_rule(text: str) -> Rule:
    """The tree of a rule; a mistake is named with its place and with what may stand there."""
    instance("rule", text, str)
    if len(text) > LONGEST:
        raise ConfigError(f"rule of {len(text)} characters: at most {LONGEST}; write a shorter one")
    return _Parser(text).whole()


class _Parser:
    """Recursive descent over the tokens of one rule."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        place = 0
        while text[place:].strip():
            found = TOKEN.match(text, place)
            if found is None:
                at = len(text) - len(text[place:].lstrip())
                raise self.fault(at, f"{text[at]!r} means nothing here")
            kind = found.lastgroup or ""
            self.tokens.append((kind, found[kind], found.start(kind)))
            place = found.end()
        self.tokens.append(("end", "the end", len(text)))
        self.next = 0

    def fault(self, place: int, what: str) -> ConfigError:
        return ConfigError(
            f"rule {self.text!r}, character {place + 1}: {what}; write names joined by & | ! ( ): "
            f"{', '.join(NAMES)}, {BATTERY}>=NUMBER"
        )

    def take(self, *signs: str) -> str | None:
        kind, word, _ = self.tokens[self.next]
        if kind != "sign" or word not in signs:
            return None
        self.next += 1
        return word

    def whole(self) -> Rule:
        rule = self.either(0)
        kind, word, place = self.tokens[self.next]
        if kind != "end":
            raise self.fault(place, f"{word!r} must follow & or |")
        return rule

    def either(self, depth: int) -> Rule:
        parts = [self.both(depth)]
        while self.take("|"):
            parts.append(self.both(depth))
        return parts[0] if len(parts) == 1 else Some(tuple(parts))

    def both(self, depth: int) -> Rule:
        parts = [self.factor(depth)]
        while self.take("&"):
            parts.append(self.factor(depth))
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def factor(self, depth: int) -> Rule:
        kind, word, place = self.tokens[self.next]
        if depth > DEEPEST:
            raise self.fault(place, f"more than {DEEPEST} brackets and ! around one another")
        if self.take("!"):
            return Not(self.factor(depth + 1))
        if self.take("("):
            inside = self.either(depth + 1)
            if not self.take(")"):
                raise self.fault(self.tokens[self.next][2], f"the bracket of character {place + 1} is not closed")
            return inside
        if kind != "name":
            raise self.fault(place, f"{word!r} found where a name must stand")
        self.next += 1
        if word == BATTERY:
            return self.threshold()
        if word not in NAMES:
            raise self.fault(place, f"unknown state {word!r}")
        return Is(word)

    def threshold(self) -> Rule:
        sign = self.take(*COMPARE)
        kind, word, place = self.tokens[self.next]
        if sign is None or kind != "number":
            raise self.fault(place, f"{word!r} found where {BATTERY} must be compared with a number")
        self.next += 1
        level = float(word)
        if not math.isfinite(level) or level > 100:
            raise self.fault(place, f"{BATTERY} level {word} must be between 0 and 100")
        return Battery(sign, level)
