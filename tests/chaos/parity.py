"""One small run, wherever it is carried out, and all that must be the same of it."""

import dataclasses
import json

import numpy as np

from fedparity import Coordinator, InProcess, Ledger, run
from fedparity.core.gate import Gate
from fedparity.core.journal import Journal
from fedparity.core.tree import classes_in
from fedparity.engines.flower import LocalGrid, client_app, serve
from fedparity.store import Store
from fedparity.tasks import Logistic

NODES, COHORT, ROUNDS, SIZE = 4, 2, 4, 36
CONFIG = {"run": "calm", "rounds": ROUNDS, "founders": NODES, "cohort": COHORT, "task": "logistic", "size": SIZE}
CONFIG |= {"deadline": 300.0}


def coordinator():
    return Coordinator(COHORT, scheduler="parity", min_reports=0, gate=Gate(deadline=300.0, max_age=3))


def told(lines, state):
    """Journal, model and ledger, as text that is the same to the bit or is not."""
    ledger = {f.name: _text(getattr(state.ledger, f.name)) for f in dataclasses.fields(Ledger)}
    return {"journal": lines, "model": state.params.tobytes().hex(), "ledger": ledger}


def _text(value):
    return value.tobytes().hex() if isinstance(value, np.ndarray) else json.dumps(value)


def in_process():
    journal = Journal()
    engine = InProcess(Logistic.synthetic(NODES))
    state = run(coordinator(), engine, ROUNDS, params=np.zeros(SIZE), observers=[journal])
    return told(journal.lines(), state)


def on_a_grid():
    journal, everybody = Journal(), Logistic.synthetic(NODES)
    state = serve(
        LocalGrid(client_app(lambda _: everybody), NODES), coordinator(), np.zeros(SIZE), ROUNDS, min_clients=NODES,
        observers=[journal],
    )  # fmt: skip
    return told(journal.lines("parity"), state)


def in_a_store(folder):
    with Store.read(folder) as store:
        state = store.load(0, "parity", classes_in(coordinator().init(NODES, np.zeros(SIZE))))
        return told([done.line for done in store.rounds(0, "parity")], state)
