"""Rules on numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedparity.core import checks
from fedparity.core.errors import ConfigError


def refused(check, *arguments):
    try:
        check("x", *arguments)
    except ConfigError as error:
        return str(error).startswith(f"x={arguments[0]} must be ")
    return False


@given(st.floats())
def test_positive_and_not_negative(value):
    assert refused(checks.positive, value) == (not (math.isfinite(value) and value > 0))
    assert refused(checks.not_negative, value) == (not (math.isfinite(value) and value >= 0))


@given(st.floats(), st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_between(value, low, high):
    assert refused(checks.between, value, low, high) == (not low <= value <= high)


@given(st.integers(), st.integers())
def test_at_least(value, low):
    assert refused(checks.at_least, value, low) == (value < low)


@pytest.mark.parametrize("value", [1.5, float("nan"), -0.5])
def test_at_least_wants_a_whole_number(value):
    assert refused(checks.at_least, value, 1)


def test_the_message_names_value_and_rule():
    with pytest.raises(ConfigError, match=r"^rate=1\.5 must be between 0 and 1$"):
        checks.between("rate", 1.5, 0, 1)
    with pytest.raises(ConfigError, match=r"^rounds=0 must be a whole number of at least 1$"):
        checks.at_least("rounds", 0, 1)


@pytest.mark.parametrize("value", [True, np.True_])
def test_whether_is_no_number(value):
    for check, more in ((checks.positive, ()), (checks.not_negative, ()), (checks.between, (0, 2))):
        assert refused(check, value, *more)
