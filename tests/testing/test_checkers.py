"""Checkers that are handed out: they pass what is right, and name component, law and case of what is not."""

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from fedparity import Availability, Cohort, Estimator, InProcess, Scheduler, Trace, Weighting
from fedparity.tasks import Quadratic
from fedparity.testing import (
    LawError,
    check_availability,
    check_engine,
    check_estimator,
    check_scheduler,
    check_weighting,
)

TASK = Quadratic.random(5, dim=3)


@dataclass(frozen=True)
class Chooses(Scheduler):
    """Chooses as told."""

    how: str = "first"

    def init(self, num_clients):
        return 0

    def select(self, state, view, rng):
        ids = view.available[: view.cohort]
        probs, design = np.ones(len(ids)), "deterministic"
        if self.how == "absent":
            ids = np.arange(min(view.cohort, 3))
            probs = np.ones(len(ids))
        elif self.how == "twice":
            ids = np.repeat(ids[:1], 2)
            probs = np.ones(len(ids))
        elif self.how == "too many":
            ids, probs = view.available, np.ones(len(view.available))
        elif self.how == "lies":
            probs, design = np.full(len(ids), 0.5), "exact"
        elif self.how == "by the clock":
            ids = np.sort(np.random.default_rng().permutation(view.available)[: view.cohort])
        elif self.how == "writes":
            view.ledger.selected[:] = 7
        elif self.how == "leaves slots empty":
            ids, probs = ids[:1], probs[:1]
        return Cohort(ids, probs, design), state


ANSWERS = {
    "a list": lambda found, state: (Cohort(found.clients.tolist(), found.probs.tolist(), found.design), state),
    "floats": lambda found, state: (Cohort(found.clients.astype(float), found.probs, found.design), state),
    "a cohort alone": lambda found, _: found,
    "no probabilities": lambda found, state: (Cohort(found.clients, None, found.design), state),
}


@dataclass(frozen=True)
class Answers(Chooses):
    """Chooses well, and answers as told."""

    def select(self, state, view, rng):
        return ANSWERS[self.how](*super().select(state, view, rng))


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("floats", "clients must be an array of whole numbers"),
        ("a cohort alone", "select must return its choice and the next state"),
        ("no probabilities", "probs must be an array of numbers"),
        ("what raises", "select raised KeyError: 'what raises'"),
    ],
)
def test_what_a_run_would_refuse_breaks_the_first_law(how, says):
    with pytest.raises(LawError, match="breaks the law 'a cohort is part of the available', case ") as caught:
        check_scheduler(Answers(how), cases=10, draws=50)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_right_scheduler_passes():
    check_scheduler(Chooses(), fills=True, cases=10, draws=50)
    check_scheduler("uniform", fills=True, cases=10, draws=300)
    check_scheduler(Answers("a list"), fills=True, cases=10, draws=50)  # a run takes it, too


@pytest.mark.parametrize(
    ("how", "law"),
    [
        ("absent", "a cohort is part of the available"),
        ("twice", "a cohort is part of the available"),
        ("too many", "a cohort is part of the available"),
        ("lies", "inclusion probabilities are true"),
        ("by the clock", "same state, same choice"),
        ("writes", "the view is left alone"),
        ("leaves slots empty", "every slot that can be filled is"),
    ],
)
def test_a_wrong_scheduler_is_named_with_its_law(how, law):
    with pytest.raises(LawError, match=law) as caught:
        check_scheduler(Chooses(how), fills=True, cases=20, draws=200)
    assert "Chooses" in str(caught.value)
    assert "case " in str(caught.value)
    assert "\n" not in str(caught.value)


@dataclass(frozen=True)
class Weighs(Weighting):
    how: str = "evenly"

    def init(self, num_clients):
        return None

    def weigh(self, state, rows, ledger):
        k = len(rows.clients)
        if self.how == "by place":
            return np.arange(k, dtype=float), state
        if self.how == "NaN":
            return rows.losses * 1.0, state
        if self.how == "below 0":
            return -np.ones(k), state
        if self.how == "too few":
            return np.ones(max(0, k - 1)), state
        return np.full(k, 1 / max(1, k)), state


def test_weightings():
    check_weighting(Weighs(), cases=10)
    check_weighting("by_size", cases=10)
    check_weighting("krum", by_geometry=True, cases=10)
    for how, law in (
        ("by place", "weights follow their rows"),
        ("NaN", "one finite weight per row"),
        ("below 0", "no weight is negative"),
        ("too few", "one finite weight per row"),
    ):
        with pytest.raises(LawError, match=law):
            check_weighting(Weighs(how))


class Wrong(InProcess):
    """An engine with one fault."""

    how = "nothing"

    def available(self, round):
        ids = super().available(round)
        return ids[::-1] if self.how == "unsorted" else ids

    def train(self, plan):
        for report in super().train(plan):
            if self.how == "somebody else":
                yield type(report)(4 if report.client != 4 and 4 not in plan.cohort.clients else 0, report.delta)
            elif self.how == "NaN":
                yield type(report)(report.client, report.delta * np.nan)
            elif self.how == "by the clock":
                yield type(report)(report.client, report.delta + np.random.default_rng().random(3))
            else:
                yield report
        if self.how == "moves the model":
            plan.params[:] += 1


@pytest.mark.parametrize(
    ("how", "law"),
    [
        ("unsorted", "who is there is a sorted list"),
        ("somebody else", "only who was asked reports"),
        ("NaN", "an update passes the gate"),
        ("by the clock", "same seed, same run"),
        ("moves the model", "training leaves the model alone"),
    ],
)
def test_engines(how, law):
    check_engine(lambda: InProcess(TASK), np.zeros(3))

    class Faulty(Wrong):
        pass

    Faulty.how = how
    with pytest.raises(LawError, match=law):
        check_engine(lambda: Faulty(TASK), np.zeros(3))


def test_estimators_and_models_of_availability():
    class Always(Estimator):
        def init(self, num_clients):
            return None

        def observe(self, state, available):
            return state

        def estimate(self, state, clients):
            return np.full(len(clients), 2.0)

    with pytest.raises(LawError, match="estimates are rates"):
        check_estimator(Always())
    check_estimator("mean")

    class Restless(Availability):
        def draw(self, num_clients, rounds, seed):
            return Trace.from_matrix(np.random.default_rng().random((rounds, num_clients)) < 0.5)

    with pytest.raises(LawError, match="the seed decides"):
        check_availability(Restless())
    check_availability("bernoulli")


def test_a_fake_grid_loses_what_it_is_told_to():
    pytest.importorskip("flwr")
    from flower_grids import FakeGrid, served

    _, records, _ = served(FakeGrid({(1, 2): "lost"}), rounds=3)
    assert 2 in records[0].completed.tolist()
    assert records[1].completed.tolist() == [0, 1, 3, 4, 5]


def test_importing_needs_neither_pytest_nor_flower():
    code = "import sys, fedparity.testing; print(*(m for m in ('pytest', 'hypothesis', 'flwr') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_these_names_are_handed_out():
    import fedparity.testing

    assert {"FakeGrid", "check_engine", "check_scheduler", "check_weighting"} <= set(fedparity.testing.__all__)
    with pytest.raises(AttributeError, match="no attribute 'check_luck'"):
        fedparity.testing.check_luck  # noqa: B018 - the look-up is what is tested
