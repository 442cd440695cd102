"""Whether the components of a method fit together.

Half of a published method is refused, with the other half named, and so is a scheduler by utility where participations
are not credited: it would be another scheduler under that name, without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedparity.core.errors import ConfigError
from fedparity.core.protocols import Component
from fedparity.core.registry import Registry, component_class, text_of
from fedparity.local import LOCALS
from fedparity.memory import MEMORIES
from fedparity.utility import NoUtility
from fedparity.weightings import WEIGHTINGS

TABLES: Mapping[str, Registry[Any]] = {"weighting": WEIGHTINGS, "memory": MEMORIES, "local": LOCALS}


def check_fit(parts: Mapping[str, Any], *, late: bool = False) -> None:
    """Refuse a component without those that it works on; `late`: updates that come late are rows like a memory's."""
    rule = parts["utility"]
    if "utility" in parts["scheduler"].requires and (isinstance(rule, NoUtility) or rule.credits_all):
        does = "nothing" if isinstance(rule, NoUtility) else "everybody in every round, asked or not"
        raise ConfigError(
            f"scheduler {parts['scheduler']!r} evens out what participations are worth, but utility={rule!r} credits"
            f" {does}; choose another rule, for example global_loss_drop, or the target opportunity"
        )
    for key in TABLES:
        part = parts[key]
        for other, text in part.goes_with.items():
            choices = text.split(" or ")
            if not any(_is(parts[other], TABLES[other], choice, late=late) for choice in choices):
                raise ConfigError(
                    f"{key} {_name(part)!r} works on {other} {text!r}, but {other} is"
                    f' {_name(parts[other])!r}; set {other} = "{choices[0]}", or choose another {key}'
                )


def _is(part: Component, table: Registry[Any], text: str, *, late: bool) -> bool:
    """Whether a component is what `NAME[:key=value,...]` says, in the parameters that it gives; `any`: all but none."""
    if text == "any":
        return late or type(part) is not component_class(table["none"])
    name, _, rest = text.partition(":")
    given = (pair.split("=") for pair in rest.split(",") if pair)
    return type(part) is component_class(table[name]) and all(_equal(getattr(part, k), v) for k, v in given)


def _equal(value: object, text: str) -> bool:
    return float(text) == value if isinstance(value, (int, float)) else str(value) == text


def _name(part: Component) -> str:
    return str(text_of(part, TABLES.values()) or type(part).__name__)
