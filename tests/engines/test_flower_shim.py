"""What is needed of Flower beside its public interface, on whichever version is installed."""

import logging

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedparity[flower]')")

from flwr.app import Message, RecordDict
from flwr.supercore import log
from flwr.supercore.logger import FLOWER_LOGGER

from fedparity import Coordinator
from fedparity.core.errors import ConfigError
from fedparity.engines.flower import client_app, serve, shim
from flower_grids import TASK, FakeGrid


@pytest.fixture
def logged():
    records = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(handler.format(record))
    FLOWER_LOGGER.addHandler(handler)
    yield records
    FLOWER_LOGGER.removeHandler(handler)


def raised(call):
    try:
        call()
    except Exception as error:  # noqa: BLE001 - as Flower does
        log(logging.ERROR, "%s raised an exception", "ServerApp", exc_info=error)


def test_an_error_of_ours_is_one_line_in_flower_s_log(logged):
    nodes = FakeGrid(nodes=[{"client-id": "a"}, {}])
    raised(lambda: serve(nodes, Coordinator(2), np.zeros(3), 1, patience=0.01))
    (line,) = logged
    assert line.startswith(
        "ConfigError: min_clients=2 but only 1 registered within 0.01 s, and 1 without a stable id; "
    )
    assert line.endswith("start these with --node-config 'client-id=\"NAME\"', a name of its own for each node")


def test_so_is_one_of_a_client(logged):
    grid = FakeGrid(nodes=[{}], app=client_app(lambda _: TASK))
    message = Message(RecordDict(), 1000, "query")
    raised(lambda: grid._app(message, grid._contexts[1000]))
    assert len(logged) == 1
    assert logged[0].startswith("ConfigError: this node has no stable id; start it with --node-config 'client-id=")


def test_of_another_error_the_way_it_came_is_kept(logged):
    raised(lambda: 1 / 0)
    assert "Traceback" in logged[0]


def test_the_log_is_changed_once():
    before = list(FLOWER_LOGGER.filters)
    assert before.count(shim.one_line) == 1
    shim.log_errors_in_one_line()
    assert before == FLOWER_LOGGER.filters


def test_a_message_of_this_process_is_the_server_s_and_has_the_id_it_is_given():
    shim.identify_process(7)
    message = Message(RecordDict(), 3, "train")
    shim.give_id(message, "17")
    found = message.metadata
    assert (found.run_id, found.src_node_id, found.dst_node_id, found.message_id) == (7, shim.SERVER_NODE, 3, "17")


@pytest.mark.parametrize("version", ["1.40.9", "1.43.0", "2.41.0", "0.41", "x", ""])
def test_another_version_is_refused_with_the_fix(monkeypatch, version):
    monkeypatch.setattr("importlib.metadata.version", lambda _: version)
    with pytest.raises(
        ConfigError, match=r"is installed, but 1\.41 or 1\.42 is needed; pip install 'fedparity\[flower\]'"
    ):
        shim.require()


def test_the_version_that_is_installed_is_supported():
    assert tuple(map(int, shim.require().split(".")[:2])) in {(1, 41), (1, 42)}
