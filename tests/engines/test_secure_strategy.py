"""Flower's own secure aggregation, with clients asked fairly: the sum is right, and the ledger says who was asked."""

import logging

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedparity[flower]')")

from flwr.app import Message
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as compat
from flwr.server import LegacyContext, ServerConfig
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import ServerApp

from fedparity.core.errors import ConfigError
from fedparity.engines.flower import SecureFairStrategy, simulate

N = 8


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("flwr").setLevel(logging.CRITICAL)


def a_client(dropped=frozenset()):
    """Moves half way to its number; one that is dropped raises once it would have to mask its update."""
    app = ClientApp(mods=[secaggplus_mod])

    @app.train()
    def train(message, context):
        k = context.node_config["partition-id"]
        if k in dropped:
            raise OSError("no battery")
        (w,) = parameters_to_ndarrays(compat.recorddict_to_fitins(message.content, keep_input=True).parameters)
        new = ndarrays_to_parameters([(w + 0.5 * (k - w)).astype(np.float32)])
        told = FitRes(Status(Code.OK, ""), new, 10, {})
        return Message(compat.fitres_to_recorddict(told, keep_input=False), reply_to=message)

    return app


def carried_out(strategy, rounds=3, app=None, trace=None):
    server = ServerApp()

    @server.main()
    def main(grid, context):
        legacy = LegacyContext(context=context, config=ServerConfig(num_rounds=rounds), strategy=strategy)
        masked = SecAggPlusWorkflow(num_shares=1.0, reconstruction_threshold=0.5, clipping_range=16.0)
        DefaultWorkflow(fit_workflow=masked)(grid, legacy)

    simulate(server, app or a_client(), N, trace=trace)


def fair(cohort=N, **more):
    return SecureFairStrategy(cohort, initial_parameters=ndarrays_to_parameters([np.zeros(3, np.float32)]), **more)


def test_the_sum_is_that_of_everybody():
    strategy = fair()
    carried_out(strategy)
    expected = 0.0
    for _ in range(3):
        expected += 0.5 * (np.arange(N).mean() - expected)
    assert strategy.state.params == pytest.approx(np.full(3, expected), abs=1e-3)  # quantised on its way
    assert strategy.state.ledger.completed.tolist() == [3] * N


def test_clients_are_asked_as_evenly_as_they_are_there():
    strategy = fair(4)
    carried_out(strategy, rounds=6)
    assert strategy.state.ledger.selected.tolist() == [3] * N


def test_one_that_drops_out_of_the_protocol_is_written_down():
    strategy = fair()
    carried_out(strategy, rounds=2, app=a_client(dropped={5}))
    assert strategy.state.ledger.failed.tolist() == [0, 0, 0, 0, 0, 2, 0, 0]
    others = np.delete(np.arange(N), 5).mean()
    assert strategy.state.params == pytest.approx(np.full(3, 0.75 * others), abs=1e-3)


def test_too_few_for_the_protocol_is_a_round_that_failed():
    strategy = fair()
    carried_out(strategy, rounds=2, app=a_client(dropped=set(range(6))))
    strategy.close()
    assert strategy.state.round == 2
    assert strategy.state.ledger.failed.tolist() == [2] * N
    assert not strategy.state.params.any()


def test_it_goes_on_from_its_store(tmp_path):
    first = fair(4, store=tmp_path / "run")
    carried_out(first, rounds=2)
    first.close()
    again = fair(4, store=tmp_path / "run")
    carried_out(again, rounds=2)
    assert again.state.round == 4
    assert again.state.ledger.selected.tolist() == [2] * N
    whole = fair(4)
    carried_out(whole, rounds=4)
    assert again.state.params == pytest.approx(whole.state.params, abs=1e-3)
    again.close()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            {"rules": {"weighting": "by_size"}},
            r"weighting=by_size\(\): secure aggregation shows the sum alone; leave it at its default",
        ),
        ({"rules": {"weighting": "memory_mean", "memory": "last_updates:own=replace"}}, "shows the sum alone"),
        ({"rules": {"utility": "loss_drop"}}, r"utility=loss_drop\(\): secure aggregation shows the sum alone"),
        ({"rules": {"local": "prox"}}, "shows the sum alone"),
        ({"scheduler": "parity:target=utility"}, "needs utility of each client, and secure"),
        ({"scheduler": "oort"}, "needs loss_rms of each client"),
        ({"scheduler": "fedgs"}, "needs labels of each client"),
    ],
)
def test_what_needs_more_than_the_sum_is_refused(given, why):
    with pytest.raises(ConfigError, match=why):
        SecureFairStrategy(4, **given)
