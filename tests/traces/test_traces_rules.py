"""Readiness rules: the grammar, the logic against plain Python, and one clear error for anything else."""

import contextlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedparity.core.errors import ConfigError
from fedparity.traces.rules import NAMES, RULES, Battery, Every, Is, Not, Some, States, parse_rule

GRID = np.array(list(itertools.product([False, True], repeat=4)))
LEVELS = np.resize([np.nan, 0.0, 49.9, 50.0, 100.0], len(GRID) * 5)
STATES = States(*(np.repeat(GRID[:, k], 5) for k in range(4)), LEVELS)


def expected(text):
    """The same rule by Python's own operators, on one row at a time."""
    words = text.replace("&", " and ").replace("|", " or ").replace("!", " not ")
    rows = zip(STATES.charging, STATES.wifi, STATES.locked, STATES.screen_on, STATES.battery, strict=True)
    names = ("charging", "wifi", "locked", "screen_on", "battery")
    return [
        bool(eval(words, {}, dict(zip(names, row, strict=True)) | {"unlocked": not row[2], "screen_off": not row[3]}))
        for row in rows
    ]


def rules():
    leaf = st.sampled_from([*NAMES, "battery>=50", "battery < 49.9", "battery>0", "battery<=100"])
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from([" & ", "|", "&", " | "]), inner).map("".join),
            inner.map(lambda r: f"!({r})"),
            inner.map(lambda r: f"( {r} )"),
        ),
        max_leaves=8,
    )


@given(rules())
def test_a_rule_means_what_python_would_say(text):
    assert parse_rule(text).holds(STATES).tolist() == expected(text)


def test_trees_are_plain():
    assert parse_rule("charging & wifi") == Every((Is("charging"), Is("wifi")))
    assert parse_rule("charging|wifi & !locked") == Some((Is("charging"), Every((Is("wifi"), Not(Is("locked"))))))
    assert parse_rule("battery>=50") == Battery(">=", 50.0)
    assert parse_rule("wifi | wifi") != parse_rule("wifi & wifi")


def test_an_unknown_battery_passes_no_threshold():
    unknown = np.isnan(STATES.battery)
    for text in ("battery>=0", "battery<=100"):
        assert not parse_rule(text).holds(STATES)[unknown].any()
    assert parse_rule("!(battery<50)").holds(STATES)[unknown].all()


def test_the_compared_rules_are_rules():
    for text in RULES:
        parse_rule(text)


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("", 1, "a name must stand"),
        ("   ", 4, "a name must stand"),
        ("charging &", 11, "a name must stand"),
        ("charging wifi", 10, "'wifi' must follow & or |"),
        ("chargin & wifi", 1, "unknown state 'chargin'"),
        ("charging & (wifi", 17, "bracket of character 12 is not closed"),
        ("charging)", 9, "')' must follow"),
        ("charging and wifi", 10, "'and' must follow"),
        ("battery", 8, "compared with a number"),
        ("battery>=", 10, "compared with a number"),
        ("battery>=wifi", 10, "compared with a number"),
        ("battery>=101", 10, "between 0 and 100"),
        ("wifi >= 5", 6, "must follow"),
        ("wifi; locked", 5, "';' means nothing here"),
        ("__import__('os')", 12, "means nothing here"),
        ("!" * 80 + "wifi", 52, "more than 50"),
        ("(" * 80 + "wifi" + ")" * 80, 52, "more than 50"),
        ("é", 1, "means nothing"),
    ],
)
def test_a_mistake_is_named_with_its_place(text, place, says):
    with pytest.raises(ConfigError) as caught:
        parse_rule(text)
    assert f"character {place}: " in str(caught.value)
    assert says in str(caught.value)
    assert "charging" in str(caught.value)


def test_a_rule_has_an_end():
    with pytest.raises(ConfigError, match="at most 1000"):
        parse_rule("wifi&" * 500 + "wifi")


@given(st.lists(st.sampled_from([*"&|!()<>= .;5", "battery", "wifi", "é", "\n", "locked"]), max_size=30).map("".join))
def test_any_text_is_a_rule_or_a_config_error(text):
    with contextlib.suppress(ConfigError):
        parse_rule(text).holds(STATES)
