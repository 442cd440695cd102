"""Laws that every scheduler keeps, run over the table."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection import VARIANTS, N, build

from fedparity import SCHEDULERS, Coordinator, InProcess, Intermittent, NoTraining, Trace, run, stream
from fedparity.tasks import Quadratic
from fedparity.testing import schedulers as laws

BOUNDED = ("quota", "company", "deployment")  # their promise may leave slots empty
DISTINCT_SIZE = [
    v
    for v in VARIANTS
    if v not in ("population", "inverse:replace=true", "fixed") and not any(bound in v for bound in BOUNDED)
]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 50),
    available=st.lists(st.integers(0, N - 1), unique=True, max_size=N).map(sorted),
    cohort=st.integers(1, 15),
    left=st.none() | st.integers(0, 40),
    before=st.integers(0, 5),
)
def test_a_cohort_is_part_of_the_available(seed, available, cohort, left, before):
    """All schedulers are asked in the same cases: drawing one costs more than a choice."""
    for name in VARIANTS:
        slots = max(cohort, 3) if name == "fixed" else cohort  # its schedule was made for three
        case = laws.Case(seed, available, slots, left, before)
        laws.is_part_of_the_available(build(name), case, fills=name in DISTINCT_SIZE)


MANY = [pytest.param(before, draws, marks=pytest.mark.slow) for before, draws in ((0, 4000), (4, 1500))]


@pytest.mark.parametrize(("before", "draws"), [(0, 1000), (4, 500), *MANY])
@pytest.mark.parametrize("name", VARIANTS)
def test_inclusion_probabilities_are_true(name, before, draws):
    laws.tells_true_probabilities(build(name), before, draws, fills=name in DISTINCT_SIZE)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("law", [laws.repeats_itself, laws.works_with_few, laws.resumes], ids=lambda law: law.__name__)
def test_other_laws(name, law):
    law(build(name))


@pytest.mark.parametrize("name", VARIANTS)
def test_describes_itself(name):
    entry = SCHEDULERS.describe(name.partition(":")[0])
    assert entry["summary"].endswith(".")
    assert isinstance(entry["parameters"], dict)


def test_rollcall_and_training_give_the_same_selections():
    """Schedulers see counts, not models: a roll call and a training run agree for every utility-blind scheduler."""
    trace = Trace.from_matrix(stream(5, "t").random((20, N)) < np.linspace(0.1, 0.9, N))
    for name in ("parity", "inverse", "reactive", "uniform", "least_served", "round_robin", "deficit", "refl", "f3ast"):
        coordinator = Coordinator(3, seed=1, scheduler=SCHEDULERS.build(name))
        roll = run(coordinator, Intermittent(NoTraining(N), trace), 20, num_clients=N)
        task = Intermittent(InProcess(Quadratic.random(N)), trace)
        real = run(coordinator, task, 20, num_clients=N, params=np.zeros(4))
        assert np.array_equal(roll.ledger.selected, real.ledger.selected)
