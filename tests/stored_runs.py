"""What the tests of the store share: small specs, runs into folders, and ways to look at a folder."""

import functools
import hashlib
import itertools
from pathlib import Path

import numpy as np

from fedparity.experiment.results import open_store
from fedparity.experiment.runner import Callbacks, execute
from fedparity.experiment.spec_file import parse
from fedparity.store import Disk
from fedparity.store.heads import Heads

ALL = ("uniform", "inverse", "cup_paper", "cup_authors", "least_served", "parity", "parity_surrogate")
THREE = ("cup_authors", "parity_surrogate", "uniform")
"""Mixing (client models), a surrogate and a forecast, and neither."""


def spec_of(*overrides, methods=THREE):
    entries = "".join(f'[[methods]]\nname = "{name}"\n' for name in methods)
    base = [
        "rounds=8",
        "cohort=3",
        "population.clients=14",
        "population.availability=bernoulli:low=.2,high=.8",
        "population.dropout=0.2",
        "data.set=quadratic",
    ]
    return parse(f"version = 2\n{entries}", "test", [*base, *overrides])


def heads(results):
    return {(run.seed, run.method): run.head for run in results.runs}


def outcome(results):
    """Journal heads, and every bit of the ledgers; the heads hold the digests of the models."""
    return heads(results), [run.ledger for run in results.runs]


@functools.cache
def expected(*overrides, methods=THREE):
    """The outcome of a spec that was never stopped."""
    return outcome(execute(spec_of(*overrides, methods=methods)))


def stop_after(rounds):
    calls = itertools.count(1)
    return lambda: next(calls) >= rounds


def run_into(folder, spec, *, rounds=None, save=False, **how):
    """Carry out a spec in a folder, all of it or that many rounds, and close the folder cleanly."""
    with open_store(folder, spec, **how) as store:
        results = execute(spec, store=store, callbacks=Callbacks(stop=None if rounds is None else stop_after(rounds)))
        if save:
            results.save(folder)
        run_into.notices = list(store.notices)
    return results


def unclose(folder):
    """A run as if it had been left without being closed, for tests of what stands without its manifest."""
    (folder / "manifest.json").unlink()
    Heads(Disk(folder)).write()


def contents(folder):
    """Every file with its bytes."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


def unpacked(folder):
    """Everything written in a folder of tables, as bytes; Parquet is packed."""
    found = []
    for path in sorted(Path(folder).iterdir()):
        if path.suffix == ".parquet":
            import polars as pl

            found.append(pl.read_parquet(path).write_csv().encode())
        found.append(path.read_bytes())
    return b"".join(found)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def same(a, b):
    """Equal in type and in every bit."""
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and (a.dtype, a.shape) == (b.dtype, b.shape) and a.tobytes() == b.tobytes()
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if hasattr(a, "__dataclass_fields__"):
        return all(same(getattr(a, name), getattr(b, name)) for name in a.__dataclass_fields__)
    if isinstance(a, float):
        return a.hex() == b.hex()
    return a == b
