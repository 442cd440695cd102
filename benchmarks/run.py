"""`make bench`: timed figures as ratios, written to results.json and README.md beside this file."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from alone import PARTS, measure
from harness import Timing, race

from fedparity import SCHEDULERS, Coordinator, NoTraining, Trace, frontier, stream
from fedparity.core.journal import to_json
from fedparity.store import Store

HERE = Path(__file__).parent
SCHEDULED = ("parity", "uniform", "inverse", "reactive", "least_served", "parity:target=utility", "parity_deployment")


def rounds_of(name: str, clients: int, cohort: int, online: list[np.ndarray]) -> Callable[[], object]:
    """One whole round of bookkeeping a call: estimator, selection, reports, ledger."""
    coordinator = Coordinator(cohort, scheduler=SCHEDULERS.build(name))
    state, engine = coordinator.init(clients), NoTraining(clients)

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
    coordinator, engine, rng = Coordinator(cohort), NoTraining(clients), stream(0, "bench")
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
    """Bytes per client of ledger, default estimator and scheduler state."""
    clients = 100_000
    state = Coordinator(10, scheduler=SCHEDULERS.build("parity")).init(clients)
    memory = state.estimator
    return float(state.ledger.nbytes + memory.online.nbytes + memory.last.nbytes + memory.day.nbytes) / clients


def bookkeeping() -> list[Timing]:
    """Scheduling, limits and commits."""
    found: list[Timing] = []
    for clients, repeats in ((10**5, 15), (10**6, 9), (10**7, 5)):
        found += scheduling(clients, repeats=repeats)
    found += limits(1_000, 200, 20, 5)
    found += limits(100_000, 1_000, 1_000, 3)
    found += commits(100, 878_538, 10, 0.5, 40)
    found += commits(1_000_000, 0, 1_000, 0.1, 60)
    return found


ROUNDS = {"a": 7, "b": 5, "c": 21, "d": 15, "e": 2}
"""Timed rounds of each training workload."""
NEIGHBOUR = {"a": ["--beside", "1", "--contenders", "bare,fedparity"]}
"""Workloads that are raced once more beside a busy process."""
NAMES = {
    "a": "(a) CNN, 10 of 100 x 500",
    "b": "(b) ResNet-18, 4 of 100 x 128",
    "c": "(c) logistic regression, 100 of 1,000 x 50",
    "d": "(d) MLP, 100 of 1,000 x 50",
    "e": "(e) as (a), every client tested on its 2,000 images",
}


def training(workloads: str) -> list[dict[str, Any]]:
    """Rounds against the bare loop and the peers that are installed."""
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "records.json"
        for workload in workloads:
            race_script = [sys.executable, str(HERE / "training" / "race.py"), "--workload", workload]
            race_script += ["--rounds", str(ROUNDS[workload]), "--json", str(out)]
            subprocess.run(race_script, check=True)
            found += [{**record, "workload": NAMES[workload]} for record in json.loads(out.read_text())]
            if workload in NEIGHBOUR:
                subprocess.run([*race_script, *NEIGHBOUR[workload]], check=True)
                name = f"{NAMES[workload]}, beside a busy process"
                found += [{**record, "workload": name} for record in json.loads(out.read_text())]
    return found


def write(timings: list[dict[str, Any]], memories: list[dict[str, Any]]) -> None:
    """Lay new figures over the old ones and write both files."""
    kept = json.loads((HERE / "results.json").read_text()) if (HERE / "results.json").exists() else []
    new = {(t["benchmark"], t["workload"]) for t in timings}
    everything = [t for t in kept if (t["benchmark"], t["workload"]) not in new] + timings
    (HERE / "results.json").write_text(json.dumps(everything, indent=1) + "\n")
    path = HERE / "alone.json"
    older = json.loads(path.read_text()) if path.exists() else []
    again = {m["measured"] for m in memories}
    memory = [m for m in older if m["measured"] not in again] + memories
    path.write_text(json.dumps(memory, indent=1) + "\n")
    versions = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("numpy", "torch") if importlib.util.find_spec(name)
    )
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench` (`make peers` first, for Flower and pfl). Contenders take turns; compare ratios inside one",
        "block, not seconds. A spread (highest over lowest time) above 2 means that the machine was busy.",
        f"Python {platform.python_version()}, {versions}, {platform.machine()}, {os.cpu_count()} processors; peers: "
        "benchmarks/training/requirements-*.txt.",
        f"Ledger, forecast and scheduler state: {memory_per_client():.0f} bytes per client.",
        "",
        "| benchmark | workload | contender | ratio | median | spread | n |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {t['benchmark']} | {t['workload']} | {t['contender']} | {t['ratio']:.2f} | {t['median_s'] * 1e3:.1f} ms"
        f" | {t['spread']:.1f} | {t['n']} |"
        for t in everything
    ]
    lines += ["", "## Memory and compiling", "", "Each measured in a process of its own (`benchmarks/alone.py`).", ""]
    lines += [
        f"* {m['measured']}: " + ", ".join(f"{key} {value:,}" for key, value in m.items() if key != "measured")
        for m in memory
    ]
    (HERE / "README.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def main() -> None:
    """Run what is asked for and write it down: `run.py [bookkeeping|training[:abc]|alone[:NAME]]...`, all if nothing is."""
    asked = sys.argv[1:] or ["bookkeeping", "training", "alone"]
    timings: list[dict[str, Any]] = []
    memories: list[dict[str, Any]] = []
    for part in asked:
        name, _, rest = part.partition(":")
        if name == "bookkeeping":
            timings += [t.json() for t in bookkeeping()]
        elif name == "training":
            timings += training(rest or "abcde")
        elif name == "alone":
            memories += [measure(m) for m in ([rest] if rest else PARTS)]
        else:
            sys.exit(f"unknown part {part!r}; known: bookkeeping, training[:abcde], alone[:NAME]")
    write(timings, memories)


if __name__ == "__main__":
    main()
