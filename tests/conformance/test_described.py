"""Every parameter of every component says what it does, in a line of its own that `fedparity list NAME` can show."""

import dataclasses
import re

import pytest

from fedparity.availability import AVAILABILITY
from fedparity.core.coordinator import Coordinator
from fedparity.core.described import parameter_help
from fedparity.core.gate import Gate
from fedparity.core.registry import component_class
from fedparity.data.partitions import PARTITIONS
from fedparity.estimators import ESTIMATORS
from fedparity.experiment.schedule import Gains, Setting
from fedparity.local import LOCALS
from fedparity.memory import MEMORIES
from fedparity.models import MODELS
from fedparity.models.features import EXTRACTORS
from fedparity.schedulers import SCHEDULERS
from fedparity.servers import SERVERS
from fedparity.servers.rate_schedules import RATE_SCHEDULES
from fedparity.surrogates import SURROGATES
from fedparity.tasks.training import Training
from fedparity.utility import UTILITIES
from fedparity.weightings import WEIGHTINGS

TABLES = (
    AVAILABILITY,
    ESTIMATORS,
    EXTRACTORS,
    LOCALS,
    MEMORIES,
    MODELS,
    PARTITIONS,
    RATE_SCHEDULES,
    SCHEDULERS,
    SERVERS,
    SURROGATES,
    UTILITIES,
    WEIGHTINGS,
)
OTHERS = (Coordinator, Gains, Gate, Setting, Training)
"""Classes with parameters that are in no table."""
CLASSES = dict.fromkeys([*(component_class(table[name]) for table in TABLES for name in table), *OTHERS])
PARAMETERS = [
    pytest.param(field.name, parameter_help(cls).get(field.name), id=f"{cls.__module__}.{cls.__name__}.{field.name}")
    for cls in CLASSES
    for field in dataclasses.fields(cls)
    if field.init and field.metadata.get("settable", True)
]
SMALL = {"a", "an", "the", "of", "in", "is", "it", "its", "this", "value", "parameter", "number", "setting"}


def words(text):
    """What a text says: its words in lower case, without endings and without those that say nothing."""
    return {word.rstrip("s") for word in re.findall(r"[a-z0-9]+", text.lower())} - SMALL


def says_nothing_new(key, line):
    return not words(line) - words(key.replace("_", " "))


@pytest.mark.parametrize(("key", "line"), PARAMETERS)
def test_every_parameter_has_a_line_that_says_more_than_its_name(key, line):
    assert line, "write a string under the field: what it does, its unit, and what raising it does"
    assert line[-1] == ".", line
    assert not says_nothing_new(key, line), f"{line!r} only repeats the name {key!r}"
    assert len(line) <= 240, line


@pytest.mark.parametrize(("key", "line"), [("rate", "The rate."), ("max_age", "Its max ages."), ("d", "")])
def test_a_repeated_name_is_noticed(key, line):
    assert says_nothing_new(key, line)
    assert not says_nothing_new(key, f"{line} Higher is faster.")


def test_a_preset_has_the_lines_of_its_class():
    assert SCHEDULERS.describe("oort_code")["parameter_help"] == parameter_help(SCHEDULERS["oort"])
