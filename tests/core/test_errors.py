"""The tree of errors, and the hint for a name that is not in a table."""

import pytest

from fedparity.core import errors
from fedparity.core.errors import FedparityError, unknown

LEAVES = [errors.ConfigError, errors.InputError, errors.OutputError, errors.RefusedError, errors.RoundError]


@pytest.mark.parametrize("kind", LEAVES)
def test_everything_is_a_fedparity_error_and_in_the_picture(kind):
    assert kind.__bases__ == (FedparityError,)
    assert kind.__name__ in errors.__doc__
    assert kind.__doc__.strip() != ""


def test_the_picture_is_complete():
    defined = {v for v in vars(errors).values() if isinstance(v, type) and issubclass(v, Exception)}
    assert defined == {FedparityError, *LEAVES}


def test_the_nearest_name_is_offered():
    text = str(unknown("scheduler", "ort", ["uniform", "oort"]))
    assert text == "unknown scheduler 'ort'; did you mean 'oort'? known: oort, uniform"


def test_no_name_is_offered_where_none_is_near():
    assert str(unknown("key", "zzz", ["alpha"])) == "unknown key 'zzz'; known: alpha"
