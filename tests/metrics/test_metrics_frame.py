"""ClientFrame: the same numbers as the plain functions, over all clients and by group."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from fedparity.core.errors import ConfigError
from fedparity.metrics import ClientFrame, inequality

FRAME = ClientFrame([0.9, 0.5, 0.7, 0.1], groups=["phone", "hub", "phone", "hub"], names=["a", "b", "c", "d"])


@pytest.mark.parametrize("name", ["mean", "variance", "std", "cv", "jain", "gini", "worst"])
def test_methods_are_the_functions(name):
    assert getattr(FRAME, name)() == getattr(inequality, name)([0.9, 0.5, 0.7, 0.1])


def test_arguments_are_passed_on():
    assert FRAME.worst(0.5) == pytest.approx(0.3)
    assert FRAME.cv(eps=0.45) == pytest.approx(FRAME.std() / 1.0)


def test_groups_keep_their_clients_in_order_of_appearance():
    groups = FRAME.by_group()
    assert list(groups) == ["phone", "hub"]
    assert groups["hub"].values.tolist() == [0.5, 0.1]
    assert groups["hub"].names == ("b", "d")
    assert groups["hub"].groups == ("hub", "hub")
    assert FRAME.group_gap() == pytest.approx(0.8 - 0.3)


def test_groups_may_be_an_array_of_labels():
    frame = ClientFrame(np.array([1, 2, 4]), groups=np.array([7, 7, 3]))
    assert {group: part.mean() for group, part in frame.by_group().items()} == {7: 1.5, 3: 4.0}
    assert frame.group_gap() == 2.5


def test_summary_has_every_number_by_name():
    summary = FRAME.summary()
    assert list(summary) == ["clients", "mean", "variance", "std", "cv", "jain", "gini", "worst", "group_gap"]
    assert (summary["clients"], summary["worst"], summary["jain"]) == (4, 0.1, FRAME.jain())
    assert "group_gap" not in ClientFrame([1, 2]).summary()


def test_summary_of_negative_values_has_no_gini():
    summary = ClientFrame([-1, 3]).summary()
    assert math.isnan(summary["gini"])
    assert (summary["mean"], summary["std"]) == (1, 2)
    with pytest.raises(ConfigError, match=r"\[0\]=-1"):
        ClientFrame([-1, 3]).gini()


def test_no_clients():
    empty = ClientFrame([], groups=[])
    assert empty.by_group() == {}
    assert math.isnan(empty.group_gap())
    assert empty.summary()["clients"] == 0
    assert all(math.isnan(value) for name, value in empty.summary().items() if name != "clients")


def test_a_frame_does_not_change():
    column = np.array([1.0, 2.0])
    frame = ClientFrame(column)
    column[0] = 9
    assert frame.values.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        frame.values[0] = 9
    with pytest.raises(dataclasses.FrozenInstanceError):
        frame.names = ("x", "y")


def test_bad_input_is_refused():
    with pytest.raises(ConfigError, match=r"values\[1\]=nan"):
        ClientFrame([1, math.nan])
    with pytest.raises(ConfigError, match="groups has 1 entries for 2 clients"):
        ClientFrame([1, 2], groups=["a"])
    with pytest.raises(ConfigError, match="names has 3 entries for 2 clients"):
        ClientFrame([1, 2], names=["a", "b", "c"])
    with pytest.raises(ConfigError, match="has no groups"):
        ClientFrame([1, 2]).by_group()
