"""Conditions for pipelines, such as `gini_avoidable > .1 or p_value < .01`: names, numbers and comparisons, no code.

condition = part {"or" part}        part = one {"and" one}        one = NAME (< | <= | > | >= | == | !=) NUMBER
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from fedparity.core.errors import ConfigError, InputError, unknown

COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
ONE = re.compile(r"\s*([A-Za-z_][\w]*)\s*(<=|>=|==|!=|<|>)\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*")
LONGEST = 1000


def parse(text: str) -> list[list[tuple[str, str, float]]]:
    """Alternatives, each a list of comparisons that must all hold."""
    if len(text) > LONGEST:
        raise ConfigError(f"--fail-if has {len(text)} characters, more than {LONGEST}; split it into several")
    found = []
    for part in re.split(r"\bor\b", text):
        matches = [(one, ONE.fullmatch(one)) for one in re.split(r"\band\b", part)]
        bad = next((one for one, match in matches if match is None), None)
        if bad is not None:
            raise ConfigError(
                f"--fail-if {bad.strip()!r} must be NAME OP NUMBER, as in 'gini_avoidable > .1'; join by and, or"
            )
        found.append([(m[1], m[2], float(m[3])) for _, m in matches if m is not None])
    return found


def holds(text: str, found: Mapping[str, Any]) -> bool:
    """Whether a condition holds for the numbers of an audit; a number that is not known is an error, not a pass."""
    numbers: dict[str, Any] = {k: v for k, v in found.items() if v is None or type(v) in (int, float)}
    values = []
    for part in parse(text):
        for name, _, _ in part:
            if name not in numbers:
                raise unknown("name in --fail-if", name, numbers, "--json")
            if numbers[name] is None:
                raise InputError(f"--fail-if: {name} is not known from this log; see missing and assumptions in --json")
        values.append(all(COMPARE[op](numbers[name], number) for name, op, number in part))
    return any(values)
