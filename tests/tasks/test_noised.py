"""Noise on what clients say: of the right size, on what leaves the client, and not to be taken off again."""

import numpy as np
import pytest

from fedparity.core.errors import ConfigError
from fedparity.core.types import Job
from fedparity.tasks import Logistic, Noised

TASK = Logistic.synthetic(4)
MODEL = TASK.init(np.random.default_rng(0))


def job(round=0, client=1):
    return Job(round, 0, client, MODEL)


def test_losses_have_noise_of_the_scale_and_the_update_has_none():
    honest = TASK.train(job())
    said = [Noised(TASK, scale=0.5, seed=0).train(job(t)) for t in range(300)]
    off = np.array([report.loss_before for report in said]) - honest.loss_before
    assert abs(off).mean() == pytest.approx(0.5, rel=0.2)  # the mean size of Laplace(scale)
    assert np.array_equal(Noised(TASK, seed=0).train(job()).delta, honest.delta)


def test_losses_are_bounded_before_the_noise():
    tiny = Noised(TASK, scale=1e-9, bound=0.25, seed=0).train(job())
    assert tiny.loss_before == pytest.approx(0.25)
    assert Noised(TASK, scale=0.5, bound=2.0).epsilon == 4


def test_only_a_simulation_can_be_repeated():
    assert Noised(TASK, seed=3).train(job()).loss_before == Noised(TASK, seed=3).train(job()).loss_before
    assert Noised(TASK).train(job()).loss_before != Noised(TASK).train(job()).loss_before


def test_losses_that_are_asked_for_have_noise_too():
    clients = np.arange(4)
    honest = TASK.probe(MODEL, clients, 5, np.random.default_rng(0))
    said = Noised(TASK, scale=0.5, seed=0).probe(MODEL, clients, 5, np.random.default_rng(0))
    assert (said != honest).all()


def test_a_scale_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="scale"):
        Noised(TASK, scale=0)
