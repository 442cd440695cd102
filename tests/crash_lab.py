"""What the crash laboratory's tests share: one small run, its sizes, and what must be true whatever happened."""

import os
from itertools import accumulate

import numpy as np

from fedparity.core.journal import GENESIS, link
from fedparity.experiment.results import open_store
from fedparity.experiment.runner import Callbacks, execute, state_classes
from fedparity.store import Store, verify
from stored_runs import expected, outcome, sha256, spec_of

NIGHTLY = os.environ.get("FEDPARITY_CRASH") == "nightly"
"""Whether to run at the size of `make crash`; else at that of every test run."""
METHODS = ("cup_authors", "parity_surrogate")
"""Client models in files of their own, and a surrogate with a forecast."""


def size(usual, nightly):
    """One of two sizes."""
    return nightly if NIGHTLY else usual


def lab_spec(rounds):
    """Several methods on a task in NumPy, which starts in no time."""
    return spec_of(f"rounds={rounds}", "population.clients=8", methods=METHODS)


def lab_end(rounds):
    """How it ends if nothing happens: journal heads, and every bit of the ledgers; heads hold digests of the models."""
    return expected(f"rounds={rounds}", "population.clients=8", methods=METHODS)


def chains(rounds):
    """The chain of each method after every round of a run to which nothing happened."""
    found = {}
    for one in execute(lab_spec(rounds)).runs:
        digests = (sha256(line.encode()) for line in one.journal)
        found[one.seed, one.method] = [*accumulate(digests, link, initial=GENESIS)]
    return found


def carry_out(folder, rounds, *, resume=False, acknowledged=None):
    """The run, or the rest of it, with its result files; each round that is said to be safe is told."""
    spec = lab_spec(rounds)
    told = Callbacks(acknowledged)
    with open_store(folder, spec, resume=resume) as store:
        run = execute(spec, store=store, callbacks=told)
        run.save(folder)
    return run


def acknowledged_rounds_are_there(folder, acknowledged, rounds, reference):
    """No method lost a round that was acknowledged, what is there is what was written, and a witness says how much."""
    if not acknowledged:
        return
    with Store.read(folder) as store:
        for contender, chain in reference.items():
            there = [done.chain for done in store.rounds(*contender)]
            safe = acknowledged.get(contender[1], 0)
            assert len(there) >= safe
            assert store.heads.known.get(contender, (0,))[0] >= safe
            assert there == chain[1 : len(there) + 1]
            assert len(there) <= rounds


def ends_the_same(folder, rounds):
    """Resuming leads to the end of a run that was never stopped, in model, ledger and journal, and leaves no trace."""
    assert outcome(carry_out(folder, rounds, resume=True)) == lab_end(rounds)
    verdict = verify(folder, state_classes)
    assert (verdict.problems, verdict.closed, verdict.rounds) == ((), True, len(METHODS) * rounds)
    assert not [p.name for p in folder.rglob("*") if p.name.endswith(".partial") or p.name.startswith(".")]


def rng_of(*key):
    return np.random.default_rng(key)
