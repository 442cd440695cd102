"""`make bench`: timed figures as ratios, written to results.json and README.md beside this file."""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from harness import Timing, race

from fedparity import SCHEDULERS, Coordinator, RollCall, Trace, frontier, stream
from fedparity.journal import to_json
from fedparity.store import Store

HERE = Path(__file__).parent
SCHEDULED = ("parity", "uniform", "inverse", "reactive", "least_served", "parity:target=utility", "parity_deployment")


def rounds_of(name: str, clients: int, cohort: int, online: list[np.ndarray]) -> Callable[[], object]:
    """One whole round of bookkeeping a call: estimator, selection, reports, ledger."""
    coordinator = Coordinator(cohort, scheduler=SCHEDULERS.build(name))
    state, engine = coordinator.init(clients), RollCall(clients)

    def once() -> object:
        nonlocal state
        plan, state = coordinator.plan(state, online[state.round % len(online)], rounds_left=100)
        _, state = coordinator.absorb(state, plan, engine.train(plan))
        return plan

    return once


def scheduling(clients: int, cohort: int = 1000, repeats: int = 9) -> list[Timing]:
    """One round at 10 % online against one NumPy weighted draw of the same size from everybody."""
    rng = stream(0, "bench")
    weights = rng.lognormal(size=clients)
    weights /= weights.sum()
    online = [np.flatnonzero(rng.random(clients) < 0.1) for _ in range(4)]
    contenders: dict[str, Callable[[], object]] = {
        "numpy weighted draw": lambda: rng.choice(clients, cohort, replace=False, p=weights)
    }
    contenders |= {name: rounds_of(name, clients, cohort, online) for name in SCHEDULED}
    return race("one scheduling round", f"N={clients:.0e}, 10 % online, m={cohort}", contenders, repeats)


def limits(clients: int, rounds: int, cohort: int, repeats: int) -> list[Timing]:
    """The exact frontier, next to one pass of drawing the trace it is computed from."""
    rates = stream(0, "rates").beta(0.4, 3.6, clients)

    def draw() -> Trace:
        rng = stream(0, "bench")
        return Trace.from_rounds(clients, (np.flatnonzero(rng.random(clients) < rates) for _ in range(rounds)))

    trace = draw()
    contenders: dict[str, Callable[[], object]] = {
        "drawing the trace": draw,
        "frontier": lambda: frontier(trace, cohort),
    }
    return race("frontier", f"N={clients:,}, T={rounds:,}, m={cohort:,}, 10 % online", contenders, repeats)


def commits(clients: int, numbers: int, cohort: int, share: float, repeats: int) -> list[Timing]:
    """One committed round of the run store, next to writing and syncing as many bytes as the model has."""
    folder = Path(tempfile.mkdtemp(prefix="fedparity-bench-"))
    coordinator, engine, rng = Coordinator(cohort), RollCall(clients), stream(0, "bench")
    state = coordinator.init(clients, np.zeros(numbers))
    online = [np.flatnonzero(rng.random(clients) < share) for _ in range(4)]
    data = rng.bytes(max(1, numbers * 8))
    prepared: list[tuple[object, str]] = []

    def advance() -> None:
        nonlocal state
        plan, state = coordinator.plan(state, online[state.round % 4], rounds_left=100)
        record, state = coordinator.absorb(state, plan, engine.train(plan))
        state.params = state.params + rng.normal(size=numbers)
        prepared[:] = [(state, to_json(record))]

    times: dict[str, list[float]] = {"write and fsync": [], "commit": []}
    with Store.open(folder / "run") as store:
        for number in range(repeats):
            advance()
            done, line = prepared[0]
            start = time.perf_counter()
            store.commit(0, "parity", done, line, [number], 0.0)
            times["commit"].append(time.perf_counter() - start)
            start = time.perf_counter()
            with (folder / "plain").open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            times["write and fsync"].append(time.perf_counter() - start)
    shutil.rmtree(folder)
    p95 = float(np.quantile(times["commit"], 0.95))
    base = median(times["write and fsync"])
    work = f"N={clients:,}, {numbers:,} parameters, {share:.0%} online (p95 {p95 * 1e3:.0f} ms)"
    return [
        Timing("commit a round", name, work, median(t) / base, median(t), max(t) / min(t), repeats)
        for name, t in times.items()
    ]


def memory_per_client() -> float:
    """Bytes a client of ledger, default estimator and scheduler state."""
    clients = 100_000
    state = Coordinator(10, scheduler=SCHEDULERS.build("parity")).init(clients)
    memory = state.estimator
    return float(state.ledger.nbytes + memory.online.nbytes + memory.last.nbytes + memory.day.nbytes) / clients


def main() -> None:
    """Run everything and write it down."""
    found: list[Timing] = []
    for clients, repeats in ((10**5, 15), (10**6, 9), (10**7, 5)):
        found += scheduling(clients, repeats=repeats)
    found += limits(1_000, 200, 20, 5)
    found += limits(100_000, 1_000, 1_000, 3)
    found += commits(100, 878_538, 10, 0.5, 40)
    found += commits(1_000_000, 0, 1_000, 0.1, 60)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    (HERE / "results.json").write_text(json.dumps([t.json() for t in found], indent=1) + "\n")
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`. Contenders take turns in one process; compare ratios, not seconds.",
        f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}.",
        f"Peak memory of the whole run: {peak:.1f} GB. Ledger, forecast and scheduler state:"
        f" {memory_per_client():.0f} bytes a client.",
        "",
        "| benchmark | workload | contender | ratio | median | spread | n |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {t.benchmark} | {t.workload} | {t.contender} | {t.ratio:.2f} | {t.median_s * 1e3:.1f} ms | {t.spread:.1f} | {t.n} |"
        for t in found
    ]
    (HERE / "README.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
