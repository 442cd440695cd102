"""What a scheduler or a weighting returns is held to the rules, and refused by its name, the round and the rule."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from fedparity import (
    SCHEDULERS,
    ClientReport,
    Cohort,
    Coordinator,
    Ledger,
    NoTraining,
    RoundError,
    RoundView,
    Scheduler,
    Weighting,
    run,
)
from fedparity.core.selection import checked, ids_of

ONLINE = np.array([1, 3, 4, 7, 9])


@dataclass(frozen=True)
class Returns(Scheduler):
    """A scheduler that returns what it is told to."""

    found: Any = field(repr=False)

    def init(self, num_clients):
        return ()

    def select(self, state, view, rng):
        return self.found if isinstance(self.found, str) else (self.found, state)


def a_cohort(clients=(1, 4), probs=(0.5, 1.0), design="unknown", wasted=0):
    return Cohort(clients, probs, design, wasted)


def a_view(cohort=3):
    return RoundView(5, None, cohort, ONLINE, np.ones(len(ONLINE)), None, Ledger.empty(10))


def test_lists_become_arrays_and_arrays_stay_what_they_are():
    found = checked(a_cohort(), a_view())
    assert (found.clients.dtype, found.probs.dtype) == (np.int64, np.float64)
    right = a_cohort(np.array([1, 9]), np.ones(2))
    assert checked(right, a_view()) is right
    assert checked(
        a_cohort(np.array([1, 9], dtype=np.int32), np.ones(2, dtype=np.float32)), a_view()
    ).clients.tolist() == [1, 9]
    assert len(checked(a_cohort((), ()), a_view()).clients) == 0


WRONG = [
    (a_cohort((1.0, 4.0)), "clients must be an array of whole numbers, not"),
    (a_cohort((1.5, 4)), "clients must be an array of whole numbers"),
    (a_cohort(np.array([True, False])), "clients must be an array of whole numbers, not <2 bool>"),
    (a_cohort(None), "clients must be an array of whole numbers, not None"),
    (a_cohort([[1, 4]]), r"clients has shape \(1, 2\)"),
    (a_cohort([[1], [4, 7]]), "clients must be an array of whole numbers"),
    (a_cohort((4, 1)), "clients must be sorted, each once, but 1 follows 4"),
    (a_cohort((4, 4)), "clients must be sorted, each once, but 4 follows 4"),
    (a_cohort((1, 2)), "client 2 is not online; choose from view.available"),
    (a_cohort((-1, 1)), "client -1 is not online"),
    (a_cohort((1, 1000)), "client 1000 is not online"),
    (a_cohort((1, 3, 4, 7), np.ones(4)), "4 clients for 3 slots; return at most view.cohort"),
    (a_cohort(probs=(0.5,)), r"probs has shape \(1,\), but there are 2; give one number per client"),
    (a_cohort(probs=0.5), r"probs has shape \(\)"),
    (a_cohort(probs=("a", "b")), "probs must be an array of numbers"),
    (a_cohort(probs=(0.5, 7)), "probability 7.0 must be above 0 and at most 1"),
    (a_cohort(probs=(0, 0.5)), "probability 0.0 must be above 0"),
    (a_cohort(probs=(0.5, np.nan)), "probability nan must be"),
    (a_cohort(probs=(0.5, np.inf)), "probability inf must be"),
    (a_cohort(design="random"), "design='random' must be one of exact, deterministic, unknown"),
    (a_cohort(wasted=-1), "wasted=-1 must be a whole number of at least 0"),
    (a_cohort(wasted=0.5), "wasted=0.5 must be a whole number"),
    (a_cohort(wasted=99), "2 clients and wasted=99 for 3 slots; make both at most view.cohort"),
    (a_cohort(wasted=2), "2 clients and wasted=2 for 3 slots"),
    (np.array([1, 4]), "select must return a Cohort first, not <2 int64>"),
    ("nothing", "select must return its choice and the next state, not 'nothing'"),
]


@pytest.mark.parametrize(("found", "says"), WRONG, ids=[says for _, says in WRONG])
def test_a_wrong_scheduler_is_refused_and_the_run_is_as_it_was(found, says):
    coordinator = Coordinator(3, scheduler=Returns(found))
    state = coordinator.init(10)
    with pytest.raises(RoundError, match=rf"^scheduler Returns\(\), round 0: .*{says}") as caught:
        coordinator.plan(state, ONLINE)
    assert "\n" not in str(caught.value)
    assert state.ledger == Ledger.empty(10)
    assert state.round == 0


@pytest.mark.parametrize(
    "spoils",
    [
        lambda view: view.available.__setitem__(0, 99),
        lambda view: view.ledger.selected.__iadd__(1),
        lambda view: view.ledger.loss.fill(0),
    ],
)
def test_a_scheduler_cannot_write_into_what_it_is_shown(spoils):
    class Spoiler(Returns):
        def select(self, state, view, rng):
            spoils(view)

    coordinator = Coordinator(3, scheduler=Spoiler(None))
    state = coordinator.init(10)
    with pytest.raises(RoundError, match=r"read-only \(test_selection.py, line \d+\); change a copy: what it is shown"):
        coordinator.plan(state, ONLINE.copy())
    assert state.ledger == Ledger.empty(10)


class Forgets(Returns):
    """Raises what components raise that have a mistake."""

    at = "select"

    def select(self, state, view, rng):
        return {}["client"] if self.at == "select" else (self.found, state)

    def learn(self, state, feedback):
        return {}["client"]


class ForgetsLater(Forgets):
    at = "learn"


@pytest.mark.parametrize("kind", [Forgets, ForgetsLater])
def test_what_a_scheduler_raises_is_one_line_that_says_whose_it_is(kind):
    coordinator = Coordinator(3, scheduler=kind(a_cohort(np.array([1, 4]), np.ones(2))))
    with pytest.raises(RoundError) as caught:
        run(coordinator, NoTraining(10), 1)
    assert isinstance(caught.value.__cause__, KeyError)
    said = (
        rf"scheduler {kind.__name__}\(\), round 0: {kind.at} raised KeyError: 'client' \(test_selection.py, line \d+\)"
    )
    assert re.fullmatch(f"{said}; mend it there, or the scheduler", str(caught.value))


def test_so_is_what_a_weighting_raises():
    class Divides(Weighting):
        def weigh(self, state, rows, ledger):
            return 1 / 0

    coordinator = Coordinator(3, scheduler="uniform", weighting=Divides())
    plan, state = coordinator.plan(coordinator.init(10, np.zeros(2)), ONLINE)
    with pytest.raises(RoundError, match=r"^weighting .*, round 0: weigh raised ZeroDivisionError: .*test_sel"):
        coordinator.absorb(state, plan, [ClientReport(int(k), np.ones(2)) for k in plan.cohort.clients])


def test_slots_of_over_selection_may_be_wasted():
    coordinator = Coordinator(3, scheduler="population", over_select=1.0)
    plan, _ = coordinator.plan(coordinator.init(10), np.array([4]))
    assert len(plan.cohort.clients) + plan.cohort.wasted == 6


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([3, 1], "round 0: available must be sorted, each once, but 1 follows 3"),
        ([1, 10], "available names client 10, but there are 10, numbered from 0"),
        ([-1, 2], "available names client -1"),
        (np.ones(10, dtype=bool), "must be an array of whole numbers, not <10 bool>"),
        ([1.5], "must be an array of whole numbers"),
    ],
)
def test_who_is_online_is_checked_too(given, says):
    coordinator = Coordinator(3, scheduler="uniform")
    with pytest.raises(RoundError, match=says):
        coordinator.plan(coordinator.init(10), given)


def test_ids_of_leaves_right_ids_alone():
    assert ids_of(ONLINE, "ids", 10) is ONLINE
    assert ids_of([], "ids").dtype == np.int64


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        (np.ones(3), r"weights has shape \(3,\), but there are 2; give one number per row"),
        (np.ones((2, 1)), r"weights has shape \(2, 1\)"),
        (["a", "b"], "weights must be an array of numbers"),
        (None, "weights must be an array of numbers, not None"),
    ],
)
def test_a_wrong_weighting_is_refused(weights, says):
    class Weighs(Weighting):
        def init(self, num_clients):
            return ()

        def weigh(self, state, rows, ledger):
            return weights, state

        def __repr__(self):
            return "weighs()"

    coordinator = Coordinator(2, scheduler="uniform", weighting=Weighs())
    plan, state = coordinator.plan(coordinator.init(4, np.zeros(1)), np.arange(2))
    with pytest.raises(RoundError, match=rf"^weighting weighs\(\), round 0: {says}"):
        coordinator.absorb(state, plan, [ClientReport(k, np.ones(1)) for k in (0, 1)])


@pytest.mark.parametrize("name", sorted(set(SCHEDULERS) - {"fixed"}))
def test_ours_pass_as_they_are(name):
    coordinator = Coordinator(3, scheduler=name, labels=np.ones((10, 2), dtype=np.int64))
    state = coordinator.init(10)
    for t in range(4):
        plan, state = coordinator.plan(state, ONLINE[t:], 9 - t, lambda _, ids, __: np.ones(len(ids)))
        assert set(plan.cohort.clients.tolist()) <= set(ONLINE[t:].tolist())
        _, state = coordinator.absorb(state, plan, [ClientReport(int(k), np.zeros(0)) for k in plan.cohort.clients])
