"""Names with settings in, checked objects out."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pytest

from fedparity.core.checks import between
from fedparity.core.errors import ConfigError
from fedparity.core.registry import Registry


@dataclass(frozen=True, slots=True)
class Bird:
    """A bird.

    More about it.
    """

    wings: int = 2
    weight: float = 0.5
    sings: bool = True
    mood: Literal["calm", "wild"] = "calm"
    eggs: tuple[int, ...] = ()
    speeds: tuple[float, ...] | None = None
    limit: float | None = None
    hidden: int = field(default=7, metadata={"settable": False})
    reference: ClassVar[str] = "Aristotle"

    def __post_init__(self):
        between("weight", self.weight, 0, 9)


BIRDS: Registry[Bird] = Registry("bird", {"bird": Bird, "moa": functools.partial(Bird, wings=0)})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bird", Bird()),
        ("bird:", Bird()),
        (" bird : wings = 4 , weight=.25", Bird(wings=4, weight=0.25)),
        ("moa", Bird(wings=0)),
        ("moa:wings=1", Bird(wings=1)),
        ("bird:sings=false,mood=wild", Bird(sings=False, mood="wild")),
        ("bird:eggs=1/2/3", Bird(eggs=(1, 2, 3))),
        ("bird:eggs=5", Bird(eggs=(5,))),
        ("bird:speeds=.5/2", Bird(speeds=(0.5, 2.0))),
        ("bird:speeds=none,limit=None", Bird()),
        ("bird:limit=3", Bird(limit=3.0)),
    ],
)
def test_build(text, expected):
    assert BIRDS.build(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("brid", r"unknown bird 'brid'; did you mean 'bird'\? known: bird, moa"),
        ("zzzzzz", "unknown bird 'zzzzzz'; known: bird, moa"),
        ("bird:wing=3", r"bird 'bird': unknown key 'wing'; did you mean 'wings'\?"),
        ("bird:hidden=3", "unknown key 'hidden'"),
        ("bird:reference=x", "unknown key 'reference'"),
        ("bird:wings", "'wings' must be written key=value"),
        ("bird:wings=1,wings=2", "key 'wings' is given twice"),
        ("bird:wings=two", "bird:wings='two' must be a whole number"),
        ("bird:wings=2.5", "must be a whole number"),
        ("bird:wings=none", "must be a whole number"),
        ("bird:weight=heavy", "must be a number"),
        ("bird:weight=nan", "must be a finite number"),
        ("bird:limit=inf", "must be a finite number"),
        ("bird:limit=x", "must be a number or none"),
        ("bird:speeds=1/nan", "must be a finite number"),
        ("bird:sings=loudly", "must be true or false"),
        ("bird:mood=sad", "must be calm or wild"),
        ("bird:eggs=1/x", "must be numbers written a/b/c"),
        ("bird:weight=10", "weight=10.0 must be between 0 and 9"),
    ],
)
def test_what_cannot_be_built_says_why(text, says):
    with pytest.raises(ConfigError, match=says) as caught:
        BIRDS.build(text)
    assert "\n" not in str(caught.value)


def test_describe_shows_the_preset():
    shown = BIRDS.describe("moa")
    assert shown["name"] == "moa"
    assert shown["summary"] == "A bird."
    assert shown["reference"] == "Aristotle"
    assert shown["parameters"]["wings"] == 0
    assert shown["parameters"]["weight"] == 0.5
    assert "hidden" not in shown["parameters"]


def test_it_is_a_mapping():
    assert list(BIRDS) == ["bird", "moa"]
    assert len(BIRDS) == 2
    assert "moa" in BIRDS
    assert BIRDS["bird"] is Bird
