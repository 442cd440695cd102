"""Grids whose clients misbehave as told, and quick ways to a run on them."""

import io

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict

from fedparity import Coordinator, testing
from fedparity.core.gate import Gate
from fedparity.core.journal import Journal
from fedparity.engines.flower import client_app, codec, serve
from fedparity.tasks import Quadratic

N = 6
TASK = Quadratic.random(N, dim=3)


class FakeGrid(testing.FakeGrid):
    """The public double with this suite's task and nodes."""

    def __init__(self, script=None, nodes=N, app=None, **more):
        super().__init__(app or client_app(lambda _: TASK), nodes, script, **more)


def served(grid, rounds=4, coordinator=None, deadline=0.01, max_age=2, **more):
    """The state, the journal and the events of a run."""
    journal, events = Journal(), []
    given = {"identity": "node", "poll": 0.001, "min_clients": N} | more
    coordinator = coordinator or Coordinator(
        N, scheduler="uniform", min_reports=0, gate=Gate(deadline=deadline, max_age=max_age)
    )
    state = serve(grid, coordinator, np.zeros(3), rounds, observers=[journal], told=events.append, **given)
    return state, list(journal.records("parity")), events


def with_delta(array):
    def change(_, reply):
        reply.content[codec.DELTA] = ArrayRecord({codec.W: array})

    return change


def with_report(**said):
    def change(_, reply):
        reply.content[codec.REPORT] = ConfigRecord({**reply.content.config_records[codec.REPORT], **said})

    return change


def claiming(array, **claims):
    """An array that says of itself what is not so."""
    made = Array(array)
    for key, value in claims.items():
        setattr(made, key, value)
    return made


def zipped():
    data = io.BytesIO()
    np.savez(data, np.zeros(3))
    return claiming(np.zeros(3), data=data.getvalue())


def raises(message, _):
    return Message(Error(2, "Traceback ...\nRuntimeError: \x1b[31mout of memory"), reply_to=message)


HOSTILE = {
    "NaN": with_delta(Array(np.full(3, np.nan))),
    "infinite": with_delta(Array(np.array([0, np.inf, 0]))),
    "a huge update": with_delta(Array(np.full(3, 1e300))),
    "another shape": with_delta(Array(np.zeros(4))),
    "another type": with_delta(Array(np.zeros(3, np.float32))),
    "objects": with_delta(claiming(np.zeros(3), data=b"\x93NUMPY\x01\x00\x10\x00{'descr': '|O'}\n")),
    "a zip file": with_delta(zipped()),
    "ten megabytes": with_delta(Array(np.zeros(1 << 20))),
    "a claim": with_delta(claiming(np.zeros(9), shape=(3,))),
    "no array": lambda _, reply: reply.content.pop(codec.DELTA) and None,
    "a second array": lambda _, r: r.content.__setitem__(
        codec.DELTA, ArrayRecord({codec.W: Array(np.zeros(3)), "x": Array(np.zeros(3))})
    ),
    "no report": lambda _, reply: reply.content.pop(codec.REPORT) and None,
    "too many samples": with_report(num_samples=10**12),
    "samples below 0": with_report(num_samples=-1),
    "samples as a text": with_report(num_samples="many"),
    "an infinite loss": with_report(loss_before=float("inf")),
    "no nonce": with_report(nonce=""),
    "a forged nonce": with_report(nonce="0" * 32),
    "a long text": with_report(failure="x" * 20_000),
    "nothing at all": lambda message, _: Message(RecordDict(), reply_to=message),
    "an exception": raises,
}
