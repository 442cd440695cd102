"""What poisoned updates cost the deployment method, and what without its bounds."""

from dataclasses import replace

import numpy as np
import pytest

from fedparity.core.gate import Gate
from fedparity.experiment.methods import METHODS
from fedparity.testing.attacks.arena import Arena
from fedparity.testing.attacks.poison import POISONS, poisoned

ARENA = Arena(rounds=120)
HARMS = [name for name in POISONS if name != "none" and "backdoor" not in name]
BEFORE = {"scheduler": "with_quota:inner=parity:ratio=1.1,spare=fill", "weighting": "clipped", "gate": Gate()}


def accuracy(name, seed, cohort=10, *, together=True, **choices):
    return 100 * poisoned(name, replace(ARENA, cohort=cohort), seed, together=together, **choices).accuracy


def deployed():
    method = METHODS["deployment"]
    return {"scheduler": method.scheduler, "weighting": method.weighting, "gate": method.gate}


@pytest.mark.parametrize("name", HARMS)
def test_poisoned_updates_cost_at_most_a_point(name):
    for together in (False, True):
        honest, harmed = (accuracy(kind, 0, together=together, **deployed()) for kind in ("none", name))
        assert honest > 90
        assert honest - harmed <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", HARMS)
@pytest.mark.parametrize("cohort", [10, 20])
def test_poisoned_updates_of_synchronised_attackers_cost_at_most_a_point(cohort, name):
    cost = [
        accuracy("none", seed, cohort, **deployed()) - accuracy(name, seed, cohort, **deployed()) for seed in range(5)
    ]
    assert np.mean(cost) <= 1.0
    assert max(cost) <= 2.0


def test_without_the_bounds_they_cost_more():
    assert accuracy("none", 0, **BEFORE) - accuracy("far_flip", 0, **BEFORE) > 5.0


def test_labels_flipped_by_attackers_cost_more_where_nothing_holds_them():
    plain = {"scheduler": "uniform", "together": False}
    assert accuracy("none", 100, **plain) - accuracy("label_flip", 100, **plain) > 2.0


def test_a_backdoor_opens_where_nothing_holds_it_and_less_under_the_bounds():
    opened = {
        name: poisoned("boosted_backdoor", ARENA, 0, **choices).backdoor
        for name, choices in (("plain", {"scheduler": "uniform"}), ("deployed", deployed()))
    }
    assert poisoned("none", ARENA, 0, **deployed()).backdoor < 0.05
    assert opened["plain"] > 0.9
    assert opened["deployed"] < 0.7
