"""What stands under a field is what its parameter does."""

import types
from dataclasses import dataclass, field, make_dataclass
from typing import ClassVar

from fedparity.core.described import parameter_help


@dataclass(frozen=True, slots=True)
class Bird:
    """A bird."""

    kind: ClassVar[str] = "any"
    """Not a field."""
    wings: int = 2
    """How many it flies with;
    more are heavier."""
    weight: float = 0.5
    hidden: int = field(default=7, metadata={"settable": False})
    """Nothing to set."""
    eggs: int = 1
    """Per year."""


@dataclass(frozen=True, slots=True)
class Moa(Bird):
    """A bird that cannot fly."""

    eggs: int = 2
    """Per two years."""
    height: float = 3.6
    """In metres."""


def test_the_line_under_a_field():
    assert parameter_help(Bird) == {"wings": "How many it flies with; more are heavier.", "eggs": "Per year."}


def test_inherited_fields_keep_their_line_unless_they_get_another():
    found = parameter_help(Moa)
    assert list(found) == ["wings", "eggs", "height"]
    assert found["eggs"] == "Per two years."
    assert found["wings"] == parameter_help(Bird)["wings"]


def test_a_class_without_source_has_no_lines():
    made = make_dataclass("Made", [("size", int, 1)])
    assert parameter_help(made) == {}
    made.__module__ = types.__name__ + ".nowhere"
    assert parameter_help(made) == {}
