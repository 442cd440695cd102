"""Cumulative utility while a model learns: a coarse version of the figures, on digits with two labels per client."""

import numpy as np
import pytest

from fedparity import AVAILABILITY, SCHEDULERS, UTILITIES, Coordinator, InProcess, Intermittent, run, stream
from fedparity.experiment.spec_file import parse
from fedparity.experiment.tasks import build_task
from fedparity.metrics import cv

pytest.importorskip("torch")
CLIENTS, ROUNDS = 60, 100
SPEC = f"version = 2\n[population]\nclients = {CLIENTS}\n[[methods]]\nname = 'uniform'\n"


def outcome(scheduler, availability, seed):
    """CV of u / pi, and the mean accuracy over the last tenth of the rounds."""
    task = build_task(parse(SPEC, "spec"), seed)
    trace = AVAILABILITY.build(availability).draw(CLIENTS, ROUNDS, seed)
    scores = []

    class Watch:
        def on_round(self, method, record, ledger, params):
            if record.round >= 0.9 * ROUNDS:
                scores.append(task.evaluate(params, np.arange(CLIENTS), "accuracy").accuracy.mean())

    coordinator = Coordinator(
        4, seed=seed, scheduler=SCHEDULERS.build(scheduler), utility=UTILITIES.build("global_loss_drop")
    )
    state = coordinator.init(CLIENTS, task.init(stream(seed, "init")))
    done = run(coordinator, Intermittent(InProcess(task, 1), trace), ROUNDS, state=state, observers=[Watch()])
    return cv(done.ledger.normalised_utility()), float(np.mean(scores))


@pytest.mark.parametrize("availability", ["bernoulli", "paper_like"])
def test_utility_is_evened_out_and_the_model_learns(availability):
    """Ranking by least u / pi would leave more than uniform does, and lose thirty points of accuracy."""
    found = {
        name: np.mean([outcome(name, availability, seed) for seed in range(2)], axis=0)
        for name in ("uniform", "parity:target=utility")
    }
    (uneven, usual), (even, reached) = found["uniform"], found["parity:target=utility"]
    assert even <= 0.8 * uneven
    assert reached >= usual - 0.05
